// Exact sums of integers on a GPU: each thread keeps a state of its own.
#pragma once

#include <bitfold/cuda/exact_results.cuh>

namespace bitfold::cuda {

// A thread's sum of a term, and the block's cells.
template <class T, term What>
struct integer_sum {
  static constexpr int count = cells_of_term<T>(What);
  exact::sum_of<T, What> s;
  std::int64_t* cells;

  // Words below the top one have no sign of their own.
  __device__ void add_to_block() {
#pragma unroll
    for (int i = 0; i < count - 1; ++i) {
      const auto digit = static_cast<std::uint32_t>(s.w[i / 2] >> (i % 2 * 32));
      const std::int64_t v =
          i == count - 2 ? static_cast<std::int32_t>(digit) : static_cast<std::int64_t>(digit);
      const word all = warp_sum(static_cast<word>(v));
      if (threadIdx.x % warp == 0) add_to(as_word(cells[i]), all);
    }
    if (threadIdx.x == 0) cells[count - 1] = exact::something_else;
  }
};

template <class T, term... What>
struct integer_sums : integer_sum<T, What>... {
  using element = T;
  using terms = exact_terms<T, What...>;
  static constexpr bool two = ((exact::inputs(What) == 2) || ...);
  static constexpr int count = sizeof...(What), cells = (integer_sum<T, What>::count + ...);
  static constexpr int threads = integer_threads;

  // Calls f(the sum of a term) with each.
  template <class F>
  __device__ void each(F f) {
    (f(static_cast<integer_sum<T, What>&>(*this)), ...);
  }
  // All elements of the block, to its cells.
  __device__ void add(const elements& data, index n, std::int64_t* of_block) {
    for (int i = threadIdx.x; i < cells; i += blockDim.x) of_block[i] = 0;
    wait_for_the_block();
    each([&](auto& one) {
      one.cells = of_block;
      of_block += one.count;
    });
    const T *x = static_cast<const T*>(data.x), *y = static_cast<const T*>(data.y);
    for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
         i += index{gridDim.x} * blockDim.x) {
      const T here = x[i], other = two ? y[i] : T{};
      (exact::deposit<What>(static_cast<integer_sum<T, What>&>(*this).s, here, other), ...);
    }
    each([](auto& one) { one.add_to_block(); });
    wait_for_the_block();
  }
};

template <int Blocks, class Sums>
__global__ void __launch_bounds__(Sums::threads, Blocks)
    exact_integers(elements data, index n, const __grid_constant__ exact_cells<Sums::count> to) {
  let_the_next_kernel_start();
  __shared__ std::int64_t cells[Sums::cells];
  Sums sums;
  sums.add(data, n, cells);
  int k = 0;
  sums.each([&](auto& one) {
    for (int i = threadIdx.x; i < one.count; i += blockDim.x)
      to.at[k][index{blockIdx.x} * one.count + i] = one.cells[i];
    ++k;
  });
}
// The same in one block, which makes the results as well.
template <class Sums, class Results>
__global__ void __launch_bounds__(Sums::threads)
    exact_integers_alone(elements data, index n, const __grid_constant__ Results how) {
  __shared__ std::int64_t cells[Sums::cells];
  Sums sums;
  sums.add(data, n, cells);
  const std::int64_t* of[Sums::count];
  int k = 0;
  sums.each([&](auto& one) { of[k++] = one.cells; });
  __shared__ summed<typename Sums::element> to[Sums::count];
  write_results<typename Sums::terms>(of, n, how, to);
}

}  // namespace bitfold::cuda
