#include <algorithm>

#include "exact.hpp"

#define BITFOLD_ONLY HWY_STATIC_TARGET
#define BITFOLD_NAME neon
#define BITFOLD_NAMESPACE HWY_NAMESPACE
#define BITFOLD_ENGINE "exact_engine.inl"
#define BITFOLD_WANTED exact_terms
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/exact_neon.cpp"
#include "kernels_simd.inl"
