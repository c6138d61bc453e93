// sum_squares norm_l1 norm_l2

struct sum_squares_op {
  template <class M, class T>
  using fold = fold::summed<M, fold::square>;
  using exact = exact_sum<bitfold::exact::term::square>;
};
struct norm_l1_op {
  template <class M, class T>
  using fold = fold::summed<M, fold::magnitude>;
  using exact = exact_sum<bitfold::exact::term::magnitude>;
};

/// In f64 the squares of narrower floats are exact, and no square can overflow or underflow.
template <class M>
struct root_of_squares : fold::additive<M, fold::square> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    return arith::round_to<Out>(arith::sqrt(fold::value_of<M>(s)));
  }
};

// Of f64 itself they can, so that large, middling and small elements are summed apart, scaled by
// powers of two (Blue, ACM TOMS 4(1), 1978; Anderson, ACM TOMS 44(1), 2017, whose constants these
// are, for f64).
template <int Part>
struct scaled_square {
  static constexpr element_kind element = element_kind::single;
  static constexpr double large = 0x1p486, small = 0x1p-511;  // what is middling lies between
  static constexpr double down = 0x1p-538, up = 0x1p537;
  template <class M, class V>
  BITFOLD_INLINE static auto apply(V x) {
    const V m = arith::abs(x), zero = arith::constant(x, 0);
    const auto is_large = arith::less(arith::constant(x, large), m);
    const auto is_small = arith::less(m, arith::constant(x, small));
    V part;
    if constexpr (Part > 0)
      part = arith::mul(arith::select(is_large, m, zero), arith::constant(x, down));
    else if constexpr (Part < 0)
      part = arith::mul(arith::select(is_small, m, zero), arith::constant(x, up));
    else
      part = arith::select(arith::either(is_large, is_small), zero, m);
    return fold::product<M>(part, part);
  }
};
template <class M>
using blue_sums = fold::both<
    fold::additive<M, scaled_square<0>>,
    fold::both<fold::additive<M, scaled_square<1>>, fold::additive<M, scaled_square<-1>>>>;
template <class M>
struct blue_norm : blue_sums<M> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    const double middle = fold::value_of<M>(s.a), large = fold::value_of<M>(s.b.a),
                 small = fold::value_of<M>(s.b.b);
    constexpr double down = scaled_square<0>::down, up = scaled_square<0>::up;
    double root;
    if (large > 0) {
      // The middling squares matter only next to the smallest large ones; the small ones never do.
      const double both = arith::add(large, arith::mul(arith::mul(middle, down), down));
      root = arith::div(arith::sqrt(both), down);
    } else if (small > 0) {
      const double s_root = arith::div(arith::sqrt(small), up), m_root = arith::sqrt(middle);
      const double hi = arith::maximum(s_root, m_root), lo = arith::minimum(s_root, m_root);
      const double q = arith::div(lo, hi);
      root = arith::mul(hi, arith::sqrt(arith::add(1.0, arith::mul(q, q))));
    } else {
      root = arith::sqrt(middle);
    }
    return arith::round_to<Out>(root);
  }
};

struct exact_root {
  static constexpr bitfold::exact::term terms[] = {bitfold::exact::term::square};
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(finish_parameters, const S& squares) {
    return bitfold::exact::round_root<Out>(squares);
  }
};
struct norm_l2_op {
  template <class M, class T>
  using fold = std::conditional_t<std::is_same_v<T, double>, blue_norm<M>, root_of_squares<M>>;
  using exact = exact_root;
};
