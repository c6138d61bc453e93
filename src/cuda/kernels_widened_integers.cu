#define BITFOLD_PART widened_integers
#include "kernels.cuh"
