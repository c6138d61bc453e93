#define BITFOLD_PART widened_integers
#include "views.cuh"
