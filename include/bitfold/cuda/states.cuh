// Folds the states of the nodes of outputs.
#pragma once

#include <bitfold/cuda/folds.cuh>
#include <bitfold/cuda/places.cuh>

namespace bitfold::cuda {

// The states from `first` up to `end` of nodes of an output of n elements, by a warp; the state is
// thread 0's.
template <class F, class S>
__device__ S fold_nodes_by_warp(const S* states, index node, index n, index first, index end) {
  constexpr int ahead = sizeof(S) <= 16 ? 4 : 2;  // whose states are on their way together
  const int t = threadIdx.x % warp;
  const auto here_at = [=](index k) {
    return k >= end ? 0 : end - k < warp ? static_cast<int>(end - k) : warp;
  };
  thread_counter<F, S, 17> runs;
#pragma unroll 1
  for (index k = first; k < end; k += ahead * warp) {
    S s[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a)
      if (t < here_at(k + a * warp)) s[a] = states[k + a * warp + t];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const int here = here_at(k + a * warp);
      if (here == 0) break;
      const index left = n - (k + a * warp) * node;
      runs.push(fold_warp<F>(s[a], here, equal_runs{node, left}),
                left < warp * node ? left : warp * node);
    }
  }
  return runs.total();
}
// The same of all of them by a block, whose warps take `each`, a power of two and at least 32.
// of_warps: room for their states.
template <class F, class S>
__device__ S fold_nodes_by_block(const S* states, index node, index n, index each, S* of_warps) {
  const index nodes = (n + node - 1) / node, w = threadIdx.x / warp, first = w * each,
              end = nodes < first + each ? nodes : first + each;
  if (first < nodes) {
    const S s = fold_nodes_by_warp<F>(states, node, n, first, end);
    if (threadIdx.x % warp == 0) of_warps[w] = s;
  }
  wait_for_the_block();
  const S s = fold_shared<F>(of_warps, static_cast<int>((nodes + each - 1) / each), each * node, n);
  wait_for_the_block();
  return s;
}

// Of each output, `each` nodes, a multiple of 32, to one longer node, by a warp.
template <class F, class A>
__global__ void __launch_bounds__(256)
    fold_longer_nodes(index n, index outputs, const void* states, index node, index nodes,
                      index each, void* longer) {
  using S = fold::partial<F, A>;
  const index of_output = (nodes + each - 1) / each, stride = index{gridDim.x} * blockDim.x / warp;
  for (index i = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp; i < outputs * of_output;
       i += stride) {
    const index output = i / of_output, first = i % of_output * each;
    const S s = fold_nodes_by_warp<F>(static_cast<const S*>(states) + output * nodes, node, n,
                                      first, nodes < first + each ? nodes : first + each);
    if (threadIdx.x % warp == 0) static_cast<S*>(longer)[i] = s;
  }
}

// The nodes of each output, by a block or, where that takes all, by a warp.
template <class F, class A, class Results>
__global__ void __launch_bounds__(max_threads)
    fold_nodes_of_outputs(const __grid_constant__ output_elements data, const void* states,
                          index node, index nodes, index each,
                          const __grid_constant__ Results how) {
  using S = fold::partial<F, A>;
  const S* const from = static_cast<const S*>(states);
  if (nodes <= each) {
    const index stride = index{gridDim.x} * blockDim.x / warp;
    for (index output = index{blockIdx.x} * blockDim.x / warp + threadIdx.x / warp;
         output < data.outputs; output += stride) {
      const S s = fold_nodes_by_warp<F>(from + output * nodes, node, data.n, 0, nodes);
      if (threadIdx.x % warp == 0) how.template write<F, void, A>(s, data.n, output);
    }
    return;
  }
  for (index output = blockIdx.x; output < data.outputs; output += gridDim.x) {
    const S s = fold_nodes_by_block<F>(from + output * nodes, node, data.n, each,
                                       reinterpret_cast<S*>(shared_bytes));
    if (threadIdx.x == 0) how.template write<F, void, A>(s, data.n, output);
  }
}

}  // namespace bitfold::cuda
