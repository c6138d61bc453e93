#define BITFOLD_PART f64
#include "kernels.cuh"
