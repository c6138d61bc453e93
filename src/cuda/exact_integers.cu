// Exact sums of integers: each thread keeps a state of its own.
#include <bit>

#include "exact_outputs.cuh"

namespace bitfold::cuda {
namespace {

constexpr int threads = 256;
template <term What>
constexpr int cells_for = cells_of<std::int64_t, exact::degree(What)>;

// A thread's sum of a term, and the block's cells, if it is wanted.
template <term What>
struct integer_sum {
  exact::sum_of<std::int64_t, What> s;  // of any integers
  bool here;
  std::int64_t* cells;
};
template <term... What>
struct integer_sums : integer_sum<What>... {
  // Calls f(the sum of a term) with each that is here.
  template <class F>
  __device__ void each(F f) {
    ((integer_sum<What>::here ? f(static_cast<integer_sum<What>&>(*this)) : void()), ...);
  }
};

// Of some of these terms, or of all.
template <bool All, term... What>
__global__ void __launch_bounds__(threads)
    add_integers(elements data, index n, const __grid_constant__ exact_slots slots,
                 const __grid_constant__ result_list how) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  constexpr int all_cells = (0 + ... + cells_for<What>);
  __shared__ std::int64_t cells[all_cells];
  for (int i = threadIdx.x; i < all_cells; i += blockDim.x) cells[i] = 0;
  __syncthreads();
  integer_sums<What...> sums;
  int used = 0;
  (
      [&] {
        integer_sum<What>& one = sums;
        one.here = All;
        for (int k = 0; !All && k < slots.count; ++k) one.here |= slots.each[k].what == What;
        one.cells = cells + used;
        used += one.here ? cells_for<What> : 0;
      }(),
      ...);
  visit(data.type, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) {
      const T *x = static_cast<const T*>(data.x), *y = static_cast<const T*>(data.y);
      for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
           i += index{gridDim.x} * blockDim.x) {
        const T here = x[i], other = y ? y[i] : T{};
        sums.each([&]<term W>(integer_sum<W>& one) { exact::deposit<W>(one.s, here, other); });
      }
    }
  });
  // Words below the top one have no sign of their own.
  sums.each([]<term W>(integer_sum<W>& one) {
#pragma unroll
    for (int i = 0; i < cells_for<W> - 1; ++i) {
      const auto digit = static_cast<std::uint32_t>(one.s.w[i / 2] >> (i % 2 * 32));
      const std::int64_t v = i == cells_for<W> - 2 ? static_cast<std::int32_t>(digit)
                                                   : static_cast<std::int64_t>(digit);
      const std::uint64_t all = warp_sum(static_cast<std::uint64_t>(v));
      if (threadIdx.x % warp == 0) atomicAdd(reinterpret_cast<word*>(&one.cells[i]), word{all});
    }
    if (threadIdx.x == 0) one.cells[cells_for<W> - 1] = exact::something_else;
  });
  __syncthreads();
  if constexpr (All)
    if (gridDim.x == 1 && how.count > 0) {
      const std::int64_t* of[most_slots] = {cells};
      __shared__ summed sum[1];
      write_results<std::int64_t, (0u | ... | only(What))>(slots, of, n, how, sum);
      return;
    }
  int k = 0;
  sums.each([&]<term W>(integer_sum<W>& one) {
    for (int i = threadIdx.x; i < cells_for<W>; i += blockDim.x)
      slots.each[k].at[index{blockIdx.x} * cells_for<W> + i] = one.cells[i];
    ++k;
  });
}

template <bool All, term... What>
exact_kernel kernel() {
  const auto finish_all = reinterpret_cast<const void*>(exact_finish<std::int64_t>);
  exact_kernel k{.function = reinterpret_cast<const void*>(add_integers<All, What...>),
                 .finish = finish_all,
                 .finish_all = finish_all,
                 .alone = All,
                 .threads = threads,
                 .elements = 4 * threads,
                 .cells = {cells_for<term::element>, cells_for<term::square>}};
  if constexpr (All)
    k.finish = reinterpret_cast<const void*>(exact_finish<std::int64_t, (0u | ... | only(What))>);
  return k;
}

}  // namespace

template <>
exact_kernel exact_kernel_of<std::int64_t>(unsigned terms) {
  if (!std::has_single_bit(terms)) return {};
  return visit(static_cast<term>(std::countr_zero(terms)),
               [](auto w) { return kernel<true, w>(); });
}
template <>
exact_kernel exact_kernel_of_any<std::int64_t>(unsigned terms) {
  using enum exact::term;
  if (terms & of_two_inputs) return kernel<false, difference, product, squared_difference>();
  return kernel<false, element, number, presence, magnitude, square>();
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<std::int64_t>() {
  return kernels_of_outputs<std::int64_t>();
}

}  // namespace bitfold::cuda
