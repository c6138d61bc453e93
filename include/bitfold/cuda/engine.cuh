// The canonical order on a GPU. A warp folds a tile of 4 KiB at once: 32 threads x 8 rows x 16
// bytes, so that each thread owns 16 / sizeof(T) neighbouring lanes and a tile is a whole number of
// leaves for every type. A block folds a node of neighbouring tiles, one block folds the nodes.
// Lanes in a thread, threads in a warp, tiles in a block, nodes: each step is the same adjacent
// fold, further up the tree, and which warp or block takes which tile shows in no bit. Short arrays
// are latency-bound: each warp folds one leaf, one lane a thread, and each block several leaves.
#pragma once

#include <bitfold/cuda/device.cuh>
#include <bitfold/cuda/tile.hpp>
#include <bitfold/fold.hpp>

namespace bitfold::cuda {

template <class S>
__device__ S from_right(S s, int distance) {
  return s.map([=](auto v) { return shuffle_down(v, distance); });
}
template <class S>
__device__ S from_first(S s) {
  return s.map([](auto v) { return shuffle(v, 0); });
}

// Folds the states of the first `count` threads of a warp into its thread 0; or of every First-th
// of them, where others hold nothing. The states of `width` threads from thread `first` on are of
// n_of(first, width) elements.
template <class F, int First = 1, class S, class Count>
__device__ S fold_warp(S s, int count, Count n_of) {
  const int t = threadIdx.x % warp;
#pragma unroll
  for (int d = First; d < warp; d *= 2) {
    if (d >= count) break;
    const S right = from_right(s, d);
    if (t + d < count)
      s = F::merge(s, right,
                   fold::counts{n_of(t, d), n_of(t + d, t + 2 * d < count ? d : count - t - d)});
  }
  return s;
}

// The same where all threads of a warp, or of every Last of them, or the first `last`, a power of
// two, hold a state; of_width(width) says how many elements `width` threads have.
template <class F, int First = 1, int Last = warp, class S, class Count>
__device__ S fold_whole_warp(S s, Count of_width, int last = Last) {
#pragma unroll
  for (int d = First; d < Last; d *= 2) {
    if (d >= last) break;
    const index each = of_width(d);  // what other threads than every Last-th make of it is not used
    s = F::merge(s, from_right(s, d), fold::counts{each, each});
  }
  return s;
}

// Adjacent pairs, as order::fold_in_place; the states of `width` items from `first` on are of
// n_of(first, width) elements.
template <class F, int Max, class S, class Count>
__device__ void fold_owned(S (&v)[Max], int count, Count n_of) {
#pragma unroll
  for (int step = 1; step < Max; step *= 2) {
#pragma unroll
    for (int left = 0; left < Max; left += 2 * step) {
      if (left + step < Max) {
        if (left + step < count)
          v[left] = F::merge(
              v[left], v[left + step],
              fold::counts{
                  n_of(left, step),
                  n_of(left + step, left + 2 * step < count ? step : count - left - step)});
      }
    }
  }
}

// For runs of `span` elements each, the last of which may be shorter, of n elements in all.
struct equal_runs {
  index span, n;
  __device__ index operator()(int first, int width) const {
    const index begin = static_cast<index>(first) * span,
                end = begin + static_cast<index>(width) * span;
    return (end < n ? end : n) - begin;
  }
};
struct span_of {
  index span;
  __device__ index operator()(int width) const { return static_cast<index>(width) * span; }
};
// For the lanes of a leaf of `size` elements.
struct leaf_lanes {
  int size;
  __device__ index operator()(int first, int width) const {
    const int more = size % order::lanes - first;  // lanes from `first` on that have one row more
    return static_cast<index>(size / order::lanes * width + (more < 0       ? 0
                                                             : more < width ? more
                                                                            : width));
  }
};

// 16 bytes of elements, kept as the words they came in: the compiler would otherwise give every
// small element a register of its own.
template <class T>
struct pack {
  static constexpr int size = 16 / sizeof(T);
  using bits = std::conditional_t<
      sizeof(T) == 8, std::uint64_t,
      std::conditional_t<sizeof(T) == 4, std::uint32_t,
                         std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  std::uint32_t word[4];

