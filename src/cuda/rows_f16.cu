#define ROW_ELEMENT float16
#include "rows.cuh"
