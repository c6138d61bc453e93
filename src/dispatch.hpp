// From the run-time description of a reduction to C++ types: the one list of what is instantiated.
#pragma once

#include <stdexcept>

#include <bitfold/reduction.hpp>

namespace bitfold::detail {

/// Refuses what make_reduction would not have made; every engine asks before it does anything.
inline void check(const reduction& r) {
  const bool fine = is_float(r.in) ? is_float(r.out) && (r.acc == dtype::f64 ||
                                                         (r.acc == dtype::f32 && r.in != dtype::f64))
                                   : r.acc == (is_signed_int(r.in) ? dtype::i64 : dtype::u64);
  if (!fine) make_reduction(r.op, r.method, r.in, r.acc, r.out);  // says what is wrong
}

template <class M, class T, class A>
struct kernel_types {
  using method = M;       ///< a method of method.inl
  using element = T;      ///< storage type of the input
  using accumulator = A;  ///< float, double, int64_t or uint64_t
};

/// Calls f(kernel_types<M, T, A>{}). All methods agree on integers, which use `tree` (or
/// `sequential`); u64 wraps like i64, but is kept apart because a float output sees the sign.
template <class F>
decltype(auto) dispatch(const reduction& r, F&& f) {
  return visit(r.in, [&]<class T>(std::type_identity<T>) -> decltype(auto) {
    if constexpr (std::is_integral_v<T>) {
      using A = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      return f(kernel_types<method::tree, T, A>{});
    } else {
      return visit(r.method, [&]<class M>(std::type_identity<M>) -> decltype(auto) {
        if constexpr (!std::is_same_v<T, double>) {
          if (r.acc == dtype::f32) return f(kernel_types<M, T, float>{});
        }
        return f(kernel_types<M, T, double>{});
      });
    }
  });
}

/// The state of n elements, rounded to r.out.
template <class M, class A>
scalar rounded(const reduction& r, typename M::template state<A> s) {
  return visit(r.out, [&]<class Out>(std::type_identity<Out>) -> scalar {
    if constexpr (std::is_integral_v<Out> && !std::is_integral_v<A>) {
      throw std::logic_error("bitfold: an integer output of float input");  // refused by check()
    } else {
      const Out v = M::template round<Out>(s);
      return load_scalar(r.out, &v);
    }
  });
}

/// The sum of no elements is +0, which is all zero bits in every type.
inline scalar empty_result(const reduction& r) { return {r.out, 0}; }

}  // namespace bitfold::detail
