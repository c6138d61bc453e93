// The canonical order on one thread, in vectors. Included once per target, after that target's
// `simd`, `arith`, `order`, `method` and `fold`, inside that target's namespace.
//
// A vector holds neighbouring lanes, so the fold needs one step only: merge_pairs takes two
// neighbouring vectors of partial results and returns one, half as deep. Repeated within a leaf and
// then across leaves, that is the whole tree; the lanes of a vector are folded among themselves
// only at the very end of a run. How often it was repeated is the level of what it takes, by which
// `simd` knows where its lanes are.
//
// BITFOLD_LEAF is the specifier of the function that folds a leaf, BITFOLD_UNROLL_VECTORS stands
// before loops that are worth unrolling where they are over vectors.

template <class F>
inline constexpr bool is_plain_sum = false;
template <class M>
inline constexpr bool is_plain_sum<fold::additive<M, fold::identity>> = true;

// Folds whose arithmetic is so short that memory stays busy only if loads are issued in order. Only
// AVX-512's registers are loaded so: with smaller ones it takes a tenth longer in cache.
template <class F>
inline constexpr bool loads_in_order = false;
template <class M>
inline constexpr bool loads_in_order<fold::additive<M, fold::identity>> = !M::compensated;

// Folds of an instruction for each element. There most processors' own guesses of what is read next
// are as early as can be; elsewhere they fall behind.
template <class F>
inline constexpr bool is_light = loads_in_order<F>;
template <class Op>
inline constexpr bool is_light<fold::joined<Op, fold::identity>> = true;

/// The elements T of an array from the start of a leaf on, at any alignment, widened to A as fold F
/// takes them. `first` is the index of the leaf's first element. Other sources have the same
/// members.
template <class F, class T, class A>
struct array_elements {
  using accumulator = A;
  const T *x, *y;  // y where there are two inputs
  order::index first;

  BITFOLD_INLINE array_elements ahead(int elements) const {
    return {x + elements, F::element == fold::element_kind::pair ? y + elements : y,
            first + static_cast<order::index>(elements)};
  }
  /// As many neighbouring elements as a vector has, from element i of the leaf on.
  BITFOLD_INLINE auto elements(int i) const {
    return taken(i, [](const T* p) BITFOLD_LAMBDA { return simd::load<A>(p); });
  }
  /// Asks for what lies behind element i, so far ahead that it is there in time. Nothing is read
  /// where nothing is.
  BITFOLD_INLINE void ask_ahead(int i) const {
    constexpr int line = 64;
    if (i * static_cast<int>(sizeof(T)) % line != 0) return;
    const std::ptrdiff_t bytes = is_light<F> ? simd::bytes_ahead() : 2048;
    // (No function of its own: compilers see none of its effects, and drop its calls.)
    __builtin_prefetch(reinterpret_cast<const char*>(x + i) + bytes);
    if constexpr (F::element == fold::element_kind::pair)
      __builtin_prefetch(reinterpret_cast<const char*>(y + i) + bytes);
  }
  /// Element i of the leaf.
  auto element(int i) const {
    const auto get = [i](const T* array) {
      T e;
      std::memcpy(&e, array + i, sizeof e);
      return bitfold::arith::widen<A>(e);
    };
    if constexpr (F::element == fold::element_kind::pair)
      return fold::pair_of<A>{get(x), get(y)};
    else if constexpr (F::element == fold::element_kind::indexed)
      return fold::indexed_element<A, std::int64_t>{get(x), static_cast<std::int64_t>(first) + i};
    else
      return get(x);
  }
  /// The first n (if any) of the elements from element i on, at most as many as a vector has; then
  /// the zero that changes no sum.
  BITFOLD_INLINE auto first_elements(int i, int n) const {
    return taken(i,
                 [n](const T* p) BITFOLD_LAMBDA { return simd::load_first<A>(p, n > 0 ? n : 0); });
  }
  template <class Load>
  BITFOLD_INLINE auto taken(int i, Load load) const {
    const simd::vec<A> v = load(x + i);
    if constexpr (F::element == fold::element_kind::pair)
      return fold::pair_of<simd::vec<A>>{v, load(y + i)};
    else if constexpr (F::element == fold::element_kind::indexed)
      return fold::indexed_element<simd::vec<A>, decltype(simd::indices_from<A>(0))>{
          v, simd::indices_from<A>(first + static_cast<order::index>(i))};
    else
      return v;
  }
  /// `count` elements from element i on, less than a row, where they may be over-read.
  struct row {
    T x[order::lanes] = {}, y[order::lanes] = {};
    array_elements elements(order::index index) const { return {x, y, index}; }
  };
  row copy(int i, int count) const {
    row r;
    std::memcpy(r.x, x + i, static_cast<std::size_t>(count) * sizeof(T));
    if constexpr (F::element == fold::element_kind::pair)
      std::memcpy(r.y, y + i, static_cast<std::size_t>(count) * sizeof(T));
    return r;
  }
};

