// The parts that folds are made of. fold.hpp includes this file in namespace bitfold::fold, and the
// CPU's engine includes it once per SIMD target; the conventions of method.inl hold here too.
//
// A fold turns elements into a state, merges the states of neighbours in the tree, and makes a
// result of the last one:
//   accumulation          the fold without its finish; folds of one accumulation share kernels
//   ordering              as in a method
//   element               what an element is: single, V; pair, pair_of<V>; indexed,
//                         indexed_element<V, I>
//   state<V>, lane_order  as in a method
//   start(x), add(s, x)   or, where lane_order is a whole_lane, lane<Rows>(count, get)
//   merge(a, b, counts)   as in a method; counts are the numbers of elements, if `counted`
//   rebase<A>(s, first)   scalars only: the partial, whose indices count from the start of the
//                         array in 64 bits; s counts from element `first`
//   finish<Out>(s, parameters)  the result for parameters.n elements
// A fold knows no threads, no SIMD width and no GPU.
//
// An exact fold, of method exact, has only accumulation, ordering (independent) and element: its
// states are sums of exact.hpp, to which engines add terms as they come. Its form, the operation's
// `exact`, has
//   terms                          what is summed: one or several exact::term, of stored elements
//   finish<Out>(parameters, s...)  the result of their sums, rounded once

/// Adds up Term::apply(x) by method M.
template <class M, class Term>
struct additive {
  using accumulation = additive;
  static constexpr auto ordering = M::ordering;
  static constexpr element_kind element = Term::element;
  static constexpr bool counted = false;
  using lane_order = typename M::lane_order;
  template <class V>
  using state = typename M::template state<V>;
  template <class X>
  BITFOLD_INLINE static auto start(X x) {
    return M::start(Term::template apply<M>(x));
  }
  template <class S, class X>
  BITFOLD_INLINE static S add(S s, X x) {
    return M::add(s, Term::template apply<M>(x));
  }
  template <class S>
  BITFOLD_INLINE static S merge(S a, S b, counts = {}) {
    return M::merge(a, b);
  }
  template <class A, class S>
  BITFOLD_INLINE static S rebase(S s, order::index) {
    return s;
  }
};

/// One number.
template <class V>
struct single {
  V value;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return single<decltype(f(value))>{f(value)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const single& a, const single<W>& b) {
    return single<decltype(f(a.value, b.value))>{f(a.value, b.value)};
  }
};

/// Combines Term::apply(x) by Join::apply(a, b). A join that rounds is meant to round in the
/// canonical order.
template <class Join, class Term>
struct joined {
  using accumulation = joined;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::single;
  static constexpr bool counted = false;
  using lane_order = method::in_sequence;
  template <class V>
  using state = single<V>;
  template <class V>
  BITFOLD_INLINE static single<V> start(V x) {
    return {Term::template apply<Join>(x)};
  }
  template <class V>
  BITFOLD_INLINE static single<V> add(single<V> s, V x) {
    return {Join::apply(s.value, Term::template apply<Join>(x))};
  }
  template <class V>
  BITFOLD_INLINE static single<V> merge(single<V> a, single<V> b, counts = {}) {
    return {Join::apply(a.value, b.value)};
  }
  template <class A>
  BITFOLD_INLINE static single<A> rebase(single<A> s, order::index) {
    return s;
  }
};

/// Counts the elements for which Is::apply(x) holds. The state is an arith::index_of<V>, an
/// integer.
template <class Is>
struct counting {
  using accumulation = counting;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::single;
  static constexpr bool counted = false;
  using lane_order = method::in_sequence;
  template <class V>
  using state = single<arith::index_of<V>>;
  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    return state<V>{
        arith::select(Is::apply(x), arith::index_constant(x, 1), arith::index_constant(x, 0))};
  }
  template <class V>
  BITFOLD_INLINE static auto add(single<arith::index_of<V>> s, V x) {
    return single<arith::index_of<V>>{arith::add(s.value, start(x).value)};
  }
  template <class S>
  BITFOLD_INLINE static S merge(S a, S b, counts = {}) {
    return {arith::add(a.value, b.value)};
  }
  template <class A, class I>
  BITFOLD_INLINE static single<std::int64_t> rebase(single<I> s, order::index) {
    return {static_cast<std::int64_t>(s.value)};
  }
};

