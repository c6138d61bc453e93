// The canonical order on one thread, in vectors. Included once per target, after that target's `simd`,
// `arith`, `order`, `method` and `fold`, inside that target's namespace.
//
// A vector holds neighbouring lanes, so the fold needs one step only: merge_pairs takes two
// neighbouring vectors of partial results and returns one, half as deep. Repeated within a leaf and
// then across leaves, that is the whole tree; the lanes of a vector are folded among themselves only at
// the very end of a run.
//
// BITFOLD_LEAF is the specifier of the function that folds a leaf, BITFOLD_UNROLL_VECTORS stands before loops
// that are worth unrolling where they are over vectors.

template <class F>
inline constexpr bool is_plain_sum = false;
template <class M>
inline constexpr bool is_plain_sum<fold::additive<M, fold::itself>> = true;

template <class F, class T, class A>
struct engine {
  using V = simd::vec<A>;
  using state = typename F::template state<V>;
  using scalar_state = typename F::template state<A>;
  using index = order::index;
  static constexpr int width = simd::width<A>;
  static constexpr int columns = order::lanes / width;  // vectors in a row of lanes
  static_assert(columns * width == order::lanes);

  // Where a leaf begins, in memory and in the run.
  struct leaf_at {
    const T *x, *y;
    index first;
  };
  BITFOLD_INLINE static leaf_at ahead(leaf_at p, int elements) {
    if constexpr (F::takes == fold::input::two) p.y += elements;
    return {p.x + elements, p.y, p.first + static_cast<index>(elements)};
  }
  // `width` neighbouring elements from element i of a leaf on, as the fold takes them.
  BITFOLD_INLINE static auto element(leaf_at p, int i) {
    const V x = simd::load<A>(p.x + i);
    if constexpr (F::takes == fold::input::two)
      return fold::pair_of<V>{x, simd::load<A>(p.y + i)};
    else if constexpr (F::takes == fold::input::placed)
      return fold::placed_at<V, decltype(simd::places<A>(0))>{
          x, simd::places<A>(p.first + static_cast<index>(i))};
    else
      return x;
  }
  // One of them. The data may be aligned to nothing.
  static auto one_element(leaf_at p, int i) {
    const auto get = [i](const T* from) {
      T x;
      std::memcpy(&x, from + i, sizeof x);
      return bitfold::arith::widen<A>(x);
    };
    if constexpr (F::takes == fold::input::two)
      return fold::pair_of<A>{get(p.x), get(p.y)};
    else if constexpr (F::takes == fold::input::placed)
      return fold::placed_at<A, std::int64_t>{get(p.x), static_cast<std::int64_t>(p.first) + i};
    else
      return get(p.x);
  }

  // [a0 . a1, a2 . a3, ..., b0 . b1, ...]; each of these is the state of `each` elements.
  BITFOLD_INLINE static state merge_pairs(state a, state b, index each) {
    return F::merge(state::zip([](auto x, auto y) BITFOLD_LAMBDA { return simd::even(x, y); }, a, b),
                    state::zip([](auto x, auto y) BITFOLD_LAMBDA { return simd::odd(x, y); }, a, b),
                    bitfold::fold::counts{each, each});
  }

  // All lanes of s, of `each` elements each, folded into one.
  BITFOLD_INLINE static auto fold_lanes(state s, index each) {
    for (int w = width; w > 1; w /= 2, each *= 2) s = merge_pairs(s, s, each);
    return s.map([](auto x) BITFOLD_LAMBDA { return simd::first(x); });
  }

  // Adjacent pairs, as order::fold_in_place, of vectors whose elements have `each` elements.
  template <int Count>
  BITFOLD_INLINE static void fold_vectors(state (&v)[Count], index each) {
    BITFOLD_UNROLL
    for (int step = 1; step < Count; step *= 2)
      BITFOLD_UNROLL
      for (int left = 0; left + step < Count; left += 2 * step)
        v[left] = merge_pairs(v[left], v[left + step], each * static_cast<index>(step));
  }

  BITFOLD_LEAF static state full_leaf(leaf_at p) {
    if constexpr (width == 1 && !is_plain_sum<F>) {
      return short_leaf_by_lanes(p, order::leaf);  // as good, and far less to compile
    } else {
      // Columns side by side: enough to hide an addition's latency, few enough for the registers.
      constexpr int beside = columns < 8 ? columns : 8;
      state v[columns / beside];
      BITFOLD_UNROLL_VECTORS
      for (int g = 0; g < columns / beside; ++g) {
        state lane[beside];
        F::lane_order::template fold<F, order::rows>(
            order::rows,
            [=](int r, int l) BITFOLD_LAMBDA {
              return element(p, r * order::lanes + (g * beside + l) * width);
            },
            lane);
        fold_vectors(lane, order::rows);
        v[g] = lane[0];
      }
      fold_vectors(v, order::rows * beside);
      return v[0];
    }
  }

