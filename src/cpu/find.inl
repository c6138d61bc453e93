// Which kernel a target has for a reduction. Included once per target, after engine.inl and
// columns.inl.

template <class F, class T, class A>
target kernel_of(inputs data, order::index leaves, int tail, order::index first, void* out) {
  using source = array_elements<F, T, A>;
  const auto s = engine<F, source>::run(
      source{static_cast<const T*>(data.x), static_cast<const T*>(data.y), 0}, leaves, tail, first);
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
// T, or the signed integer that has the same kernels.
template <class F, class T>
using folded_as =
    std::conditional_t<ignores_sign<F> && std::is_same_v<T, std::uint64_t>, std::int64_t, T>;

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
          constexpr bool same = std::is_same_v<T, A>;
          using K = folded_as<Base, A>;
          using columns = column_engine<Base, K>;
          batch_kernels batch{columns::add,   columns::total, nullptr,
                              simd::width<A>, sizeof(A),      same ? nullptr : convert<T, A>,
                              transpose<T, A>};
          if constexpr (1 < simd::width<A>)
            batch.rows = row_engine<Base, array_elements<Base, K, K>>::run;
          constexpr bool widens = !same && widens_as_it_loads<Base, T, A>;
          using In = std::conditional_t<widens, T, K>;
          using Out = std::conditional_t<widens, A, K>;
          constexpr bool slow_tail =
              !engine<Base, array_elements<Base, In, Out>>::short_in_vectors();
          return {kernel_of<Base, In, Out>, same || widens ? nullptr : convert<T, A>, slow_tail,
                  batch};
        }
      });
    }
  });
}
