// min max nanmin nanmax norm_inf argmin argmax

// IEEE 754-2019 minimum and maximum, and minimumNumber and maximumNumber.
struct smaller {
  template <class V>
  BITFOLD_INLINE static V of(V a, V b) {
    return arith::minimum(a, b);
  }
};
struct larger {
  template <class V>
  BITFOLD_INLINE static V of(V a, V b) {
    return arith::maximum(a, b);
  }
};
template <class Pick>
struct ignoring_nan {
  template <class V>
  BITFOLD_INLINE static V of(V a, V b) {
    return arith::select(arith::unordered(a), b,
                         arith::select(arith::unordered(b), a, Pick::of(a, b)));
  }
};

template <class Pick, class Term = fold::itself>
struct extremum : fold::joined<Pick, Term> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing) {
    if constexpr (std::is_integral_v<decltype(s.value)>)
      return arith::round_integer_to<Out>(s.value);
    else
      return arith::round_to<Out>(s.value);
  }
};
struct min_op {
  template <class M, class T>
  using fold = extremum<smaller>;
};
struct max_op {
  template <class M, class T>
  using fold = extremum<larger>;
};
struct nanmin_op {
  template <class M, class T>
  using fold = extremum<std::conditional_t<std::is_integral_v<T>, smaller, ignoring_nan<smaller>>>;
};
struct nanmax_op {
  template <class M, class T>
  using fold = extremum<std::conditional_t<std::is_integral_v<T>, larger, ignoring_nan<larger>>>;
};
struct norm_inf_op {
  template <class M, class T>
  using fold = extremum<larger, fold::magnitude>;
};

// ---- Places -------------------------------------------------------------------------------------

/// The extreme so far and where it stands.
template <class V, class I>
struct place_state {
  V value;
  I at;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return place_state<decltype(f(value)), decltype(f(at))>{f(value), f(at)};
  }
  template <class F, class W, class J>
  BITFOLD_INLINE static auto zip(F f, const place_state& a, const place_state<W, J>& b) {
    return place_state<decltype(f(a.value, b.value)), decltype(f(a.at, b.at))>{f(a.value, b.value),
                                                                               f(a.at, b.at)};
  }
};

template <bool Largest>
struct place_fold {
  using base = place_fold;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr input takes = input::placed;
  static constexpr bool counted = false;
  using lane_order = method::in_sequence;
  template <class V>
  using state = place_state<V, arith::place_of<V>>;

  // b is more extreme than a: a NaN is, than what is none.
  template <class V>
  BITFOLD_INLINE static auto beats(V b, V a) {
    return arith::either(Largest ? arith::less(a, b) : arith::less(b, a),
                         arith::both(arith::unordered(b), arith::equal(a, a)));
  }
  template <class V, class I>
  BITFOLD_INLINE static auto start(fold::placed_at<V, I> e) {
    return place_state<V, I>{e.x, e.at};
  }
  // An element that comes later.
  template <class V, class I>
  BITFOLD_INLINE static auto add(place_state<V, I> s, fold::placed_at<V, I> e) {
    const auto wins = beats(e.x, s.value);
    return place_state<V, I>{arith::select(wins, e.x, s.value), arith::select(wins, e.at, s.at)};
  }
  // Runs of lanes interleave: among equals the place decides.
  template <class V, class I>
  BITFOLD_INLINE static auto merge(place_state<V, I> a, place_state<V, I> b, counts = {}) {
    const auto tie =
        arith::both(arith::opposite(beats(a.value, b.value)), arith::before(a.value, b.at, a.at));
    const auto wins = arith::either(beats(b.value, a.value), tie);
    return place_state<V, I>{arith::select(wins, b.value, a.value),
                             arith::select(wins, b.at, a.at)};
  }
  template <class A, class I>
  BITFOLD_INLINE static place_state<A, std::int64_t> settle(place_state<A, I> s,
                                                            order::index first) {
    return {s.value, static_cast<std::int64_t>(first) + static_cast<std::int64_t>(s.at)};
  }
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing) {
    return s.at;
  }
};
/// The place, and in its state the extreme too as `extremum` has it, whose zero need not be the
/// first one. Worth it where minimum and maximum cost no more than a choice.
template <bool Largest>
struct place_and_extreme : place_fold<Largest> {
  using pick = std::conditional_t<Largest, larger, smaller>;
  using extreme = typename extremum<pick>::base;
  template <class V, class I>
  BITFOLD_INLINE static auto add(place_state<V, I> s, fold::placed_at<V, I> e) {
    return place_state<V, I>{pick::of(s.value, e.x), place_fold<Largest>::add(s, e).at};
  }
  template <class V, class I>
  BITFOLD_INLINE static auto merge(place_state<V, I> a, place_state<V, I> b, counts n = {}) {
    return place_state<V, I>{pick::of(a.value, b.value), place_fold<Largest>::merge(a, b, n).at};
  }
};
struct argmin_op {
  template <class M, class T>
  using fold = place_fold<false>;
};
struct argmax_op {
  template <class M, class T>
  using fold = place_fold<true>;
};
