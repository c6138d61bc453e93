// prod dot squared_distance mse mae cosine

struct multiplied {
  template <class V>
  BITFOLD_INLINE static V apply(V a, V b) {
    return arith::mul(a, b);
  }
};
/// In the canonical order, as method tree adds. An overflow or underflow in between is part of it.
struct prod_op {
  template <class M, class T>
  using fold = extremum<multiplied>;
};

struct dot_op {
  template <class M, class T>
  using fold = fold::summed<M, fold::times>;
  using exact = exact_sum<bitfold::exact::term::product>;
};
struct squared_distance_op {
  template <class M, class T>
  using fold = fold::summed<M, fold::difference_squared>;
  using exact = exact_sum<bitfold::exact::term::squared_difference>;
};
struct mse_op {
  template <class M, class T>
  using fold = fold::averaged<M, fold::difference_squared>;
  using exact = exact_average<bitfold::exact::term::squared_difference>;
};
struct mae_op {
  template <class M, class T>
  using fold = fold::averaged<M, fold::difference_magnitude>;
  using exact = exact_average<bitfold::exact::term::difference>;
};

template <class S, class V>
struct cosine_state {
  S sums;  // of x y, x x and y y of the scaled elements
  V x_scale, y_scale;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return cosine_state<decltype(sums.map(f)), decltype(f(x_scale))>{sums.map(f), f(x_scale),
                                                                     f(y_scale)};
  }
  template <class F, class U, class W>
  BITFOLD_INLINE static auto zip(F f, const cosine_state& a, const cosine_state<U, W>& b) {
    return cosine_state<decltype(S::zip(f, a.sums, b.sums)), decltype(f(a.x_scale, b.x_scale))>{
        S::zip(f, a.sums, b.sums), f(a.x_scale, b.x_scale), f(a.y_scale, b.y_scale)};
  }
};
/// Three sums by M of elements that each lane scales (scale.inl). Scales are powers of two, so that
/// they show in no bit unless a product would overflow or underflow.
template <class M>
struct cosine_sums {
  using accumulation = cosine_sums;
  using sums = fold::both<fold::additive<M, fold::times>,
                          fold::both<fold::additive<M, fold::one_of_two<fold::square, true>>,
                                     fold::additive<M, fold::one_of_two<fold::square, false>>>>;
  static constexpr auto ordering = M::ordering;
  static constexpr element_kind element = element_kind::pair;
  static constexpr bool counted = false;
  using lane_order = std::conditional_t<M::compensated, fold::whole_lane_in_loop, fold::whole_lane>;
  template <class V>
  using state = cosine_state<typename sums::template state<V>, V>;

  template <class V>
  BITFOLD_INLINE static state<V> start(fold::pair_of<V> e) {
    const V x = range_scale(arith::abs(e.x)), y = range_scale(arith::abs(e.y));
    return {sums::start(scaled(e, x, y)), x, y};
  }
  /// Of methods without lanes.
  template <class V>
  BITFOLD_INLINE static state<V> add(state<V> s, fold::pair_of<V> e) {
    const V x = range_scale(arith::abs(e.x)), y = range_scale(arith::abs(e.y));
    s = rescaled(s, lesser_scale(s.x_scale, x), lesser_scale(s.y_scale, y));
    return {sums::add(s.sums, scaled(e, s.x_scale, s.y_scale)), s.x_scale, s.y_scale};
  }
  template <int Rows, class Get>
  BITFOLD_INLINE static auto lane(int count, Get get) {
    const auto first = get(0);
    auto x = arith::abs(first.x), y = arith::abs(first.y);
    BITFOLD_UNROLL
    for (int r = 1; r < Rows; ++r) {
      if (r >= count) continue;
      const auto e = get(r);
      x = arith::at_least(arith::abs(e.x), x);
      y = arith::at_least(arith::abs(e.y), y);
    }
    if (arith::all(x, arith::both(fits_unscaled(x), fits_unscaled(y)))) {
      const auto one = arith::constant(x, 1);
      return state<decltype(x)>{method::fold_lane<sums, Rows>(count, get), one, one};
    }
    x = range_scale(x), y = range_scale(y);
    return state<decltype(x)>{
        method::fold_lane<sums, Rows>(count,
                                      [&](int r) BITFOLD_LAMBDA { return scaled(get(r), x, y); }),
        x, y};
  }
  template <class V>
  BITFOLD_INLINE static state<V> merge(state<V> a, state<V> b, counts = {}) {
    const auto same =
        arith::both(arith::equal(a.x_scale, b.x_scale), arith::equal(a.y_scale, b.y_scale));
    if (!arith::all(a.x_scale, same)) {
      const V x = lesser_scale(a.x_scale, b.x_scale), y = lesser_scale(a.y_scale, b.y_scale);
      a = rescaled(a, x, y), b = rescaled(b, x, y);
    }
    return {sums::merge(a.sums, b.sums), a.x_scale, a.y_scale};
  }
  template <class A, class S>
  BITFOLD_INLINE static S rebase(S s, order::index) {
    return s;
  }

 private:
  template <class V>
  BITFOLD_INLINE static fold::pair_of<V> scaled(fold::pair_of<V> e, V x, V y) {
    return {arith::mul(e.x, x), arith::mul(e.y, y)};
  }
  template <class V>
  BITFOLD_INLINE static state<V> rescaled(state<V> s, V x, V y) {
    const V factor_x = arith::power_ratio(x, s.x_scale),
            factor_y = arith::power_ratio(y, s.y_scale);
    const auto times = [](V c, V d) BITFOLD_LAMBDA {
      return [=](V v) BITFOLD_LAMBDA { return arith::mul(arith::mul(v, c), d); };
    };
    return {
        {s.sums.a.map(times(factor_x, factor_y)),
         {s.sums.b.a.map(times(factor_x, factor_x)), s.sums.b.b.map(times(factor_y, factor_y))}},
        x,
        y};
  }
};
template <class M>
struct cosine_fold : cosine_sums<M> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    const double xx = arith::sqrt(fold::value_of<M>(s.sums.b.a)),
                 yy = arith::sqrt(fold::value_of<M>(s.sums.b.b));
    const double c = arith::div(fold::value_of<M>(s.sums.a), arith::mul(xx, yy));
    return arith::round_to<Out>(arith::maximum(arith::minimum(c, 1.0), -1.0));
  }
};
struct cosine_op {
  template <class M, class T>
  using fold = cosine_fold<M>;
};