/// The leaves of an array, one behind the other. Others have the same members.
template <class Source>
struct leaves_in_a_row {
  Source at;
  /// Whether the next n lie one behind the other.
  static constexpr bool in_a_row(order::index) { return true; }
  /// Where the next n do; or the tail behind all.
  BITFOLD_INLINE Source next(order::index n) {
    const Source here = at;
    at = at.ahead(static_cast<int>(n) * order::leaf);
    return here;
  }
};

template <class F, class Source>
struct engine {
  using A = typename Source::accumulator;
  using V = simd::vec<A>;
  using state = typename F::template state<V>;
  using scalar_state = typename F::template state<A>;
  using index = order::index;
  static constexpr int width = simd::width<A>;
  static constexpr int columns = order::lanes / width;  // vectors in a row of lanes
  static_assert(columns * width == order::lanes);

  // [a0 . a1, a2 . a3, ..., b0 . b1, ...], wherever these lanes are; each is the state of
  // `elements_each` elements.
  BITFOLD_INLINE static state merge_pairs(state a, state b, index elements_each, int level) {
    return F::merge(
        state::zip([=](auto x, auto y) BITFOLD_LAMBDA { return simd::left_of_pairs(x, y, level); },
                   a, b),
        state::zip([=](auto x, auto y) BITFOLD_LAMBDA { return simd::right_of_pairs(x, y, level); },
                   a, b),
        bitfold::fold::counts{elements_each, elements_each});
  }

  // All lanes of s, of `elements_each` elements, folded into one.
  BITFOLD_INLINE static auto fold_lanes(state s, index elements_each, int level) {
    for (int w = width; w > 1; w /= 2, elements_each *= 2, ++level)
      s = merge_pairs(s, s, elements_each, level);
    return s.map([](auto x) BITFOLD_LAMBDA { return simd::first(x); });
  }

  // Adjacent pairs, as order::fold_in_place, of vectors whose lanes have `elements_each` elements.
  template <int Count>
  BITFOLD_INLINE static void fold_vectors(state (&v)[Count], index elements_each, int level) {
    BITFOLD_UNROLL
    for (int step = 1; step < Count; step *= 2) {
      BITFOLD_UNROLL
      for (int left = 0; left + step < Count; left += 2 * step)
        v[left] =
            merge_pairs(v[left], v[left + step], elements_each * static_cast<index>(step), level);
      ++level;
    }
  }
  // That of a vector which `vectors`, a power of two, were folded to.
  static constexpr int level_of(unsigned vectors) { return std::countr_zero(vectors); }
  static constexpr int leaf_level = level_of(columns);

