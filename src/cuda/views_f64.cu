#define BITFOLD_PART f64
#include "views.cuh"
