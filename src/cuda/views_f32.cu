#define BITFOLD_PART f32
#include "views.cuh"
