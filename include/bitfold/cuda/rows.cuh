// Row functions on a GPU: warps fold a row together, tile by tile, and each gives its own tiles
// their results, from registers if these hold them all.
#pragma once

#include <bitfold/cuda/folds.cuh>
#include <bitfold/cuda/packets.cuh>
#include <bitfold/cuda/rows.hpp>
#include <bitfold/row_functions.hpp>
#include <bitfold/row_inputs.hpp>

namespace bitfold::cuda {

struct nothing {};

// Where a row of channels begins: with which of them, and its place in the row.
struct place_among_channels {
  int first, inner, at;
};

// The elements of a row: a source for the engine (engine.cuh), with Owned neighbouring lanes to a
// thread.
template <class F, class T, int Owned>
struct row_source {
  using A = row::accumulator<T>;
  static constexpr bool in_packs = true, has_lines = false;
  template <class State>
  static constexpr bool read_ahead = false;
  static constexpr int owned = Owned;
  using some = packet<T, Owned>;
  const T *x, *y, *w, *b;
  row::statistics<A> known;  // before the fold
  std::conditional_t<F::by_channel, place_among_channels, nothing> channels;

  template <bool There>
  using maybe = std::conditional_t<There, some, nothing>;
  struct raw {
    some x[order::rows];
    maybe<F::takes_y> y[order::rows];
    maybe<F::weighted> w[order::rows];
    row::statistics<A> known;
  };
  struct single {
    row::element<A> e;
    row::statistics<A> known;
  };
  __device__ row_source ahead(index k) const {
    if constexpr (F::by_channel)
      return {x + k, y,     w,
              b,     known, {channels.first, channels.inner, channels.at + static_cast<int>(k)}};
    else
      return {x + k, F::takes_y ? y + k : y, w ? w + k : w, b ? b + k : b, known, {}};
  }
  template <alignment>
  __device__ raw load() const {
    return load_some<order::rows>(order::rows);
  }
  /// The first `rows` <= Most rows of a leaf.
  template <int Most>
  __device__ raw load_some(int rows) const {
    raw v;
#pragma unroll
    for (int r = 0; r < Most; ++r) {
      if (r >= rows) break;
      v.x[r] = some::load(x + r * order::lanes);
      if constexpr (F::takes_y) v.y[r] = some::load(y + r * order::lanes);
      if constexpr (F::weighted) v.w[r] = weights(r);
    }
    v.known = known;
    return v;
  }
  // Of row r of a leaf.
  __device__ some weights(int r) const { return parameters(w, r, A(1)); }
  __device__ some biases(int r) const { return parameters(b, r, -A(0)); }
  __device__ some parameters(const T* from, int r, A neutral) const {
    if (!from) return some::of(arith::round_to<T>(neutral));
    if constexpr (F::by_channel)
      return some::of(from[channel(r * order::lanes)]);  // of one channel
    else
      return some::load(from + r * order::lanes);
  }
  __device__ int channel(int i) const {
    return channels.first + (channels.at + i) / channels.inner;
  }
  __device__ static row::element<A> element(const raw& v, int r, int i) {
    row::element<A> e{arith::widen<A>(v.x[r][i]), A(0), A(1), -A(0)};
    if constexpr (F::takes_y) e.y = arith::widen<A>(v.y[r][i]);
    if constexpr (F::weighted) e.w = arith::widen<A>(v.w[r][i]);
    return e;
  }
  __device__ static auto get(const raw& v, int r, int i, int) {
    return F::template operand<A>(element(v, r, i), v.known);
  }
  __device__ single one(int i) const {
    int k = i;
    if constexpr (F::by_channel) k = channel(i);
    return {{arith::widen<A>(x[i]), F::takes_y ? arith::widen<A>(y[i]) : A(0),
             w ? arith::widen<A>(w[k]) : A(1), b ? arith::widen<A>(b[k]) : -A(0)},
            known};
  }
  BITFOLD_HD static auto made(const single& s, int) { return F::template operand<A>(s.e, s.known); }
};

template <class F, class T, int Owned>
struct row_kernel {
  using A = row::accumulator<T>;
  using fold = typename F::folded;
  using source = row_source<F, T, Owned>;
  using E = engine<fold, source, A>;
  using S = typename E::state;

