// Neighbouring outputs side by side, each in a lane of the vectors, where no output meets another:
// the canonical order is a loop over its lanes and a binary counter of these, of which full leaves
// are whole subtrees. Included once per target, after that target's `simd`, `arith`, `order`,
// `method` and `fold`, inside that target's namespace.

// A partial of numbers K as one of numbers A, which hold these.
template <class K, class A, class S>
auto partial_in(S s) {
  if constexpr (std::is_same_v<K, A> || !std::is_integral_v<K> || sizeof(K) == sizeof(A))
    return s;
  else
    return s.map([](auto x) {
      if constexpr (std::is_same_v<decltype(x), K>)
        return static_cast<A>(x);
      else
        return x;
    });
}
// That of a state of F; `first` is the index of its first element.
template <class F, class K, class A, class S>
auto partial_of(S s, order::index first) {
  return partial_in<K, A>(F::template rebase<K>(s, first));
}

// A leaf whose lanes are widened one by one, to elements of `size` bytes: each to the same place,
// where it stays in the first-level cache. `rows` is room for where its elements lie.
// (Compiled once, not in every fold's kernel; so is the next one.)
__attribute__((noinline)) inline column_leaf widened_leaf(const column_leaf& leaf, int outputs,
                                                          std::size_t size,
                                                          std::ptrdiff_t (&rows)[order::leaf]) {
  column_leaf to = leaf;
  const std::ptrdiff_t pitch = leaf.runs * outputs;
  for (int i = 0; i < leaf.size; ++i) rows[i] = i / order::lanes * pitch;
  to.x = leaf.widened;
  to.y = static_cast<std::byte*>(leaf.widened) + order::rows * pitch * size;
  to.x_rows = to.y_rows = rows;
  to.x_apart = to.y_apart = outputs;
  return to;
}
// The elements of a lane of it; memory is asked for the next one.
__attribute__((noinline)) inline void widen_lane(const column_leaf& leaf, int lane, int outputs,
                                                 std::size_t size) {
  const auto stored = static_cast<std::ptrdiff_t>(leaf.stored);
  auto* to = static_cast<std::byte*>(leaf.widened);
  const auto put = [&](const void* rows, const std::ptrdiff_t* offsets, std::ptrdiff_t apart) {
    for (int i = lane; i < leaf.size; i += order::lanes)
      for (int run = 0; run < leaf.runs; ++run, to += outputs * size) {
        const auto row = [&](int k) {
          return static_cast<const std::byte*>(rows) + (offsets[k] + run * apart) * stored;
        };
        const std::byte* const next = row(std::min(i + 1, leaf.size - 1));
        for (std::ptrdiff_t b = 0; b < outputs * stored; b += 64) __builtin_prefetch(next + b);
        leaf.widen(row(i), static_cast<std::size_t>(outputs), to);
      }
  };
  put(leaf.x, leaf.x_rows, leaf.x_apart);
  to = static_cast<std::byte*>(leaf.widened) + order::rows * leaf.runs * outputs * size;
  if (leaf.y) put(leaf.y, leaf.y_rows, leaf.y_apart);
}

// Of elements T, which are widened to K as they are loaded, with partials of numbers A.
template <class F, class T, class K, class A>
struct column_engine {
  using V = simd::vec<K>;
  using state = typename F::template state<V>;
  using scalar_state = typename F::template state<K>;
  using partial = decltype(partial_of<F, K, A>(std::declval<scalar_state>(), 0));
  static constexpr int width = simd::width<K>;
  static_assert(sizeof(state) <= width * sizeof(partial));
  // Whether a state is one vector, of its lanes' partials.
  static constexpr bool is_packed = std::is_same_v<partial, scalar_state> &&
                                    sizeof(state) == sizeof(V) &&
                                    sizeof(state) == width * sizeof(partial);

  static int vectors(int outputs) { return (outputs + width - 1) / width; }
  // The first output in vector v; the last vector may share outputs with the one before.
  static int first_in(int v, int outputs) { return std::min(v * width, outputs - width); }

