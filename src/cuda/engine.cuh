// The canonical order on a GPU. A warp folds a tile of 4 KiB at once: 32 threads x 8 rows x 16 bytes,
// so that each thread owns 16 / sizeof(T) neighbouring lanes and a tile is a whole number of leaves for
// every type. A block folds a node of neighbouring tiles, one block folds the nodes. Lanes in a thread,
// threads in a warp, tiles in a block, nodes: each step is the same adjacent fold, further up the tree,
// and which warp or block takes which tile shows in no bit.
#pragma once

#include <cuda_runtime.h>

#include "../dispatch.hpp"
#include "kernels.hpp"
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

// Folds the states of the first `count` threads of a warp into its thread 0. The states of `width`
// threads from thread `first` on are of n_of(first, width) elements.
template <class F, class S, class Count>
__device__ S fold_warp(S s, int count, Count n_of) {
  const int t = threadIdx.x % warp;
#pragma unroll
  for (int d = 1; d < warp; d *= 2) {
    if (d >= count) break;
    const S right = from_right(s, d);
    if (t + d < count)
      s = F::merge(s, right, fold::counts{n_of(t, d), n_of(t + d, t + 2 * d < count ? d : count - t - d)});
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
          v[left] = F::merge(v[left], v[left + step],
                             fold::counts{n_of(left, step),
                                          n_of(left + step, left + 2 * step < count ? step : count - left - step)});
      }
    }
  }
}

// For runs of `span` elements each, the last of which may be shorter, of n elements in all.
struct equal_runs {
  index span, n;
  __device__ index operator()(int first, int width) const {
    const index begin = static_cast<index>(first) * span, end = begin + static_cast<index>(width) * span;
    return (end < n ? end : n) - begin;
  }
};
// For the lanes of a leaf of `size` elements.
struct leaf_lanes {
  int size;
  __device__ index operator()(int first, int width) const {
    const int more = size % order::lanes - first;  // lanes from `first` on that have one row more
    return static_cast<index>(size / order::lanes * width + (more < 0 ? 0 : more < width ? more : width));
  }
};

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

// How a warp reads a tile: `owned` neighbouring lanes for each thread, order::rows of each.

/// Elements as they are stored, in packs.
template <class T, class A>
struct stored_elements {
  static constexpr bool small = true;
  static constexpr int owned = 16 / sizeof(T);
  struct raw {
    pack<T> row[order::rows];
  };
  using pointer = const T*;
  __device__ static pointer at(const void* data, index i, dtype) { return static_cast<const T*>(data) + i; }
  template <alignment How>
  __device__ static raw load(pointer p, dtype, bool aligned) {
    raw x;
    if (How == alignment::known || (How == alignment::asked && aligned)) {
#pragma unroll
      for (int r = 0; r < order::rows; ++r) x.row[r] = load_pack<true>(p + r * order::lanes);
    } else {
#pragma unroll
      for (int r = 0; r < order::rows; ++r) x.row[r] = load_pack<false>(p + r * order::lanes);
    }
    return x;
  }
  __device__ static A get(const raw& x, int r, int i, dtype) { return arith::widen<A>(x.row[r][i]); }
  __device__ static pointer ahead(pointer p, int elements, dtype) { return p + elements; }
  // One element, widened only when it is wanted: so several are on their way together.
  using single = T;
  __device__ static single one(pointer p, int i, dtype) { return p[i]; }
  __device__ static A widened(single x) { return arith::widen<A>(x); }
};

/// Elements of any type that A holds, told at run time and widened when they are read: one kernel for
/// many types, for what is not worth one each.
template <class A>
struct widened_elements {
  static constexpr bool small = false;
  static constexpr int owned = 4;
  struct raw {
    A row[order::rows][owned];
  };
  using pointer = const std::byte*;
  __device__ static pointer at(const void* data, index i, dtype type) {
    return static_cast<const std::byte*>(data) + i * static_cast<index>(bytes_of(type));
  }
  __device__ static pointer ahead(pointer p, int elements, dtype type) { return p + elements * bytes_of(type); }
  template <alignment>
  __device__ static raw load(pointer data, dtype type, bool) {
    raw x;
    visit(type, [&]<class T>(std::type_identity<T>) {
      if constexpr (held<T>()) {
        const T* p = reinterpret_cast<const T*>(data);
#pragma unroll
        for (int r = 0; r < order::rows; ++r)
#pragma unroll
          for (int i = 0; i < owned; ++i) x.row[r][i] = arith::widen<A>(p[r * order::lanes + i]);
      }
    });
    return x;
  }
  __device__ static A get(const raw& x, int r, int i, dtype) { return x.row[r][i]; }
  using single = A;
  __device__ static A widened(A x) { return x; }
  __device__ static A one(pointer p, int i, dtype type) {
    A x{};
    visit(type, [&]<class T>(std::type_identity<T>) {
      if constexpr (held<T>()) x = arith::widen<A>(reinterpret_cast<const T*>(p)[i]);
    });
    return x;
  }

