#define BITFOLD_ONLY HWY_STATIC_TARGET
#define BITFOLD_NAME neon
#define BITFOLD_NAMESPACE HWY_NAMESPACE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels_neon.cpp"
#include "kernels_simd.inl"
