// sum nansum mean nanmean

struct sum_op {
  template <class M, class T>
  using fold = fold::summed<M, fold::identity>;
  using exact = exact_sum<bitfold::exact::term::element>;
};

/// NumPy's nansum: NaN counts as +0.
struct nansum_op {
  template <class M, class T>
  using fold =
      fold::summed<M, std::conditional_t<std::is_integral_v<T>, fold::identity, fold::nan_as_zero>>;
  using exact = exact_sum<bitfold::exact::term::number>;
};

/// The sum by the method, divided by n, rounded once.
struct mean_op {
  template <class M, class T>
  using fold = fold::averaged<M, fold::identity>;
  using exact = exact_average<bitfold::exact::term::element>;
};

struct is_number {
  template <class V>
  BITFOLD_INLINE static auto apply(V x) {
    return arith::equal(x, x);
  }
};

template <class M>
struct nanmean_fold : fold::both<fold::additive<M, fold::nan_as_zero>, fold::counting<is_number>> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    if (s.b.value == 0) return arith::canonical_nan<Out>;
    return arith::round_quotient_to<Out>(static_cast<double>(M::hi(s.a)),
                                         static_cast<double>(M::lo(s.a)),
                                         static_cast<std::uint64_t>(s.b.value));
  }
};
struct exact_nanmean {
  static constexpr bitfold::exact::term terms[] = {bitfold::exact::term::number,
                                                   bitfold::exact::term::presence};
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(finish_parameters, const S& numbers, const S& count) {
    return bitfold::exact::round_quotient<Out>(numbers, bitfold::exact::count(count));
  }
};
/// nansum divided by the number of elements that are not NaN; NaN where there are none.
struct nanmean_op {
  template <class M, class T>
  using fold = nanmean_fold<M>;
  using exact = exact_nanmean;
};
