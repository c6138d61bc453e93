#define BITFOLD_PART widened_floats
#include "views.cuh"
