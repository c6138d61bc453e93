// The dtypes of CUDA's own types.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bitfold/dtype.hpp>

namespace bitfold::speed {

template <class T>
inline constexpr dtype stored = dtype_of<T>;
template <>
inline constexpr dtype stored<__half> = dtype::f16;
template <>
inline constexpr dtype stored<__nv_bfloat16> = dtype::bf16;

}  // namespace bitfold::speed
