// The kernels for a machine without the SIMD targets: "vectors" of one element, plain C++.
#include <cstring>

#include "../dispatch.hpp"
#include "backend.hpp"

#define BITFOLD_INLINE inline
#define BITFOLD_LAMBDA
#define BITFOLD_LEAF __attribute__((noinline))
#define BITFOLD_UNROLL_VECTORS

namespace bitfold::cpu {
namespace scalar_kernels {

constexpr target this_target = target::scalar;

namespace simd {
template <class A>
using vec = A;
template <class A>
constexpr int width = 1;
template <class A, class T>
A load(const T* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return bitfold::arith::widen<A>(x);
}
template <class A>
std::int64_t places(order::index i) {
  return static_cast<std::int64_t>(i);
}
template <class A>
void store(A v, A* p) {
  *p = v;
}
// Of the two elements a, b: the one at an even place, the one at an odd place.
template <class A>
A even(A a, A) {
  return a;
}
template <class A>
A odd(A, A b) {
  return b;
}
template <class A>
A first(A x) {
  return x;
}
template <class A>
A first_n_of(int, A x, A) {
  return x;  // n is between 1 and the width, 1
}
}  // namespace simd

namespace arith = bitfold::arith;
namespace order = bitfold::order;
namespace method = bitfold::method;
namespace fold = bitfold::fold;
namespace op = bitfold::op;
using bitfold::algebra;

#include "engine.inl"

}  // namespace scalar_kernels

template <>
kernels find_kernels_of<target::scalar>(const reduction& r) {
  return scalar_kernels::find(r);
}

}  // namespace bitfold::cpu
