// The kernels for a machine without the SIMD targets.
#include <bitfold/cpu/scalar.hpp>

#include "../dispatch.hpp"
#include "backend.hpp"

namespace bitfold::cpu {
namespace scalar_kernels {

constexpr target this_target = target::scalar;
using bitfold::algebra;

#include "find.inl"

}  // namespace scalar_kernels

template <>
kernels find_kernels_of<target::scalar>(const reduction& r) {
  return scalar_kernels::find(r);
}

}  // namespace bitfold::cpu
