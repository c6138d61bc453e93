// var std skewness kurtosis: the mean and the sums of powers of the differences from it, merged as
// Chan, Golub and LeVeque (Updating formulae and a pairwise algorithm for computing sample
// variances, 1979) and Pebay (Sandia report SAND2008-6212) do. How many elements a side has comes
// from the order.
//
// A small variance about a large mean keeps its digits: lanes of f32 are merged in f64; in f64 the
// mean and the second moment carry their rounding errors along. A lane scales its elements by a
// power of two (scale.inl), so that nothing overflows or underflows on the way to a result that
// does not. docs/operations.md has the bound.

// States: the mean, and the sums m2, m3 and m4 of the powers of the differences from it.

/// Of lanes of f32. W holds f64.
template <class W>
struct narrow_moments {
  W mean, m2;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return narrow_moments<decltype(f(mean))>{f(mean), f(m2)};
  }
  template <class F, class U>
  BITFOLD_INLINE static auto zip(F f, const narrow_moments& a, const narrow_moments<U>& b) {
    return narrow_moments<decltype(f(a.mean, b.mean))>{f(a.mean, b.mean), f(a.m2, b.m2)};
  }
};
/// Of lanes of f64, whose elements are multiplied by `scale`: the mean is mean + mean_low, the
/// second sum m2 + m2_low.
template <class V, int Highest>
struct wide_moments;
template <class V>
struct wide_moments<V, 2> {
  V mean, mean_low, m2, m2_low, scale;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return wide_moments<decltype(f(mean)), 2>{f(mean), f(mean_low), f(m2), f(m2_low), f(scale)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const wide_moments& a, const wide_moments<W, 2>& b) {
    return wide_moments<decltype(f(a.mean, b.mean)), 2>{f(a.mean, b.mean),
                                                        f(a.mean_low, b.mean_low), f(a.m2, b.m2),
                                                        f(a.m2_low, b.m2_low), f(a.scale, b.scale)};
  }
};
template <class V>
struct wide_moments<V, 4> {
  V mean, mean_low, m2, scale, m3, m4;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return wide_moments<decltype(f(mean)), 4>{f(mean), f(mean_low), f(m2), f(scale), f(m3), f(m4)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const wide_moments& a, const wide_moments<W, 4>& b) {
    return wide_moments<decltype(f(a.mean, b.mean)), 4>{
        f(a.mean, b.mean), f(a.mean_low, b.mean_low),
        f(a.m2, b.m2),     f(a.scale, b.scale),
        f(a.m3, b.m3),     f(a.m4, b.m4)};
  }
};
/// Of elements that f64 has range and digits to spare for, in f64.
template <class V>
struct plain_moments {
  V mean, m2, m3, m4;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return plain_moments<decltype(f(mean))>{f(mean), f(m2), f(m3), f(m4)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const plain_moments& a, const plain_moments<W>& b) {
    return plain_moments<decltype(f(a.mean, b.mean))>{f(a.mean, b.mean), f(a.m2, b.m2),
                                                      f(a.m3, b.m3), f(a.m4, b.m4)};
  }
};
template <class V, int Highest>
using moments_of = std::conditional_t<std::is_same_v<arith::element_of<V>, float>,
                                      narrow_moments<arith::wide_of<V>>, wide_moments<V, Highest>>;

/// m3 and m4 of both sides together, from theirs, d the difference of the means: l and r are the
/// sides' shares of the elements, h is r times the elements on the left (Pebay).
template <class S, class V>
BITFOLD_INLINE void merge_higher(S& s, const S& a, const S& b, V d, double l, double r, double h) {
  const auto scaled = [&](V x, double c)
                          BITFOLD_LAMBDA { return arith::mul(x, arith::constant(x, c)); };
  const V d2 = arith::mul(d, d);
  const V cross2 = arith::sub(scaled(b.m2, l), scaled(a.m2, r));
  const V cross3 = arith::sub(scaled(b.m3, l), scaled(a.m3, r));
  const double lr = arith::mul(l, r), ll = arith::mul(l, l), rr = arith::mul(r, r);
  s.m3 = arith::add(arith::add(a.m3, b.m3),
                    arith::add(scaled(arith::mul(d2, d), arith::mul(h, arith::sub(l, r))),
                               arith::mul(scaled(d, 3), cross2)));
  const V from4 = scaled(arith::mul(d2, d2), arith::mul(h, arith::add(arith::sub(ll, lr), rr)));
  const V from2 = arith::mul(scaled(d2, 6), arith::add(scaled(b.m2, ll), scaled(a.m2, rr)));
  s.m4 = arith::add(arith::add(a.m4, b.m4),
                    arith::add(arith::add(from4, from2), arith::mul(scaled(d, 4), cross3)));
}