  __device__ T operator[](int i) const {
    bits b;
    if constexpr (sizeof(T) == 8)
      b = bits{word[2 * i + 1]} << 32 | word[2 * i];
    else
      b = static_cast<bits>(word[i * sizeof(T) / 4] >> i * sizeof(T) % 4 * 8);
    if constexpr (std::is_class_v<T>)
      return T{b};
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(b);
    else
      return arith::bit_cast<T>(b);
  }
  __device__ void set(int i, bits b) {
    if constexpr (sizeof(T) == 8) {
      word[2 * i] = static_cast<std::uint32_t>(b);
      word[2 * i + 1] = static_cast<std::uint32_t>(b >> 32);
    } else {
      const int at = i * sizeof(T) % 4 * 8;
      word[i * sizeof(T) / 4] = (at ? word[i * sizeof(T) / 4] : 0) | std::uint32_t{b} << at;
    }
  }
};

// 16 bytes at p.
template <bool Aligned, class T>
__device__ pack<T> load_pack(const T* p) {
  pack<T> v;
  if constexpr (Aligned) {
    load_16_bytes(p, v.word);
  } else {
    const auto* q = reinterpret_cast<const typename pack<T>::bits*>(p);
#pragma unroll
    for (int i = 0; i < pack<T>::size; ++i) v.set(i, q[i]);
  }
  return v;
}

// A source of elements, at some place of the array: how a warp reads a tile, `owned` neighbouring
// lanes for each thread, order::rows of each. What a fold takes for an element is made by Take
// (below).

/// Whether a kernel knows that its elements are aligned to 16 bytes, knows that they are not, or
/// looks.
enum class alignment { known, missing, asked };

/// A thread's part of a tile, as it was read: whatever Take is.
template <class T, bool Two>
struct stored_tile {
  struct packs {
    pack<T> row[order::rows];
  };
  packs x;
  std::conditional_t<Two, packs, char> y;
};
template <class V, int Owned>
struct read_tile {
  V row[order::rows][Owned];
};

/// Elements T, read in packs of 16 bytes.
template <class Take, class T>
struct stored_elements {
  using parameters = elements;
  static constexpr bool two = Take::two;
  static constexpr bool small = !two;  // two tiles fit in the registers
  static constexpr int owned = 16 / sizeof(T);
  const T *x, *y;
  bool aligned;

  using raw = stored_tile<T, two>;
  using packs = typename raw::packs;
  __device__ static stored_elements at(const elements& from, index i) {
    return {static_cast<const T*>(from.x) + i, two ? static_cast<const T*>(from.y) + i : nullptr,
            from.aligned};
  }
  __device__ stored_elements ahead(int k) const { return {x + k, two ? y + k : y, aligned}; }
  template <alignment How>
  __device__ raw load() const {
    raw v;
    v.x = load_rows<How>(x);
    if constexpr (two) v.y = load_rows<How>(y);
    return v;
  }
  __device__ static auto get(const raw& v, int r, int i, int place) {
    if constexpr (two)
      return Take::element(v.x.row[r][i], v.y.row[r][i], place);
    else
      return Take::element(v.x.row[r][i], place);
  }
  // One element, made only when it is wanted: so several are on their way together.
  struct single {
    T x;
    std::conditional_t<two, T, char> y;
  };
  __device__ single one(int i) const {
    single s;
    s.x = x[i];
    if constexpr (two) s.y = y[i];
    return s;
  }
  BITFOLD_HD static auto made(const single& s, int place) {
    if constexpr (two)
      return Take::element(s.x, s.y, place);
    else
      return Take::element(s.x, place);
  }

