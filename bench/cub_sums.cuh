// CUB's sums that both the bench of the GPU and the suite measure.
#pragma once

#include <cub/device/device_reduce.cuh>
#include <cub/version.cuh>
#if __has_include(<cuda/execution.determinism.h>)
#include <cuda/__execution/determinism.h>
#include <cuda/execution.determinism.h>
#define CUB_HAS_LEVELS 1
#endif

#include <cstddef>

namespace bitfold::speed {

template <class A>
struct to {
  template <class T>
  __host__ __device__ A operator()(T x) const {
    return static_cast<A>(x);
  }
};

/// Through a widening transform, so that 16-bit floats are accumulated in A = f32 here too. At
/// first with null for `temp`, to ask for `bytes`.
template <class A, class T, class Out>
cudaError_t cub_widened_sum(void* temp, std::size_t& bytes, const T* x, Out* sum, std::size_t n,
                            cudaStream_t s) {
  return cub::DeviceReduce::TransformReduce(temp, bytes, x, sum, n, ::cuda::std::plus<>{}, to<A>{},
                                            A{0}, s);
}

#ifdef CUB_HAS_LEVELS
/// At a level of determinism. It takes its memory from the stream's pool.
template <class Level, class T>
cudaError_t cub_sum_at_level(const T* x, T* sum, std::size_t n, cudaStream_t s) {
  return cub::DeviceReduce::Reduce(
      x, sum, n, ::cuda::std::plus<>{}, T{0},
      ::cuda::std::execution::env{::cuda::stream_ref{s}, ::cuda::execution::require(Level{})});
}
#endif

}  // namespace bitfold::speed
