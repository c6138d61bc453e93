#define ROW_ELEMENT double
#include "rows.cuh"
