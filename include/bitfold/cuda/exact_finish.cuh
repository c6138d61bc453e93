// The last pass of exact sums of whole arrays, floats or integers.
#pragma once

#include <bitfold/cuda/exact_results.cuh>

namespace bitfold::cuda {

// One block: the cells of all blocks, whose sums are below 2^63 (docs/exact.md), become results.
template <class Terms, class Results>
__global__ void __launch_bounds__(finish_threads)
    exact_finish(index n, const __grid_constant__ exact_cells<Terms::count> from,
                 const __grid_constant__ Results how) {
  constexpr int most_cells = Terms::most_cells;
  __shared__ std::int64_t cells[Terms::count][most_cells];
  for (int i = threadIdx.x; i < Terms::count * most_cells; i += blockDim.x) cells[0][i] = 0;
  wait_for_the_block();
  wait_for_the_kernel_before();
  for (int k = 0; k < Terms::count; ++k) {
    const int count = Terms::cells(k), groups = finish_threads / count, group = threadIdx.x / count,
              cell = threadIdx.x % count;
    if (group >= groups) continue;
    std::int64_t all = 0, flags = 0;
#pragma unroll 8
    for (int b = group; b < from.blocks[k]; b += groups) {
      const std::int64_t v = from.at[k][static_cast<index>(b) * count + cell];
      all += v;
      flags |= v;
    }
    if (cell < count - 1)
      add_halves(cells[k][cell], all);
    else
      set_bits_of(flags_in(cells[k][cell]), static_cast<unsigned>(flags));
  }
  wait_for_the_block();
  const std::int64_t* of[Terms::count];
#pragma unroll
  for (int k = 0; k < Terms::count; ++k) of[k] = cells[k];
  __shared__ summed<typename Terms::element> sums[Terms::count];
  write_results<Terms>(of, n, how, sums);
}

}  // namespace bitfold::cuda
