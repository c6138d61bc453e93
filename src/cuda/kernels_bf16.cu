#define BITFOLD_PART bf16
#include "kernels.cuh"
