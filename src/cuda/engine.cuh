// The canonical order on a GPU. A warp folds a tile of 4 KiB at once: 32 threads x 8 rows x 16 bytes,
// so that each thread owns 16 / sizeof(T) neighbouring lanes and a tile is a whole number of leaves for
// every type. A block folds a node of neighbouring tiles, one block folds the nodes. Lanes in a thread,
// threads in a warp, tiles in a block, nodes: each step is the same adjacent fold, further up the tree,
// and which warp or block takes which tile shows in no bit.
#pragma once

#include <cuda_runtime.h>

#include "../dispatch.hpp"
#include "plan.hpp"

namespace bitfold::cuda {

constexpr int warp = 32;
constexpr unsigned all_threads = 0xffffffffu;

template <class S>
__device__ S from_right(S s, int distance) {
  return s.map([=](auto v) { return __shfl_down_sync(all_threads, v, distance); });
}
template <class S>
__device__ S from_first(S s) {
  return s.map([](auto v) { return __shfl_sync(all_threads, v, 0); });
}

// Folds the states of the first `count` threads of a warp into its thread 0.
template <class M, class S>
__device__ S fold_warp(S s, int count) {
  const int t = threadIdx.x % warp;
#pragma unroll
  for (int d = 1; d < warp; d *= 2) {
    if (d >= count) break;
    const S right = from_right(s, d);
    if (t + d < count) s = M::merge(s, right);
  }
  return s;
}

// 16 bytes of elements, kept as the words they came in: the compiler would otherwise give every small
// element a register of its own.
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

// 16 bytes at p, past the coherence of the first-level cache: nobody writes them meanwhile. Volatile,
// so that the loads of a tile stay together, ahead of the fold of the tile before.
template <bool Aligned, class T>
__device__ pack<T> load_pack(const T* p) {
  pack<T> v;
  if constexpr (Aligned) {
    asm volatile("ld.global.nc.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
                 : "l"(p));
  } else {
    const auto* q = reinterpret_cast<const typename pack<T>::bits*>(p);
#pragma unroll
    for (int i = 0; i < pack<T>::size; ++i) v.set(i, q[i]);
  }
  return v;
}

template <class M, class T, class A>
struct engine {
  using state = typename M::template state<A>;
  static constexpr int owned = 16 / sizeof(T);           // lanes of a thread
  static constexpr int group = order::lanes / owned;     // threads on a leaf
  static constexpr int tile = tile_bytes / sizeof(T);    // elements
  static_assert(order::lanes == warp && group <= warp && tile == warp * owned * order::rows && tile % order::leaf == 0);

  __device__ static int leaf_of(int t) { return t / group; }
  __device__ static int lane_of(int t) { return t % group * owned; }

  template <class Get>
  __device__ static state lane(int count, Get get) {
    return method::fold_lane<M, order::rows>(count, get);
  }

  // A thread's part of a full tile, as stored.
  struct raw {
    pack<T> row[order::rows];
  };
  template <bool Aligned>
  __device__ static raw load_tile(const T* p) {
    const int t = threadIdx.x % warp;
    const T* first = p + leaf_of(t) * order::leaf + lane_of(t);
    raw x;
#pragma unroll
    for (int r = 0; r < order::rows; ++r) x.row[r] = load_pack<Aligned>(first + r * order::lanes);
    return x;
  }
  __device__ static state fold_tile(const raw& x) {
    state v[owned];
#pragma unroll
    for (int i = 0; i < owned; ++i)
      v[i] = lane(order::rows, [&](int r) { return arith::widen<A>(x.row[r][i]); });
    order::fold_in_place(v, owned, M::template merge<A>);
    return fold_warp<M>(v[0], warp);
  }

