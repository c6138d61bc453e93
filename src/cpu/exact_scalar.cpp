// The exact kernels for a machine without the SIMD targets.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "exact.hpp"

#define BITFOLD_INLINE inline
#define BITFOLD_LAMBDA

namespace bitfold::cpu {
namespace exact_scalar {

constexpr target this_target = target::scalar;

#include "exact_any.inl"

template <exact::term What, class T>
struct floats {
  static void add(exact::sum_of<T, What>& s, const T* x, const T* y, std::size_t n) {
    add_anything<What>(s, x, y, n);
  }
};

}  // namespace exact_scalar

template <>
exact_kernels find_kernels_of<target::scalar>(const exact_terms& t) {
  return exact_scalar::find_exact_kernels<exact_scalar::floats>(t);
}

}  // namespace bitfold::cpu
