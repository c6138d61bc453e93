// Which kernel a target has for a reduction. Included once per target, after engine.inl and
// columns.inl.

// The leaves of some runs.
template <class Source, class T>
class leaves_in_runs {
 public:
  explicit leaves_in_runs(std::span<const leaf_run> runs)
      : at_(begin(runs.front(), 0)), left_(runs.front().leaves), others_(runs.subspan(1)) {}
  BITFOLD_INLINE bool in_a_row(order::index n) {
    begin_next();
    return left_ >= n;
  }
  BITFOLD_INLINE Source next(order::index n) {
    begin_next();
    const Source here = at_;
    at_ = at_.ahead(static_cast<int>(n) * order::leaf);
    left_ -= n;
    return here;
  }

 private:
  static Source begin(const leaf_run& run, order::index first) {
    return {static_cast<const T*>(run.data.x), static_cast<const T*>(run.data.y), first};
  }
  BITFOLD_INLINE void begin_next() {
    if (left_ > 0 || others_.empty()) return;
    at_ = begin(others_.front(), at_.first);
    left_ = others_.front().leaves;
    others_ = others_.subspan(1);
  }

  Source at_;
  order::index left_;
  std::span<const leaf_run> others_;
};

// Of elements T, computed with as K, with partials of numbers A.
template <class F, class T, class K, class A>
target kernel_of(std::span<const leaf_run> runs, order::index leaves, int tail, order::index first,
                 void* out) {
  using source = array_elements<F, T, K>;
  const auto s = partial_in<K, A>(
      engine<F, source>::run(leaves_in_runs<source, T>(runs), leaves, tail, first));
  static_assert(std::is_trivially_copyable_v<decltype(s)>);
  std::memcpy(out, &s, sizeof s);
  return this_target;
}

// Sums and products modulo 2^64, and counts, have the same bits with a sign and without.
template <class F>
inline constexpr bool ignores_sign = false;
template <class M, class Term>
inline constexpr bool ignores_sign<fold::additive<M, Term>> = true;
template <>
inline constexpr bool ignores_sign<fold::joined<op::multiplied, fold::identity>> = true;
template <class Is>
inline constexpr bool ignores_sign<fold::counting<Is>> = true;
// Folds that pick one of the elements, which stay as narrow as they are.
template <class F>
inline constexpr bool picks_one = false;
template <>
inline constexpr bool picks_one<fold::joined<op::smaller, fold::identity>> = true;
template <>
inline constexpr bool picks_one<fold::joined<op::larger, fold::identity>> = true;
template <bool Largest>
inline constexpr bool picks_one<op::arg_fold<Largest>> = true;

// What elements T with accumulators A are computed with: A, or integers that have the same results
// and share kernels.
template <class F, class T, class A>
struct computed_with {
  static constexpr bool narrow = simd::width<A> > 1 &&
                                 picks_one<F>&& std::is_integral_v<A>&& std::is_integral_v<T> &&
                                 sizeof(T) <= 4;
  using integer = std::conditional_t<std::is_same_v<T, std::uint32_t>, std::uint32_t, std::int32_t>;
  using any_sign =
      std::conditional_t<ignores_sign<F> && std::is_same_v<A, std::uint64_t>, std::int64_t, A>;
  using type = std::conditional_t<narrow, integer, any_sign>;
};

// Folds that are worth kernels of their own for narrow types, which widen as they load: sums, and
// the squares of norms.
template <class F, class T, class A>
inline constexpr bool widens_as_it_loads =
    is_plain_sum<F> && std::is_integral_v<A> == std::is_integral_v<T>;
template <class M, class T>
inline constexpr bool widens_as_it_loads<fold::additive<M, fold::square>, T, double> =
    !M::compensated && !std::is_integral_v<T>;

// Whether this build has kernels in vectors of it: a sample has one accumulator for each fold, and
// leaves the others to scalars.
#ifdef BITFOLD_SAMPLE_OF_KERNELS
template <class Chosen, class A = typename Chosen::accumulator>
inline constexpr bool in_sample =
    simd::width<A> == 1 || std::is_same_v<A, float> || std::is_same_v<A, std::int64_t> ||
    Chosen::types == typing::wide;  // of f64 alone
#else
template <class Chosen>
inline constexpr bool in_sample = true;
#endif

inline kernels find(const reduction& r) {
  return detail::dispatch<algebra>(r, [&]<class Chosen>(Chosen) -> kernels {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering != ordering::canonical) {
      return {};
    } else if constexpr (!in_sample<Chosen>) {
      return find_kernels_of<target::scalar>(r);
    } else {
      using Base = typename F::accumulation;
      return visit(r.in(), [&]<class T>(std::type_identity<T>) -> kernels {
        if constexpr (!bitfold::fold::holds<A, T>()) {
          return {};  // not reached: make_reduction chose an A that holds T
        } else {
          using K = typename computed_with<Base, T, A>::type;
          constexpr bool same = std::is_same_v<T, A> || std::is_same_v<T, K>,
                         widens = !same && widens_as_it_loads<Base, T, A>;
          using In = std::conditional_t<widens, T, K>;
          // Partials of integers have the same bytes with a sign and without, and share kernels.
          using P =
              std::conditional_t<std::is_integral_v<K> && !std::is_same_v<K, A>, std::int64_t, A>;
          using Wide = std::conditional_t<sizeof(K) == sizeof(A), A, K>;  // of any sign
          using Out = std::conditional_t<widens, Wide, K>;
          using columns = column_engine<Base, K, K, P>;
          batch_kernels batch{.add = columns::add,
                              .total = columns::total,
                              .width = simd::width<K>,
                              .element = sizeof(K),
                              .transpose = transpose<T, Wide>};
          if constexpr (!same) batch.widen = convert<T, Wide>;
          if constexpr (same || widens) batch.add_stored = column_engine<Base, In, Out, P>::add;
          if constexpr (1 < simd::width<K>)
            batch.rows = row_engine<Base, array_elements<Base, In, Out>, P>::run;
          constexpr bool slow_tail =
              !engine<Base, array_elements<Base, In, Out>>::short_in_vectors();
          return {kernel_of<Base, In, Out, P>, widens ? nullptr : batch.widen, slow_tail, batch};
        }
      });
    }
  });
}
