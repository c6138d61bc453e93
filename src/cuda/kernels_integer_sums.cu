#define BITFOLD_PART integer_sums
#include "kernels.cuh"