 private:
  template <alignment How>
  __device__ packs load_rows(const T* p) const {
    packs v;
    if (How == alignment::known || (How == alignment::asked && aligned)) {
#pragma unroll
      for (int r = 0; r < order::rows; ++r) v.row[r] = load_pack<true>(p + r * order::lanes);
    } else {
#pragma unroll
      for (int r = 0; r < order::rows; ++r) v.row[r] = load_pack<false>(p + r * order::lanes);
    }
    return v;
  }
};

/// Elements that are values when they are read: one at a time from a Reader, `one(i)` and
/// `ahead(k)`.
template <class Take, class Reader>
struct read_elements {
  using parameters = typename Reader::parameters;
  static constexpr bool small = false;
  static constexpr int owned = Reader::two ? 2 : 4;
  Reader from;

  using single = typename Reader::single;
  using raw = read_tile<single, owned>;
  __device__ static read_elements at(const parameters& p, index i) { return {Reader::at(p, i)}; }
  __device__ read_elements ahead(int k) const { return {from.ahead(k)}; }
  template <alignment>
  __device__ raw load() const {
    raw v;
    from.read([&](auto one) {
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
#pragma unroll
        for (int i = 0; i < owned; ++i) v.row[r][i] = one(r * order::lanes + i);
    });
    return v;
  }
  __device__ static auto get(const raw& v, int r, int i, int place) {
    return Take::made(v.row[r][i], place);
  }
  __device__ single one(int i) const {
    single s;
    from.read([&](auto get_one) { s = get_one(i); });
    return s;
  }
  __device__ void load_lane(int first, int count, single (&x)[order::rows]) const {
    from.read([&](auto get_one) {
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
        if (r < count) x[r] = get_one(first + r * order::lanes);
    });
  }
  BITFOLD_HD static auto made(const single& s, int place) { return Take::made(s, place); }
};

// F: a fold without its finish. Source: where the elements are. A: what they are widened to.
template <class F, class Source, class A>
struct engine {
  static constexpr int owned = Source::owned;              // lanes of a thread
  static constexpr int group = order::lanes / owned;       // threads on a leaf
  static constexpr int tile = warp * owned * order::rows;  // elements
  static_assert(order::lanes == warp && group <= warp && tile % order::leaf == 0);

  __device__ static int leaf_of(int t) { return t / group; }
  __device__ static int lane_of(int t) { return t % group * owned; }

  template <class Get>
  __device__ static auto lane(int count, Get get) {
    return method::fold_lane<F, order::rows>(count, get);
  }
  struct any_element {
    BITFOLD_HD auto operator()(int) const {
      return decltype(Source::made(std::declval<typename Source::single>(), 0)){};
    }
  };
  // Places are counted from the start of the tile, or leaf.
  using local = decltype(method::fold_lane<F, order::rows>(1, any_element{}));
  /// What is kept of a tile and of all that is larger.
  using state = fold::partial<F, A>;

  // A thread's part of a full tile, as stored.
  using raw = typename Source::raw;
  template <alignment How>
  __device__ static raw load_tile(const Source& from) {
    const int t = threadIdx.x % warp;
    return from.ahead(leaf_of(t) * order::leaf + lane_of(t)).template load<How>();
  }
  // The lanes of a thread, all of their rows.
  __device__ static local fold_lanes(const raw& v) {
    const int t = threadIdx.x % warp, first = leaf_of(t) * order::leaf + lane_of(t);
    local s[owned];
#pragma unroll
    for (int i = 0; i < owned; ++i)
      s[i] = lane(order::rows,
                  [&](int r) { return Source::get(v, r, i, first + r * order::lanes + i); });
    fold_owned<F>(s, owned, [](int, int width) { return static_cast<index>(width * order::rows); });
    return s[0];
  }
  __device__ static local fold_tile(const raw& v) {
    return fold_whole_warp<F>(fold_lanes(v), elements_of_threads{});
  }

