// Parts of kernels of many outputs: what a thread, a warp and a block fold.
#pragma once

#include <bitfold/cuda/engine.cuh>

namespace bitfold::cuda {

// One element, as load_pack has them, as its bits.
template <class T>
__device__ typename pack<T>::bits load_one(const T* p) {
  typename pack<T>::bits b;
  if constexpr (sizeof(T) > 1)
    load_bytes(p, b);
  else
    b = arith::bit_cast<typename pack<T>::bits>(*p);
  return b;
}

// The bytes from `offset` < 16 on of two packs, one behind the other, at multiples of an element.
template <class T>
__device__ pack<T> across(const pack<T>& low, const pack<T>& high, int offset) {
  std::uint32_t w[8] = {low.word[0],  low.word[1],  low.word[2],  low.word[3],
                        high.word[0], high.word[1], high.word[2], high.word[3]};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = offset & 8 ? w[i + 2] : w[i];
  if constexpr (sizeof(T) < 8)
#pragma unroll
    for (int i = 0; i < 5; ++i) w[i] = offset & 4 ? w[i + 1] : w[i];
  pack<T> v;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    v.word[i] = sizeof(T) < 4 ? shift_right_across(w[i], w[i + 1], offset % 4 * 8) : w[i];
  return v;
}
// The rows of a leaf at any address, by the threads that have its lanes: each reads aligned packs,
// and what lies behind them has the thread to its right; for the last one the first, a row on. So
// up to 14 bytes ahead of the leaf are read, and 16 behind.
template <class T>
__device__ void load_leaf_across(const T* p, pack<T> (&row)[order::rows]) {
  constexpr int group = order::lanes / pack<T>::size;
  const int t = threadIdx.x % warp, k = t % group;
  const unsigned together = (group < warp ? (1u << group % warp) - 1 : all_threads) << (t - k);
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const T* const aligned = reinterpret_cast<const T*>(address & ~std::uintptr_t{15});
  pack<T> low[order::rows + 1];
#pragma unroll
  for (int r = 0; r < order::rows; ++r) low[r] = load_pack<true>(aligned + r * order::lanes);
  if (k == 0) low[order::rows] = load_pack<true>(aligned + order::rows * order::lanes);
#pragma unroll
  for (int r = 0; r < order::rows; ++r) {
    pack<T> high;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      high.word[i] = shuffle_among(together, k == 0 ? low[r + 1].word[i] : low[r].word[i],
                                   (k + 1) % group, group);
    row[r] = across(low[r], high, static_cast<int>(address % 16));
  }
}

// A binary counter of states in one thread: they come in order, and all but the last are of as many
// elements. In registers, unless there are many.
template <class F, class S, int Levels>
struct thread_counter {
  static constexpr int unrolled = Levels <= 6 ? Levels : 1;
  S pending[Levels];
  index each[Levels];
  unsigned full = 0;

