// What a kernel asks of a GPU besides arithmetic: loads, exchanges among threads, barriers. Tests
// put a GPU of their own in its place.
#pragma once

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

#include <cstddef>
#include <cstdint>

namespace bitfold::cuda {

constexpr int warp = 32;
constexpr unsigned all_threads = 0xffffffffu;

/// The block's memory, as much as its launch asks for.
extern __shared__ __align__(16) std::byte shared_bytes[];

/// Of the thread `distance` to the right in the warp, its v.
template <class V>
__device__ V shuffle_down(V v, int distance) {
  return __shfl_down_sync(all_threads, v, distance);
}
/// Of that thread of the warp, its v.
template <class V>
__device__ V shuffle(V v, int thread) {
  return __shfl_sync(all_threads, v, thread);
}

__device__ inline void wait_for_the_block() { __syncthreads(); }

/// Past the coherence of the first-level cache: nobody writes them meanwhile. Volatile, so that the
/// loads of a tile stay together, ahead of the fold of the tile before.
__device__ inline void load_16_bytes(const void* p, std::uint32_t (&word)[4]) {
  asm volatile("ld.global.nc.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(p));
}

// Programmatic dependent launch: the kernel after this one may be set up while this one runs; that
// one waits for the end of this before it reads what it wrote.
__device__ inline void let_the_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void wait_for_the_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace bitfold::cuda