  // A thread's part of leaves of `rows` <= Most rows, which `from` and `out` are at.
  template <int Most = order::rows>
  __device__ static void map_lanes(const source& from, const typename E::raw& v,
                                   const row::statistics<A>& s, T* out, int rows = Most) {
#pragma unroll
    for (int r = 0; r < Most; ++r) {
      if (r >= rows) break;
      typename source::some w, b;
      if constexpr (F::affine) w = from.weights(r);
      if constexpr (F::affine && F::centred) b = from.biases(r);
      A results[Owned];
      const auto set = [&](auto value) {
#pragma unroll
        for (int i = 0; i < Owned; ++i) {
          row::element<A> e = source::element(v, r, i);
          if constexpr (F::affine) e.w = arith::widen<A>(w[i]);
          if constexpr (F::affine && F::centred) e.b = arith::widen<A>(b[i]);
          results[i] = value(e);
        }
      };
      const auto any = [&](const auto& e) { return F::template value<A>(e, s); };
      if constexpr (F::exp_of_y) {
        bool ordinary = true;
#pragma unroll
        for (int i = 0; i < Owned; ++i)
          ordinary &= source::element(v, r, i).y >= arith::exp_floor<A>;
        if (ordinary)
          set([&](const auto& e) { return F::template value<A, true>(e, s); });
        else
          set(any);
      } else {
        set(any);
      }
      source::some::template narrowed<F::exp_of_y>(results).store(out + r * order::lanes);
    }
  }
  __device__ static int own_place() {
    const int t = threadIdx.x % warp;
    return E::leaf_of(t) * order::leaf + E::lane_of(t);
  }
  // A tile of `size` elements.
  __device__ static void map_tile(const source& tile, int size, const row::statistics<A>& s,
                                  T* out) {
    const int t = threadIdx.x % warp, begin = own_place(), full = size / order::leaf;
    if (E::leaf_of(t) < full) {
      const source own = tile.ahead(static_cast<index>(begin));
      map_lanes(own, own.template load<alignment::known>(), s, out + begin);
    }
#pragma unroll 4
    for (int i = full * order::leaf + t; i < size; i += warp)
      out[i] = arith::round_to<T>(F::template value<A>(tile.one(i).e, s));
  }