  // The node of `Lanes` lanes from `lane` on, of `rows` elements each, of the outputs at x and y.
  // Where they lie in place, memory is asked for the next lanes, `ahead` of these: of a short leaf
  // a lane is too few rows for it to foresee them.
  template <int Lanes, class Rows>
  BITFOLD_INLINE static state lanes_of(const column_leaf& leaf, int lane, int ahead, Rows rows,
                                       const T* at_x, const T* at_y) {
    if constexpr (Lanes > 1) {
      const auto n = static_cast<order::index>(Lanes / 2 * rows);
      const state left = lanes_of<Lanes / 2>(leaf, lane, ahead, rows, at_x, at_y),
                  right = lanes_of<Lanes / 2>(leaf, lane + Lanes / 2, ahead, rows, at_x, at_y);
      return F::merge(left, right, bitfold::fold::counts{n, n});
    } else {
      return lane_of(leaf, lane, ahead, rows, at_x, at_y);
    }
  }
  template <class Rows>
  BITFOLD_INLINE static state lane_of(const column_leaf& leaf, int lane, int ahead, Rows rows,
                                      const T* at_x, [[maybe_unused]] const T* at_y) {
    return method::fold_lane<F, order::rows>(rows, [&](int r) BITFOLD_LAMBDA {
      const int i = r * order::lanes + lane, next = std::min(i + ahead, leaf.size - 1);
      __builtin_prefetch(at_x + leaf.x_rows[next]);
      const V x = simd::load<K>(at_x + leaf.x_rows[i]);
      if constexpr (F::element == fold::element_kind::pair)
        return fold::pair_of<V>{x, simd::load<K>(at_y + leaf.y_rows[i])};
      else if constexpr (F::element == fold::element_kind::indexed)
        return fold::indexed_element<V, arith::index_of<V>>{
            x, arith::index_constant(x, leaf.first + i)};
      else
        return x;
    });
  }

  template <int Lanes, class Rows>
  BITFOLD_INLINE static void push(column_counter& c, const column_leaf& leaf, int lane, Rows rows,
                                  int outputs) {
    const int of_run = vectors(outputs), count = leaf.runs * of_run,
              merges = std::countr_one(c.lanes / Lanes);
    order::index n = static_cast<order::index>(Lanes * rows);
    state* last = static_cast<state*>(c.pending) + c.depth * count;
    for (int run = 0; run < leaf.runs; ++run) {
      const T *const x = static_cast<const T*>(leaf.x) + run * leaf.x_apart, *y = x;
      if constexpr (F::element == fold::element_kind::pair)
        y = static_cast<const T*>(leaf.y) + run * leaf.y_apart;
      for (int v = 0; v < of_run; ++v, ++last) {
        const int output = first_in(v, outputs);
        state s = lanes_of<Lanes>(leaf, lane, Lanes, rows, x + output, y + output);
        state* entry = last;
        n = static_cast<order::index>(Lanes * rows);
        for (int k = 1; k <= merges; ++k) {
          entry -= count;
          const order::index left = c.elements[c.depth - k];
          s = F::merge(*entry, s, bitfold::fold::counts{left, n});
          n += left;
        }
        *entry = s;
      }
    }
    c.depth -= merges;
    c.elements[c.depth++] = n;
    c.lanes += Lanes;
  }

