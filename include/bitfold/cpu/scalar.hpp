// The CPU's engine for "vectors" of one element, plain C++: for machines without the SIMD targets,
// and for folds that are not bitfold's own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <bitfold/fold.hpp>

#define BITFOLD_INLINE inline
#define BITFOLD_LAMBDA
#define BITFOLD_LEAF __attribute__((noinline))
#define BITFOLD_UNROLL_VECTORS

namespace bitfold::cpu::scalar_kernels {

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
A in_order(A x) {
  return x;
}
inline std::ptrdiff_t bytes_ahead() { return 0; }
template <class A>
std::int64_t indices_from(order::index i) {
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
A left_of_pairs(A a, A, int) {
  return a;
}
template <class A>
A right_of_pairs(A, A b, int) {
  return b;
}
template <class A>
A first(A x) {
  return x;
}
template <class A>
A lane(A x, int) {
  return x;  // the only one
}
template <class A>
int place_among_vectors(int, int k) {
  return k;
}
template <class A, class T>
A load_first(const T* p, int n) {
  return n > 0 ? load<A>(p) : bitfold::arith::stored_neutral<A>;
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

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ on array bounds of type int
#include <bitfold/cpu/engine.inl>
#pragma GCC diagnostic pop

}  // namespace bitfold::cpu::scalar_kernels

#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA
#undef BITFOLD_LEAF
#undef BITFOLD_UNROLL_VECTORS