 private:
  __device__ static int bytes_of(dtype type) {
    return visit(type, []<class T>(std::type_identity<T>) { return static_cast<int>(sizeof(T)); });
  }
  template <class T>
  BITFOLD_HD static constexpr bool held() {
    if constexpr (std::is_floating_point_v<A>)
      return true;
    else
      return std::is_integral_v<T> && std::is_signed_v<T> == std::is_signed_v<A>;
  }
};

// F: a fold without its finish. Source: how elements are read. A: what they are widened to.
template <class F, class Source, class A>
struct engine {
  static constexpr bool two = F::takes == fold::input::two, placed = F::takes == fold::input::placed;
  static constexpr int owned = Source::owned;           // lanes of a thread
  static constexpr int group = order::lanes / owned;     // threads on a leaf
  static constexpr int tile = warp * owned * order::rows;  // elements
  static_assert(order::lanes == warp && group <= warp && tile % order::leaf == 0);

  __device__ static int leaf_of(int t) { return t / group; }
  __device__ static int lane_of(int t) { return t % group * owned; }

  // (For the host too, whose pass over this file deduces types from it.)
  template <class X>
  BITFOLD_HD static auto element(A x, X y, int place) {
    if constexpr (two)
      return fold::pair_of<A>{x, y()};
    else if constexpr (placed)
      return fold::placed_at<A, std::int32_t>{x, place};
    else
      return x;
  }
  template <class Get>
  __device__ static auto lane(int count, Get get) {
    return method::fold_lane<F, order::rows>(count, get);
  }
  struct any_element {
    BITFOLD_HD A operator()() const { return A{}; }
    BITFOLD_HD auto operator()(int) const { return element(A{}, any_element{}, 0); }
  };
  // Places are counted from the start of the tile.
  using local = decltype(method::fold_lane<F, order::rows>(1, any_element{}));
  /// What is kept of a tile and of all that is larger.
  using state = fold::settled<F, A>;

  // A thread's part of a full tile, as stored.
  struct raw {
    typename Source::raw x;
    std::conditional_t<two, typename Source::raw, char> y;
  };
  using pointer = typename Source::pointer;
  template <alignment How>
  __device__ static raw load_tile(pointer x, pointer y, dtype type, bool aligned) {
    const int t = threadIdx.x % warp, mine = leaf_of(t) * order::leaf + lane_of(t);
    raw v;
    v.x = Source::template load<How>(Source::ahead(x, mine, type), type, aligned);
    if constexpr (two) v.y = Source::template load<How>(Source::ahead(y, mine, type), type, aligned);
    return v;
  }
  __device__ static local fold_tile(const raw& v, dtype type) {
    const int t = threadIdx.x % warp, first = leaf_of(t) * order::leaf + lane_of(t);
    local s[owned];
#pragma unroll
    for (int i = 0; i < owned; ++i)
      s[i] = lane(order::rows, [&](int r) {
        return element(
            Source::get(v.x, r, i, type),
            [&] {
              if constexpr (two) return Source::get(v.y, r, i, type);
              else return A{};
            },
            first + r * order::lanes + i);
      });
    fold_owned<F>(s, owned, [](int, int width) { return static_cast<index>(width * order::rows); });
    return fold_warp<F>(s[0], warp, [](int, int width) { return static_cast<index>(width * order::rows * owned); });
  }

