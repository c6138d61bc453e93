#include <cmath>

#include <bitfold/product_sum.hpp>

#include "products.hpp"

#define BITFOLD_ONLY HWY_AVX2
#define BITFOLD_NAME avx2
#define BITFOLD_NAMESPACE N_AVX2
#define BITFOLD_ENGINE "products_engine.inl"
#define BITFOLD_WANTED product_request
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/products_avx2.cpp"
#include "kernels_simd.inl"