/// The moments of elements narrower than f64, in f64, which holds their fourth powers: nothing is
/// scaled, and no rounding error carried. (`moments`, below, does both.)
struct moments_of_narrow {
  using accumulation = moments_of_narrow;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::single;
  static constexpr bool counted = true;
  using lane_order = fold::whole_lane;
  template <class V>
  using state = plain_moments<V>;

  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    const V zero = arith::constant(x, 0);
    return {x, zero, zero, zero};
  }
  // Two passes, as in `moments`, below.
  template <int Rows, class Get>
  BITFOLD_INLINE static auto lane(int count, Get get) {
    const auto first = get(0);
    using V = std::remove_const_t<decltype(first)>;
    V sum = arith::constant(first, 0);
    BITFOLD_UNROLL
    for (int r = 1; r < Rows; ++r) {
      if (r >= count) continue;
      const V d = arith::sub(get(r), first);
      sum = r > 1 ? arith::add(sum, d) : d;
    }
    static_assert((Rows & (Rows - 1)) == 0);  // 1 / Rows is exact
    const V shift = count == Rows ? arith::mul(sum, arith::constant(sum, 1.0 / Rows))
                                  : arith::div(sum, arith::constant(sum, count));
    state<V> s{};
    s.mean = arith::add(first, shift);
    BITFOLD_UNROLL
    for (int r = 0; r < Rows; ++r) {
      if (r >= count) continue;
      const V d = arith::sub(arith::sub(get(r), first), shift), d2 = arith::mul(d, d);
      const V d3 = arith::mul(d2, d), d4 = arith::mul(d2, d2);
      s.m2 = r ? arith::add(s.m2, d2) : d2;
      s.m3 = r ? arith::add(s.m3, d3) : d3;
      s.m4 = r ? arith::add(s.m4, d4) : d4;
    }
    return s;
  }
  template <class V>
  BITFOLD_INLINE static state<V> merge(state<V> a, state<V> b, counts n) {
    const double left = static_cast<double>(n.left), right = static_cast<double>(n.right);
    const double all = static_cast<double>(n.left + n.right);
    const bool even = n.left == n.right;  // the usual case, and known to the compiler
    const double l = even ? 0.5 : arith::div(left, all), r = even ? 0.5 : arith::div(right, all);
    const double h = arith::mul(left, r);
    const V d = arith::sub(b.mean, a.mean);
    state<V> s{};
    s.mean = arith::add(a.mean, arith::mul(d, arith::constant(d, r)));
    s.m2 = arith::add(arith::add(a.m2, b.m2), arith::mul(arith::mul(d, d), arith::constant(d, h)));
    merge_higher(s, a, b, d, l, r, h);
    return s;
  }
  template <class A, class S>
  BITFOLD_INLINE static S rebase(S s, order::index) {
    return s;
  }
};