  // The last tile, 1 <= size < tile elements: leaf by leaf, one thread for each lane. Kept out of line:
  // its instructions would only be in the way of the short kernels that don't need it.
  __device__ __noinline__ static local short_tile(pointer from_x, pointer from_y, dtype type, int size) {
    const int t = threadIdx.x % warp;
    const int leaves = static_cast<int>(order::leaf_count(size));
    local mine;  // thread l keeps leaf l
    constexpr int batch = tile / order::leaf < 4 ? tile / order::leaf : 4;  // leaves loaded together
    for (int l0 = 0; l0 < leaves; l0 += batch) {
      typename Source::single x[batch][order::rows], y[two ? batch : 1][order::rows];
#pragma unroll
      for (int l = 0; l < batch; ++l)
#pragma unroll
        for (int r = 0; r < order::rows; ++r) {
          const int at = (l0 + l) * order::leaf + r * order::lanes + t;
          if (at < size) {
            x[l][r] = Source::one(from_x, at, type);
            if constexpr (two) y[l][r] = Source::one(from_y, at, type);
          }
        }
#pragma unroll
      for (int l = 0; l < batch; ++l) {
        if (l0 + l >= leaves) break;
        const int here = order::leaf_size(size, l0 + l);
        local s;
        if (t < here)
          s = lane(order::lane_size(here, t), [&](int r) {
            return element(
                Source::widened(x[l][r]), [&] { return Source::widened(y[two ? l : 0][r]); }, (l0 + l) * order::leaf + r * order::lanes + t);
          });
        s = from_first(fold_warp<F>(s, order::lane_count(here), leaf_lanes{here}));
        if (l0 + l == 0 || t == l0 + l) mine = s;
      }
    }
    return fold_warp<F>(mine, leaves, equal_runs{order::leaf, static_cast<index>(size)});
  }
};

// Folds `count` <= 1024 states in shared memory, visible to the block, into thread 0; each is of `span`
// elements, the last of fewer, of n in all. Room for count / 32 more states follows them.
template <class F, class S>
__device__ S fold_shared(S* states, int count, index span, index n) {
  const int w = threadIdx.x / warp, t = threadIdx.x % warp;
  if (count > warp) {
    S* folded = states + count;
    for (int k = w; k * warp < count; k += blockDim.x / warp) {
      const int here = count - k * warp;
      const S s = fold_warp<F>(states[k * warp + (t < here ? t : 0)], here < warp ? here : warp,
                               equal_runs{span, n - static_cast<index>(k) * warp * span});
      if (t == 0) folded[k] = s;
    }
    __syncthreads();
    states = folded;
    count = (count + warp - 1) / warp;
    span *= warp;
  }
  S s = states[t < count ? t : 0];
  if (w == 0) s = fold_warp<F>(s, count, equal_runs{span, n});
  return s;
}

// The fold of the operation Op whose base is F, for elements widened to A; void if it has none.
template <class Op, class F, class A, typing Types>
constexpr auto find_fold_with_base() {
  if constexpr (!fold::accumulates<Types, A>()) {
    return std::type_identity<void>{};
  } else {
    const auto first = []<class... Candidate>(auto self, std::type_identity<Candidate>... all) {
      if constexpr (sizeof...(all) == 0) {
        return std::type_identity<void>{};
      } else {
        return []<class C, class... Rest>(auto me, std::type_identity<C> c, std::type_identity<Rest>... rest) {
          if constexpr (std::is_same_v<typename C::base, F>) return c;
          else return me(me, rest...);
        }(self, all...);
      }
    };
    using T = std::conditional_t<std::is_same_v<A, double>, float, A>;
    return first(first, std::type_identity<typename Op::template fold<method::tree, A>>{},
                 std::type_identity<typename Op::template fold<method::pairwise, A>>{},
                 std::type_identity<typename Op::template fold<method::kahan, A>>{},
                 std::type_identity<typename Op::template fold<method::tree, T>>{},
                 std::type_identity<typename Op::template fold<method::pairwise, T>>{},
                 std::type_identity<typename Op::template fold<method::kahan, T>>{});
  }
}
template <class Op, class F, class A, typing Types>
using fold_with_base = typename decltype(find_fold_with_base<Op, F, A, Types>())::type;

// Writes what Op, a fold with a finish, makes of a state.
template <class Op, typing Types, class A, class S>
__device__ void write_as(const S& s, index n, const result& how) {
  visit(how.type, [&]<class Out>(std::type_identity<Out>) {
    if constexpr (detail::gives<Types, A, Out>())
      *static_cast<Out*>(how.out) = Op::template finish<Out>(s, fold::finishing{n, how.ddof});
  });
}
// Writes what the operation `how.op`, one of those whose folds have the base F, makes of a state. Out of
// line, as it is long and runs once.
template <class F, class A, class S>
__device__ __noinline__ void write_shared(S s, index n, result how) {
#define BITFOLD_OP(name, inputs, takes_method, types, ...)                                       \
  {                                                                                              \
    using op_fold = fold_with_base<op::name##_op, F, A, typing::types>;                          \
    if constexpr (!std::is_void_v<op_fold>)                                                      \
      if (how.op == op_id::name) return write_as<op_fold, typing::types, A>(s, n, how);          \
  }
  BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
}
template <class F, class A, class S>
__device__ void write_result(const S& s, index n, const result& how) {
  if constexpr (!is_plain_sum<F>)
    write_shared<F, A>(s, n, how);
  else if (how.type == dtype_of<A>)  // the common case first
    *static_cast<A*>(how.out) = F::template finish<A>(s, {});
  else
    write_as<F, typing::additive, A>(s, n, how);
}