  // A leaf of 1 <= size < order::leaf elements, lane by lane.
  static scalar_state short_leaf_by_lanes(leaf_at p, int size) {
    const int count = order::lane_count(size);
    scalar_state v[order::lanes];
    index each[order::lanes];
    for (int l = 0; l < count; ++l) {
      const int rows = order::lane_size(size, l);
      v[l] = method::fold_lane<F, order::rows>(rows,
                                               [=](int r) { return one_element(p, r * order::lanes + l); });
      each[l] = static_cast<index>(rows);
    }
    for (int step = 1; step < count; step *= 2)
      for (int l = 0; l + step < count; l += 2 * step) {
        v[l] = F::merge(v[l], v[l + step], bitfold::fold::counts{each[l], each[l + step]});
        each[l] += each[l + step];
      }
    return v[0];
  }

  static auto short_leaf(leaf_at p, int size) {
    using result = decltype(fold_lanes(full_leaf(p), order::rows));
    // Lanes of different lengths side by side would want a count each.
    if constexpr (F::counted || !std::is_same_v<result, scalar_state>) {
      return F::template settle<A>(short_leaf_by_lanes(p, size), 0);
    } else {
      if (size < order::lanes) return short_leaf_by_lanes(p, size);
      // The last row of lanes may be short; it is read from copies that may be over-read.
      const int rows = size / order::lanes, rest = size % order::lanes;
      T last_x[order::lanes] = {}, last_y[order::lanes] = {};
      const auto take = [=](T* to, const T* from) {
        std::memcpy(to, from + rows * order::lanes, static_cast<std::size_t>(rest) * sizeof(T));
      };
      take(last_x, p.x);
      if constexpr (F::takes == fold::input::two) take(last_y, p.y);
      const leaf_at last{last_x, last_y, p.first + static_cast<index>(rows * order::lanes)};
      state v[columns];
      for (int c = 0; c < columns; ++c) {
        const auto row = [&](int r) BITFOLD_LAMBDA {
          return r < rows ? element(p, r * order::lanes + c * width) : element(last, c * width);
        };
        const auto lane = [&](int count) BITFOLD_LAMBDA {
          return method::fold_lane<F, order::rows>(count, row);
        };
        const int longer = rest - c * width;  // lanes of this column that reach into the last row
        if (longer <= 0) {
          v[c] = lane(rows);
        } else if (longer >= width) {
          v[c] = lane(rows + 1);
        } else {
          v[c] = state::zip(
              [=](auto x, auto y) BITFOLD_LAMBDA { return simd::first_n_of(longer, x, y); },
              lane(rows + 1), lane(rows));
        }
      }
      fold_vectors(v, 0);
      return fold_lanes(v[0], 0);
    }
  }

  static target run(inputs data, index leaves, int tail, index first, void* out) {
    leaf_at p{static_cast<const T*>(data.x), static_cast<const T*>(data.y), 0};
    // A binary counter: entry k of `pending` is a complete subtree, larger than all entries after it.
    constexpr int group = 4;  // leaves folded at once, before the counter
    constexpr index of_group = group * order::leaf / width, of_leaf = order::leaf / width;
    state pending[32];
    index each[32];  // the elements in each lane of those
    int depth = 0;
    const auto push = [&](state s, index carries, index lane) BITFOLD_LAMBDA {
      for (; carries & 1; carries >>= 1, lane *= 2) s = merge_pairs(pending[--depth], s, lane);
      each[depth] = lane;
      pending[depth++] = s;
    };
    index l = 0;
    for (; l + group <= leaves; l += group) {
      state v[group];
      BITFOLD_UNROLL_VECTORS
      for (int i = 0; i < group; ++i) v[i] = full_leaf(ahead(p, i * order::leaf));
      fold_vectors(v, of_leaf);
      p = ahead(p, group * order::leaf);
      push(v[0], l / group, of_group);
    }
    // Leaves left over: their subtrees are smaller than any in the counter, so count anew above it.
    for (index i = 0; l + i < leaves; ++i, p = ahead(p, order::leaf)) push(full_leaf(p), i, of_leaf);

    using settled = decltype(F::template settle<A>(fold_lanes(pending[0], 1), first));
    bool have = tail > 0;
    settled total;
    index n = static_cast<index>(tail);
    if (have) total = F::template settle<A>(short_leaf(p, tail), first);
    while (depth > 0) {
      --depth;
      const settled s = F::template settle<A>(fold_lanes(pending[depth], each[depth]), first);
      const index here = each[depth] * width;
      total = have ? F::merge(s, total, bitfold::fold::counts{here, n}) : s;
      n += here;
      have = true;
    }
    static_assert(std::is_trivially_copyable_v<settled>);
    std::memcpy(out, &total, sizeof total);
    return this_target;
  }
};

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
        constexpr bool held = std::is_integral_v<A>          ? std::is_integral_v<T> && std::is_signed_v<T> == std::is_signed_v<A>
                              : std::is_same_v<A, float> ? !std::is_integral_v<T> && !std::is_same_v<T, double>
                                                         : true;
        if constexpr (std::is_same_v<T, A>)
          return {engine<Base, A, A>::run, nullptr};
        else if constexpr (!held)
          return {};  // not reached: make_reduction chose an A that holds T
        else if constexpr (is_plain_sum<Base> && std::is_integral_v<A> == std::is_integral_v<T>)
          return {engine<Base, T, A>::run, nullptr};
        else
          return {engine<Base, A, A>::run, convert<T, A>};
      });
    }
  });
}