  // The rows that the lanes of this thread have of a tile of `size` elements, where that is a
  // multiple of `owned`: they have equally many.
  __device__ static int rows_of(int size) {
    const int t = threadIdx.x % warp,
              left = min(size - leaf_of(t) * order::leaf, order::leaf) - lane_of(t);
    return left <= 0 ? 0 : (left + order::lanes - 1) / order::lanes;
  }
  // Such a tile, of which the thread holds these rows.
  __device__ static local fold_rows(const raw& v, int rows, int size) {
    const int t = threadIdx.x % warp, first = leaf_of(t) * order::leaf + lane_of(t),
              leaf = min(size - leaf_of(t) * order::leaf, order::leaf);
    local s;
    if (rows > 0) {
      local each[owned];
#pragma unroll
      for (int i = 0; i < owned; ++i)
        each[i] =
            lane(rows, [&](int r) { return Source::get(v, r, i, first + r * order::lanes + i); });
      fold_owned<F>(each, owned, [=](int, int width) { return static_cast<index>(width * rows); });
      s = each[0];
    }
    const int lanes = leaf > 0 ? order::lane_count(leaf) : 0, own = lane_of(t);
#pragma unroll
    for (int d = owned; d < order::lanes; d *= 2) {
      const local right = from_right(s, d / owned);
      if (own + d < lanes)
        s = F::merge(s, right,
                     fold::counts{leaf_lanes{leaf}(own, d),
                                  leaf_lanes{leaf}(own + d, min(d, lanes - own - d))});
    }
    return fold_warp<F, group>(s, order::leaf_count(static_cast<index>(size)) * group,
                               elements_of_leaves{size});
  }

  // The last tile, 1 <= size < tile elements: full leaves as in a full tile, the short one by a
  // thread for each lane, then one with another. Kept out of line: its instructions would only be
  // in the way of the short kernels that don't need it.
  template <alignment How>
  __device__ __noinline__ static local short_tile(Source from, int size) {
    const int t = threadIdx.x % warp, full = size / order::leaf, rest = size % order::leaf;
    raw v;
    if (leaf_of(t) < full) v = load_tile<How>(from);
    typename Source::single x[order::rows];
    if constexpr (requires { from.load_lane(0, 0, x); }) {
      from.load_lane(full * order::leaf + t, order::lane_size(rest, t), x);
    } else {
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
        if (r * order::lanes + t < rest) x[r] = from.one(full * order::leaf + r * order::lanes + t);
    }
    local s;
    if (full > 0) {
      if (leaf_of(t) < full) s = fold_lanes(v);
      const local first = from_first(s);
      if (leaf_of(t) >= full) s = first;  // any state: it is merged, but not used
      s = fold_whole_warp<F, 1, group>(s, elements_of_threads{});
    }
    if (rest > 0) {
      local last;
      if (t < rest)
        last = lane(order::lane_size(rest, t), [&](int r) {
          return Source::made(x[r], full * order::leaf + r * order::lanes + t);
        });
      last = from_first(fold_warp<F>(last, order::lane_count(rest), leaf_lanes{rest}));
      if (t == full * group) s = last;
    }
    return fold_warp<F, group>(s, (full + (rest > 0)) * group, elements_of_leaves{size});
  }

  // A leaf of 1 <= size <= order::leaf elements from `begin` on, a thread for each lane. (Shared
  // with short_tile, its loads cost other kernels registers.)
  __device__ static local fold_leaf(const Source& from, int begin, int size) {
    const int t = threadIdx.x % warp, rows = order::lane_size(size, t), first = begin + t;
    typename Source::single x[order::rows];
    if constexpr (requires { from.load_lane(first, rows, x); }) {
      from.load_lane(first, rows, x);
    } else {
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
        if (r < rows) x[r] = from.one(first + r * order::lanes);
    }
    local s;
    if (rows > 0)
      s = lane(rows, [&](int r) { return Source::made(x[r], first + r * order::lanes); });
    if (size == order::leaf) return fold_whole_warp<F>(s, span_of{order::rows});
    return fold_warp<F>(s, order::lane_count(size), leaf_lanes{size});
  }

