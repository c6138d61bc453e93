// Row functions on a GPU: warps fold a row together, tile by tile, and each gives its own tiles
// their results, which it still holds where it has one. Of elements ROW_ELEMENT: a file for each
// type.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>

#include <bitfold/cuda/engine.cuh>

#include "folds.cuh"
#include "rows.hpp"

namespace bitfold::cuda {
namespace {

constexpr int tiles_of_warps = 32;  // whose states a warp folds at once
constexpr int most_warps = 8;

struct nothing {};

// N neighbouring elements, read and written together, kept as the words they come in.
template <class T, int N>
struct packet {
  static constexpr int bytes = N * sizeof(T);
  using word = std::conditional_t<bytes >= 4, std::uint32_t, std::uint16_t>;
  using bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  word words[bytes / sizeof(word)];

  // Volatile, so that the loads of a tile stay together.
  __device__ static packet load(const T* p) {
    packet v;
    if constexpr (bytes == 16)
      asm volatile("ld.global.nc.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
                   : "l"(p));
    else if constexpr (bytes == 8)
      asm volatile("ld.global.nc.L2::128B.v2.u32 {%0,%1}, [%2];"
                   : "=r"(v.words[0]), "=r"(v.words[1])
                   : "l"(p));
    else if constexpr (bytes == 4)
      asm volatile("ld.global.nc.L2::128B.u32 %0, [%1];" : "=r"(v.words[0]) : "l"(p));
    else
      asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v.words[0]) : "l"(p));
    return v;
  }
  __device__ void store(T* p) const {
    if constexpr (bytes == 16)
      *reinterpret_cast<uint4*>(p) = {words[0], words[1], words[2], words[3]};
    else if constexpr (bytes == 8)
      *reinterpret_cast<uint2*>(p) = {words[0], words[1]};
    else
      *reinterpret_cast<word*>(p) = words[0];
  }
  __device__ T operator[](int i) const {
    bits b;
    if constexpr (sizeof(T) == 8)
      b = bits{words[2 * i + 1]} << 32 | words[2 * i];
    else
      b = static_cast<bits>(words[i * sizeof(T) / sizeof(word)] >>
                            i * sizeof(T) % sizeof(word) * 8);
    return arith::bit_cast<T>(b);
  }
  /// In the order of i: what comes behind in the same word is lost.
  __device__ void set(int i, T x) {
    const auto b = arith::bit_cast<bits>(x);
    if constexpr (sizeof(T) == 8) {
      words[2 * i] = static_cast<word>(b);
      words[2 * i + 1] = static_cast<word>(b >> 32);
    } else {
      const int at = i * sizeof(T) % sizeof(word) * 8;
      word& to = words[i * sizeof(T) / sizeof(word)];
      to = static_cast<word>((at ? to : 0) | static_cast<word>(b) << at);
    }
  }
  __device__ static packet of(T x) {
    packet v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.set(i, x);
    return v;
  }
  /// Of half types in pairs, if there is no NaN, and registers are to spare.
  template <bool InPairs, class A>
  __device__ static packet narrowed(const A (&x)[N]) {
    packet v;
#if __CUDA_ARCH__ >= 800
    if constexpr (InPairs && sizeof(T) == 2 && N % 2 == 0) {
      bool numbers = true;
#pragma unroll
      for (int i = 0; i < N; ++i) numbers &= x[i] == x[i];
      if (numbers) {
#pragma unroll
        for (int i = 0; i < N; i += 2)
          v.words[i / 2] = arith::detail::narrow_both<T>(x[i], x[i + 1]);
        return v;
      }
    }
#endif
#pragma unroll
    for (int i = 0; i < N; ++i) v.set(i, arith::round_to<T>(x[i]));
    return v;
  }
};