template <int Highest>
struct moments {
  using accumulation = moments;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::single;
  static constexpr bool counted = true;
  using lane_order = fold::whole_lane;
  template <class V>
  using state = moments_of<V, Highest>;

  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    return lane<1>(1, [&](int) BITFOLD_LAMBDA { return x; });
  }
  // A lane is short enough for two passes: its mean first, then the differences from it. Both begin
  // with the differences from the first element, so that elements that are all the same have no
  // variance.
  template <int Rows, class Get>
  BITFOLD_INLINE static auto lane(int count, Get get) {
    auto largest = arith::abs(get(0));
    using V = decltype(largest);
    constexpr bool narrow = std::is_same_v<arith::element_of<V>, float>;
    static_assert(!narrow || Highest == 2, "skewness and kurtosis are of f64");
    const auto as_it_is = [](auto x) BITFOLD_LAMBDA { return x; };
    BITFOLD_UNROLL
    for (int r = 1; r < Rows; ++r)
      if (r < count) largest = arith::at_least(arith::abs(get(r)), largest);
    if constexpr (!std::is_arithmetic_v<V>)  // (One lane alone gains less than a branch costs.)
      if (arith::all(largest, Highest == 4 ? fits_unscaled(largest) : squares_fit(largest))) {
        const V first = get(0);
        return lane_from<Rows>(
            count, first, arith::constant(first, 1),
            [&](int r) BITFOLD_LAMBDA { return arith::sub(get(r), first); }, as_it_is);
      }
    const V scale = Highest == 4 ? range_scale(largest) : square_scale(largest);
    const V first = arith::mul(get(0), scale), back = arith::neg(first);
    const auto offset = [&](int r) BITFOLD_LAMBDA { return arith::fma(get(r), scale, back); };
    if constexpr (narrow) {
      const auto unscale = arith::widened(square_unscale(largest));
      return lane_from<Rows>(count, first, scale, offset,
                             [&](auto x) BITFOLD_LAMBDA { return arith::mul(x, unscale); });
    } else {
      return lane_from<Rows>(count, first, scale, offset, as_it_is);
    }
  }

  template <class W>
  BITFOLD_INLINE static auto merge(narrow_moments<W> a, narrow_moments<W> b, counts n) {
    const weights w(n);
    const auto constant = [&](double c) BITFOLD_LAMBDA { return arith::constant(a.mean, c); };
    const W d = arith::sub(b.mean, a.mean);
    return narrow_moments<W>{
        arith::fma(d, constant(w.right.value), a.mean),
        arith::fma(arith::mul(d, d), constant(w.both.value), arith::add(a.m2, b.m2))};
  }
  template <class V>
  BITFOLD_INLINE static auto merge(wide_moments<V, Highest> a, wide_moments<V, Highest> b,
                                   counts n) {
    if (!arith::all(a.scale, arith::equal(a.scale, b.scale))) {
      const V scale = lesser_scale(a.scale, b.scale);
      a = rescaled(a, scale), b = rescaled(b, scale);
    }
    const weights w(n);
    // d + e: the difference of the means.
    const auto means = arith::two_sum(b.mean, arith::neg(a.mean));
    const V rest = arith::add(means.error, arith::sub(b.mean_low, a.mean_low)),
            d = arith::add(means.sum, rest);
    const V e = arith::sub(rest, arith::sub(d, means.sum));
    wide_moments<V, Highest> s{};
    s.scale = a.scale;
    const auto step = times(w.right, d, e);
    const auto mean = arith::two_sum(a.mean, step.sum);
    s.mean = mean.sum;
    s.mean_low = arith::add(mean.error, arith::add(a.mean_low, step.error));
    if constexpr (Highest == 2) {
      const auto square = arith::two_prod(d, d);
      const auto between = times(w.both, square.sum, arith::fma(arith::add(d, d), e, square.error));
      const auto within = arith::two_sum(a.m2, b.m2), all = arith::two_sum(within.sum, between.sum);
      s.m2 = all.sum;
      s.m2_low = arith::add(arith::add(a.m2_low, b.m2_low),
                            arith::add(arith::add(within.error, all.error), between.error));
    } else {
      s.m2 = arith::fma(arith::mul(d, d), arith::constant(d, w.both.value), arith::add(a.m2, b.m2));
      merge_higher(s, a, b, d, w.left.value, w.right.value, w.both.value);
    }
    return s;
  }
  template <class A, class S>
  BITFOLD_INLINE static S rebase(S s, order::index) {
    return s;
  }

  // ---- What a partial says ----

  // n - ddof, or 0 where that is negative: as NumPy and PyTorch divide.
  BITFOLD_INLINE static double degrees(finish_parameters parameters) {
    if (parameters.n <= static_cast<order::index>(parameters.ddof)) return 0;
    return static_cast<double>(parameters.n - static_cast<order::index>(parameters.ddof));
  }
  BITFOLD_INLINE static double scale_of(const narrow_moments<double>&) { return 1; }
  BITFOLD_INLINE static double scale_of(const wide_moments<double, Highest>& s) { return s.scale; }
  /// The mean of the scaled elements.
  BITFOLD_INLINE static arith::sum_and_error<double> mean_of(const narrow_moments<double>& s) {
    return {s.mean, 0};
  }
  BITFOLD_INLINE static arith::sum_and_error<double> mean_of(
      const wide_moments<double, Highest>& s) {
    return arith::two_sum(s.mean, s.mean_low);
  }
  /// The sum of their squared differences from it, over n.
  BITFOLD_INLINE static arith::sum_and_error<double> mean_square(const narrow_moments<double>& s,
                                                                 double n) {
    return quotient(s.m2, 0, n);
  }
  BITFOLD_INLINE static arith::sum_and_error<double> mean_square(const wide_moments<double, 2>& s,
                                                                 double n) {
    const auto m2 = arith::two_sum(s.m2, s.m2_low);
    return quotient(m2.sum, m2.error, n);
  }
  /// The square root of that.
  BITFOLD_INLINE static arith::sum_and_error<double> root(arith::sum_and_error<double> square) {
    const double r = arith::sqrt(square.sum);
    if (!arith::is_finite(r) || r == 0) return {r, 0};
    return {r,
            arith::div(arith::add(arith::fma(-r, r, square.sum), square.error), arith::add(r, r))};
  }

 private:
  /// The lane whose elements are `first` and offset(r) more, scaled. Where f64 has range to spare,
  /// unscaled(x) is x divided by the scale.
  template <int Rows, class V, class Offset, class Unscaled>
  BITFOLD_INLINE static auto lane_from(int count, V first, V scale, Offset offset,
                                       Unscaled unscaled) {
    V sum = arith::constant(first, 0);
    BITFOLD_UNROLL
    for (int r = 1; r < Rows; ++r) {
      if (r >= count) continue;
      const V d = offset(r);
      sum = r > 1 ? arith::add(sum, d) : d;
    }
    static_assert((Rows & (Rows - 1)) == 0);  // 1 / Rows is exact
    const V shift = count == Rows ? arith::mul(sum, arith::constant(sum, 1.0 / Rows))
                                  : arith::div(sum, arith::constant(sum, count));
    V m2{}, m3{}, m4{};
    BITFOLD_UNROLL
    for (int r = 0; r < Rows; ++r) {
      if (r >= count) continue;
      const V d = arith::sub(offset(r), shift);
      m2 = r ? arith::fma(d, d, m2) : arith::mul(d, d);
      if constexpr (Highest == 4) {
        const V d2 = arith::mul(d, d);
        m3 = r ? arith::fma(d2, d, m3) : arith::mul(d2, d);
        m4 = r ? arith::fma(d2, d2, m4) : arith::mul(d2, d2);
      }
    }
    if constexpr (std::is_same_v<arith::element_of<V>, float>) {
      const auto mean = arith::add(arith::widened(first), arith::widened(shift));
      return state<V>{unscaled(mean), unscaled(unscaled(arith::widened(m2)))};
    } else {
      const auto mean = arith::two_sum(first, shift);
      if constexpr (Highest == 4)
        return state<V>{mean.sum, mean.error, m2, scale, m3, m4};
      else
        return state<V>{mean.sum, mean.error, m2, arith::constant(first, 0), scale};
    }
  }
  BITFOLD_INLINE static arith::sum_and_error<double> quotient(double hi, double lo, double n) {
    const double q = arith::div(hi, n);
    if (!arith::is_finite(q) || q == 0) return {q, 0};
    return {q, arith::div(arith::add(arith::fma(-q, n, hi), lo), n)};
  }
  template <class V>
  BITFOLD_INLINE static wide_moments<V, Highest> rescaled(wide_moments<V, Highest> s, V scale) {
    const V factor = arith::power_ratio(scale, s.scale), factor2 = arith::mul(factor, factor);
    s.scale = scale;
    s.mean = arith::mul(s.mean, factor);
    s.mean_low = arith::mul(s.mean_low, factor);
    s.m2 = arith::mul(s.m2, factor2);
    if constexpr (Highest == 4) {
      s.m3 = arith::mul(s.m3, arith::mul(factor2, factor));
      s.m4 = arith::mul(s.m4, arith::mul(factor2, factor2));
    } else {
      s.m2_low = arith::mul(s.m2_low, factor2);
    }
    return s;
  }

  // A quotient of counts, with its rounding error.
  struct weight {
    double value, low;
    bool is_power;  // of two: nothing is rounded by it
  };
  // left / all, right / all and left right / all.
  struct weights {
    weight left, right, both;
    BITFOLD_INLINE explicit weights(counts n) {
      const double l = static_cast<double>(n.left), r = static_cast<double>(n.right);
      if (n.left == n.right) {  // the usual case, and known to the compiler
        left = right = {0.5, 0, true};
        both = {arith::mul(l, 0.5), 0, (n.left & (n.left - 1)) == 0};
        return;
      }
      const double all = static_cast<double>(n.left + n.right), inverse = arith::div(1.0, all);
      const auto quotient = [&](double x) BITFOLD_LAMBDA {
        const double q = arith::mul(x, inverse);
        return weight{q, arith::mul(arith::fma(-q, all, x), inverse), false};
      };
      left = quotient(l), right = quotient(r);
      const auto product = arith::two_prod(l, right.value);
      both = {product.sum, arith::fma(l, right.low, product.error), false};
    }
  };
  /// (x + low) w.
  template <class V>
  BITFOLD_INLINE static arith::sum_and_error<V> times(const weight& w, V x, V low) {
    const V c = arith::constant(x, w.value), p = arith::mul(x, c);
    if (w.is_power) return {p, arith::mul(low, c)};
    return {p, arith::add(arith::fma(x, c, arith::neg(p)),
                          arith::fma(low, c, arith::mul(x, arith::constant(x, w.low))))};
  }
};