template <class S, class T>
struct both_states {
  S a;
  T b;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return both_states<decltype(a.map(f)), decltype(b.map(f))>{a.map(f), b.map(f)};
  }
  template <class F, class U, class W>
  BITFOLD_INLINE static auto zip(F f, const both_states& x, const both_states<U, W>& y) {
    auto first = S::zip(f, x.a, y.a);
    auto second = T::zip(f, x.b, y.b);
    return both_states<decltype(first), decltype(second)>{first, second};
  }
};

/// A lane takes all of its elements at once: F::lane<Rows>(count, get).
struct whole_lane {
  template <class F, int Rows, int Lanes, class Get, class State>
  BITFOLD_INLINE static void fold(int count, Get get, State (&out)[Lanes]) {
    BITFOLD_UNROLL
    for (int l = 0; l < Lanes; ++l)
      out[l] = F::template lane<Rows>(count, [&](int r) BITFOLD_LAMBDA { return get(r, l); });
  }
};
/// The same, many lanes in a loop: for lanes that take so long that it is as fast, and far less to
/// compile.
struct whole_lane_in_loop {
  template <class F, int Rows, int Lanes, class Get, class State>
  BITFOLD_INLINE static void fold(int count, Get get, State (&out)[Lanes]) {
    if constexpr (Lanes <= 4)
      whole_lane::fold<F, Rows>(count, get, out);
    else
      for (int l = 0; l < Lanes; ++l)
        out[l] = F::template lane<Rows>(count, [&](int r) BITFOLD_LAMBDA { return get(r, l); });
  }
};

/// Each of two folds passes over the elements of the lane by itself, as their lane orders ask.
struct separate_passes {
  template <class B, int Rows, int Lanes, class Get, class State>
  BITFOLD_INLINE static void fold(int count, Get get, State (&out)[Lanes]) {
    using F = typename B::left;
    using G = typename B::right;
    decltype(out[0].a) a[Lanes];
    decltype(out[0].b) b[Lanes];
    F::lane_order::template fold<F, Rows>(count, get, a);
    G::lane_order::template fold<G, Rows>(count, get, b);
    BITFOLD_UNROLL
    for (int l = 0; l < Lanes; ++l) out[l] = State{a[l], b[l]};
  }
};

/// Two folds over the same elements, each with the bits that it has alone.
template <class F, class G>
struct both {
  using left = F;
  using right = G;
  using accumulation = both;
  static_assert(F::element == G::element);
  static constexpr auto ordering = F::ordering;
  static constexpr element_kind element = F::element;
  static constexpr bool counted = F::counted || G::counted;
  static constexpr bool alike = std::is_same_v<typename F::lane_order, typename G::lane_order> &&
                                !std::is_same_v<typename F::lane_order, whole_lane> &&
                                !std::is_same_v<typename F::lane_order, whole_lane_in_loop>;
  using lane_order = std::conditional_t<alike, typename F::lane_order, separate_passes>;
  template <class V>
  using state = both_states<typename F::template state<V>, typename G::template state<V>>;
  template <class X>
  BITFOLD_INLINE static auto start(X x) {
    return both_states<decltype(F::start(x)), decltype(G::start(x))>{F::start(x), G::start(x)};
  }
  template <class S, class X>
  BITFOLD_INLINE static S add(S s, X x) {
    return {F::add(s.a, x), G::add(s.b, x)};
  }
  template <class S>
  BITFOLD_INLINE static S merge(S x, S y, counts n = {}) {
    return {F::merge(x.a, y.a, n), G::merge(x.b, y.b, n)};
  }
  template <class A, class S>
  BITFOLD_INLINE static auto rebase(S s, order::index first) {
    auto a = F::template rebase<A>(s.a, first);
    auto b = G::template rebase<A>(s.b, first);
    return both_states<decltype(a), decltype(b)>{a, b};
  }
};