  static void add(column_counter& c, const column_leaf& leaf, int outputs) {
    const int lanes = order::lane_count(leaf.size);
    column_leaf taken = leaf;
    std::ptrdiff_t widened_rows[order::leaf];
    if (leaf.widen) taken = widened_leaf(leaf, outputs, sizeof(T), widened_rows);
    for (int l = 0; l < lanes;) {
      const int rows = order::lane_size(leaf.size, l);
      // Small states of several short lanes meet in registers.
      if constexpr (width > 1 && sizeof(state) == sizeof(V)) {
        if (!leaf.widen &&
            (push_several<8, 1>(c, taken, l, outputs) || push_several<4, 2>(c, taken, l, outputs) ||
             push_several<2, 4>(c, taken, l, outputs)))
          continue;
      }
      if (leaf.widen) widen_lane(leaf, l, outputs, sizeof(T));
      if (rows == order::rows)
        push<1>(c, taken, l, std::integral_constant<int, order::rows>(), outputs);
      else
        push<1>(c, taken, l, rows, outputs);
      ++l;
    }
  }
  // If that many lanes from l on are a node of lanes of so many elements.
  template <int Lanes, int Rows>
  BITFOLD_INLINE static bool push_several(column_counter& c, const column_leaf& leaf, int& l,
                                          int outputs) {
    if (l % Lanes != 0 || l + Lanes > order::lane_count(leaf.size) ||
        order::lane_size(leaf.size, l) != Rows ||
        order::lane_size(leaf.size, l + Lanes - 1) != Rows)
      return false;
    push<Lanes>(c, leaf, l, std::integral_constant<int, Rows>(), outputs);
    l += Lanes;
    return true;
  }

