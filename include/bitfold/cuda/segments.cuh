// Kernels of segments: short ones by threads, long ones in nodes that are listed. (Those between by
// teams.cuh and warps.cuh.)
#pragma once

#include <bitfold/cuda/states.cuh>
#include <bitfold/cuda/threads.cuh>

namespace bitfold::cuda {

// Lists the nodes of a segment of n elements for each thread of a warp; 0: it has none. (There is
// room for those of any offsets that are some.) One counting for the warp: each waits for memory.
__device__ inline void add_nodes(const node_list& list, index segment, index n) {
  const int t = threadIdx.x % warp;
  const auto places = [&](index& count, index all) {
    return shuffle(t == 0 ? add_to(count, all) : 0, 0);
  };
  const index nodes = (n + list.node - 1) / list.node;
  index end = nodes;
#pragma unroll
  for (int d = 1; d < warp; d *= 2) {
    const index before = shuffle_up(end, d);
    if (t >= d) end += before;
  }
  const index first = places(list.counts[0], shuffle(end, warp - 1)) + end - nodes;
  if (const unsigned several = ballot(nodes > 1)) {
    const index place = places(list.counts[1], static_cast<index>(count_of_bits(several)));
    const auto before = static_cast<index>(count_of_bits(several & ((1u << t) - 1)));
    if (nodes > 1) list.several[place + before] = {segment, first};
  }
  for (unsigned which = ballot(nodes > 0); which; which &= which - 1) {
    const int j = first_bit(which);
    const index its_segment = shuffle(segment, j), its_first = shuffle(first, j),
                its_nodes = shuffle(nodes, j);
    for (index k = static_cast<index>(t); k < its_nodes; k += warp)
      list.nodes[its_first + k] = {its_segment, k};
  }
}

// Of segments: a thread takes the short ones of four at a time, and those without elements; the
// nodes of those that are for blocks are listed, in any order, as that shows nowhere.
template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(256)
    fold_short_segments(const __grid_constant__ output_elements data,
                        const __grid_constant__ node_list list,
                        const __grid_constant__ Results how) {
  static_assert(most_by_thread == order::lanes);
  constexpr int each = 4;
  const int t = threadIdx.x % warp;
  const index stride = index{gridDim.x} * blockDim.x;
  for (index first = index{blockIdx.x} * blockDim.x + threadIdx.x - static_cast<index>(t);
       first < data.outputs; first += each * stride) {
    const auto output_of = [&](int thread, int k) {
      return first + static_cast<index>(thread) + static_cast<index>(k) * stride;
    };
    unsigned are_short = 0, are_long = 0;
#pragma unroll
    for (int k = 0; k < each; ++k)
      if (const index output = output_of(t, k); output < data.outputs) {
        const index n = elements_of(data, output);
        are_short |= static_cast<unsigned>(n <= most_by_thread) << k;
        are_long |= static_cast<unsigned>(n > most_by_warp) << k;
      }
#pragma unroll 1
    for (; are_short; are_short &= are_short - 1) {
      const index output = output_of(t, first_bit(are_short)), n = elements_of(data, output);
      if (n == 0)
        how.write_empty(output);
      else
        how.template write<F, Source, A>(
            F::template rebase<A>(
                fold_short_by_thread<F, Source, A, 1>(Source::at(data, finder::of(data, output), 0),
                                                      0, static_cast<int>(n)),
                0),
            n, output);
    }
#pragma unroll 1
    for (int k = 0; k < each; ++k)
      if (const bool is_long = are_long >> k & 1; ballot(is_long)) {
        const index output = output_of(t, k);
        add_nodes(list, output, is_long ? elements_of(data, output) : 0);
      }
  }
}

// The nodes that are listed, by a block each; of a segment that has one it is the result.
template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(max_threads)
    fold_nodes_of_segments(const __grid_constant__ output_elements data,
                           const __grid_constant__ node_list list,
                           const __grid_constant__ Results how) {
  using S = fold::partial<F, A>;
  const index count = list.counts[0];
  for (index j = blockIdx.x; j < count; j += gridDim.x) {
    const auto [segment, number] = list.nodes[j];
    const index n = elements_of(data, segment), first = number * list.node, left = n - first;
    const S s = fold_node<F, Source, A>(Source::at(data, finder::of(data, segment), 0), first,
                                        left < list.node ? left : list.node,
                                        reinterpret_cast<S*>(shared_bytes));
    if (threadIdx.x != 0) continue;
    if (n > list.node)
      static_cast<S*>(list.states)[j] = s;
    else
      how.template write<F, void, A>(s, n, segment);
  }
}

// Those of the segments that have several.
template <class F, class A, class Results>
__global__ void __launch_bounds__(max_threads)
    fold_long_segments(const __grid_constant__ output_elements data,
                       const __grid_constant__ node_list list,
                       const __grid_constant__ Results how) {
  using S = fold::partial<F, A>;
  const index count = list.counts[1], warps = blockDim.x / warp;
  for (index j = blockIdx.x; j < count; j += gridDim.x) {
    const auto [segment, first] = list.several[j];
    const index n = elements_of(data, segment);
    index each = warp;
    while (each * warps * list.node < n) each *= 2;
    const S s = fold_nodes_by_block<F>(static_cast<const S*>(list.states) + first, list.node, n,
                                       each, reinterpret_cast<S*>(shared_bytes));
    if (threadIdx.x == 0) how.template write<F, void, A>(s, n, segment);
  }
}

}  // namespace bitfold::cuda