// The elements of a row: a source for the engine (engine.cuh), with Owned neighbouring lanes to a
// thread.
template <class F, class T, int Owned>
struct row_elements {
  using A = row::accumulator<T>;
  static constexpr bool in_packs = true, has_lines = false;
  static constexpr int owned = Owned;
  using some = packet<T, Owned>;
  const T *x, *y, *w, *b;
  row::statistics<A> known;  // before the fold

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
  __device__ row_elements ahead(index k) const {
    return {x + k, F::takes_y ? y + k : y, w ? w + k : w, b ? b + k : b, known};
  }
  template <alignment>
  __device__ raw load() const {
    raw v;
#pragma unroll
    for (int r = 0; r < order::rows; ++r) {
      v.x[r] = some::load(x + r * order::lanes);
      if constexpr (F::takes_y) v.y[r] = some::load(y + r * order::lanes);
      if constexpr (F::weighted) v.w[r] = weights(r);
    }
    v.known = known;
    return v;
  }
  // Of row r of a leaf.
  __device__ some weights(int r) const {
    return w ? some::load(w + r * order::lanes) : some::of(arith::round_to<T>(A(1)));
  }
  __device__ some biases(int r) const {
    return b ? some::load(b + r * order::lanes) : some::of(arith::round_to<T>(-A(0)));
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
    return {{arith::widen<A>(x[i]), F::takes_y ? arith::widen<A>(y[i]) : A(0),
             w ? arith::widen<A>(w[i]) : A(1), b ? arith::widen<A>(b[i]) : -A(0)},
            known};
  }
  BITFOLD_HD static auto made(const single& s, int) { return F::template operand<A>(s.e, s.known); }
};

template <class F, class T, int Owned>
struct row_kernel {
  using A = row::accumulator<T>;
  using fold = typename F::folded;
  using source = row_elements<F, T, Owned>;
  using E = engine<fold, source, A>;
  using S = typename E::state;