extern __shared__ __align__(16) std::byte shared_bytes[];

// First pass: a block folds a node of up to `tiles` tiles; a single node is the result.
template <class F, class Source, class A, alignment How>
__global__ void __launch_bounds__(max_threads)
    fold_elements(elements data, index n, int tiles, index count, void* nodes, result how) {
  using E = engine<F, Source, A>;
  using S = typename E::state;
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // the second pass may be set up; it waits for our end
#endif
  S* const states = reinterpret_cast<S*>(shared_bytes);
  const int w = threadIdx.x / warp, t = threadIdx.x % warp, warps = blockDim.x / warp;
  for (index node = blockIdx.x; node < count; node += gridDim.x) {
    const index first = node * tiles * E::tile;
    const index left = n - first;  // elements from here on
    const int full = left / E::tile < tiles ? static_cast<int>(left / E::tile) : tiles;
    const int rest = full < tiles ? static_cast<int>(left % E::tile) : 0;
    const typename E::pointer x = Source::at(data.x, first, data.type);
    const typename E::pointer y = E::two ? Source::at(data.y, first, data.type) : nullptr;
    const auto ahead = [&](typename E::pointer p, int k) { return Source::ahead(p, k * E::tile, data.type); };
    const auto load = [&](int k) {
      return E::template load_tile<How>(ahead(x, k), ahead(y, k), data.type, data.aligned);
    };
    const auto keep = [&](int k, typename E::local s) {
      if (t == 0) states[k] = F::template settle<A>(s, first + static_cast<index>(k) * E::tile);
    };
    if constexpr (E::two || !Source::small) {  // two tiles would not fit in the registers
      for (int k = w; k < full; k += warps) keep(k, E::fold_tile(load(k), data.type));
    } else {
      // The next tile is on its way while this one is folded.
      typename E::raw next;
      if (w < full) next = load(w);
      for (int k = w; k < full; k += warps) {
        const typename E::raw here = next;
        if (k + warps < full) next = load(k + warps);
        keep(k, E::fold_tile(here, data.type));
      }
    }
    if (rest > 0 && w == full % warps)
      keep(full, E::short_tile(ahead(x, full), ahead(y, full), data.type, rest));
    __syncthreads();
    const index here = left < static_cast<index>(tiles) * E::tile ? left : static_cast<index>(tiles) * E::tile;
    const S s = fold_shared<F>(states, full + (rest > 0), E::tile, here);
    if (threadIdx.x == 0) {
      if (count == 1)
        write_result<F, A>(s, n, how);
      else
        static_cast<S*>(nodes)[node] = s;
    }
    if (node + gridDim.x < count) __syncthreads();
  }
}

// Second pass, one block: folds `count` <= nodes_per_warp * 1024 nodes of `span` elements each.
template <class F, class A>
__global__ void __launch_bounds__(max_threads)
    fold_nodes(const void* nodes, int count, index span, index n, result how) {
  using S = fold::settled<F, A>;
  const S* from = static_cast<const S*>(nodes);
  S* states = reinterpret_cast<S*>(shared_bytes);
  constexpr int own = nodes_per_warp / warp;
  const int t = threadIdx.x % warp, runs = (count + nodes_per_warp - 1) / nodes_per_warp;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  for (int k = threadIdx.x / warp; k < runs; k += blockDim.x / warp) {
    const int first = k * nodes_per_warp + t * own, here = count - first;
    const index left = n - static_cast<index>(k) * nodes_per_warp * span;  // elements from this run on
    S v[own];
#pragma unroll
    for (int i = 0; i < own; ++i)
      if (i < here) v[i] = from[first + i];
    fold_owned<F>(v, here < own ? here : own, equal_runs{span, left - static_cast<index>(t) * own * span});
    const int threads = (count - k * nodes_per_warp + own - 1) / own;
    const S s = fold_warp<F>(v[0], threads < warp ? threads : warp, equal_runs{own * span, left});
    if (runs == 1) {
      if (t == 0) write_result<F, A>(s, n, how);
      return;
    }
    if (t == 0) states[k] = s;
  }
  __syncthreads();
  const S s = fold_shared<F>(states, runs, nodes_per_warp * span, n);
  if (threadIdx.x == 0) write_result<F, A>(s, n, how);
}

}  // namespace bitfold::cuda