  BITFOLD_LEAF static state full_leaf(Source p) {
    if constexpr (width == 1 && !is_plain_sum<F>) {
      return short_leaf_by_lanes(p, order::leaf);  // as fast, and far less to compile
    } else {
      // Columns side by side: enough to hide an addition's latency, few enough for the registers.
      constexpr int columns_at_once = columns < 8 ? columns : 8;
      state v[columns / columns_at_once];
      BITFOLD_UNROLL_VECTORS
      for (int g = 0; g < columns / columns_at_once; ++g) {
        state lane[columns_at_once];
        F::lane_order::template fold<F, order::rows>(
            order::rows,
            [=](int r, int l) BITFOLD_LAMBDA {
              const int i = r * order::lanes + (g * columns_at_once + l) * width;
              const auto x = p.elements(i);
              if constexpr (width > 1) p.ask_ahead(i);
              if constexpr (loads_in_order<F> && sizeof(V) == 64)
                return simd::in_order(x);
              else
                return x;
            },
            lane);
        fold_vectors(lane, order::rows, 0);
        v[g] = lane[0];
      }
      fold_vectors(v, order::rows * columns_at_once, level_of(columns_at_once));
      return v[0];
    }
  }

  // A leaf of 1 <= size < order::leaf elements, lane by lane.
  static scalar_state short_leaf_by_lanes(Source p, int size) {
    const int count = order::lane_count(size);
    scalar_state v[order::lanes];
    index elements_each[order::lanes];
    for (int l = 0; l < count; ++l) {
      const int rows = order::lane_size(size, l);
      v[l] = method::fold_lane<F, order::rows>(
          rows, [=](int r) { return p.element(r * order::lanes + l); });
      elements_each[l] = static_cast<index>(rows);
    }
    for (int step = 1; step < count; step *= 2)
      for (int l = 0; l + step < count; l += 2 * step) {
        v[l] = F::merge(v[l], v[l + step],
                        bitfold::fold::counts{elements_each[l], elements_each[l + step]});
        elements_each[l] += elements_each[l + step];
      }
    return v[0];
  }

  // The state of a vector's lanes: of n elements each, and, where longer > 0, the first `longer` of
  // them of one more. row(r) is their elements. They are folded twice where the lengths differ.
  template <class Row>
  BITFOLD_INLINE static state lanes_of(int n, int longer, Row row) {
    const auto lanes = [&](int count)
                           BITFOLD_LAMBDA { return method::fold_lane<F, order::rows>(count, row); };
    const state s = lanes(n + (longer > 0));
    if (n == 0 || longer <= 0 || longer >= width) return s;
    return state::zip([=](auto x, auto y) BITFOLD_LAMBDA { return simd::first_n_of(longer, x, y); },
                      s, lanes(n));
  }

  // Whether short leaves are folded in vectors. Counted folds are not: lanes of different lengths
  // would need a count each.
  static constexpr bool short_in_vectors() {
    using result = decltype(fold_lanes(std::declval<state>(), order::rows, 0));
    return width > 1 && !F::counted && std::is_same_v<result, scalar_state>;
  }

  static auto short_leaf(Source p, int size) {
    const int rows = size / order::lanes, rest = size % order::lanes;
    if constexpr (!short_in_vectors()) {
      return F::template rebase<A>(short_leaf_by_lanes(p, size), 0);
    } else if constexpr (is_plain_sum<F>) {
      if (size <= 8) return short_leaf_by_lanes(p, size);
      // Missing elements are the zero that changes no sum. It shows only in the signs of zeros
      // among kahan's errors, and these show in no result.
      state v[columns];
      for (int c = 0; c < columns; ++c)
        v[c] = method::fold_lane<F, order::rows>(rows + (rest > 0), [&](int r) BITFOLD_LAMBDA {
          const int i = r * order::lanes + c * width, left = size - i;
          return left >= width ? p.elements(i) : p.first_elements(i, left);
        });
      fold_vectors(v, 0, 0);
      return fold_lanes(v[0], 0, leaf_level);
    } else {
      if (size < order::lanes) return short_leaf_by_lanes(p, size);
      const auto copy = p.copy(rows * order::lanes, rest);
      const Source last = copy.elements(p.first + static_cast<index>(rows * order::lanes));
      state v[columns];
      for (int c = 0; c < columns; ++c) {
        v[c] = lanes_of(rows, rest - c * width, [&](int r) BITFOLD_LAMBDA {
          return r < rows ? p.elements(r * order::lanes + c * width) : last.elements(c * width);
        });
      }
      fold_vectors(v, 0, 0);
      return fold_lanes(v[0], 0, leaf_level);
    }
  }