  // The last tile, 1 <= size < tile elements: leaf by leaf, one thread for each lane. Kept out of line:
  // its instructions would only be in the way of the short kernels that don't need it.
  __device__ __noinline__ static state short_tile(const T* p, int size) {
    const int t = threadIdx.x % warp;
    const int leaves = static_cast<int>(order::leaf_count(size));
    state mine;  // thread l keeps leaf l
    constexpr int batch = tile / order::leaf < 4 ? tile / order::leaf : 4;  // leaves loaded together
    for (int l0 = 0; l0 < leaves; l0 += batch) {
      T element[batch][order::rows];
#pragma unroll
      for (int l = 0; l < batch; ++l)
#pragma unroll
        for (int r = 0; r < order::rows; ++r) {
          const int at = (l0 + l) * order::leaf + r * order::lanes + t;
          if (at < size) element[l][r] = p[at];
        }
#pragma unroll
      for (int l = 0; l < batch; ++l) {
        if (l0 + l >= leaves) break;
        const int here = order::leaf_size(size, l0 + l);
        state s;
        if (t < here)
          s = lane(order::lane_size(here, t), [&](int r) { return arith::widen<A>(element[l][r]); });
        s = from_first(fold_warp<M>(s, order::lane_count(here)));
        if (l0 + l == 0 || t == l0 + l) mine = s;
      }
    }
    return fold_warp<M>(mine, leaves);
  }
};

// Folds `count` <= 1024 states in shared memory, visible to the block, into thread 0. Room for
// count / 32 more states follows them.
template <class M, class S>
__device__ S fold_shared(S* states, int count) {
  const int w = threadIdx.x / warp, t = threadIdx.x % warp;
  if (count > warp) {
    S* folded = states + count;
    for (int k = w; k * warp < count; k += blockDim.x / warp) {
      const int here = count - k * warp;
      const S s = fold_warp<M>(states[k * warp + (t < here ? t : 0)], here);
      if (t == 0) folded[k] = s;
    }
    __syncthreads();
    states = folded;
    count = (count + warp - 1) / warp;
  }
  S s = states[t < count ? t : 0];
  if (w == 0) s = fold_warp<M>(s, count);
  return s;
}

template <class M, class A>
__device__ void write_result(typename M::template state<A> s, void* out, dtype out_type) {
  if (out_type == dtype_of<A>) {  // the common case first
    *static_cast<A*>(out) = M::template round<A>(s);
    return;
  }
  visit(out_type, [=]<class Out>(std::type_identity<Out>) {
    if constexpr (!std::is_integral_v<Out> || std::is_integral_v<A>)
      *static_cast<Out*>(out) = M::template round<Out>(s);
  });
}

extern __shared__ __align__(16) std::byte shared_bytes[];

// First pass: a block folds a node of up to `tiles` tiles; a single node is the result.
template <class M, class T, class A, bool Aligned>
__global__ void __launch_bounds__(max_threads)
    fold_elements(const T* data, index n, int tiles, index count, void* nodes, void* out,
                  dtype out_type) {
  using E = engine<M, T, A>;
  using S = typename E::state;
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // the second pass may be set up; it waits for our end
#endif
  S* const states = reinterpret_cast<S*>(shared_bytes);
  const int w = threadIdx.x / warp, t = threadIdx.x % warp, warps = blockDim.x / warp;
  for (index node = blockIdx.x; node < count; node += gridDim.x) {
    const T* p = data + node * tiles * E::tile;
    const index left = n - node * tiles * E::tile;  // elements from here on
    const int full = left / E::tile < tiles ? static_cast<int>(left / E::tile) : tiles;
    const int rest = full < tiles ? static_cast<int>(left % E::tile) : 0;
    // The next tile is on its way while this one is folded.
    typename E::raw next;
    if (w < full) next = E::template load_tile<Aligned>(p + w * E::tile);
    for (int k = w; k < full; k += warps) {
      const typename E::raw here = next;
      if (k + warps < full) next = E::template load_tile<Aligned>(p + (k + warps) * E::tile);
      const S s = E::fold_tile(here);
      if (t == 0) states[k] = s;
    }
    if (rest > 0 && w == full % warps) {
      const S s = E::short_tile(p + full * E::tile, rest);
      if (t == 0) states[full] = s;
    }
    __syncthreads();
    const S s = fold_shared<M>(states, full + (rest > 0));
    if (threadIdx.x == 0) {
      if (count == 1)
        write_result<M, A>(s, out, out_type);
      else
        static_cast<S*>(nodes)[node] = s;
    }
    if (node + gridDim.x < count) __syncthreads();
  }
}

// Second pass, one block: folds `count` <= nodes_per_warp * 1024 nodes.
template <class M, class A>
__global__ void __launch_bounds__(max_threads)
    fold_nodes(const void* nodes, int count, void* out, dtype out_type) {
  using S = typename M::template state<A>;
  const S* from = static_cast<const S*>(nodes);
  S* states = reinterpret_cast<S*>(shared_bytes);
  constexpr int own = nodes_per_warp / warp;
  const int t = threadIdx.x % warp, runs = (count + nodes_per_warp - 1) / nodes_per_warp;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  for (int k = threadIdx.x / warp; k < runs; k += blockDim.x / warp) {
    const int first = k * nodes_per_warp + t * own, here = count - first;
    S v[own];
#pragma unroll
    for (int i = 0; i < own; ++i)
      if (i < here) v[i] = from[first + i];
    order::fold_in_place(v, here < own ? here : own, M::template merge<A>);
    const S s = fold_warp<M>(v[0], (count - k * nodes_per_warp + own - 1) / own);
    if (runs == 1) {
      if (t == 0) write_result<M, A>(s, out, out_type);
      return;
    }
    if (t == 0) states[k] = s;
  }
  __syncthreads();
  const S s = fold_shared<M>(states, runs);
  if (threadIdx.x == 0) write_result<M, A>(s, out, out_type);
}

}  // namespace bitfold::cuda
