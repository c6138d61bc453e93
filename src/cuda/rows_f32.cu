#define ROW_ELEMENT float
#include "rows.cuh"
