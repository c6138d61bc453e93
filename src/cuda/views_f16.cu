#define BITFOLD_PART f16
#include "views.cuh"
