// any all count_nonzero count_distinct

struct not_zero {
  template <class V>
  BITFOLD_INLINE static auto apply(V x) {
    return arith::opposite(arith::equal(x, arith::constant(x, 0)));
  }
};

struct any_fold : fold::counting<not_zero> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    return s.value != 0;
  }
};
struct any_op {
  template <class M, class T>
  using fold = any_fold;
};

struct all_fold : fold::counting<not_zero> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters parameters) {
    return static_cast<order::index>(s.value) == parameters.n;
  }
};
struct all_op {
  template <class M, class T>
  using fold = all_fold;
};

struct count_nonzero_fold : fold::counting<not_zero> {
  template <class Out, class S>
  BITFOLD_INLINE static Out finish(S s, finish_parameters) {
    return s.value;
  }
};
struct count_nonzero_op {
  template <class M, class T>
  using fold = count_nonzero_fold;
};

/// How many keys (arith::key_of) there are.
struct distinct {
  using accumulation = distinct;
  static constexpr auto ordering = bitfold::ordering::sorted;
  static constexpr element_kind element = element_kind::single;
};
struct count_distinct_op {
  template <class M, class T>
  using fold = distinct;
};
