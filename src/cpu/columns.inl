// Neighbouring outputs side by side, each in a lane of the vectors, where no output meets another:
// the canonical order is a loop over its lanes and a binary counter of these, of which full leaves
// are whole subtrees. Included once per target, after that target's `simd`, `arith`, `order`,
// `method` and `fold`, inside that target's namespace.

template <class F, class A>
struct side_by_side {
  using V = simd::vec<A>;
  using state = typename F::template state<V>;
  using settled = decltype(F::template settle<A>(std::declval<typename F::template state<A>>(), 0));
  static constexpr int width = simd::width<A>;
  static_assert(sizeof(state) <= width * sizeof(settled));

  static int vectors(int outputs) { return (outputs + width - 1) / width; }
  // The first output in vector v; the last vector may share outputs with the one before.
  static int first_in(int v, int outputs) { return std::min(v * width, outputs - width); }

  // Lane `lane`, of `rows` elements.
  template <class Rows>
  BITFOLD_INLINE static state lane_of(const column_leaf& leaf, int lane, Rows rows, int output) {
    return method::fold_lane<F, order::rows>(rows, [&](int r) BITFOLD_LAMBDA {
      const int i = r * order::lanes + lane;
      const V x = simd::load<A>(static_cast<const A*>(leaf.x) + leaf.x_rows[i] + output);
      if constexpr (F::takes == fold::input::two)
        return fold::pair_of<V>{
            x, simd::load<A>(static_cast<const A*>(leaf.y) + leaf.y_rows[i] + output)};
      else if constexpr (F::takes == fold::input::placed)
        return fold::placed_at<V, arith::place_of<V>>{x, arith::place(x, leaf.first + i)};
      else
        return x;
    });
  }

  template <class Rows>
  BITFOLD_INLINE static void push(column_counter& c, const column_leaf& leaf, int lane, Rows rows,
                                  int outputs) {
    const int all = vectors(outputs), merges = std::countr_one(c.lanes);
    order::index n = static_cast<order::index>(rows);
    for (int v = 0; v < all; ++v) {
      state s = lane_of(leaf, lane, rows, first_in(v, outputs));
      state* entry = static_cast<state*>(c.pending) + c.depth * all + v;
      n = static_cast<order::index>(rows);
      for (int k = 1; k <= merges; ++k) {
        entry -= all;
        const order::index left = c.each[c.depth - k];
        s = F::merge(*entry, s, bitfold::fold::counts{left, n});
        n += left;
      }
      *entry = s;
    }
    c.depth -= merges;
    c.each[c.depth++] = n;
    ++c.lanes;
  }

  static void add(column_counter& c, const column_leaf& leaf, int outputs) {
    const int lanes = order::lane_count(leaf.size);
    for (int l = 0; l < lanes; ++l) {
      const int rows = order::lane_size(leaf.size, l);
      if (rows == order::rows)
        push(c, leaf, l, std::integral_constant<int, order::rows>(), outputs);
      else
        push(c, leaf, l, rows, outputs);
    }
  }

