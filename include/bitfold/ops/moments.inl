// var std skewness kurtosis: the mean and the sums of powers of the differences from it, merged as Chan,
// Golub and LeVeque (Updating formulae and a pairwise algorithm for computing sample variances, 1979) and
// Pebay (Sandia report SAND2008-6212) do. How many elements a side has comes from the order.

template <class V, int Most>
struct moment_state;
template <class V>
struct moment_state<V, 2> {
  V mean, m2;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return moment_state<decltype(f(mean)), 2>{f(mean), f(m2)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const moment_state& a, const moment_state<W, 2>& b) {
    return moment_state<decltype(f(a.mean, b.mean)), 2>{f(a.mean, b.mean), f(a.m2, b.m2)};
  }
};
template <class V>
struct moment_state<V, 4> {
  V mean, m2, m3, m4;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return moment_state<decltype(f(mean)), 4>{f(mean), f(m2), f(m3), f(m4)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const moment_state& a, const moment_state<W, 4>& b) {
    return moment_state<decltype(f(a.mean, b.mean)), 4>{f(a.mean, b.mean), f(a.m2, b.m2), f(a.m3, b.m3),
                                                        f(a.m4, b.m4)};
  }
};

template <int Most>
struct moments {
  using base = moments;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr input takes = input::one;
  static constexpr bool counted = true;
  using lane_order = fold::at_once;
  template <class V>
  using state = moment_state<V, Most>;

  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    state<V> s{};
    s.mean = x;
    s.m2 = arith::constant(x, 0);
    if constexpr (Most == 4) s.m3 = s.m4 = s.m2;
    return s;
  }
  // A lane is short enough for two passes: its mean first, then the differences from it. Both begin with the
  // differences from the first element, so that elements that are all the same have no variance.
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
      s.m2 = r ? arith::add(s.m2, d2) : d2;
      if constexpr (Most == 4) {
        const V d3 = arith::mul(d2, d), d4 = arith::mul(d2, d2);
        s.m3 = r ? arith::add(s.m3, d3) : d3;
        s.m4 = r ? arith::add(s.m4, d4) : d4;
      }
    }
    return s;
  }

  template <class V>
  BITFOLD_INLINE static state<V> merge(state<V> a, state<V> b, counts n) {
    const auto of = [&](double c) BITFOLD_LAMBDA { return arith::constant(a.mean, c); };
    const double left = static_cast<double>(n.left), right = static_cast<double>(n.right);
    const double all = static_cast<double>(n.left + n.right);
    const bool even = n.left == n.right;  // the usual case, and known to the compiler
    const double v = even ? 0.5 : arith::div(left, all), w = even ? 0.5 : arith::div(right, all);
    const double h = arith::mul(left, w);
    const V d = arith::sub(b.mean, a.mean), d2 = arith::mul(d, d);
    state<V> s{};
    s.mean = arith::add(a.mean, arith::mul(d, of(w)));
    s.m2 = arith::add(arith::add(a.m2, b.m2), arith::mul(d2, of(h)));
    if constexpr (Most == 4) {
      const auto scaled = [&](V x, double c) BITFOLD_LAMBDA { return arith::mul(x, of(c)); };
      const V cross2 = arith::sub(scaled(b.m2, v), scaled(a.m2, w));
      const V cross3 = arith::sub(scaled(b.m3, v), scaled(a.m3, w));
      const double vw = arith::mul(v, w), vv = arith::mul(v, v), ww = arith::mul(w, w);
      s.m3 = arith::add(arith::add(a.m3, b.m3),
                        arith::add(scaled(arith::mul(d2, d), arith::mul(h, arith::sub(v, w))),
                                   arith::mul(scaled(d, 3), cross2)));
      const V from4 = scaled(arith::mul(d2, d2), arith::mul(h, arith::add(arith::sub(vv, vw), ww)));
      const V from2 = arith::mul(scaled(d2, 6), arith::add(scaled(b.m2, vv), scaled(a.m2, ww)));
      s.m4 = arith::add(arith::add(a.m4, b.m4),
                        arith::add(arith::add(from4, from2), arith::mul(scaled(d, 4), cross3)));
    }
    return s;
  }
  template <class A, class S>
  BITFOLD_INLINE static S settle(S s, order::index) {
    return s;
  }

  // n - ddof, or 0 where that is negative: as NumPy and PyTorch divide.
  BITFOLD_INLINE static double degrees(finishing how) {
    if (how.n <= static_cast<order::index>(how.ddof)) return 0;
    return static_cast<double>(how.n - static_cast<order::index>(how.ddof));
  }
};

struct var_fold : moments<2> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing how) {
    return arith::round_to<Out>(arith::div(static_cast<double>(s.m2), degrees(how)));
  }
};
struct exact_var {
  static constexpr bitfold::exact::term terms[] = {bitfold::exact::term::element, bitfold::exact::term::square};
  template <class Out, class S, class Q>
  BITFOLD_INLINE static Out finish(finishing how, const S& sum, const Q& squares) {
    return bitfold::exact::round_variance<Out>(sum, squares, how.n, static_cast<std::uint64_t>(how.ddof));
  }
};
struct var_op {
  template <class M, class T>
  using fold = var_fold;
  using exact = exact_var;
};

struct std_fold : moments<2> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing how) {
    return arith::round_to<Out>(arith::sqrt(arith::div(static_cast<double>(s.m2), degrees(how))));
  }
};
struct exact_std : exact_var {
  template <class Out, class S, class Q>
  BITFOLD_INLINE static Out finish(finishing how, const S& sum, const Q& squares) {
    return bitfold::exact::round_deviation<Out>(sum, squares, how.n, static_cast<std::uint64_t>(how.ddof));
  }
};
struct std_op {
  template <class M, class T>
  using fold = std_fold;
  using exact = exact_std;
};

struct skewness_fold : moments<4> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing how) {
    const double n = static_cast<double>(how.n), m2 = arith::div(static_cast<double>(s.m2), n);
    const double m3 = arith::div(static_cast<double>(s.m3), n);
    return arith::round_to<Out>(arith::div(m3, arith::mul(m2, arith::sqrt(m2))));
  }
};
struct skewness_op {
  template <class M, class T>
  using fold = skewness_fold;
};

struct kurtosis_fold : moments<4> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing how) {
    const double n = static_cast<double>(how.n), m2 = arith::div(static_cast<double>(s.m2), n);
    const double m4 = arith::div(static_cast<double>(s.m4), n);
    return arith::round_to<Out>(arith::sub(arith::div(m4, arith::mul(m2, m2)), 3.0));
  }
};
struct kurtosis_op {
  template <class M, class T>
  using fold = kurtosis_fold;
};
