// The kernels for a machine without the SIMD targets.
#include <algorithm>
#include <bit>

#include <bitfold/cpu/scalar.hpp>

#include "../dispatch.hpp"
#include "backend.hpp"

#define BITFOLD_INLINE inline
#define BITFOLD_LAMBDA

namespace bitfold::cpu {
namespace scalar_kernels {

constexpr target this_target = target::scalar;
using bitfold::algebra;

#include "columns.inl"
#include "find.inl"

}  // namespace scalar_kernels

template <>
kernels find_kernels_of<target::scalar>(const reduction& r) {
  return scalar_kernels::find(r);
}

}  // namespace bitfold::cpu