  static void total(const column_counter& c, int outputs, order::index first, void* to) {
    const int all = vectors(outputs);
    for (int v = 0; v < all; ++v) {
      const state* entry = static_cast<const state*>(c.pending) + (c.depth - 1) * all + v;
      state s = *entry;
      order::index n = c.each[c.depth - 1];
      for (int k = c.depth - 2; k >= 0; --k) {
        entry -= all;
        s = F::merge(*entry, s, bitfold::fold::counts{c.each[k], n});
        n += c.each[k];
      }
      auto* out = static_cast<std::byte*>(to) +
                  static_cast<std::size_t>(first_in(v, outputs)) * sizeof(settled);
      for (int i = 0; i < width; ++i, out += sizeof(settled)) {
        const settled one = F::template settle<A>(
            s.map([=](auto x) BITFOLD_LAMBDA { return simd::lane(x, i); }), first);
        std::memcpy(out, &one, sizeof one);
      }
    }
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

// Lane i of v[k] becomes lane k of v[i]; zip(f, a, b) is f of the vectors of a and b. Each round
// moves the lowest bit of a value's lane to the top of its vector's number, and that one's lowest
// bit to the top of the lane's.
template <int Count, class V, class Zip>
BITFOLD_INLINE void exchange(V (&v)[Count], Zip zip) {
  BITFOLD_UNROLL
  for (int step = 1; step < Count; step *= 2) {
    V w[Count];
    BITFOLD_UNROLL
    for (int j = 0; j < Count / 2; ++j) {
      w[j] = zip([](auto x, auto y) BITFOLD_LAMBDA { return simd::even(x, y); }, v[2 * j],
                 v[2 * j + 1]);
      w[j + Count / 2] = zip([](auto x, auto y) BITFOLD_LAMBDA { return simd::odd(x, y); },
                             v[2 * j], v[2 * j + 1]);
    }
    std::copy_n(w, Count, v);
  }
}

// Element i of row k to to[i * pitch + k]; whole vectors of outputs, so that the last row may come
// several times.
template <class A>
void turn_rows(const A* x, const std::ptrdiff_t* rows, int count, int n, A* to, int pitch) {
  constexpr int width = simd::width<A>;
  // The next rows are mostly as far apart; to ask early for what is not there does nothing.
  const std::ptrdiff_t ahead = count > 1 ? width * (rows[1] - rows[0]) : 0;
  for (int k = 0; k < count; k += width)
    for (int i = 0; i < n; i += width) {
      const int here = std::min(width, n - i);
      simd::vec<A> v[width];
      BITFOLD_UNROLL
      for (int j = 0; j < width; ++j) {
        const A* const p = x + rows[std::min(k + j, count - 1)] + i;
        __builtin_prefetch(p + ahead);
        v[j] = here == width ? simd::load<A>(p) : simd::load_first<A>(p, here);
      }
      exchange(v, [](auto f, simd::vec<A> a, simd::vec<A> b) BITFOLD_LAMBDA { return f(a, b); });
      A* const out = to + i * pitch + k;
      BITFOLD_UNROLL
      for (int j = 0; j < width; ++j)
        if (j < here) simd::store<A>(v[j], out + j * pitch);
    }
}

template <class T, class A>
void turn(const void* x, const std::ptrdiff_t* rows, int count, int n, void* to, int pitch) {
  const T* const from = static_cast<const T*>(x);
  if constexpr (std::is_same_v<T, A>) {
    turn_rows<A>(from, rows, count, n, static_cast<A*>(to), pitch);
  } else {  // a vector of rows at a time, widened
    constexpr int width = simd::width<A>;
    A widened[width][order::leaf];
    std::ptrdiff_t begins[width];
    for (int k = 0; k < width; ++k) begins[k] = k * order::leaf;
    for (int k = 0; k < count; k += width) {
      const int here = std::min(width, count - k);
      for (int j = 0; j < here; ++j)
        convert<T, A>(from + rows[k + j], static_cast<std::size_t>(n), widened[j]);
      turn_rows<A>(widened[0], begins, here, n, static_cast<A*>(to) + k, pitch);
    }
  }
}

// Outputs whose own elements lie in a row, as many at once as a vector has lanes: each is read from
// end to end as if it were alone, in runs of lanes that are complete subtrees. Before the lanes of
// one output would meet, they are exchanged for those of the others.
template <class F, class Source>
struct row_by_row {
  using A = typename Source::accumulator;
  using alone = engine<F, Source>;
  using state = typename alone::state;
  using settled = decltype(F::template settle<A>(std::declval<typename alone::scalar_state>(), 0));
  static constexpr int width = alone::width, columns = alone::columns;

  // Some neighbouring lanes of a leaf, which begins at element `at`: of n elements each, and the
  // first `longer` of one more.
  struct piece {
    int at, first, lanes, n, longer;

    bool mixed() const { return longer > 0 && longer < width; }
    // In `count` lanes, of which `before` come before.
    order::index elements(int before, int count) const {
      return static_cast<order::index>(count * n + std::clamp(longer - before, 0, count));
    }
  };
  struct plan {
    piece each[most_row / order::leaf + columns];
    int full = 0, pieces = 0;  // leaves; and all

    explicit plan(int size) {
      int at = 0;
      for (; size - at >= order::leaf; at += order::leaf, ++full)
        each[pieces++] = {at, 0, order::lanes, order::rows, 0};
      const int n = (size - at) / order::lanes, rest = (size - at) % order::lanes;
      if (n > 0 && rest == 0) {
        each[pieces++] = {at, 0, order::lanes, n, 0};
        return;
      }
      for (int first = 0; first < (n > 0 ? order::lanes : rest); first += width) {
        const int longer = std::clamp(rest - first, 0, width);
        each[pieces++] = {at, first, n > 0 ? width : longer, n, longer};
      }
    }
  };

  // Those lanes of rows begin, ..., end - 1.
  BITFOLD_INLINE static void lanes_of(const Source (&rows)[width], int begin, int end,
                                      const piece& p, state (&v)[width]) {
    const auto each = [&](auto f) BITFOLD_LAMBDA {
      for (int k = begin; k < end; ++k) v[k] = f(rows[k].ahead(p.at));
    };
    if (p.lanes == order::lanes) {
      each([&](Source leaf) BITFOLD_LAMBDA {
        state v[columns];
        BITFOLD_UNROLL
        for (int c = 0; c < columns; ++c)
          v[c] = method::fold_lane<F, order::rows>(p.n, [&](int r) BITFOLD_LAMBDA {
            return leaf.elements(r * order::lanes + c * width);
          });
        alone::fold_vectors(v, static_cast<order::index>(p.n));
        return v[0];
      });
    } else {
      each([&](Source leaf) BITFOLD_LAMBDA {
        const auto lanes = [&](int n) BITFOLD_LAMBDA {
          return method::fold_lane<F, order::rows>(n, [&](int r) BITFOLD_LAMBDA {
            const int at = r * order::lanes + p.first;
            return r < p.n ? leaf.elements(at) : leaf.first_elements(at, p.longer);
          });
        };
        const state s = lanes(p.n + (p.longer > 0));
        if (p.n == 0 || !p.mixed()) return s;
        return state::zip([&](auto x, auto y)
                              BITFOLD_LAMBDA { return simd::first_n_of(p.longer, x, y); },
                          s, lanes(p.n));
      });
    }
  }

  // Adjacent pairs, as order::fold_in_place: lanes that are not there have no elements.
  BITFOLD_INLINE static void fold_lanes(state (&v)[width], const piece& p) {
    for (int step = 1; step < p.lanes; step *= 2)
      for (int l = 0; l + step < p.lanes; l += 2 * step)
        v[l] = F::merge(v[l], v[l + step],
                        bitfold::fold::counts{p.elements(l, step), p.elements(l + step, step)});
  }

  // A binary counter of runs of lanes, each a complete subtree but for the last.
  struct counter {
    static constexpr int most = std::bit_width(unsigned{most_row / order::rows}) + 1;
    state pending[most];
    order::index each[most];  // elements
    int lanes[most], depth = 0;

    BITFOLD_INLINE void merge_last(state& s, order::index& n) {
      --depth;
      s = F::merge(pending[depth], s, bitfold::fold::counts{each[depth], n});
      n += each[depth];
    }
    BITFOLD_INLINE void push(state s, int here, order::index n) {
      for (; depth > 0 && lanes[depth - 1] == here; here *= 2) merge_last(s, n);
      pending[depth] = s;
      lanes[depth] = here;
      each[depth++] = n;
    }
    BITFOLD_INLINE state total() {
      state s = pending[--depth];
      for (order::index n = each[depth]; depth > 0;) merge_last(s, n);
      return s;
    }
  };

  static void run(const inputs* rows, int count, int n, void* to) {
    using T = std::remove_cvref_t<decltype(*Source{}.x)>;
    const plan cut(n);
    auto* out = static_cast<std::byte*>(to);
    for (int done = 0; done < count; done += width) {
      state v[std::size(cut.each)][width];
      Source row[width];
      for (int k = 0; k < width; ++k) {
        const inputs& in = rows[std::min(done + k, count - 1)];
        row[k] = {static_cast<const T*>(in.x), static_cast<const T*>(in.y), 0};
      }
      // Memory likes long rows one by one.
      for (int k = 0, some = cut.full ? 1 : width; k < width; k += some) {
        for (int i = 0; i < cut.full; ++i) v[i][k] = alone::full_leaf(row[k].ahead(cut.each[i].at));
        for (int i = cut.full; i < cut.pieces; ++i) lanes_of(row, k, k + some, cut.each[i], v[i]);
      }
      counter c;
      for (int i = 0; i < cut.pieces; ++i) {
        const piece& p = cut.each[i];
        if (p.mixed() && (F::counted || p.n == 0)) {  // no subtree of lanes of one length
          exchange(v[i],
                   [](auto f, state a, state b) BITFOLD_LAMBDA { return state::zip(f, a, b); });
          fold_lanes(v[i], p);
        } else {
          alone::fold_vectors(v[i], p.elements(0, p.lanes) / width);
        }
        c.push(v[i][0], p.lanes, p.elements(0, p.lanes));
      }
      const state s = c.total();
      for (int k = 0; k < std::min(width, count - done); ++k, out += sizeof(settled)) {
        const settled one = F::template settle<A>(
            s.map([=](auto x) BITFOLD_LAMBDA { return simd::lane(x, k); }), 0);
        std::memcpy(out, &one, sizeof one);
      }
    }
  }
};
