#define BITFOLD_PART f32
#include "kernels.cuh"
