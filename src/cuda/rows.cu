// Row functions on a GPU: warps fold a row together, tile by tile, and each gives its own tiles their results, which it
// still holds where it has one.
#include <bitfold/cuda/engine.cuh>

#include "../row_functions.hpp"
#include "folds.cuh"

namespace bitfold::cuda {
namespace {

constexpr int tiles_of_warps = 32;  // whose states a warp folds at once
constexpr int most_warps = 16;

__device__ inline float narrowed(float x, float) { return row::stored<float>(x); }
__device__ inline double narrowed(double x, double) { return row::stored<double>(x); }
__device__ inline float16 narrowed(float x, float16) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return x != x ? arith::canonical_nan<float16> : float16{bits};
}
__device__ inline bfloat16 narrowed(float x, bfloat16) {
  const auto bits = arith::bit_cast<std::uint32_t>(x);  // nearest even, by hand: an infinity stays one
  return x != x ? arith::canonical_nan<bfloat16> : bfloat16{static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

struct nothing {};

// The elements of a row: a source for the engine (engine.cuh).
template <class F, class T, bool Aligned>
struct row_elements {
  using A = row::accumulator<T>;
  static constexpr bool in_packs = true, has_lines = false;
  static constexpr int owned = pack<T>::size;
  const T *x, *y, *w, *b;
  row::statistics<A> known;  // before the fold

  template <bool Some>
  using maybe = std::conditional_t<Some, pack<T>, nothing>;
  struct raw {
    pack<T> x[order::rows];
    maybe<F::two> y[order::rows];
    maybe<F::weighted> w[order::rows];
    row::statistics<A> known;
  };
  using single = struct {
    row::element<A> e;
    row::statistics<A> known;
  };
  __device__ row_elements ahead(index k) const { return {x + k, F::two ? y + k : y, w ? w + k : w, b ? b + k : b, known}; }
  template <alignment>
  __device__ raw load() const {
    raw v;
#pragma unroll
    for (int r = 0; r < order::rows; ++r) {
      v.x[r] = load_pack<Aligned>(x + r * order::lanes);
      if constexpr (F::two) v.y[r] = load_pack<Aligned>(y + r * order::lanes);
      if constexpr (F::weighted) v.w[r] = parameters(w, r, 1);
    }
    v.known = known;
    return v;
  }
  // Those of a row of a tile; without any, all the same.
  __device__ static pack<T> parameters(const T* p, int r, int without) {
    if (p) return load_pack<Aligned>(p + r * order::lanes);
    pack<T> v{};
#pragma unroll
    for (int i = 0; i < owned; ++i) v.set(i, arith::bit_cast<typename pack<T>::bits>(narrowed(without ? A(1) : -A(0), T{})));
    return v;
  }
  __device__ static row::element<A> element(const raw& v, int r, int i) {
    row::element<A> e{arith::widen<A>(v.x[r][i]), A(0), A(1), -A(0)};
    if constexpr (F::two) e.y = arith::widen<A>(v.y[r][i]);
    if constexpr (F::weighted) e.w = arith::widen<A>(v.w[r][i]);
    return e;
  }
  __device__ static auto get(const raw& v, int r, int i, int) { return F::template of<A>(element(v, r, i), v.known); }
  __device__ single one(int i) const {
    return {{arith::widen<A>(x[i]), F::two ? arith::widen<A>(y[i]) : A(0), w ? arith::widen<A>(w[i]) : A(1), b ? arith::widen<A>(b[i]) : -A(0)},
            known};
  }
  BITFOLD_HD static auto made(const single& s, int) { return F::template of<A>(s.e, s.known); }
};

template <class F, class T, bool Aligned>
struct row_kernel {
  using A = row::accumulator<T>;
  using fold = typename F::folded;
  using source = row_elements<F, T, Aligned>;
  using E = engine<fold, source, A>;
  using S = typename E::state;

  // A thread's part of a full tile, which begins at `from`.
  __device__ static void map_tile(const source& from, const typename E::raw& v, const row::statistics<A>& s, T* out) {
    const int t = threadIdx.x % warp, begin = E::leaf_of(t) * order::leaf + E::lane_of(t);
#pragma unroll
    for (int r = 0; r < order::rows; ++r) {
      pack<T> w{}, b{}, result{};
      if constexpr (F::affine) w = source::parameters(from.w ? from.w + begin : nullptr, r, 1);
      if constexpr (F::affine && F::centred) b = source::parameters(from.b ? from.b + begin : nullptr, r, 0);
#pragma unroll
      for (int i = 0; i < source::owned; ++i) {
        row::element<A> e = source::element(v, r, i);
        if constexpr (F::affine) e.w = arith::widen<A>(w[i]);
        if constexpr (F::affine && F::centred) e.b = arith::widen<A>(b[i]);
        result.set(i, arith::bit_cast<typename pack<T>::bits>(narrowed(F::template value<A>(e, s), T{})));
      }
      T* const to = out + begin + r * order::lanes;
      if constexpr (Aligned) {
        *reinterpret_cast<uint4*>(to) = {result.word[0], result.word[1], result.word[2], result.word[3]};
      } else {
#pragma unroll
        for (int i = 0; i < source::owned; ++i) to[i] = result[i];
      }
    }
  }
  __device__ static void map_rest(const source& from, int size, const row::statistics<A>& s, T* out) {
#pragma unroll 4
    for (int i = threadIdx.x % warp; i < size; i += warp) out[i] = narrowed(F::template value<A>(from.one(i).e, s), T{});
  }

  __device__ static source row_at(const rows& of, index k) {
    const index at = k * of.n;
    row::statistics<A> known;
    if constexpr (F::reads) {
      known.b = static_cast<const A*>(of.rstd)[k];
      if (F::centred) known.a = static_cast<const A*>(of.mean)[k];
    }
    return {static_cast<const T*>(of.x) + at, F::two ? static_cast<const T*>(of.y) + at : nullptr, static_cast<const T*>(of.w),
            static_cast<const T*>(of.b), known};
  }
  __device__ static row::statistics<A> finish(const rows& of, index k, const source& from, const S& s, bool writes) {
    const row::statistics<A> made = F::template finish<A>(F::template results_of<A>(s, of.n), of.n, of.eps, row::saved<A>{from.known.a, from.known.b});
    if constexpr (F::writes)
      if (writes) {
        static_cast<A*>(of.rstd)[k] = row::stored<A>(made.b);
        if (F::centred) static_cast<A*>(of.mean)[k] = row::stored<A>(made.a);
      }
    return made;
  }
};

// `warps` of a block take a row of up to tiles_of_warps tiles.
template <class F, class T, bool Aligned>
__global__ void __launch_bounds__(most_warps* warp) map_rows(const __grid_constant__ rows of, int warps, T* out) {
  using K = row_kernel<F, T, Aligned>;
  using E = typename K::E;
  using fold = typename K::fold;
  typename K::S* const states = reinterpret_cast<typename K::S*>(shared_bytes) + static_cast<int>(threadIdx.x) / warp / warps * tiles_of_warps;
  const int t = threadIdx.x % warp, w = static_cast<int>(threadIdx.x) / warp % warps, at_once = static_cast<int>(blockDim.x) / warp / warps;
  const int n = static_cast<int>(of.n), tiles = (n + E::tile - 1) / E::tile;
  for (index first = index{blockIdx.x} * at_once; first < of.count; first += index{gridDim.x} * at_once) {
    const index k = first + threadIdx.x / warp / warps;
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
      if (t == 0) states[j] = fold::template settle<typename K::A>(s, static_cast<index>(j) * E::tile);
    }
    if (warps > 1) __syncthreads();
    else __syncwarp();
    const auto total = from_first(fold_warp<fold>(states[t < tiles ? t : 0], tiles, equal_runs{E::tile, of.n}));
    const auto s = K::finish(of, k, from, total, is_there && w == 0 && t == 0);
    if (is_there) {
#pragma unroll 1
      for (int j = w; j < tiles; j += warps) {
        const int size = min(n - j * E::tile, E::tile);
        const auto tile = from.ahead(static_cast<index>(j) * E::tile);
        T* const to = out + k * of.n + static_cast<index>(j) * E::tile;
        if (size == E::tile) {
          if (tiles > warps) kept = E::template load_tile<alignment::known>(tile);
          K::map_tile(tile, kept, s, to);
        } else {
          K::map_rest(tile, size, s, to);
        }
      }
    }
    if (warps > 1) __syncthreads();
    else __syncwarp();
  }
}

// A block takes a row of any length, node by node.
template <class F, class T, bool Aligned>
__global__ void __launch_bounds__(most_warps* warp) map_long_rows(const __grid_constant__ rows of, int node_tiles, T* out) {
  using K = row_kernel<F, T, Aligned>;
  using E = typename K::E;
  auto* const of_tiles = reinterpret_cast<typename K::S*>(shared_bytes);
  __shared__ row::statistics<typename K::A> shared_statistics;
  const index node = static_cast<index>(node_tiles) * E::tile;
  for (index k = blockIdx.x; k < of.count; k += gridDim.x) {
    const auto from = K::row_at(of, k);
    thread_counter<typename K::fold, typename K::S, 12> nodes;
#pragma unroll 1
    for (index at = 0; at < of.n; at += node) {
      const index here = of.n - at < node ? of.n - at : node;
      const auto s = fold_node<typename K::fold, typename K::source, typename K::A>(from, at, here, of_tiles);
      if (threadIdx.x == 0) nodes.push(s, here);
    }
    if (threadIdx.x == 0) shared_statistics = K::finish(of, k, from, nodes.total(), true);
    __syncthreads();
    const auto s = shared_statistics;
#pragma unroll 1
    for (index at = static_cast<index>(threadIdx.x / warp) * E::tile; at < of.n; at += static_cast<index>(blockDim.x / warp) * E::tile) {
      const auto tile = from.ahead(at);
      if (of.n - at < E::tile) K::map_rest(tile, static_cast<int>(of.n - at), s, out + k * of.n + at);
      else K::map_tile(tile, E::template load_tile<alignment::known>(tile), s, out + k * of.n + at);
    }
    __syncthreads();
  }
}

template <class F, class T, bool Aligned>
const char* launch_rows(const rows& of, T* out, stream where) {
  using K = row_kernel<F, T, Aligned>;
  const std::size_t tiles = (of.n + K::E::tile - 1) / K::E::tile;
  cudaError_t err;
  if (tiles <= tiles_of_warps) {
    int warps = 1;
    while (warps < most_warps && static_cast<std::size_t>(warps) < tiles) warps *= 2;
    const int at_once = warps < 4 ? 4 / warps : 1;
    const auto blocks = static_cast<int>(std::min<std::size_t>((of.count + static_cast<std::size_t>(at_once) - 1) / static_cast<std::size_t>(at_once), 1 << 30));
    err = enqueue(map_rows<F, T, Aligned>, blocks, at_once * warps * warp, static_cast<std::size_t>(at_once) * tiles_of_warps * sizeof(typename K::S), where,
                  false, of, warps, out);
  } else {
    constexpr int node = 1024;
    err = enqueue(map_long_rows<F, T, Aligned>, static_cast<int>(std::min<std::size_t>(of.count, 1 << 30)), most_warps * warp,
                  (node + node / warp) * sizeof(typename K::S), where, false, of, node, out);
  }
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace

const char* launch_rows(row_function f, const rows& of, void* out, stream where) {
  const auto whole = [&](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  const bool aligned = of.n * size_of(of.type) % 16 == 0 && whole(of.x) && whole(of.y) && whole(of.w) && whole(of.b) && whole(out);
  return row::visit(f, [&]<class F>(std::type_identity<F>) {
    const auto launch = [&]<class T>(std::type_identity<T>) {
      return aligned ? launch_rows<F, T, true>(of, static_cast<T*>(out), where) : launch_rows<F, T, false>(of, static_cast<T*>(out), where);
    };
    switch (of.type) {
#ifndef BITFOLD_SAMPLE_OF_KERNELS
      case dtype::f16: return launch(std::type_identity<float16>{});
      case dtype::bf16: return launch(std::type_identity<bfloat16>{});
      case dtype::f64: return launch(std::type_identity<double>{});
#endif
      case dtype::f32: return launch(std::type_identity<float>{});
      default: return "a kernel that this build does not hold (BITFOLD_CUDA_KERNELS=sample)";
    }
  });
}

}  // namespace bitfold::cuda
