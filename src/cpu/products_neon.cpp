#include <cmath>

#include <bitfold/product_sum.hpp>

#include "products.hpp"

#define BITFOLD_ONLY HWY_STATIC_TARGET
#define BITFOLD_NAME neon
#define BITFOLD_NAMESPACE HWY_NAMESPACE
#define BITFOLD_ENGINE "products_engine.inl"
#define BITFOLD_WANTED product_request
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/products_neon.cpp"
#include "kernels_simd.inl"
