#define BITFOLD_ONLY HWY_AVX3
#define BITFOLD_NAME avx512
#define BITFOLD_NAMESPACE N_AVX3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels_avx512.cpp"
#include "kernels_simd.inl"
