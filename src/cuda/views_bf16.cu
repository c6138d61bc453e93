#define BITFOLD_PART bf16
#include "views.cuh"