struct var_fold : moments<2> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters parameters) {
    const auto q = mean_square(s, degrees(parameters));
    const double back = arith::div(1.0, scale_of(s));
    const auto unscaled = [&](double x)
                              BITFOLD_LAMBDA { return arith::mul(arith::mul(x, back), back); };
    return arith::round_sum_to<Out>(unscaled(q.sum), unscaled(q.error));
  }
};
struct exact_var {
  static constexpr bitfold::exact::term terms[] = {bitfold::exact::term::element,
                                                   bitfold::exact::term::square};
  template <class Out, class S, class Q>
  BITFOLD_INLINE static Out finish(finish_parameters parameters, const S& sum, const Q& squares) {
    return bitfold::exact::round_variance<Out>(sum, squares, parameters.n,
                                               static_cast<std::uint64_t>(parameters.ddof));
  }
};
struct var_op {
  template <class M, class T>
  using fold = var_fold;
  using exact = exact_var;
};

struct std_fold : moments<2> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters parameters) {
    const auto r = root(mean_square(s, degrees(parameters)));
    const double back = arith::div(1.0, scale_of(s));
    return arith::round_sum_to<Out>(arith::mul(r.sum, back), arith::mul(r.error, back));
  }
};
struct exact_std : exact_var {
  template <class Out, class S, class Q>
  BITFOLD_INLINE static Out finish(finish_parameters parameters, const S& sum, const Q& squares) {
    return bitfold::exact::round_deviation<Out>(sum, squares, parameters.n,
                                                static_cast<std::uint64_t>(parameters.ddof));
  }
};
struct std_op {
  template <class M, class T>
  using fold = std_fold;
  using exact = exact_std;
};

/// What the moments of elements T are folded by, in f64.
template <class T>
using four_moments = std::conditional_t<std::is_same_v<T, double>, moments<4>, moments_of_narrow>;

template <class T>
struct skewness_fold : four_moments<T> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters parameters) {
    const double n = static_cast<double>(parameters.n), m2 = arith::div(s.m2, n);
    const double m3 = arith::div(s.m3, n);
    return arith::round_to<Out>(arith::div(m3, arith::mul(m2, arith::sqrt(m2))));
  }
};
struct skewness_op {
  template <class M, class T>
  using fold = skewness_fold<T>;
};

template <class T>
struct kurtosis_fold : four_moments<T> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters parameters) {
    const double n = static_cast<double>(parameters.n), m2 = arith::div(s.m2, n);
    const double m4 = arith::div(s.m4, n);
    return arith::round_to<Out>(arith::sub(arith::div(m4, arith::mul(m2, m2)), 3.0));
  }
};
struct kurtosis_op {
  template <class M, class T>
  using fold = kurtosis_fold<T>;
};
