// Kernels of many outputs, each folded by a warp, or by a block, or in nodes by some.
#pragma once

#include <bitfold/cuda/elements.cuh>

namespace bitfold::cuda {

// The elements of the output that thread k of the warp has found.
template <class Source>
__device__ Source found_by(int k, const finder& mine, const typename Source::parameters& data) {
  finder of = mine;
  of.begin = {shuffle(mine.begin.x, k), shuffle(mine.begin.y, k)};
  return Source::at(data, of, 0);
}

// Warps take outputs of up to 31 tiles, of `at_once` neighbours, whose results its threads write
// together; where lengths differ, those that are neither for threads nor for blocks.
template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(256, 2)
    fold_outputs_by_warps(const __grid_constant__ typename Source::parameters data, int at_once,
                          const __grid_constant__ Results how) {
  using E = engine<F, Source, A>;
  using S = typename E::state;
  const int t = threadIdx.x % warp;
  const index stride = index{gridDim.x} * blockDim.x / warp * at_once;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * at_once;
       first < data.outputs; first += stride) {
    const int here =
        data.outputs - first < at_once ? static_cast<int>(data.outputs - first) : at_once;
    const index output = first + static_cast<index>(t < here ? t : 0),
                own = elements_of(data, output);
    const bool is_mine =
        t < here && (!data.offsets || (own > most_by_thread && own <= most_by_warp));
    const finder mine = finder::of(data, output);
    S result;
#pragma unroll 1
    for (unsigned left = ballot(is_mine); left; left &= left - 1) {
      const int j = first_bit(left);
      const index n = shuffle(own, j);
      const Source from = found_by<Source>(j, mine, data);
      thread_counter<F, S, 5> tiles;
#pragma unroll 1
      for (index at = 0; at < n; at += E::tile) {
        const int size = n - at < E::tile ? static_cast<int>(n - at) : E::tile;
        tiles.push(F::template rebase<A>(fold_found_tile<F, Source, A>(from.ahead(at), size), at),
                   static_cast<index>(size));
      }
      const S s = from_first(tiles.total());
      if (t == j) result = s;
    }
    if (is_mine) how.template write<F, Source, A>(result, own, output);
  }
}

// Blocks take nodes of outputs, which are the results where an output has one.
template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(max_threads)
    fold_outputs(const __grid_constant__ typename Source::parameters data, int tiles, index nodes,
                 void* states, const __grid_constant__ Results how) {
  using S = typename engine<F, Source, A>::state;
  S* const of_tiles = reinterpret_cast<S*>(shared_bytes);
  const index items = data.outputs * nodes,
              node = static_cast<index>(tiles) * engine<F, Source, A>::tile;
  for (index i = blockIdx.x; i < items; i += gridDim.x) {
    index output = i, first = 0;
    if (nodes > 1) output = i / nodes, first = i % nodes * node;
    const index left = data.n - first, here = left < node ? left : node;
    const S s = fold_node<F, Source, A>(Source::at(data, finder::of(data, output), 0), first, here,
                                        of_tiles);
    if (threadIdx.x != 0) continue;
    if (nodes > 1)
      static_cast<S*>(states)[i] = s;
    else
      how.template write<F, Source, A>(s, data.n, output);
  }
}

}  // namespace bitfold::cuda
