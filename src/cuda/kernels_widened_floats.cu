#define BITFOLD_PART widened_floats
#include "kernels.cuh"