  // A thread's part of full leaves, which `from` and `out` are at.
  __device__ static void map_lanes(const source& from, const typename E::raw& v,
                                   const row::statistics<A>& s, T* out) {
#pragma unroll
    for (int r = 0; r < order::rows; ++r) {
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
    return {static_cast<const T*>(of.x) + at,
            F::takes_y ? static_cast<const T*>(of.y) + at : nullptr, static_cast<const T*>(of.w),
            static_cast<const T*>(of.b), known};
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

// `warps` of a block take a row of up to tiles_of_warps tiles.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(most_warps* warp, 2)
    map_rows(const __grid_constant__ rows of, int warps, T* out) {
  using K = row_kernel<F, T, Owned>;
  using E = typename K::E;
  using fold = typename K::fold;
  using statistics = row::statistics<typename K::A>;
  __shared__ statistics of_rows[most_warps];
  const int t = threadIdx.x % warp, row = static_cast<int>(threadIdx.x) / warp / warps,
            w = static_cast<int>(threadIdx.x) / warp % warps;
  typename K::S* const states =
      reinterpret_cast<typename K::S*>(shared_bytes) + row * tiles_of_warps;
  const int n = static_cast<int>(of.n), tiles = (n + E::tile - 1) / E::tile,
            at_once = static_cast<int>(blockDim.x) / warp / warps;
  const auto wait = [=] { warps > 1 ? __syncthreads() : __syncwarp(); };
  for (index first = index{blockIdx.x} * at_once; first < of.count;
       first += index{gridDim.x} * at_once) {
    const index k = first + row;
    const bool is_there = k < of.count;
    const auto from = K::row_at(of, is_there ? k : of.count - 1);
    typename E::raw kept;
#pragma unroll 1
    for (int j = w; j < tiles; j += warps) {
      const int size = min(n - j * E::tile, E::tile);
      const auto tile = from.ahead(static_cast<index>(j) * E::tile);
      typename E::local s;
      if (size == E::tile) {
        kept = E::template load_tile<alignment::known>(tile);
        s = E::fold_tile(kept);
      } else {
        s = E::template short_tile<alignment::known>(tile, size);
      }
      if (t == 0)
        states[j] = fold::template rebase<typename K::A>(s, static_cast<index>(j) * E::tile);
    }
    wait();
    if (w == 0) {
      const auto total = fold_tiles<fold>(states, tiles, E::tile, of.n);
      if (t == 0) of_rows[row] = K::finish(of, k, from, total, is_there);
    }
    wait();
    const statistics s = of_rows[row];
    T* const to = out + k * of.n;
    if (is_there && tiles <= warps && (w + 1) * E::tile <= n) {  // what it holds
      const int place = w * E::tile + K::own_place();
      K::map_lanes(from.ahead(static_cast<index>(place)), kept, s, to + place);
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
    __syncthreads();
    const auto s = of_row;
#pragma unroll 1
    for (index at = static_cast<index>(threadIdx.x / warp) * E::tile; at < of.n;
         at += static_cast<index>(blockDim.x / warp) * E::tile)
      K::map_tile(from.ahead(at), of.n - at < E::tile ? static_cast<int>(of.n - at) : E::tile, s,
                  out + k * of.n + at);
    __syncthreads();
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

template <class F, class T, int Owned>
const char* launch_each(const rows& of, T* out, stream where) {
  constexpr std::size_t of_block = std::size_t{most_warps} * row_kernel<F, T, Owned>::E::tile;
  const auto blocks =
      static_cast<int>(std::min<std::size_t>((of.count * of.n + of_block - 1) / of_block, 1 << 30));
  const rows alone{of.type, of.count, of.n, of.x};
  const cudaError_t err =
      enqueue(map_each<F, T, Owned>, blocks, most_warps * warp, 0, where, false, alone, out);
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

template <class F, class T, int Owned>
const char* launch_rows_of(const rows& of, T* out, stream where) {
  using K = row_kernel<F, T, Owned>;
  const std::size_t tiles = (of.n + K::E::tile - 1) / K::E::tile;
  cudaError_t err;
  if (tiles <= tiles_of_warps) {
    int warps = 1;
    while (warps < most_warps && static_cast<std::size_t>(warps) < tiles) warps *= 2;
    const int at_once = warps < 4 ? 4 / warps : 1;
    const auto blocks = static_cast<int>(std::min<std::size_t>(
        (of.count + static_cast<std::size_t>(at_once) - 1) / static_cast<std::size_t>(at_once),
        1 << 30));
    err = enqueue(map_rows<F, T, Owned>, blocks, at_once * warps * warp,
                  static_cast<std::size_t>(at_once) * tiles_of_warps * sizeof(typename K::S), where,
                  false, of, warps, out);
  } else {
    constexpr int node = 1024;  // a row has at most 2^6 of these, of 2^8 elements and more a tile
    err = enqueue(map_long_rows<F, T, Owned>,
                  static_cast<int>(std::min<std::size_t>(of.count, 1 << 30)), most_warps * warp,
                  (node + node / warp) * sizeof(typename K::S), where, false, of, node, out);
  }
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

// ---- Sums along the other direction -------------------------------------------------------------

// Lanes `first` to `end` of a leaf of `size` rows, of Many neighbouring columns, by one thread:
// load(i) reads row i of the leaf, element(row, p) is what the fold takes of it.
template <class fold, int Many, class Load, class Element>
__device__ auto fold_lanes_by_thread(int size, int first, int end, Load load, Element element) {
  using state =
      decltype(method::fold_lane<fold, order::rows>(1, [&](int) { return element(load(0), 0); }));
  using of_many = states_of_many<state, Many>;
  thread_counter<fold_of_many<fold, Many>, of_many, 6> lanes;
#pragma unroll 1
  for (int l = first; l < end; ++l) {
    const int rows = order::lane_size(size, l);
    decltype(load(0)) v[order::rows];
#pragma unroll
    for (int r = 0; r < order::rows; ++r)
      if (r < rows) v[r] = load(r * order::lanes + l);
    of_many s;
#pragma unroll
    for (int p = 0; p < Many; ++p)
      s.each[p] =
          method::fold_lane<fold, order::rows>(rows, [&](int r) { return element(v[r], p); });
    lanes.push(s, static_cast<index>(rows));
  }
  return lanes.total();
}
// All n rows.
template <class fold, int Many, int Levels, class Load, class Element>
__device__ auto fold_rows_by_thread(int n, Load load, Element element) {
  const auto leaf = [&](int begin) {
    const int size = min(order::leaf, n - begin);
    return fold_lanes_by_thread<fold, Many>(
        size, 0, order::lane_count(size), [&](int i) { return load(begin + i); }, element);
  };
  if (n <= order::leaf) return leaf(0);
  thread_counter<fold_of_many<fold, Many>, decltype(leaf(0)), Levels> leaves;
#pragma unroll 1
  for (int begin = 0; begin < n; begin += order::leaf)
    leaves.push(leaf(begin), static_cast<index>(min(order::leaf, n - begin)));
  return leaves.total();
}

template <class F, class T, class S>
__device__ void write_parameters(const S& s, index column, T* dw, T* db) {
  if constexpr (F::centred) {
    if (dw) dw[column] = arith::round_to<T>(s.a.sum);
    if (db) db[column] = arith::round_to<T>(s.b.sum);
  } else {
    dw[column] = arith::round_to<T>(s.sum);
  }
}

// A block takes Owned neighbouring columns for each thread of a warp, and a part of the rows,
// `part` of them, leaf by leaf: its warps share out the lanes. A single part is the result.
constexpr int warps_on_columns = 8;
template <class F, class T, int Owned>
__global__ void __launch_bounds__(warps_on_columns* warp)
    fold_parameters(const __grid_constant__ rows of, int part, int parts, void* states, T* dw,
                    T* db) {
  using A = row::accumulator<T>;
  using fold = typename F::folded;
  using S = typename row_kernel<F, T, Owned>::S;
  using of_many = states_of_many<S, Owned>;
  using of_columns = fold_of_many<fold, Owned>;
  struct one_row {
    packet<T, Owned> g, y;
    row::statistics<A> known;
  };
  __shared__ of_many of_lanes[warps_on_columns][warp];
  const int t = threadIdx.x % warp, w = static_cast<int>(threadIdx.x) / warp;
  const index column = (index{blockIdx.x} * warp + static_cast<index>(t)) * Owned;
  const bool is_there = column < of.n;
  const int k = static_cast<int>(blockIdx.y);
  const index first = static_cast<index>(k) * static_cast<index>(part);
  const int here = static_cast<int>(
      of.count - first < static_cast<index>(part) ? of.count - first : static_cast<index>(part));
  const auto element = [](const one_row& v, int p) {
    return F::template operand<A>({arith::widen<A>(v.g[p]), arith::widen<A>(v.y[p]), A(1), A(0)},
                                  v.known);
  };
  thread_counter<of_columns, of_many, 17> leaves;
#pragma unroll 1
  for (int begin = 0; begin < here; begin += order::leaf) {
    const auto load = [&](int i) {
      const index row = first + static_cast<index>(begin + i), at = row * of.n + column;
      one_row v{packet<T, Owned>::load(static_cast<const T*>(of.x) + at),
                packet<T, Owned>::load(static_cast<const T*>(of.y) + at),
                {}};
      v.known.b = static_cast<const A*>(of.rstd)[row];
      if (F::centred) v.known.a = static_cast<const A*>(of.mean)[row];
      return v;
    };
    constexpr int each = order::lanes / warps_on_columns;
    const int size = min(order::leaf, here - begin), lanes = order::lane_count(size),
              end = min(lanes, (w + 1) * each);
    if (is_there && w * each < end)
      of_lanes[w][t] = fold_lanes_by_thread<fold, Owned>(size, w * each, end, load, element);
    __syncthreads();
    if (w == 0 && is_there) {
      thread_counter<of_columns, of_many, 4> shares;
#pragma unroll
      for (int j = 0; j < warps_on_columns; ++j)
        if (j * each < lanes)
          shares.push(of_lanes[j][t], leaf_lanes{size}(j * each, min(each, lanes - j * each)));
      leaves.push(shares.total(), static_cast<index>(size));
    }
    __syncthreads();
  }
  if (w > 0 || !is_there) return;
  const of_many s = leaves.total();
#pragma unroll
  for (int p = 0; p < Owned; ++p) {
    const index to = column + static_cast<index>(p);
    if (parts == 1)
      write_parameters<F>(s.each[p], to, dw, db);
    else
      static_cast<S*>(states)[static_cast<index>(k) * of.n + to] = s.each[p];
  }
}
// The parts of a column: warps take runs of them, and one the runs. A thread takes a column.
constexpr int warps_on_parts = 16;
template <class F, class T>
__global__ void __launch_bounds__(warps_on_parts* warp)
    fold_parts_of_parameters(const __grid_constant__ rows of, int part, int parts, int run,
                             const void* states, T* dw, T* db) {
  using S = typename row_kernel<F, T, 1>::S;
  using fold = typename F::folded;
  __shared__ S of_runs[warps_on_parts][warp];
  const int t = threadIdx.x % warp, w = static_cast<int>(threadIdx.x) / warp;
  const index column = index{blockIdx.x} * warp + static_cast<index>(t);
  const bool is_there = column < of.n;
  const equal_runs elements{static_cast<index>(part), of.count};
  const int first = w * run, end = min(first + run, parts);
  if (is_there && first < end) {
    thread_counter<fold, S, 13> of_run;
    constexpr int beside = 8;
#pragma unroll 1
    for (int k = first; k < end; k += beside) {
      S s[beside];
#pragma unroll
      for (int j = 0; j < beside; ++j)
        if (k + j < end)
          s[j] = static_cast<const S*>(states)[static_cast<index>(k + j) * of.n + column];
#pragma unroll 1
      for (int j = 0; j < beside && k + j < end; ++j) of_run.push(s[j], elements(k + j, 1));
    }
    of_runs[w][t] = of_run.total();
  }
  __syncthreads();
  if (w > 0 || !is_there) return;
  thread_counter<fold, S, 5> runs;
  for (int j = 0; j * run < parts; ++j) runs.push(of_runs[j][t], elements(j * run, run));
  write_parameters<F>(runs.total(), column, dw, db);
}

// A thread takes Owned neighbouring columns of some outputs, whose first rows are read at once:
// most have one, or none.
constexpr int outputs_beside = 4;
template <class T, int Owned>
__global__ void __launch_bounds__(128)
    sum_rows_of_segments(const __grid_constant__ rows of, const __grid_constant__ row_segments by,
                         const T* base, T* out) {
  using A = row::accumulator<T>;
  using some = packet<T, Owned>;
  const index stripes = (of.n / Owned + blockDim.x - 1) / blockDim.x,
              items = (by.outputs + outputs_beside - 1) / outputs_beside * stripes;
  for (index item = blockIdx.x; item < items; item += gridDim.x) {
    const index first = item / stripes * outputs_beside,
                column = (item % stripes * blockDim.x + threadIdx.x) * Owned;
    if (column >= of.n) continue;
    const int here =
        by.outputs - first < outputs_beside ? static_cast<int>(by.outputs - first) : outputs_beside;
    const auto row_at = [&](std::int64_t i) {
      return some::load(static_cast<const T*>(of.x) + static_cast<index>(by.places[i]) * of.n +
                        column);
    };
    std::int64_t begin[outputs_beside + 1];
    some before[outputs_beside], x[outputs_beside];
#pragma unroll
    for (int j = 0; j <= outputs_beside; ++j)
      begin[j] = by.offsets[first + static_cast<index>(min(j, here))];
#pragma unroll
    for (int j = 0; j < outputs_beside; ++j) {
      before[j] = base && j < here
                      ? some::load(base + (first + static_cast<index>(j)) * of.n + column)
                      : some::of(T{});
      if (begin[j] < begin[j + 1]) x[j] = row_at(begin[j]);
    }
#pragma unroll
    for (int j = 0; j < outputs_beside; ++j) {
      if (j >= here) break;
      some result = before[j];
      const auto set = [&](int p, A sum) {
        result.set(p,
                   arith::round_to<T>(base ? arith::add(arith::widen<A>(before[j][p]), sum) : sum));
      };
      const auto n = static_cast<int>(begin[j + 1] - begin[j]);
      const auto element = [](const some& v, int p) { return arith::widen<A>(v[p]); };
      using fold = row::sum_of_first;
      if (n == 1) {
#pragma unroll
        for (int p = 0; p < Owned; ++p)
          set(p,
              method::fold_lane<fold, order::rows>(1, [&](int) { return element(x[j], p); }).sum);
      } else if (n > 1) {
        const auto s = fold_rows_by_thread<fold, Owned, 17>(
            n, [&](int i) { return row_at(begin[j] + i); }, element);
#pragma unroll
        for (int p = 0; p < Owned; ++p) set(p, s.each[p].sum);
      }
      result.store(out + (first + static_cast<index>(j)) * of.n + column);
    }
  }
}

// Elements that a thread takes together, as registers allow; `inputs` of as many rows at once.
template <class T>
constexpr int owned_of(int inputs) {
  return sizeof(T) == 2 ? 4 : (inputs > 1 ? 8 : 16) / static_cast<int>(sizeof(T));
}
template <class T>
bool in_packets(int owned, std::size_t n, std::initializer_list<const void*> arrays) {
  return n % static_cast<std::size_t>(owned) == 0 &&
         std::ranges::all_of(arrays, [&](const void* p) {
           return reinterpret_cast<std::uintptr_t>(p) %
                      (static_cast<std::size_t>(owned) * sizeof(T)) ==
                  0;
         });
}

template <class F, class T, int Owned>
const char* launch_parameters(const rows& of, const parameter_plan& p, T* dw, T* db,
                              void* workspace, stream where) {
  const auto blocks = static_cast<unsigned>((of.n / Owned + warp - 1) / warp);
  fold_parameters<F, T, Owned>
      <<<dim3(blocks, static_cast<unsigned>(p.parts)), warps_on_columns * warp, 0, where>>>(
          of, p.part, p.parts, workspace, dw, db);
  cudaError_t err = cudaGetLastError();
  if (err == cudaSuccess && p.parts > 1) {
    const auto run = static_cast<int>(
        std::bit_ceil(static_cast<unsigned>(p.parts + warps_on_parts - 1) / warps_on_parts));
    fold_parts_of_parameters<F, T>
        <<<static_cast<unsigned>((of.n + warp - 1) / warp), warps_on_parts * warp, 0, where>>>(
            of, p.part, p.parts, run, workspace, dw, db);
    err = cudaGetLastError();
  }
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace

template <>
const char* launch_rows<ROW_ELEMENT>(row_function f, const rows& of, void* out, stream where) {
  using T = ROW_ELEMENT;
  return row::visit(f, [&]<class F>(std::type_identity<F>) {
    constexpr int owned = owned_of<T>(1 + F::takes_y + F::weighted), twice = 2 * owned;
    if constexpr (F::elementwise) {  // no row has to begin where a packet does
      if (in_packets<T>(owned, owned, {of.x, out}))
        return launch_each<F, T, owned>(of, static_cast<T*>(out), where);
      return launch_each<F, T, 1>(of, static_cast<T*>(out), where);
    } else {
      const auto fits = [&](int many) {
        return in_packets<T>(many, of.n, {of.x, of.y, of.w, of.b, out});
      };
      if constexpr (sizeof(T) == 2 && !F::takes_y)
        if (of.count >= 4096 && of.n % (warp * twice * order::rows) == 0 && fits(twice))
          return launch_rows_of<F, T, twice>(of, static_cast<T*>(out), where);
      if (fits(owned)) return launch_rows_of<F, T, owned>(of, static_cast<T*>(out), where);
      return launch_rows_of<F, T, 1>(of, static_cast<T*>(out), where);
    }
  });
}

template <>
const char* launch_parameters<ROW_ELEMENT>(row_function f, const rows& of, const parameter_plan& p,
                                           void* dw, void* db, void* workspace, stream where) {
  using T = ROW_ELEMENT;
  const auto launch = [&]<class F>(std::type_identity<F>) {
    constexpr int owned = owned_of<T>(2);
    if (in_packets<T>(owned, of.n, {of.x, of.y}))
      return launch_parameters<F, T, owned>(of, p, static_cast<T*>(dw), static_cast<T*>(db),
                                            workspace, where);
    return launch_parameters<F, T, 1>(of, p, static_cast<T*>(dw), static_cast<T*>(db), workspace,
                                      where);
  };
  if (f == row_function::layer_norm_backward)
    return launch(std::type_identity<row::layer_norm_backward>{});
  return launch(std::type_identity<row::rms_norm_backward>{});
}

template <>
const char* launch_sum_rows<ROW_ELEMENT>(const rows& of, const row_segments& by, const void* base,
                                         void* out, stream where) {
  using T = ROW_ELEMENT;
  const auto launch = [&]<int Owned>(std::integral_constant<int, Owned>) {
    const std::size_t columns = of.n / Owned,
                      threads = columns < 128 ? (columns + 31) / 32 * 32 : 128;
    const std::size_t items =
        (by.outputs + outputs_beside - 1) / outputs_beside * ((columns + threads - 1) / threads);
    const cudaError_t err =
        enqueue(sum_rows_of_segments<T, Owned>,
                static_cast<int>(std::min<std::size_t>(items, 1 << 30)), static_cast<int>(threads),
                0, where, false, of, by, static_cast<const T*>(base), static_cast<T*>(out));
    return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
  };
  constexpr int owned = owned_of<T>(1);
  if (in_packets<T>(owned, of.n, {of.x, base, out}))
    return launch(std::integral_constant<int, owned>{});
  return launch(std::integral_constant<int, 1>{});
}

}  // namespace bitfold::cuda
