// What kernels make of the elements that they read, and of the states that they end with.
#pragma once

#include <bitfold/cuda/engine.cuh>

#include "kernels.hpp"

namespace bitfold::cuda {
namespace {

/// Elements widened to A, as fold F takes them.
template <class F, class A>
struct widening {
  static constexpr bool two = F::element == fold::element_kind::pair;
  template <class T>
  BITFOLD_HD static auto element(T x, int place) {
    return made(arith::widen<A>(x), place);
  }
  template <class T>
  BITFOLD_HD static auto element(T x, T y, int) {
    return fold::pair_of<A>{arith::widen<A>(x), arith::widen<A>(y)};
  }
  /// Of what is read as W, that A holds.
  template <class W>
  BITFOLD_HD static auto made(W x, int place) {
    if constexpr (F::element == fold::element_kind::indexed)
      return fold::indexed_element<A, std::int32_t>{arith::widen<A>(x), place};
    else
      return arith::widen<A>(x);
  }
  template <class W>
  BITFOLD_HD static auto made(fold::pair_of<W> e, int) {
    return fold::pair_of<A>{arith::widen<A>(e.x), arith::widen<A>(e.y)};
  }
};

/// Reads elements of any type that A holds, told at run time: one kernel for many types, for what
/// is not worth one each.
template <bool Two, class A>
struct widening_reader {
  using parameters = elements;
  static constexpr bool two = Two;
  using single = std::conditional_t<two, fold::pair_of<A>, A>;
  const std::byte *x, *y;
  dtype type;

  __device__ static widening_reader at(const parameters& from, index i) {
    return widening_reader{static_cast<const std::byte*>(from.x),
                           static_cast<const std::byte*>(from.y), from.type}
        .moved(static_cast<std::int64_t>(i));
  }
  __device__ widening_reader ahead(int k) const { return moved(k); }
  /// Calls f with a function from i to element i.
  template <class Function>
  __device__ void read(Function f) const {
    visit(type, [&]<class T>(std::type_identity<T>) {
      if constexpr (fold::holds<A, T>()) {
        const T *p = reinterpret_cast<const T*>(x), *q = reinterpret_cast<const T*>(y);
        f([=](int i) {
          if constexpr (two)
            return single{arith::widen<A>(p[i]), arith::widen<A>(q[i])};
          else
            return arith::widen<A>(p[i]);
        });
      }
    });
  }

 private:
  __device__ widening_reader moved(std::int64_t k) const {
    const auto bytes = visit(
        type, []<class T>(std::type_identity<T>) { return static_cast<std::int64_t>(sizeof(T)); });
    return {x + k * bytes, two ? y + k * bytes : nullptr, type};
  }
};

// The fold of the operation Op whose base is F, for elements widened to A; void if it has none.
template <class Op, class F, class A, typing Types>
constexpr auto find_fold_with_base() {
  if constexpr (!fold::accumulates<Types, A>()) {
    return std::type_identity<void>{};
  } else {
    const auto first = []<class... Candidate>(auto self, std::type_identity<Candidate>... all) {
      if constexpr (sizeof...(all) == 0) {
        return std::type_identity<void>{};
      } else {
        return []<class C, class... Rest>(auto me, std::type_identity<C> c,
                                          std::type_identity<Rest>... rest) {
          if constexpr (std::is_same_v<typename C::accumulation, F>)
            return c;
          else
            return me(me, rest...);
        }(self, all...);
      }
    };
    using T = std::conditional_t<std::is_same_v<A, double>, float, A>;
    return first(first
#define BITFOLD_METHOD(name, ...) \
  , std::type_identity<typename Op::template fold<method::name, A>> {}
                     BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
#define BITFOLD_METHOD(name, ...) \
  , std::type_identity<typename Op::template fold<method::name, T>> {}
                         BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
    );
  }
}
template <class Op, class F, class A, typing Types>
using fold_with_base = typename decltype(find_fold_with_base<Op, F, A, Types>())::type;

// Writes what Op, a fold with a finish, makes of a state.
template <class Op, typing Types, class A, class S>
__device__ void write_as(const S& s, index n, const result& how) {
  visit(how.type, [&]<class Out>(std::type_identity<Out>) {
    if constexpr (detail::gives<Types, A, Out>())
      *static_cast<Out*>(how.out) =
          Op::template finish<Out>(s, fold::finish_parameters{n, how.ddof});
  });
}
template <class F>
inline constexpr bool is_both = false;
template <class F, class G>
inline constexpr bool is_both<fold::both<F, G>> = true;
template <class F, class A, class G, class H>
__device__ void write_parts(const fold::both_states<G, H>& s, index n, const result& how);
// Writes what the operation `how.op`, one of those whose folds have the base F, makes of a state;
// or have for a base one of those that F is both of, or has the states of.
template <class F, class A, class S>
__device__ void write_shared(const S& s, index n, const result& how) {
#define BITFOLD_OP(name, inputs, takes_method, has_exact, types, ...)                   \
  {                                                                                     \
    using op_fold = fold_with_base<op::name##_op, F, A, typing::types>;                 \
    if constexpr (!std::is_void_v<op_fold>)                                             \
      if (how.op == op_id::name) return write_as<op_fold, typing::types, A>(s, n, how); \
  }
  BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
  if constexpr (is_both<F>) write_parts<F, A>(s, n, how);
  if constexpr (requires { typename F::extreme; }) {
    write_shared<typename F::accumulation, A>(s, n, how);
    write_shared<typename F::extreme, A>(s, n, how);
  }
}
template <class F, class A, class G, class H>
__device__ void write_parts(const fold::both_states<G, H>& s, index n, const result& how) {
  [&]<class First, class Second>(std::type_identity<fold::both<First, Second>>) {
    write_shared<First, A>(s.a, n, how);
    write_shared<Second, A>(s.b, n, how);
  }(std::type_identity<F>{});
}

}  // namespace
}  // namespace bitfold::cuda