  static void total(const column_counter& c, int outputs, int runs, order::index first,
                    order::index apart, void* to) {
    const int of_run = vectors(outputs), count = runs * of_run;
    for (int v = 0; v < count; ++v) {
      const state* entry = static_cast<const state*>(c.pending) + (c.depth - 1) * count + v;
      state s = *entry;
      order::index n = c.elements[c.depth - 1];
      for (int k = c.depth - 2; k >= 0; --k) {
        entry -= count;
        s = F::merge(*entry, s, bitfold::fold::counts{c.elements[k], n});
        n += c.elements[k];
      }
      auto output = static_cast<order::index>(v / of_run * outputs + first_in(v % of_run, outputs));
      auto* out = static_cast<std::byte*>(to) + output * sizeof(partial);
      if constexpr (is_packed) {
        std::memcpy(out, &s, sizeof s);
        continue;
      }
      for (int i = 0; i < width; ++i, ++output, out += sizeof(partial)) {
        const partial p = partial_of<F, K, A>(
            s.map([=](auto x) BITFOLD_LAMBDA { return simd::lane(x, i); }), first + output * apart);
        std::memcpy(out, &p, sizeof p);
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
void transpose_rows(const A* x, const std::ptrdiff_t* rows, int count, int n, A* to, int pitch) {
  constexpr int width = simd::width<A>;
  // The next rows are mostly as far apart; to ask early for what is not there does nothing.
  const std::ptrdiff_t ahead = count > 1 ? width * (rows[1] - rows[0]) : 0;
  for (int k = 0; k < count; k += width)
    for (int i = 0; i < n; i += width) {
      const int taken = std::min(width, n - i);
      simd::vec<A> v[width];
      BITFOLD_UNROLL
      for (int j = 0; j < width; ++j) {
        const A* const p = x + rows[std::min(k + j, count - 1)] + i;
        __builtin_prefetch(p + ahead);
        v[j] = taken == width ? simd::load<A>(p) : simd::load_first<A>(p, taken);
      }
      exchange(v, [](auto f, simd::vec<A> a, simd::vec<A> b) BITFOLD_LAMBDA { return f(a, b); });
      A* const out = to + i * pitch + k;
      BITFOLD_UNROLL
      for (int j = 0; j < width; ++j)
        if (j < taken) simd::store<A>(v[j], out + j * pitch);
    }
}

template <class T, class A>
void transpose(const void* x, const std::ptrdiff_t* rows, int count, int n, void* to, int pitch) {
  const T* const from = static_cast<const T*>(x);
  if constexpr (std::is_same_v<T, A>) {
    transpose_rows<A>(from, rows, count, n, static_cast<A*>(to), pitch);
  } else {  // a vector of rows at a time, widened: all at once if nothing lies between them
    constexpr int width = simd::width<A>;
    A widened[width * order::leaf];
    std::ptrdiff_t begins[width];
    for (int k = 0; k < count; k += width) {
      const int taken = std::min(width, count - k);
      bool packed = true;
      for (int j = 1; j < taken; ++j) packed &= rows[k + j] == rows[k] + j * n;
      for (int j = 0; j < width; ++j) begins[j] = j * (packed ? n : order::leaf);
      if (packed)
        convert<T, A>(from + rows[k], static_cast<std::size_t>(taken * n), widened);
      else
        for (int j = 0; j < taken; ++j)
          convert<T, A>(from + rows[k + j], static_cast<std::size_t>(n), widened + begins[j]);
      transpose_rows<A>(widened, begins, taken, n, static_cast<A*>(to) + k, pitch);
    }
  }
}

// Some neighbouring lanes of a leaf, which begins at element `at`: of n elements each, and the
// first `longer` of one more.
struct lane_block {
  int begin, first, lanes, n, longer;

  bool mixed(int width) const { return longer > 0 && longer < width; }
  // In `count` lanes, of which `skipped` come before.
  order::index elements(int skipped, int count) const {
    return static_cast<order::index>(count * n + std::clamp(longer - skipped, 0, count));
  }
};
// What a row of `size` elements consists of, for vectors of `width` lanes.
template <int width>
struct row_plan {
  lane_block blocks[std::bit_width(unsigned{max_row / order::leaf}) + order::lanes / width];
  int leaves, nodes = 0, count = 0;  // full ones; their nodes; and all blocks

  explicit row_plan(int size) : leaves(size / order::leaf) {
    int begin = 0;
    for (int left = leaves; left > 0; ++nodes) {
      const int node = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
      blocks[count++] = {begin, 0, node * order::lanes, order::rows, 0};
      begin += node * order::leaf;
      left -= node;
    }
    const int n = (size - begin) / order::lanes, rest = (size - begin) % order::lanes;
    if (n > 0 && rest == 0) {
      blocks[count++] = {begin, 0, order::lanes, n, 0};
      return;
    }
    for (int first = 0; first < (n > 0 ? order::lanes : rest); first += width) {
      const int longer = std::clamp(rest - first, 0, width);
      blocks[count++] = {begin, first, n > 0 ? width : longer, n, longer};
    }
  }
};

// Outputs whose own elements lie in a row, as many at once as a vector has lanes: each is read from
// end to end as if it were alone: its full leaves into a counter's nodes, the others in runs of
// lanes that are complete subtrees. Before the lanes of one output would meet, they are exchanged
// for those of the others.
template <class F, class Source, class A>
struct row_engine {
  using K = typename Source::accumulator;
  using single = engine<F, Source>;
  using state = typename single::state;
  using partial = decltype(partial_of<F, K, A>(std::declval<typename single::scalar_state>(), 0));
  static constexpr int width = single::width, columns = single::columns;

  static int level_of(const lane_block& p) {
    return single::level_of(static_cast<unsigned>(std::max(p.lanes / width, 1)));
  }
  // Where row k's state belongs among those of all rows.
  static int place_of(const lane_block& p, int k) {
    return simd::place_among_vectors<K>(level_of(p), k);
  }

  // Those lanes of rows begin, ..., end - 1.
  BITFOLD_INLINE static void lanes_of(const Source (&rows)[width], int begin, int end,
                                      const lane_block& p, state (&v)[width]) {
    const auto for_each_row = [&](auto f) BITFOLD_LAMBDA {
      for (int k = begin; k < end; ++k) v[place_of(p, k)] = f(rows[k].ahead(p.begin));
    };
    if (p.lanes == order::lanes) {
      for_each_row([&](Source leaf) BITFOLD_LAMBDA {
        state v[columns];
        BITFOLD_UNROLL
        for (int c = 0; c < columns; ++c)
          v[c] = method::fold_lane<F, order::rows>(p.n, [&](int r) BITFOLD_LAMBDA {
            return leaf.elements(r * order::lanes + c * width);
          });
        single::fold_vectors(v, static_cast<order::index>(p.n), 0);
        return v[0];
      });
    } else {
      for_each_row([&](Source leaf) BITFOLD_LAMBDA {
        const auto last = leaf.first_elements(p.n * order::lanes + p.first, p.longer);
        return single::lanes_of(p.n, p.longer, [&](int r) BITFOLD_LAMBDA {
          return r < p.n ? leaf.elements(r * order::lanes + p.first) : last;
        });
      });
    }
  }

  // Adjacent pairs, as order::fold_in_place: lanes that are not there have no elements.
  BITFOLD_INLINE static void fold_lanes(state (&v)[width], const lane_block& p) {
    for (int step = 1; step < p.lanes; step *= 2)
      for (int l = 0; l + step < p.lanes; l += 2 * step)
        v[l] = F::merge(v[l], v[l + step],
                        bitfold::fold::counts{p.elements(l, step), p.elements(l + step, step)});
  }

  // A binary counter of runs of lanes, each a complete subtree but for the last.
  struct counter {
    static constexpr int max = std::bit_width(unsigned{max_row / order::rows}) + 1;
    state pending[max];
    order::index elements[max];  // elements
    int lanes[max], depth = 0;

    // The last run meets all before it.
    BITFOLD_INLINE void push(state s, int pushed, order::index n, bool last) {
      for (; depth > 0 && (last || lanes[depth - 1] == pushed); pushed *= 2) {
        --depth;
        s = F::merge(pending[depth], s, bitfold::fold::counts{elements[depth], n});
        n += elements[depth];
      }
      pending[depth] = s;
      lanes[depth] = pushed;
      elements[depth++] = n;
    }
  };

  // The full leaves of a row. (By itself: as part of run() it has too few registers.)
  __attribute__((noinline)) static void add_leaves(Source row, int leaves,
                                                   typename single::counter& c) {
    for (int l = 0; l < leaves; ++l)
      c.push(single::full_leaf(row.ahead(l * order::leaf)), static_cast<order::index>(l),
             single::leaf_lane_size, single::leaf_level);
  }

  static void run(const inputs* rows, int count, int n, void* to) {
    using T = std::remove_cvref_t<decltype(*Source{}.x)>;
    const row_plan<width> cut(n);
    auto* out = static_cast<std::byte*>(to);
    for (int done = 0; done < count; done += width) {
      state v[std::size(cut.blocks)][width];
      Source row[width];
      for (int k = 0; k < width; ++k) {
        const inputs& in = rows[std::min(done + k, count - 1)];
        row[k] = {static_cast<const T*>(in.x), static_cast<const T*>(in.y), 0};
      }
      // Memory likes long rows one by one.
      for (int k = 0, step = cut.leaves > 0 ? 1 : width; k < width; k += step) {
        if (cut.leaves > 0) {
          typename single::counter nodes;
          add_leaves(row[k], cut.leaves, nodes);
          for (int i = 0; i < cut.nodes; ++i) v[i][place_of(cut.blocks[i], k)] = nodes.pending[i];
        }
        for (int i = cut.nodes; i < cut.count; ++i) lanes_of(row, k, k + step, cut.blocks[i], v[i]);
      }
      counter c;
      for (int i = 0; i < cut.count; ++i) {
        const lane_block& p = cut.blocks[i];
        if (p.mixed(width) && (F::counted || p.n == 0)) {  // no subtree of lanes of one length
          exchange(v[i],
                   [](auto f, state a, state b) BITFOLD_LAMBDA { return state::zip(f, a, b); });
          fold_lanes(v[i], p);
        } else {
          single::fold_vectors(v[i], p.elements(0, p.lanes) / width, level_of(p));
        }
        c.push(v[i][0], p.lanes, p.elements(0, p.lanes), i == cut.count - 1);
      }
      const state s = c.pending[0];
      for (int k = 0; k < std::min(width, count - done); ++k, out += sizeof(partial)) {
        const partial p =
            partial_of<F, K, A>(s.map([=](auto x) BITFOLD_LAMBDA { return simd::lane(x, k); }), 0);
        std::memcpy(out, &p, sizeof p);
      }
    }
  }
};
