#include <algorithm>

#include "exact.hpp"

#define BITFOLD_ONLY HWY_AVX2
#define BITFOLD_NAME avx2
#define BITFOLD_NAMESPACE N_AVX2
#define BITFOLD_ENGINE "exact_engine.inl"
#define BITFOLD_WANTED exact_terms
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/exact_avx2.cpp"
#include "kernels_simd.inl"
