// Any set of reductions of the same elements in one pass. A warp reads a tile, and each fold that
// is wanted makes its state of it, one after the other, as it does alone; from there on each has
// states of its own. So one kernel serves all sets. (Of short arrays several warps read a tile,
// each for some of the folds; and the last tile, if it is short, each fold reads for itself.)
#pragma once

#include <bit>

#include "results.cuh"

namespace bitfold::cuda {
namespace {

// A member of a set as the engine has it.
template <class Set, class M>
struct member_engine {
  using F = typename M::fold;
  using A = typename M::accumulator;
  using source = std::conditional_t<
      Set::stored, stored_elements<widening<F, A>, typename Set::element>,
      read_elements<widening<F, A>, widening_reader<Set::two, typename Set::wide>>>;
  using type = engine<F, source, A>;
  using state = typename type::state;
};

#define BITFOLD_INLINED __attribute__((always_inline))

// Calls f.template operator()<M>() for member M, of number i: by halving, past none of the others'
// instructions.
template <int Begin, int End, class List, class Function>
__device__ __forceinline__ void visit_member(int i, const Function& f) {
  if constexpr (End - Begin == 1) {
    f.template operator()<typename List::template at<Begin>>();
  } else {
    constexpr int middle = (Begin + End) / 2;
    if (i < middle)
      visit_member<Begin, middle, List>(i, f);
    else
      visit_member<middle, End, List>(i, f);
  }
}
// Calls f.template operator()<M>(i) for each that is one of `which`.
template <class List, class Function>
__device__ __forceinline__ void for_each_member(std::uint64_t which, const Function& f) {
  for (; which; which &= which - 1) {
    const int i = __ffsll(static_cast<long long>(which)) - 1;
    visit_member<0, List::count, List>(
        i, [&]<class M>() BITFOLD_INLINED { f.template operator()<M>(i); });
  }
}
// Of members that some share, those of one of them.
__device__ inline std::uint64_t share_of(std::uint64_t which, int sharer, int sharers) {
  if (sharers == 1) return which;
  std::uint64_t mine = 0;
  for (int i = 0; which; which &= which - 1, ++i)
    if (i % sharers == sharer) mine |= which & (~which + 1);
  return mine;
}

// Lets the compiler not keep what it has made of a tile for one member, in registers, for the
// others.
template <class T>
__device__ void read_anew(pack<T> (&rows)[order::rows]) {
#pragma unroll
  for (pack<T>& p : rows)
#pragma unroll
    for (std::uint32_t& word : p.word) asm volatile("" : "+r"(word));
}
template <class T, bool Two>
__device__ void read_anew(stored_tile<T, Two>& v) {
  read_anew(v.x.row);
  if constexpr (Two) read_anew(v.y.row);
}
template <class V, int Owned>
__device__ void read_anew(read_tile<V, Owned>&) {}

// A result, of the state of its member.
template <class List>
__device__ __noinline__ void write_result(const std::byte* state, index n, int member, result how) {
  visit_member<0, List::count, List>(member, [&]<class M>() BITFOLD_INLINED {
    using F = typename M::fold;
    using A = typename M::accumulator;
    write_shared<F, A>(*reinterpret_cast<const fold::partial<F, A>*>(state), n, how);
  });
}

// As fold_elements. The states of a member begin at byte at x room of shared memory, and at x
// all_nodes of the nodes, of which the first one of this launch is number `begin`.
template <class Set>
__global__ void __launch_bounds__(max_threads,
                                  1)  // else the compiler keeps to half of the registers
    fold_elements_of_set(elements data, index n, int tiles, index count, index before, int room,
                         std::byte* nodes, index begin, index all_nodes,
                         const __grid_constant__ member_results how) {
  using list = typename Set::list;
  using any = member_engine<Set, typename list::template at<0>>;
  constexpr int tile = any::type::tile;
  static_assert(tile == Set::tile);
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  const int w = threadIdx.x / warp, t = threadIdx.x % warp, warps = blockDim.x / warp;
  const std::uint64_t own = share_of(how.wanted, w, warps);
  for (index node = blockIdx.x; node < count; node += gridDim.x) {
    const index first = node * tiles * tile;
    const index left = n - first;  // elements from here on
    const int full = left / tile < tiles ? static_cast<int>(left / tile) : tiles;
    const int rest = full < tiles ? static_cast<int>(left % tile) : 0, here = full + (rest > 0);
    const auto from = any::source::at(data, first);
    // In shared memory, of member number i.
    const auto states = [&]<class M>(int i) BITFOLD_INLINED {
      return reinterpret_cast<typename member_engine<Set, M>::state*>(shared_bytes +
                                                                      how.at[i] * room);
    };
    const auto keep = [&]<class M>(int i, int k, auto s) BITFOLD_INLINED {
      if (t == 0)
        states.template operator()<M>(i)[k] = M::fold::template rebase<typename M::accumulator>(
            s, before + first + static_cast<index>(k) * tile);
    };
    const int sharers = warps > here ? warps / here : 1;
    const std::uint64_t mine = share_of(how.wanted, w % sharers, sharers);
    for (int k = w / sharers; k < full; k += warps / sharers) {
      auto v = any::type::template load_tile<alignment::asked>(from.ahead(k * tile));
      for_each_member<list>(mine, [&]<class M>(int i) BITFOLD_INLINED {
        read_anew(v);
        keep.template operator()<M>(i, k, member_engine<Set, M>::type::fold_tile(v));
      });
    }
    if (rest > 0)
      for_each_member<list>(own, [&]<class M>(int i) BITFOLD_INLINED {
        using E = member_engine<Set, M>;
        keep.template operator()<M>(
            i, full,
            E::type::template short_tile<alignment::asked>(
                E::source::at(data, first + static_cast<index>(full) * tile), rest));
      });
    __syncthreads();
    // As fold_shared: all warps fold a member's states to 32 at most, and one those.
    const index elements_here =
        left < static_cast<index>(tiles) * tile ? left : static_cast<index>(tiles) * tile;
    const bool many = here > warp;
    if (many) {
      for_each_member<list>(how.wanted, [&]<class M>(int i) BITFOLD_INLINED {
        auto* const of_tiles = states.template operator()<M>(i);
        fold_every_warp<typename M::fold>(of_tiles, of_tiles + here, here, tile, elements_here, w,
                                          warps);
      });
      __syncthreads();
    }
    for_each_member<list>(own, [&]<class M>(int i) BITFOLD_INLINED {
      using S = typename member_engine<Set, M>::state;
      S* const of_tiles = states.template operator()<M>(i);
      const S* const runs = many ? of_tiles + here : of_tiles;
      const int have = many ? (here + warp - 1) / warp : here;
      const S s = fold_warp<typename M::fold>(
          runs[t < have ? t : 0], have,
          equal_runs{static_cast<index>(many ? warp * tile : tile), elements_here});
      __syncwarp();  // of a single one others may still be reading
      if (t == 0)
        (nodes ? reinterpret_cast<S*>(nodes + static_cast<index>(how.at[i]) * all_nodes) + begin +
                     node
               : of_tiles)[0] = s;
    });
    if (node + gridDim.x < count || nodes == nullptr) __syncthreads();
  }
  if (nodes == nullptr && t == 0)
    for (int k = w; k < how.count; k += warps) {
      const int i = how.member[k];
      write_result<list>(shared_bytes + how.at[i] * room, n, i, how.each[k]);
    }
}

// As fold_nodes, a block for each member.
template <class Set>
__global__ void __launch_bounds__(max_threads)
    fold_nodes_of_set(const std::byte* nodes, int count, index span, index n,
                      const __grid_constant__ member_results how) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  const std::uint64_t mine = share_of(how.wanted, blockIdx.x, gridDim.x);
  const int i = __ffsll(static_cast<long long>(mine)) - 1;
  visit_member<0, Set::list::count, typename Set::list>(i, [&]<class M>() BITFOLD_INLINED {
    using S = typename member_engine<Set, M>::state;
    const S* const from = reinterpret_cast<const S*>(nodes + static_cast<index>(how.at[i]) *
                                                                 static_cast<index>(count));
    S* const states = reinterpret_cast<S*>(shared_bytes);
    const S s = fold_all_nodes<typename M::fold>(from, count, span, n, states);
    __syncthreads();
    if (threadIdx.x > 0) return;
    states[0] = s;
    for (int k = 0; k < how.count; ++k)
      if (how.member[k] == i) write_result<typename Set::list>(shared_bytes, n, i, how.each[k]);
  });
}
#undef BITFOLD_INLINED

template <class Set>
const char* launch_set(const plan& p, const arguments& a) {
  const index before = p.begin * p.node, end = p.end == p.nodes ? a.n : p.end * p.node;
  auto* const nodes = p.nodes > 1 ? static_cast<std::byte*>(a.workspace) : nullptr;
  cudaError_t err = enqueue(fold_elements_of_set<Set>, p.blocks, p.threads, p.shared, a.where,
                            false, a.data, end - before, p.tiles, p.end - p.begin, before,
                            static_cast<int>(p.shared / a.members->of.state), nodes, p.begin,
                            p.nodes, *a.members);
  if (err == cudaSuccess && nodes && p.end == p.nodes)
    err = enqueue(fold_nodes_of_set<Set>, std::popcount(a.members->wanted), p.second_threads,
                  p.second_shared, a.where, a.overlap, nodes, static_cast<int>(p.nodes), p.node,
                  a.n, *a.members);
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace
}  // namespace bitfold::cuda
