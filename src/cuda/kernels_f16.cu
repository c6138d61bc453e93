#define BITFOLD_PART f16
#include "kernels.cuh"
