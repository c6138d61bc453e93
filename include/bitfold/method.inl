// The methods: how elements are accumulated. Included by method.hpp in namespace bitfold::method,
// and once per SIMD target by the CPU engine; V is a scalar or a SIMD vector, and `arith` and
// `order` are the namespaces of the same name beside this one. BITFOLD_INLINE is the function
// specifier, BITFOLD_LAMBDA what a lambda needs besides.
//
// A method is a state without an identity element and four functions:
//   start(x)        the state of one element
//   add(s, x)       the state s followed by one more element
//   merge(a, b)     the states of two neighbours in the tree, a left of b: of lanes of a leaf,
//                   whose elements lie among one another in the array, or of leaves
//   round<Out>(s)   the result, rounded once (scalars only)
//   hi(s), lo(s)    the same before rounding, as the sum of two numbers
// and says how a lane takes its elements: lane_order. One that is `compensated` also starts from,
// and adds, an element whose own rounding error is known. An engine never looks inside a state: it
// moves states with map(f) (f applied to each part) and zip(f, a, b) (f applied to each pair of
// parts).

// A lane order turns the elements of `Lanes` neighbouring lanes, side by side for the sake of
// speed, into their states: get(row, lane) is an element, `count` <= Rows says how many rows there
// are.

/// One after the other.
struct in_sequence {
  template <class M, int Rows, int Lanes, class Get, class State>
  BITFOLD_INLINE static void fold(int count, Get get, State (&out)[Lanes]) {
    BITFOLD_UNROLL
    for (int l = 0; l < Lanes; ++l) out[l] = M::start(get(0, l));
    BITFOLD_UNROLL
    for (int r = 1; r < Rows; ++r) {
      if (r < count) {
        BITFOLD_UNROLL
        for (int l = 0; l < Lanes; ++l) out[l] = M::add(out[l], get(r, l));
      }
    }
  }
};

/// In adjacent pairs, level by level, like lanes and leaves.
struct in_pairs {
  template <class M, int Rows, int Lanes, class Get, class State>
  BITFOLD_INLINE static void fold(int count, Get get, State (&out)[Lanes]) {
    fold_from<M, 0, Rows>(count, get, out);
  }

 private:
  // Rows First to First + Rows, of which there is at least one.
  template <class M, int First, int Rows, int Lanes, class Get, class State>
  BITFOLD_INLINE static void fold_from(int count, Get& get, State (&out)[Lanes]) {
    if constexpr (Rows == 1) {
      BITFOLD_UNROLL
      for (int l = 0; l < Lanes; ++l) out[l] = M::start(get(First, l));
    } else {
      fold_from<M, First, Rows / 2>(count, get, out);
      if (First + Rows / 2 < count) {
        State right[Lanes];
        fold_from<M, First + Rows / 2, Rows / 2>(count, get, right);
        BITFOLD_UNROLL
        for (int l = 0; l < Lanes; ++l) out[l] = M::merge(out[l], right[l]);
      }
    }
  }
};

/// The state of one lane; get(row) is an element.
template <class M, int Rows, class Get>
BITFOLD_INLINE auto fold_lane(int count, Get get) {
  decltype(M::start(get(0))) out[1];
  M::lane_order::template fold<M, Rows, 1>(
      count, [&](int r, int) BITFOLD_LAMBDA { return get(r); }, out);
  return out[0];
}

/// One running sum.
template <class V>
struct plain_state {
  V sum;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return plain_state<decltype(f(sum))>{f(sum)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const plain_state& a, const plain_state<W>& b) {
    return plain_state<decltype(f(a.sum, b.sum))>{f(a.sum, b.sum)};
  }
};

struct tree {
  static constexpr auto ordering = ::bitfold::ordering::canonical;
  using lane_order = in_sequence;
  template <class V>
  using state = plain_state<V>;
  static constexpr bool compensated = false;
  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    return {x};
  }
  template <class V>
  BITFOLD_INLINE static state<V> add(state<V> s, V x) {
    return {arith::add(s.sum, x)};
  }
  template <class V>
  BITFOLD_INLINE static state<V> merge(state<V> a, state<V> b) {
    return {arith::add(a.sum, b.sum)};
  }
  template <class A>
  BITFOLD_INLINE static A hi(state<A> s) {
    return s.sum;
  }
  template <class A>
  BITFOLD_INLINE static A lo(state<A>) {
    return A{};
  }
  template <class Out, class A>
  BITFOLD_INLINE static Out round(state<A> s) {
    if constexpr (std::is_integral_v<A>)
      return arith::round_integer_to<Out>(s.sum);
    else
      return arith::round_to<Out>(s.sum);
  }
};

struct pairwise : tree {
  using lane_order = in_pairs;
};

struct sequential : tree {
  static constexpr auto ordering = ::bitfold::ordering::sequential;
};

/// A running sum and the sum of its rounding errors.
template <class V>
struct compensated_state {
  V sum, error;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return compensated_state<decltype(f(sum))>{f(sum), f(error)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const compensated_state& a, const compensated_state<W>& b) {
    return compensated_state<decltype(f(a.sum, b.sum))>{f(a.sum, b.sum), f(a.error, b.error)};
  }
};

struct kahan {
  static constexpr auto ordering = ::bitfold::ordering::canonical;
  using lane_order = in_sequence;
  template <class V>
  using state = compensated_state<V>;
  static constexpr bool compensated = true;
  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    return {x, arith::neutral(x)};
  }
  template <class V>
  BITFOLD_INLINE static state<V> start(arith::sum_and_error<V> x) {
    return {x.sum, x.error};
  }
  template <class V>
  BITFOLD_INLINE static state<V> add(state<V> s, V x) {
    const auto t = arith::two_sum(s.sum, x);
    return {t.sum, arith::add_alternate(s.error, t.error)};
  }
  template <class V>
  BITFOLD_INLINE static state<V> add(state<V> s, arith::sum_and_error<V> x) {
    const auto t = arith::two_sum(s.sum, x.sum);
    return {t.sum, arith::add_alternate(s.error, arith::add(t.error, x.error))};
  }
  template <class V>
  BITFOLD_INLINE static state<V> merge(state<V> a, state<V> b) {
    const auto t = arith::two_sum(a.sum, b.sum);
    return {t.sum, arith::add(arith::add(a.error, b.error), t.error)};
  }
  template <class A>
  BITFOLD_INLINE static A hi(state<A> s) {
    return s.sum;
  }
  template <class A>
  BITFOLD_INLINE static A lo(state<A> s) {
    return s.error;
  }
  template <class Out, class A>
  BITFOLD_INLINE static Out round(state<A> s) {
    return arith::round_sum_to<Out>(s.sum, s.error);
  }
};
