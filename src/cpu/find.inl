// Which kernel a target has for a reduction. Included once per target, after engine.inl and columns.inl.

template <class F, class T, class A>
target kernel_of(inputs data, order::index leaves, int tail, order::index first, void* out) {
  using source = stored<F, T, A>;
  const auto s = engine<F, source>::run(
      source{static_cast<const T*>(data.x), static_cast<const T*>(data.y), 0}, leaves, tail, first);
  static_assert(std::is_trivially_copyable_v<decltype(s)>);
  std::memcpy(out, &s, sizeof s);
  return this_target;
}

template <class T, class A>
void convert(const void* from, std::size_t n, void* to) {
  const T* p = static_cast<const T*>(from);
  A* q = static_cast<A*>(to);
  std::size_t i = 0;
  for (; i + simd::width<A> <= n; i += simd::width<A>) simd::store<A>(simd::load<A>(p + i), q + i);
  for (; i < n; ++i) {
    T x;
    std::memcpy(&x, p + i, sizeof x);
    q[i] = bitfold::arith::widen<A>(x);
  }
}

inline kernels find(const reduction& r) {
  return detail::dispatch<algebra>(r, [&]<class Chosen>(Chosen) -> kernels {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering != ordering::canonical) {
      return {};
    } else {
      using Base = typename F::base;
      // Plain sums of narrow types are worth kernels of their own.
      return visit(r.in(), [&]<class T>(std::type_identity<T>) -> kernels {
        if constexpr (!bitfold::fold::holds<A, T>()) {
          return {};  // not reached: make_reduction chose an A that holds T
        } else {
          constexpr bool same = std::is_same_v<T, A>;
          using together = side_by_side<Base, A>;
          const column_kernels columns{together::add, together::total, sizeof(A), same ? nullptr : convert<T, A>, turn<T, A>};
          if constexpr (same || (is_plain_sum<Base> && std::is_integral_v<A> == std::is_integral_v<T>))
            return {kernel_of<Base, T, A>, nullptr, columns};
          else
            return {kernel_of<Base, A, A>, convert<T, A>, columns};
        }
      });
    }
  });
}