  __device__ static source row_at(const rows& of, index k) {
    const index at = k * of.n;
    row::statistics<A> known;
    if constexpr (F::reads) {
      known.b = static_cast<const A*>(of.rstd)[k];
      if (F::centred) known.a = static_cast<const A*>(of.mean)[k];
    }
    source s{static_cast<const T*>(of.x) + at,
             F::takes_y ? static_cast<const T*>(of.y) + at : nullptr,
             static_cast<const T*>(of.w),
             static_cast<const T*>(of.b),
             known,
             {}};
    if constexpr (F::by_channel)
      s.channels = {static_cast<int>(k * (of.n / of.inner) % of.channels),
                    static_cast<int>(of.inner), 0};
    return s;
  }
  __device__ static row::statistics<A> finish(const rows& of, index k, const source& from,
                                              const S& s, bool writes) {
    const row::statistics<A> made = F::template finish<A>(s, of.n, of.eps, from.known);
    if constexpr (F::writes)
      if (writes) {
        static_cast<A*>(of.rstd)[k] = arith::round_to<A>(made.b);
        if (F::centred) static_cast<A*>(of.mean)[k] = arith::round_to<A>(made.a);
      }
    return made;
  }
};

// The states of a row's tiles, by a warp. As many full ones as a power of two are of equal counts,
// for which no merge divides: the others are out of line, or their divisions would be made in any
// case, and ahead of all else.
template <class fold, class S>
__device__ __noinline__ S fold_unequal_tiles(const S* states, int tiles, index tile, index n) {
  const int t = threadIdx.x % warp;
  return fold_warp<fold>(states[t < tiles ? t : 0], tiles, equal_runs{tile, n});
}
template <class fold, class S>
__device__ S fold_tiles(const S* states, int tiles, index tile, index n) {
  if (static_cast<index>(tiles) * tile != n || (tiles & (tiles - 1)))
    return fold_unequal_tiles<fold>(states, tiles, tile, n);
  const int t = threadIdx.x % warp;
  S s = states[t < tiles ? t : 0];
#pragma unroll 1
  for (int d = 1; d < tiles; d *= 2) {
    const index each = static_cast<index>(d) * tile;
    s = fold::merge(s, from_right(s, d), bitfold::fold::counts{each, each});
  }
  return s;
}

// `warps` of a block take a row of up to tiles_of_warps tiles, each every warps-th one. Held > 0: a
// warp has at most so many and holds them in registers until the statistics are known. All are full
// but the row's last, which is the last of its warp. Held == 0: tiles are read again for the
// results, but where each warp has at most one and all are full.
template <class F, class T, int Owned, int Held>
__global__ void __launch_bounds__(most_warps* warp, 2)
    map_rows(const __grid_constant__ rows of, int warps, T* out) {
  using K = row_kernel<F, T, Owned>;
  using E = typename K::E;
  using fold = typename K::fold;
  using statistics = row::statistics<typename K::A>;
  constexpr int before_last = Held > 0 ? Held - 1 : 0;  // tiles of a warp, all of them full
  __shared__ statistics of_rows[most_warps];
  const int t = threadIdx.x % warp, row = static_cast<int>(threadIdx.x) / warp / warps,
            w = static_cast<int>(threadIdx.x) / warp % warps;
  typename K::S* const states =
      reinterpret_cast<typename K::S*>(shared_bytes) + row * tiles_of_warps;
  const int n = static_cast<int>(of.n), tiles = (n + E::tile - 1) / E::tile,
            at_once = static_cast<int>(blockDim.x) / warp / warps;
  const auto wait = [=] { warps > 1 ? wait_for_the_block() : wait_for_the_warp(); };
  const auto keep = [=](int j, const typename E::local& s) {
    if (t == 0)
      states[j] = fold::template rebase<typename K::A>(s, static_cast<index>(j) * E::tile);
  };
  for (index first = index{blockIdx.x} * at_once; first < of.count;
       first += index{gridDim.x} * at_once) {
    const index k = first + row;
    const bool is_there = k < of.count;
    const auto from = K::row_at(of, is_there ? k : of.count - 1);
    typename E::raw kept[before_last + 1];
    // Of a warp's last tile: its number, its size (0 or less: there is none), a thread's rows.
    const int last = w + before_last * warps, size = min(n - last * E::tile, E::tile),
              rows_of_last = E::rows_of(size);
    const auto place_in = [=](int j) { return static_cast<index>(j * E::tile + K::own_place()); };
    if constexpr (Held > 0) {
#pragma unroll
      for (int q = 0; q < before_last; ++q)
        kept[q] = from.ahead(place_in(w + q * warps)).template load<alignment::known>();
      kept[before_last] = from.ahead(rows_of_last > 0 ? place_in(last) : 0)
                              .template load_some<order::rows>(rows_of_last);
#pragma unroll
      for (int q = 0; q < before_last; ++q) keep(w + q * warps, E::fold_tile(kept[q]));
      if (size == E::tile)
        keep(last, E::fold_tile(kept[before_last]));
      else if (size > 0)
        keep(last, E::fold_rows(kept[before_last], rows_of_last, size));
    } else {
#pragma unroll 1
      for (int j = w; j < tiles; j += warps) {
        const int here = min(n - j * E::tile, E::tile);
        const auto tile = from.ahead(static_cast<index>(j) * E::tile);
        if (here == E::tile) {
          kept[0] = E::template load_tile<alignment::known>(tile);
          keep(j, E::fold_tile(kept[0]));
        } else {
          keep(j, E::template short_tile<alignment::known>(tile, here));
        }
      }
    }
    wait();
    if (w == 0) {
      const auto total = fold_tiles<fold>(states, tiles, E::tile, of.n);
      if (t == 0) of_rows[row] = K::finish(of, k, from, total, is_there);
    }
    wait();
    const statistics s = of_rows[row];
    T* const to = out + k * of.n;
    const auto map = [&](int j, const typename E::raw& tile, auto... rows) {
      K::map_lanes(from.ahead(place_in(j)), tile, s, to + place_in(j), rows...);
    };
    if constexpr (Held > 0) {
      if (is_there) {
#pragma unroll
        for (int q = 0; q < before_last; ++q) map(w + q * warps, kept[q]);
        if (size == E::tile)
          map(last, kept[before_last]);
        else if (rows_of_last > 0)
          map(last, kept[before_last], rows_of_last);
      }
    } else if (is_there && tiles <= warps && (w + 1) * E::tile <= n) {
      map(w, kept[0]);
    } else if (is_there) {
#pragma unroll 1
      for (int at = w * E::tile; at < n; at += warps * E::tile)
        K::map_tile(from.ahead(static_cast<index>(at)), min(n - at, E::tile), s, to + at);
    }
    wait();
  }
}

// A block takes a row of any length, node by node.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(most_warps* warp, 2)
    map_long_rows(const __grid_constant__ rows of, int node_tiles, T* out) {
  using K = row_kernel<F, T, Owned>;
  using E = typename K::E;
  auto* const of_tiles = reinterpret_cast<typename K::S*>(shared_bytes);
  __shared__ row::statistics<typename K::A> of_row;
  const index node = static_cast<index>(node_tiles) * E::tile;
  for (index k = blockIdx.x; k < of.count; k += gridDim.x) {
    const auto from = K::row_at(of, k);
    thread_counter<typename K::fold, typename K::S, 8> nodes;
#pragma unroll 1
    for (index at = 0; at < of.n; at += node) {
      const index here = of.n - at < node ? of.n - at : node;
      const auto s =
          fold_node<typename K::fold, typename K::source, typename K::A>(from, at, here, of_tiles);
      if (threadIdx.x == 0) nodes.push(s, here);
    }
    if (threadIdx.x == 0) of_row = K::finish(of, k, from, nodes.total(), true);
    wait_for_the_block();
    const auto s = of_row;
#pragma unroll 1
    for (index at = static_cast<index>(threadIdx.x / warp) * E::tile; at < of.n;
         at += static_cast<index>(blockDim.x / warp) * E::tile)
      K::map_tile(from.ahead(at), of.n - at < E::tile ? static_cast<int>(of.n - at) : E::tile, s,
                  out + k * of.n + at);
    wait_for_the_block();
  }
}

// Of a function that is of each element alone: a warp takes a tile, whatever the rows.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(most_warps* warp)
    map_each(const __grid_constant__ rows of, T* out) {
  using K = row_kernel<F, T, Owned>;
  constexpr index tile = K::E::tile;
  const index n = of.count * of.n, warps = blockDim.x / warp;
  const auto from = K::row_at(of, 0);
  for (index at = (index{blockIdx.x} * warps + threadIdx.x / warp) * tile; at < n;
       at += index{gridDim.x} * warps * tile)
    K::map_tile(from.ahead(at), n - at < tile ? static_cast<int>(n - at) : static_cast<int>(tile),
                {}, out + at);
}

}  // namespace bitfold::cuda
