// Several folds in one kernel: each takes the same elements, widened to its own accumulator, and
// folds of one base are done once.
#pragma once

#include <bitfold/cuda/engine.cuh>

namespace bitfold::cuda::own {

template <op_id>
struct folds_of;
#define BITFOLD_OP(name, ...)                                 \
  template <>                                                 \
  struct folds_of<op_id::name> {                              \
    template <class M, class T>                               \
    using fold = typename op::name##_op::template fold<M, T>; \
  };
BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP

template <class F, class A>
struct taking;
/// Of two folds in one, each (see fold::each_in_its_own).
template <class F, class A>
struct halves {};
template <class F, class A>
  requires requires { typename F::left; }
struct halves<F, A> {
  using left = taking<typename F::left, A>;
  using right = taking<typename F::right, A>;
};

/// The fold F of elements widened to A (void: as they are), given with their places.
template <class F, class A>
struct taking : halves<F, A> {
  using accumulation = taking;
  static constexpr auto ordering = F::ordering;
  static constexpr fold::element_kind element = fold::element_kind::single;
  static constexpr bool counted = F::counted;
  using lane_order = typename F::lane_order;
  template <class>
  using state = typename F::template state<A>;

  template <class X>
  BITFOLD_HD static auto taken(const X& e) {
    if constexpr (std::is_void_v<A>) {
      return e.x;
    } else if constexpr (F::element == fold::element_kind::pair) {
      return fold::pair_of<A>{static_cast<A>(e.x.x), static_cast<A>(e.x.y)};
    } else if constexpr (F::element == fold::element_kind::indexed) {
      return fold::indexed_element<A, std::int32_t>{static_cast<A>(e.x), e.index};
    } else {
      return static_cast<A>(e.x);
    }
  }
  template <class X>
  BITFOLD_HD static auto start(const X& e) {
    return F::start(taken(e));
  }
  template <class S, class X>
  BITFOLD_HD static auto add(const S& s, const X& e) {
    return F::add(s, taken(e));
  }
  template <int Rows, class Get>
  BITFOLD_HD static auto lane(int count, Get get) {
    return F::template lane<Rows>(count, [&](int r) { return taken(get(r)); });
  }
  template <class S>
  BITFOLD_HD static auto merge(const S& a, const S& b, fold::counts n = {}) {
    return F::merge(a, b, n);
  }
  template <class, class S>
  BITFOLD_HD static auto rebase(const S& s, index first) {
    return F::template rebase<A>(s, first);
  }
};

// A list of folds without repetitions, and all of them as one.
template <class... F>
struct list {};
template <class List, class... More>
struct distinct {
  using type = List;
};
template <class... F, class G, class... More>
struct distinct<list<F...>, G, More...>
    : distinct<std::conditional_t<(std::is_same_v<F, G> || ...), list<F...>, list<F..., G>>,
               More...> {};
template <class List>
struct joint;
template <class F>
struct joint<list<F>> {
  using type = F;
};
template <class F, class... Rest>
struct joint<list<F, Rest...>> {
  using type = fold::both<F, typename joint<list<Rest...>>::type>;
};
/// Of a state of all of them, that of G.
template <class G, class F, class... Rest, class S>
BITFOLD_HD auto state_of(list<F, Rest...>, const S& s) {
  if constexpr (sizeof...(Rest) == 0)
    return s;
  else if constexpr (std::is_same_v<F, G>)
    return s.a;
  else
    return state_of<G>(list<Rest...>{}, s.b);
}

/// The fold of an operation by method M for elements T accumulated in A, as make_reduction's
/// dispatch chooses it: integers add by `tree`, and of narrower elements f64 knows that they are.
template <op_id Op, class M, class T, class A>
using fold_of = typename folds_of<Op>::template fold<
    std::conditional_t<std::is_integral_v<A>, method::tree, M>,
    std::conditional_t<std::is_same_v<A, double> && !std::is_same_v<T, double>, float, A>>;

/// One result of a kernel: that of operation Op by method M of elements T, accumulated in A and
/// rounded to Out.
template <op_id Op, class M, class T, class A, class Out>
struct output {
  using whole = fold_of<Op, M, T, A>;
  using fold = taking<typename whole::accumulation, A>;
  template <class S>
  __device__ static void write(void* to, index output, int ddof, const S& s, index n) {
    static_cast<Out*>(to)[output] =
        whole::template finish<Out>(s, bitfold::fold::finish_parameters{n, ddof});
  }
  __device__ static void write_bits(void* to, index output, std::uint64_t bits) {
    static_cast<Out*>(to)[output] =
        arith::bit_cast<Out>(static_cast<typename pack<Out>::bits>(bits));
  }
};

template <class... Output>
struct outputs {
  using list = typename distinct<own::list<>, typename Output::fold...>::type;
  using folds = typename joint<list>::type;
  result_place place[sizeof...(Output)];

  /// Of an output's state, of n elements.
  template <class F, class Source, class A, class S>
  __device__ void write(const S& s, index n, index output) const {
    int k = 0;
    ((Output::write(place[k].to, output, static_cast<int>(place[k].ddof),
                    state_of<typename Output::fold>(list{}, s), n),
      ++k),
     ...);
  }
  /// Of the only one.
  template <class F, class A, class S>
  __device__ void write(const S& s, index n) const {
    write<F, void, A>(s, n, 0);
  }
  __device__ void write_empty(index output) const {
    int k = 0;
    ((Output::write_bits(place[k].to, output, place[k].empty), ++k), ...);
  }
};

/// Of a kernel that leaves states alone.
struct no_results {
  template <class F, class A, class S>
  __device__ void write(const S&, index) const {}
};

/// An element as it comes from a source, with its place.
struct with_place {
  static constexpr bool two = false;
  template <class T>
  BITFOLD_HD static auto element(T x, int place) {
    return made(bitfold::detail::as_number(x), place);
  }
  template <class X>
  BITFOLD_HD static auto made(X x, int place) {
    return fold::indexed_element<X, std::int32_t>{x, place};
  }
};
struct pairs_with_place : with_place {
  static constexpr bool two = true;
  template <class T>
  BITFOLD_HD static auto element(T x, T y, int place) {
    using V = decltype(bitfold::detail::as_number(x));
    return with_place::made(
        fold::pair_of<V>{bitfold::detail::as_number(x), bitfold::detail::as_number(y)}, place);
  }
};

}  // namespace bitfold::cuda::own