// ---- Terms: what an element becomes before it is added ------------------------------------------

struct identity {
  static constexpr element_kind element = element_kind::single;
  template <class, class V>
  BITFOLD_INLINE static V apply(V x) {
    return x;
  }
};
struct nan_as_zero {
  static constexpr element_kind element = element_kind::single;
  template <class, class V>
  BITFOLD_INLINE static V apply(V x) {
    return arith::select(arith::unordered(x), arith::constant(x, 0), x);
  }
};
struct magnitude {
  static constexpr element_kind element = element_kind::single;
  template <class, class V>
  BITFOLD_INLINE static V apply(V x) {
    return arith::abs(x);
  }
};

/// a * b: rounded, or with its rounding error for a method that takes it.
template <class M, class V>
BITFOLD_INLINE auto product(V a, V b) {
  if constexpr (M::compensated)
    return arith::two_prod(a, b);
  else
    return arith::mul(a, b);
}
struct square {
  static constexpr element_kind element = element_kind::single;
  template <class M, class V>
  BITFOLD_INLINE static auto apply(V x) {
    return product<M>(x, x);
  }
};
struct times {
  static constexpr element_kind element = element_kind::pair;
  template <class M, class V>
  BITFOLD_INLINE static auto apply(pair_of<V> e) {
    return product<M>(e.x, e.y);
  }
};
/// The difference is rounded first.
struct difference_squared {
  static constexpr element_kind element = element_kind::pair;
  template <class M, class V>
  BITFOLD_INLINE static auto apply(pair_of<V> e) {
    const V d = arith::sub(e.x, e.y);
    return product<M>(d, d);
  }
};
struct difference_magnitude {
  static constexpr element_kind element = element_kind::pair;
  template <class, class V>
  BITFOLD_INLINE static V apply(pair_of<V> e) {
    return arith::abs(arith::sub(e.x, e.y));
  }
};
/// Applies Term to one element of a pair.
template <class Term, bool First>
struct one_of_two {
  static constexpr element_kind element = element_kind::pair;
  template <class M, class V>
  BITFOLD_INLINE static auto apply(pair_of<V> e) {
    return Term::template apply<M>(First ? e.x : e.y);
  }
};

// ---- Finishes -----------------------------------------------------------------------------------

/// The value of a method's state as a double, rounded once (scalars only).
template <class M, class S>
BITFOLD_INLINE double value_of(S s) {
  return arith::round_sum_to<double>(static_cast<double>(M::hi(s)), static_cast<double>(M::lo(s)));
}

template <class M, class Term>
struct summed : additive<M, Term> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    return M::template round<Out>(s);
  }
};
/// Divided by the number of elements, rounded once.
template <class M, class Term>
struct averaged : additive<M, Term> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters parameters) {
    return arith::round_quotient_to<Out>(static_cast<double>(M::hi(s)),
                                         static_cast<double>(M::lo(s)), parameters.n);
  }
};

// ---- Exact forms --------------------------------------------------------------------------------

/// The fold of an exact form. (Of templates the terms have a bound: clang 14 reads no element
/// without one here.)
template <class Form>
struct exact_fold {
  using accumulation = exact_fold;
  using form = Form;
  static constexpr auto ordering = bitfold::ordering::independent;
  static constexpr element_kind element =
      exact::inputs(Form::terms[0]) == 2 ? element_kind::pair : element_kind::single;
};

template <exact::term What>
struct exact_sum {
  static constexpr exact::term terms[1] = {What};
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(finish_parameters, const S& s) {
    return exact::round<Out>(s);
  }
};
/// Divided by the number of elements.
template <exact::term What>
struct exact_average {
  static constexpr exact::term terms[1] = {What};
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(finish_parameters parameters, const S& s) {
    return exact::round_quotient<Out>(s, parameters.n);
  }
};
