#define ROW_ELEMENT bfloat16
#include "rows.cuh"
