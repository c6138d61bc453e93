// prod dot squared_distance mse mae cosine

struct multiplied {
  template <class V>
  BITFOLD_INLINE static V of(V a, V b) {
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

template <class M>
using cosine_sums = fold::both<fold::additive<M, fold::times>,
                               fold::both<fold::additive<M, fold::one_of_two<fold::square, true>>,
                                          fold::additive<M, fold::one_of_two<fold::square, false>>>>;
template <class M>
struct cosine_fold : cosine_sums<M> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finishing) {
    const double xx = arith::sqrt(fold::value_of<M>(s.b.a)), yy = arith::sqrt(fold::value_of<M>(s.b.b));
    return arith::round_to<Out>(arith::div(fold::value_of<M>(s.a), arith::mul(xx, yy)));
  }
};
struct cosine_op {
  template <class M, class T>
  using fold = cosine_fold<M>;
};