 private:
  // Elements of `width` threads, each with all rows of its lanes;
  struct elements_of_threads {
    __device__ index operator()(int width) const {
      return static_cast<index>(width * order::rows * owned);
    }
  };
  // of the leaves of these threads, in a tile of `size`.
  struct elements_of_leaves {
    int size;
    __device__ index operator()(int first, int width) const {
      const int begin = leaf_of(first) * order::leaf, end = leaf_of(first + width) * order::leaf;
      return static_cast<index>((end < size ? end : size) - begin);
    }
  };
};

// Of states, each of `span` elements, the last of fewer, of n in all: states 32 k to 32 k + 31 into
// folded[k], for k = first, first + step, ...
template <class F, class S>
__device__ void fold_every_warp(const S* states, S* folded, int count, index span, index n,
                                int first, int step) {
  const int t = threadIdx.x % warp;
  for (int k = first; k * warp < count; k += step) {
    const int here = count - k * warp;
    const index left = n - static_cast<index>(k) * warp * span;
    S s = states[k * warp + (t < here ? t : 0)];
    if (F::counted && left >= warp * span)  // nothing to find out
      s = fold_whole_warp<F>(s, span_of{span});
    else
      s = fold_warp<F>(s, here < warp ? here : warp, equal_runs{span, left});
    if (t == 0) folded[k] = s;
  }
}

// Folds `count` <= 1024 states in shared memory, visible to the block, into thread 0; each is of
// `span` elements, the last of fewer, of n in all. Room for count / 32 more states follows them.
template <class F, class S>
__device__ S fold_shared(S* states, int count, index span, index n) {
  const int w = threadIdx.x / warp, t = threadIdx.x % warp;
  if (count > warp) {
    S* folded = states + count;
    fold_every_warp<F>(states, folded, count, span, n, w, blockDim.x / warp);
    wait_for_the_block();
    states = folded;
    count = (count + warp - 1) / warp;
    span *= warp;
  }
  S s = states[t < count ? t : 0];
  if (w == 0) s = fold_warp<F>(s, count, equal_runs{span, n});
  return s;
}

// First pass: a block folds a node of up to `tiles` tiles of n elements, which have `before` others
// before them; without room for nodes a single one is the result. `how` writes the result:
// how.write<F, A>(state, n).
template <class F, class Source, class A, alignment How, class Result>
__global__ void __launch_bounds__(max_threads)
    fold_elements(typename Source::parameters data, index n, int tiles, index count, index before,
                  void* nodes, const __grid_constant__ Result how) {
  using E = engine<F, Source, A>;
  using S = typename E::state;
  let_the_next_kernel_start();
  S* const states = reinterpret_cast<S*>(shared_bytes);
  const int w = threadIdx.x / warp, t = threadIdx.x % warp, warps = blockDim.x / warp;
  for (index node = blockIdx.x; node < count; node += gridDim.x) {
    const index first = node * tiles * E::tile;
    const index left = n - first;  // elements from here on
    const int full = left / E::tile < tiles ? static_cast<int>(left / E::tile) : tiles;
    const int rest = full < tiles ? static_cast<int>(left % E::tile) : 0;
    const Source from = Source::at(data, first);
    const auto load = [&](int k) { return E::template load_tile<How>(from.ahead(k * E::tile)); };
    const auto keep = [&](int k, typename E::local s) {
      if (t == 0)
        states[k] = F::template rebase<A>(s, before + first + static_cast<index>(k) * E::tile);
    };
    if constexpr (!Source::small) {  // two tiles would not fit in the registers
      for (int k = w; k < full; k += warps) keep(k, E::fold_tile(load(k)));
    } else {
      // The next tile is on its way while this one is folded.
      typename E::raw next;
      if (w < full) next = load(w);
      for (int k = w; k < full; k += warps) {
        const typename E::raw here = next;
        if (k + warps < full) next = load(k + warps);
        keep(k, E::fold_tile(here));
      }
    }
    if (rest > 0 && w == full % warps)
      keep(full, E::template short_tile<How>(from.ahead(full * E::tile), rest));
    wait_for_the_block();
    const index here =
        left < static_cast<index>(tiles) * E::tile ? left : static_cast<index>(tiles) * E::tile;
    const S s = fold_shared<F>(states, full + (rest > 0), E::tile, here);
    if (threadIdx.x == 0) {
      if (count == 1 && nodes == nullptr)  // (asking for the second alone costs 20 registers)
        how.template write<F, A>(s, n);
      else
        static_cast<S*>(nodes)[node] = s;
    }
    if (node + gridDim.x < count) wait_for_the_block();
  }
}

// The same of short arrays, in nodes of as many leaves as a block has warps: each takes a leaf, a
// thread for each lane. Alone: of one node.
template <class F, class Source, class A, bool Alone, class Result>
__global__ void __launch_bounds__(max_threads)
    fold_leaves(typename Source::parameters data, int n, int before, void* nodes,
                const __grid_constant__ Result how) {
  using E = engine<F, Source, A>;
  using S = typename E::state;
  if (!Alone) let_the_next_kernel_start();
  S* const states = reinterpret_cast<S*>(shared_bytes);
  const int w = threadIdx.x / warp, t = threadIdx.x % warp, node = blockDim.x / warp * order::leaf;
  const int first = Alone ? 0 : static_cast<int>(blockIdx.x) * node,
            here = Alone ? n : min(n - first, node);
  const int count = (here + order::leaf - 1) / order::leaf, begin = first + w * order::leaf;
  S s;
  if (Alone || w < count)
    s = F::template rebase<A>(E::fold_leaf(Source::at(data, begin), 0, min(n - begin, order::leaf)),
                              before + begin);
  if (count > 1) {
    if (t == 0) states[w] = s;
    wait_for_the_block();
    if (w > 0) return;
    s = states[t < count ? t : 0];
    if (F::counted && here == count * order::leaf &&
        (count & (count - 1)) == 0)  // nothing to find out
      s = fold_whole_warp<F>(s, span_of{order::leaf}, count);
    else
      s = fold_warp<F>(s, count, equal_runs{order::leaf, static_cast<index>(here)});
  }
  if (threadIdx.x > 0) return;
  if constexpr (Alone)
    how.template write<F, A>(s, n);
  else
    static_cast<S*>(nodes)[blockIdx.x] = s;
}

// A block folds `count` <= nodes_per_warp * 1024 nodes of `span` elements each into thread 0;
// `states` is shared memory.
template <class F, class S>
__device__ S fold_all_nodes(const S* from, int count, index span, index n, S* states) {
  constexpr int own = nodes_per_warp / warp;
  const int t = threadIdx.x % warp, runs = (count + nodes_per_warp - 1) / nodes_per_warp;
  for (int k = threadIdx.x / warp; k < runs; k += blockDim.x / warp) {
    const int first = k * nodes_per_warp + t * own, here = count - first;
    const index left =
        n - static_cast<index>(k) * nodes_per_warp * span;  // elements from this run on
    S v[own];
#pragma unroll
    for (int i = 0; i < own; ++i)
      if (i < here) v[i] = from[first + i];
    fold_owned<F>(v, here < own ? here : own,
                  equal_runs{span, left - static_cast<index>(t) * own * span});
    const int threads = (count - k * nodes_per_warp + own - 1) / own;
    const S s = fold_warp<F>(v[0], threads < warp ? threads : warp, equal_runs{own * span, left});
    if (runs == 1) return s;  // of one warp, which is the block
    if (t == 0) states[k] = s;
  }
  wait_for_the_block();
  return fold_shared<F>(states, runs, nodes_per_warp * span, n);
}

// Second pass, one block.
template <class F, class A, class Result>
__global__ void __launch_bounds__(max_threads)
    fold_nodes(const void* nodes, int count, index span, index n,
               const __grid_constant__ Result how) {
  using S = fold::partial<F, A>;
  wait_for_the_kernel_before();
  const S s = fold_all_nodes<F>(static_cast<const S*>(nodes), count, span, n,
                                reinterpret_cast<S*>(shared_bytes));
  if (threadIdx.x == 0) how.template write<F, A>(s, n);
}

}  // namespace bitfold::cuda