  // Leaves that are folded before the counter takes their node. Larger states are merged as fast
  // one by one, and the code for four leaves is four times as long.
  static constexpr int leaves_at_once = is_plain_sum<F> || sizeof(state) == sizeof(V) ? 4 : 1;
  static constexpr index leaves_lane_size = leaves_at_once * order::leaf / width,
                         leaf_lane_size = order::leaf / width;
  template <class Leaves>
  BITFOLD_INLINE static state fold_leaves(Leaves& leaves) {
    if constexpr (leaves_at_once == 1) {
      return full_leaf(leaves.next(1));
    } else {
      state v[leaves_at_once];
      if (leaves.in_a_row(leaves_at_once)) {
        const Source p = leaves.next(leaves_at_once);
        BITFOLD_UNROLL_VECTORS
        for (int i = 0; i < leaves_at_once; ++i) v[i] = full_leaf(p.ahead(i * order::leaf));
      } else {
        for (state& s : v) one_leaf(leaves.next(1), s);
      }
      fold_vectors(v, leaf_lane_size, leaf_level);
      return v[0];
    }
  }
  __attribute__((noinline)) static void one_leaf(Source p, state& s) { s = full_leaf(p); }

  // A binary counter: entry k is a complete subtree, larger than all entries after it.
  struct counter {
    state pending[32];
    index lane_elements[32];  // the elements in each lane of those
    int depth = 0;
    // One more subtree, after `pushed` of the same size.
    BITFOLD_INLINE void push(state s, index pushed, index lane, int level) {
      for (; pushed & 1; pushed >>= 1, lane *= 2, ++level)
        s = merge_pairs(pending[--depth], s, lane, level);
      lane_elements[depth] = lane;
      pending[depth++] = s;
    }
  };

  /// Folds `count` full leaves, and a short one of `tail` elements behind them, into one partial.
  /// There is at least one element; the first one has index `first`.
  template <class Leaves>
  static auto run(Leaves leaves, index count, int tail, index first) {
    if (count == 0) return F::template rebase<A>(short_leaf(leaves.next(0), tail), first);
    counter c;
    for (index l = 0; l < count / leaves_at_once; ++l)
      c.push(fold_leaves(leaves), l, leaves_lane_size, leaf_level + level_of(leaves_at_once));
    // Leaves left over: their subtrees are smaller than any in the counter, so count anew above it.
    if constexpr (leaves_at_once > 1)
      for (index l = 0; l < count % leaves_at_once; ++l) {
        state s;
        one_leaf(leaves.next(1), s);
        c.push(s, l, leaf_lane_size, leaf_level);
      }

    using partial = decltype(F::template rebase<A>(fold_lanes(c.pending[0], 1, 0), first));
    bool has_total = tail > 0;
    partial total;
    index n = static_cast<index>(tail);
    if (has_total) total = F::template rebase<A>(short_leaf(leaves.next(0), tail), first);
    while (c.depth > 0) {
      --c.depth;
      const index lane = c.lane_elements[c.depth], left = lane * width;
      const int level = std::countr_zero(lane / order::rows);
      const partial s = F::template rebase<A>(fold_lanes(c.pending[c.depth], lane, level), first);
      total = has_total ? F::merge(s, total, bitfold::fold::counts{left, n}) : s;
      n += left;
      has_total = true;
    }
    return total;
  }
};
