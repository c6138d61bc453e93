// The canonical order on one thread, in vectors. Included once per target, after that target's `simd`,
// `arith`, `order` and `method`, inside that target's namespace.
//
// A vector holds neighbouring lanes, so the fold needs one step only: merge_pairs takes two
// neighbouring vectors of partial results and returns one, half as deep. Repeated within a leaf and
// then across leaves, that is the whole tree; the lanes of a vector are folded among themselves only at
// the very end of a run.

template <class M, class T, class A>
struct engine {
  using V = simd::vec<A>;
  using state = typename M::template state<V>;
  using scalar_state = typename M::template state<A>;
  static constexpr int width = simd::width<A>;
  static constexpr int columns = order::lanes / width;  // vectors in a row of lanes
  static_assert(columns * width == order::lanes);

  // [a0 . a1, a2 . a3, ..., b0 . b1, ...]
  BITFOLD_INLINE static state merge_pairs(state a, state b) {
    return M::merge(state::zip([](V x, V y) BITFOLD_LAMBDA { return simd::even(x, y); }, a, b),
                    state::zip([](V x, V y) BITFOLD_LAMBDA { return simd::odd(x, y); }, a, b));
  }

  // All lanes of s folded into one.
  BITFOLD_INLINE static scalar_state fold_lanes(state s) {
    for (int w = width; w > 1; w /= 2) s = merge_pairs(s, s);
    return s.map([](V x) BITFOLD_LAMBDA { return simd::first(x); });
  }

  BITFOLD_INLINE static state full_leaf(const T* p) {
    // Columns side by side: enough to hide an addition's latency, few enough for the registers.
    constexpr int beside = columns < 8 ? columns : 8;
    state v[columns / beside];
    BITFOLD_UNROLL
    for (int g = 0; g < columns / beside; ++g) {
      state lane[beside];
      M::lane_order::template fold<M, order::rows>(
          order::rows,
          [=](int r, int l) BITFOLD_LAMBDA {
            return simd::load<A>(p + r * order::lanes + (g * beside + l) * width);
          },
          lane);
      order::fold_in_place(lane, beside, merge_pairs);
      v[g] = lane[0];
    }
    order::fold_in_place(v, columns / beside, merge_pairs);
    return v[0];
  }

  // A leaf of 1 <= size < order::leaf elements.
  static scalar_state short_leaf(const T* p, int size) {
    if (size < order::lanes) {
      scalar_state v[order::lanes];
      for (int i = 0; i < size; ++i) {
        T x;
        std::memcpy(&x, p + i, sizeof x);  // p may be aligned to nothing
        v[i] = M::start(bitfold::arith::widen<A>(x));
      }
      for (int step = 1; step < size; step *= 2)
        for (int i = 0; i + step < size; i += 2 * step) v[i] = M::merge(v[i], v[i + step]);
      return v[0];
    }
    // The last row of lanes may be short; it is read from a copy that may be over-read.
    const int rows = size / order::lanes, rest = size % order::lanes;
    T last_row[order::lanes] = {};
    std::memcpy(last_row, p + rows * order::lanes, rest * sizeof(T));
    state v[columns];
    for (int c = 0; c < columns; ++c) {
      const auto row = [&](int r) BITFOLD_LAMBDA {
        return simd::load<A>((r < rows ? p + r * order::lanes : last_row) + c * width);
      };
      const auto lane = [&](int count) BITFOLD_LAMBDA {
        return method::fold_lane<M, order::rows>(count, row);
      };
      const int longer = rest - c * width;  // lanes of this column that reach into the last row
      if (longer <= 0) {
        v[c] = lane(rows);
      } else if (longer >= width) {
        v[c] = lane(rows + 1);
      } else {
        v[c] = state::zip(
            [=](V x, V y) BITFOLD_LAMBDA { return simd::first_n_of(longer, x, y); }, lane(rows + 1),
            lane(rows));
      }
    }
    order::fold_in_place(v, columns, merge_pairs);
    return fold_lanes(v[0]);
  }

  static target run(const void* data, order::index leaves, int tail, void* out) {
    const T* p = static_cast<const T*>(data);
    // A binary counter: entry k of `pending` is a complete subtree, larger than all entries after it.
    constexpr int group = 4;  // leaves folded at once, before the counter
    state pending[64];
    int depth = 0;
    const auto push = [&](state s, order::index carries) BITFOLD_LAMBDA {
      for (; carries & 1; carries >>= 1) s = merge_pairs(pending[--depth], s);
      pending[depth++] = s;
    };
    order::index l = 0;
    for (; l + group <= leaves; l += group) {
      state v[group];
      BITFOLD_UNROLL
      for (int i = 0; i < group; ++i) v[i] = full_leaf(p + i * order::leaf);
      order::fold_in_place(v, group, merge_pairs);
      p += group * order::leaf;
      push(v[0], l / group);
    }
    // Leaves left over: their subtrees are smaller than any in the counter, so count anew above it.
    for (order::index i = 0; l + i < leaves; ++i, p += order::leaf) push(full_leaf(p), i);

    bool have = tail > 0;
    scalar_state total;
    if (have) total = short_leaf(p, tail);
    while (depth > 0) {
      const scalar_state s = fold_lanes(pending[--depth]);
      total = have ? M::merge(s, total) : s;
      have = true;
    }
    static_assert(sizeof total <= sizeof(state_storage) &&
                  std::is_trivially_copyable_v<scalar_state>);
    std::memcpy(out, &total, sizeof total);
    return this_target;
  }
};

// The method of this namespace with the same name as the portable one.
template <class M>
struct same_method;
template <>
struct same_method<bitfold::method::tree> {
  using type = method::tree;
};
template <>
struct same_method<bitfold::method::pairwise> {
  using type = method::pairwise;
};
template <>
struct same_method<bitfold::method::kahan> {
  using type = method::kahan;
};

inline kernel find(const reduction& r) {
  return detail::dispatch(r, []<class K>(K) -> kernel {
    if constexpr (std::is_same_v<typename K::method, bitfold::method::sequential>)
      return nullptr;
    else
      return engine<typename same_method<typename K::method>::type, typename K::element,
                    typename K::accumulator>::run;
  });
}
