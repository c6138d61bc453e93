// Exact sums of integers: each thread keeps a state of its own.
#include "exact_outputs.cuh"

namespace bitfold::cuda {
namespace {

constexpr int threads = 256;
template <term What>
constexpr int cells_for = cells_of<std::int64_t, exact::degree(What)>;

template <term What>
__global__ void __launch_bounds__(threads)
    add_integers(elements data, index n, const __grid_constant__ exact_slots slots, const __grid_constant__ result_list how) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  constexpr int cells = cells_for<What>;
  __shared__ std::int64_t sum[cells];
  for (int i = threadIdx.x; i < cells; i += blockDim.x) sum[i] = 0;
  __syncthreads();
  exact::sum_of<std::int64_t, What> s;  // of any integers
  visit(data.type, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      const T *x = static_cast<const T*>(data.x), *y = static_cast<const T*>(data.y);
      for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += index{gridDim.x} * blockDim.x)
        exact::deposit<What>(s, x[i], exact::inputs(What) == 2 ? y[i] : T{});
    }
  });
  // Words below the top one have no sign of their own.
#pragma unroll
  for (int i = 0; i < cells - 1; ++i) {
    const auto digit = static_cast<std::uint32_t>(s.w[i / 2] >> (i % 2 * 32));
    const std::int64_t v = i == cells - 2 ? static_cast<std::int32_t>(digit) : static_cast<std::int64_t>(digit);
    const std::uint64_t all = warp_sum(static_cast<std::uint64_t>(v));
    if (threadIdx.x % warp == 0) atomicAdd(reinterpret_cast<word*>(&sum[i]), word{all});
  }
  if (threadIdx.x == 0) sum[cells - 1] = exact::something_else;
  __syncthreads();
  if (gridDim.x == 1 && how.count > 0) {
    const std::int64_t* of[most_slots] = {sum};
    __shared__ summed sums[1];
    write_results<std::int64_t, only(What)>(slots, of, n, how, sums);
  } else {
    for (int i = threadIdx.x; i < cells; i += blockDim.x) slots.each[0].at[index{blockIdx.x} * cells + i] = sum[i];
  }
}

template <term What>
exact_kernel kernel() {
  return {.function = reinterpret_cast<const void*>(add_integers<What>), .finish = reinterpret_cast<const void*>(exact_finish<std::int64_t, only(What)>),
          .finish_all = reinterpret_cast<const void*>(exact_finish<std::int64_t>),
          .threads = threads, .elements = 4 * threads, .cells = {cells_for<What>, 0}};
}

}  // namespace

template <>
exact_kernel exact_kernel_of<std::int64_t>(term what, bool and_squares) {
  if (and_squares) return {};
  return visit(what, [](auto w) { return kernel<w>(); });
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<std::int64_t>() {
  return kernels_of_outputs<std::int64_t>();
}

}  // namespace bitfold::cuda
