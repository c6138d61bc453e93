#define BITFOLD_ONLY HWY_AVX2
#define BITFOLD_NAME avx2
#define BITFOLD_NAMESPACE N_AVX2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels_avx2.cpp"
#include "kernels_simd.inl"
