// logsumexp: log(sum of exp(x)), that of SciPy's special.logsumexp and PyTorch's logsumexp; and its
// sum, of exp(x - max), by which softmax divides.

/// The largest element and the sum of exp(x - max), at least 1. Where max is infinite or NaN, the
/// sum is any number.
template <class V>
struct exponentials {
  V max, sum;
  template <class F>
  BITFOLD_INLINE auto map(F f) const {
    return exponentials<decltype(f(max))>{f(max), f(sum)};
  }
  template <class F, class W>
  BITFOLD_INLINE static auto zip(F f, const exponentials& a, const exponentials<W>& b) {
    return exponentials<decltype(f(a.max, b.max))>{f(a.max, b.max), f(a.sum, b.sum)};
  }
};

struct logsumexp_fold {
  using accumulation = logsumexp_fold;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::single;
  static constexpr bool counted = false;
  using lane_order = fold::whole_lane_in_loop;
  template <class V>
  using state = exponentials<V>;

  template <class V>
  BITFOLD_INLINE static state<V> start(V x) {
    return {x, arith::constant(x, 1)};
  }
  // The largest element first, so that each takes one exp; a single one takes none, as its own
  // is 1.
  template <int Rows, class Get>
  BITFOLD_INLINE static auto lane(int count, Get get) {
    auto s = start(get(0));
    if (Rows == 1 || count == 1) return s;
    BITFOLD_UNROLL
    for (int r = 1; r < Rows; ++r)
      if (r < count) s.max = arith::maximum(s.max, get(r));
    BITFOLD_UNROLL
    for (int r = 0; r < Rows; ++r) {
      if (r >= count) continue;
      const auto term = arith::exp_nonpositive(arith::sub(get(r), s.max));
      s.sum = r ? arith::add(s.sum, term) : term;
    }
    return s;
  }
  template <class V>
  BITFOLD_INLINE static state<V> merge(state<V> a, state<V> b, counts = {}) {
    const auto rises = arith::less(a.max, b.max);
    const V high = arith::select(rises, b.sum, a.sum), low = arith::select(rises, a.sum, b.sum);
    const V decay = arith::exp_nonpositive(arith::neg(arith::abs(arith::sub(a.max, b.max))));
    return {arith::maximum(a.max, b.max), arith::fma(low, decay, high)};
  }
  template <class A>
  BITFOLD_INLINE static state<A> rebase(state<A> s, order::index) {
    return s;
  }
  // A zero counts as +0: the logarithm of exp(-0), which is 1.
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    return arith::round_sum_to<Out>(arith::add(static_cast<double>(s.max), 0.0),
                                    arith::log_from_one(static_cast<double>(s.sum)));
  }
};
struct logsumexp_op {
  template <class M, class T>
  using fold = logsumexp_fold;
};

struct softmax_denominator_fold : logsumexp_fold {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    // NaN for an infinite or NaN maximum.
    return arith::round_to<Out>(arith::add(s.sum, arith::sub(s.max, s.max)));
  }
};
struct softmax_denominator_op {
  template <class M, class T>
  using fold = softmax_denominator_fold;
};
