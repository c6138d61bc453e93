#define BITFOLD_PART in_f64
#include "kernels.cuh"
