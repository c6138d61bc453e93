// How frameworks launch a sum of a whole contiguous array of 4-byte elements, written afresh from
// what their sources say. Both fix the order by n and the number of multiprocessors: the same bits
// from run to run on one GPU, and others on another model.
#pragma once

#include <bit>

#include "shuffle.cuh"

namespace bitfold::ladder {

template <class T>
struct alignas(16) pack {
  T v[4];
};

// ---- PyTorch ------------------------------------------------------------------------------------
// aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig, input_vectorized_thread_reduce_impl,
// block_x_reduce, global_reduce), as of ROCm/pytorch ee51720aa8c5, its CUDA branch. Blocks of the
// power of two below n / 4, at most 512; a thread reads 16 bytes at a time into 4 accumulators (vt0
// and the vector size are 4); the block's tree goes through shared memory down to a warp, then by
// shuffles with growing distance. Blocks: enough to fill the GPU, but for at least 16 and at most
// 256 values for each thread; one when a thread has fewer than 256. Sums of blocks wait in a
// staging buffer, and the block that a counter says is last adds them. (Theirs reads arrays of up
// to 128 elements without vectors, and integers accumulate in 64 bits.)

template <class T>
__device__ T pytorch_block_sum(T v, T* s) {
  const unsigned t = threadIdx.x;
  s[t] = v;
  for (unsigned d = blockDim.x / 2; d >= 32; d /= 2) {
    __syncthreads();
    if (t < d) s[t] = v += s[t + d];
  }
  __syncthreads();
#pragma unroll
  for (int d = 1; d < 32; d *= 2) v += __shfl_down_sync(~0u, v, d);
  return v;
}

template <class T>
__global__ void __launch_bounds__(512, 4)
    pytorch_sum(const T* x, std::size_t n, T* staging, unsigned* finished, T* out) {
  __shared__ T s[512];
  __shared__ bool last;
  T a[4] = {};
  const std::size_t step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n / 4; i += step) {
    const pack<T> p = reinterpret_cast<const pack<T>*>(x)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) a[k] += p.v[k];
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 4) a[0] += x[n - n % 4 + threadIdx.x];
  T sum = pytorch_block_sum(a[0] + a[1] + a[2] + a[3], s);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) {
      staging[blockIdx.x] = sum;
      __threadfence();  // the sum is seen before the count
      last = atomicAdd(finished, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += staging[i];
    sum = pytorch_block_sum(sum, s);
  }
  if (threadIdx.x == 0) *out = sum;
}

struct pytorch_like {
  static constexpr rung info{"pytorch-like",
                             "PyTorch-like",
                             "Loads of 16 bytes into four accumulators, and one launch: the block "
                             "that finishes last adds the "
                             "sums of all.",
                             "PyTorch, aten/src/ATen/native/cuda/Reduce.cuh",
                             "",
                             {}};
  static constexpr bool in_place = false;
  struct shape {
    unsigned threads, blocks;
  };
  static shape shape_for(std::size_t n, std::size_t processors) {
    shape s{512, 1};
    while (s.threads > 32 && s.threads > n / 4) s.threads /= 2;
    const std::size_t each = blocks_for(n, s.threads);
    if (each >= 256)
      s.blocks = static_cast<unsigned>(std::max(
          std::min(processors * (2048 / s.threads), blocks_for(each, 16)), blocks_for(each, 256)));
    return s;
  }
  // The counter, then at most as many sums as the GPU holds blocks, or one for 256 * 512 elements.
  static constexpr auto sums = [](std::size_t n) { return 64 + 4096 + blocks_for(n, 256 * 512); };
  template <class T>
  static void run(const arguments<T>& a) {
    const shape s = shape_for(a.n, multiprocessors());
    auto* const finished = reinterpret_cast<unsigned*>(a.workspace);
    if (s.blocks > 1) cudaMemsetAsync(finished, 0, sizeof *finished, a.stream);
    pytorch_sum<<<s.blocks, s.threads, 0, a.stream>>>(a.x, a.n, a.workspace + 64, finished, a.out);
  }
};

// ---- Triton, as PyTorch's compiler uses it ------------------------------------------------------
// torch/_inductor/choices.py (reduction_split_factor) at 0012d881f374; the tile of 2048 and the 16
// warps: torch/_inductor/runtime/triton_heuristics.py (_reduction_configs, triton_config_reduction)
// at 00131b6bd4be; tl.sum: Triton's lib/Conversion/TritonGPUToLLVM/ReduceOpToLLVM.cpp at
// 010511a79b35. A sum of more than 8192 elements is split into chunks, one for each block, and a
// second launch adds their sums. A block adds its chunk tile by tile into an accumulator of 2048
// elements, 4 in each of 512 threads, and then sums the accumulator: in the thread, in the warp by
// shuffles, across warps through shared memory. (Their split prefers divisors of n near the wanted
// size; here it is the nearest power of two, which is the same where n is one.)

template <class T>
__global__ void __launch_bounds__(512)
    triton_sum(const T* x, std::size_t n, std::size_t chunk, T* sums) {
  const std::size_t begin = blockIdx.x * chunk, end = min(begin + chunk, n);
  T a[4] = {};
  for (std::size_t i = begin + 4 * threadIdx.x; i < end; i += 2048) {
    if (i + 4 <= end) {
      const pack<T> p = *reinterpret_cast<const pack<T>*>(x + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) a[k] += p.v[k];
    } else {
      for (int k = 0; i + k < end; ++k) a[k] += x[i + k];
    }
  }
  const T sum = block_sum(a[0] + a[1] + a[2] + a[3]);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

struct triton_like {
  static constexpr rung info{"triton-like",
                             "Triton-like",
                             "A chunk of consecutive elements for each block, walked tile by tile "
                             "into an accumulator as wide as "
                             "the tile; a second launch adds the chunks' sums.",
                             "PyTorch, torch/_inductor/choices.py; Triton, ReduceOpToLLVM.cpp",
                             "",
                             {}};
  static constexpr bool in_place = false;
  static std::size_t chunk_for(std::size_t n, std::size_t processors) {
    if (n <= 8192) return 8192;
    const std::size_t held = processors * 2048;
    std::size_t each = 32;
    if (n > 32 * held) {
      const std::size_t wanted = std::min<std::size_t>(blocks_for(n, held / 2), 512);
      each = std::bit_ceil(wanted);
      if (each - wanted > wanted - each / 2) each /= 2;
    }
    return 256 * each;
  }
  static constexpr auto sums = [](std::size_t n) { return blocks_for(n, 8192); };
  template <class T>
  static void run(const arguments<T>& a) {
    const std::size_t chunk = chunk_for(a.n, multiprocessors());
    const auto blocks = static_cast<unsigned>(blocks_for(a.n, chunk));
    triton_sum<<<blocks, 512, 0, a.stream>>>(a.x, a.n, chunk, blocks == 1 ? a.out : a.workspace);
    if (blocks > 1)
      triton_sum<<<1, 512, 0, a.stream>>>(a.workspace, std::size_t{blocks}, std::size_t{blocks},
                                          a.out);
  }
};

}  // namespace bitfold::ladder