  __device__ void push(S s, index n) {
    bool placed = false;
#pragma unroll unrolled
    for (int l = 0; l < Levels; ++l) {
      if (placed) continue;
      if (full >> l & 1) {
        s = F::merge(pending[l], s, fold::counts{each[l], n});
        n += each[l];
        full &= ~(1u << l);
      } else {
        pending[l] = s;
        each[l] = n;
        full |= 1u << l;
        placed = true;
      }
    }
  }
  __device__ S total() const {
    S s{};
    index n = 0;
#pragma unroll unrolled
    for (int l = 0; l < Levels; ++l) {
      if (!(full >> l & 1)) continue;
      s = n > 0 ? F::merge(pending[l], s, fold::counts{each[l], n}) : pending[l];
      n += each[l];
    }
    return s;
  }
};

// Columns: the states of neighbouring outputs, folded together.
template <class S, int Many>
struct states_of_many {
  S each[Many];
};
template <class F, int Many>
struct fold_of_many {
  template <class S>
  __device__ static S merge(const S& a, const S& b, fold::counts n) {
    S s;
#pragma unroll
    for (int p = 0; p < Many; ++p) s.each[p] = F::merge(a.each[p], b.each[p], n);
    return s;
  }
};

// A tile of `size` elements by a warp, leaf by leaf, a lane to each thread; the state is thread
// 0's. Out of line, as it is for what cannot be read in packs.
template <class F, class Source, class A>
__device__ __noinline__ auto fold_by_leaves(Source from, int size) {
  using E = engine<F, Source, A>;
  using local = typename E::local;
  static_assert(E::tile / order::leaf < 32);
  thread_counter<F, local, 5> leaves;
  int begin = 0;
  if constexpr (Source::has_lines) {
    constexpr int beside = 4;
    static_assert(beside * order::rows == warp);  // as lines_by_rows has them
    // Several leaves at once, so that many loads are on their way: as registers allow.
    constexpr int at_once = Source::two && sizeof(local) > sizeof(A) ? 2 : beside;
    const auto fold_beside = [&](auto lines_from) {
      const int t = threadIdx.x % warp;
#pragma unroll 1
      for (; size - begin >= beside * order::leaf; begin += beside * order::leaf) {
        const auto lines = lines_from(begin);
#pragma unroll 1
        for (int first = 0; first < beside; first += at_once) {
          const auto place = [=](int b, int r) {
            return (first + b) * order::leaf + r * order::lanes + t;
          };
          typename Source::single x[at_once][order::rows];
#pragma unroll
          for (int b = 0; b < at_once; ++b)
#pragma unroll
            for (int r = 0; r < order::rows; ++r) x[b][r] = lines.one(place(b, r));
#pragma unroll
          for (int b = 0; b < at_once; ++b) {
            const local s = method::fold_lane<F, order::rows>(
                order::rows, [&](int r) { return Source::made(x[b][r], begin + place(b, r)); });
            leaves.push(fold_whole_warp<F>(s, span_of{order::rows}), order::leaf);
          }
        }
      }
    };
    if (from.find.linear)
      fold_beside([&](int i) { return line_of(from.ahead(static_cast<index>(i))); });
    else if (from.find.run() >= beside * order::leaf)
      fold_beside([&](int i) { return lines_of(from, i); });
    else if (from.find.run() >= order::lanes)
      fold_beside([&](int i) { return lines_by_rows(from, i); });
  }
#pragma unroll 1
  for (; begin < size; begin += order::leaf) {
    const int here = min(order::leaf, size - begin);
    leaves.push(E::fold_leaf(from, begin, here), static_cast<index>(here));
  }
  return leaves.total();
}

// A tile of `size` elements by a warp.
template <class F, class Source, class A>
__device__ auto fold_found_tile(const Source& tile, int size) {
  using E = engine<F, Source, A>;
  if constexpr (Source::in_packs)
    return size == E::tile ? E::fold_tile(E::template load_tile<alignment::known>(tile))
                           : E::template short_tile<alignment::known>(tile, size);
  else
    return fold_by_leaves<F, Source, A>(tile, size);
}

// `here` elements from `at` on, a node, by a block; the state is thread 0's. of_tiles: room for its
// tiles' states, and more.
template <class F, class Source, class A>
__device__ auto fold_node(const Source& from, index at, index here, fold::partial<F, A>* of_tiles) {
  using E = engine<F, Source, A>;
  const int w = threadIdx.x / warp, t = threadIdx.x % warp, warps = blockDim.x / warp;
  const int full = static_cast<int>(here / E::tile), rest = static_cast<int>(here % E::tile),
            count = full + (rest > 0);
  const auto place = [=](int j) { return at + static_cast<index>(j) * E::tile; };
  const auto keep = [&](int j, typename E::local s) {
    if (t == 0) of_tiles[j] = F::template rebase<A>(s, place(j));
  };
  // Where that is quicker, the next tile is on its way while this one is folded.
  if constexpr (Source::template read_ahead<fold::partial<F, A>>) {
    const auto load = [&](int j) {
      return E::template load_tile<alignment::known>(from.ahead(place(j)));
    };
    typename E::raw next;
    if (w < full) next = load(w);
    for (int j = w; j < full; j += warps) {
      const typename E::raw tile = next;
      if (j + warps < full) next = load(j + warps);
      keep(j, E::fold_tile(tile));
    }
    if (rest > 0 && w == full % warps)
      keep(full, E::template short_tile<alignment::known>(from.ahead(place(full)), rest));
  } else {
    for (int j = w; j < count; j += warps)
      keep(j, fold_found_tile<F, Source, A>(from.ahead(place(j)), j < full ? E::tile : rest));
  }
  wait_for_the_block();
  const auto s = fold_shared<F>(of_tiles, count, E::tile, here);
  wait_for_the_block();
  return s;
}

}  // namespace bitfold::cuda
