// min max nanmin nanmax norm_inf argmin argmax

// IEEE 754-2019 minimum and maximum, and minimumNumber and maximumNumber.
struct smaller {
  template <class V>
  BITFOLD_INLINE static V apply(V a, V b) {
    return arith::minimum(a, b);
  }
};
struct larger {
  template <class V>
  BITFOLD_INLINE static V apply(V a, V b) {
    return arith::maximum(a, b);
  }
};
template <class Pick>
struct ignoring_nan {
  template <class V>
  BITFOLD_INLINE static V apply(V a, V b) {
    return arith::select(arith::unordered(a), b,
                         arith::select(arith::unordered(b), a, Pick::apply(a, b)));
  }
};

template <class Pick, class Term = fold::identity>
struct extremum : fold::joined<Pick, Term> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
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

// ---- Indices ------------------------------------------------------------------------------------

/// The extreme so far and where it stands.
template <class V, class I>
struct arg_state {
  V value;
  I index;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return arg_state<decltype(f(value)), decltype(f(index))>{f(value), f(index)};
  }
  template <class F, class W, class J>
  BITFOLD_INLINE static auto zip(F f, const arg_state& a, const arg_state<W, J>& b) {
    return arg_state<decltype(f(a.value, b.value)), decltype(f(a.index, b.index))>{
        f(a.value, b.value), f(a.index, b.index)};
  }
};

template <bool Largest>
struct arg_fold {
  using accumulation = arg_fold;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::indexed;
  static constexpr bool counted = false;
  using lane_order = method::in_sequence;
  template <class V>
  using state = arg_state<V, arith::index_of<V>>;

  // Whether b is more extreme than a. A NaN is more extreme than any number.
  template <class V>
  BITFOLD_INLINE static auto beats(V b, V a) {
    return arith::either(Largest ? arith::less(a, b) : arith::less(b, a),
                         arith::both(arith::unordered(b), arith::equal(a, a)));
  }
  template <class V, class I>
  BITFOLD_INLINE static auto start(fold::indexed_element<V, I> e) {
    return arg_state<V, I>{e.x, e.index};
  }
  // An element that comes later.
  template <class V, class I>
  BITFOLD_INLINE static auto add(arg_state<V, I> s, fold::indexed_element<V, I> e) {
    const auto wins = beats(e.x, s.value);
    return arg_state<V, I>{arith::select(wins, e.x, s.value),
                           arith::select(wins, e.index, s.index)};
  }
  // Lanes interleave in the array, so among equals the index decides.
  template <class V, class I>
  BITFOLD_INLINE static auto merge(arg_state<V, I> a, arg_state<V, I> b, counts = {}) {
    const auto tie = arith::both(arith::opposite(beats(a.value, b.value)),
                                 arith::index_less(a.value, b.index, a.index));
    const auto wins = arith::either(beats(b.value, a.value), tie);
    return arg_state<V, I>{arith::select(wins, b.value, a.value),
                           arith::select(wins, b.index, a.index)};
  }
  template <class A, class I>
  BITFOLD_INLINE static arg_state<A, std::int64_t> rebase(arg_state<A, I> s, order::index first) {
    return {s.value, static_cast<std::int64_t>(first) + static_cast<std::int64_t>(s.index)};
  }
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    return s.index;
  }
};
/// The index, and in its state also the extremum as `extremum` has it, so that one kernel gives
/// both. Of zeros of both signs the extremum need not be the one at the index. Worth it where
/// minimum and maximum cost no more than a selection.
template <bool Largest>
struct arg_and_extremum : arg_fold<Largest> {
  using pick = std::conditional_t<Largest, larger, smaller>;
  using extremum_accumulation = typename extremum<pick>::accumulation;
  template <class V, class I>
  BITFOLD_INLINE static auto add(arg_state<V, I> s, fold::indexed_element<V, I> e) {
    return arg_state<V, I>{pick::apply(s.value, e.x), arg_fold<Largest>::add(s, e).index};
  }
  template <class V, class I>
  BITFOLD_INLINE static auto merge(arg_state<V, I> a, arg_state<V, I> b, counts n = {}) {
    return arg_state<V, I>{pick::apply(a.value, b.value), arg_fold<Largest>::merge(a, b, n).index};
  }
};
struct argmin_op {
  template <class M, class T>
  using fold = arg_fold<false>;
};
struct argmax_op {
  template <class M, class T>
  using fold = arg_fold<true>;
};
