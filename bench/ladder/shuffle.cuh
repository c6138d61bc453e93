// Threads of a warp hand each other their sums from register to register; shared memory carries
// only one sum for each warp. The originals' __shfl_xor and __shfl_down are gone since Volta: the
// _sync forms name the threads that take part, here always all 32.
#pragma once

#include "shared_memory.cuh"

namespace bitfold::ladder {

template <class T>
__device__ T warp_sum(T v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
  return v;
}

// In thread 0, the sum over the block; blockDim.x is a multiple of 32.
template <class T>
__device__ T block_sum(T v) {
  __shared__ T s[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) s[warp] = v;
  __syncthreads();
  if (warp == 0) v = warp_sum(lane < blockDim.x / 32 ? s[lane] : T(0));
  return v;
}

template <int Reads, class T>
__device__ T sum_of_reads(const T* x, std::size_t n) {
  const std::size_t first = blockIdx.x * std::size_t{Reads} * blockDim.x + threadIdx.x;
  T sum = 0;
#pragma unroll
  for (int k = 0; k < Reads; ++k) sum += element(x, first + k * blockDim.x, n);
  return sum;
}

template <int Reads, class T>
__global__ void shuffled(const T* x, std::size_t n, T* sums) {
  const T sum = block_sum(sum_of_reads<Reads>(x, n));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <int Reads>
struct shuffle {
  static constexpr bool in_place = false;
  static constexpr auto sums = [](std::size_t n) { return repeat_sums(n, Reads * threads); };
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, Reads * threads, shuffled<Reads, T>);
  }
};
struct shuffle_1 : shuffle<1> {
  static constexpr rung info{"shuffle-1",
                             "Warp shuffle, reading 1",
                             "Warps add up in registers by shuffles, and one warp adds the warps' "
                             "sums: one barrier for the "
                             "whole tree. Further launches, not atomics.",
                             yan,
                             "",
                             {"96.3 GB/s", yan_card}};
};
struct shuffle_2 : shuffle<2> {
  static constexpr rung info{
      "shuffle-2", "Warp shuffle, reading 2", "2 elements for each thread.", yan,
      "",          {"96.2 GB/s", yan_card}};
};
struct shuffle_4 : shuffle<4> {
  static constexpr rung info{
      "shuffle-4", "Warp shuffle, reading 4", "4 elements for each thread.", yan,
      "",          {"96.8 GB/s", yan_card}};
};
struct shuffle_8 : shuffle<8> {
  static constexpr rung info{
      "shuffle-8", "Warp shuffle, reading 8", "8 elements for each thread.", yan,
      "",          {"107.2 GB/s", yan_card}};
};

// ---- Atomics ------------------------------------------------------------------------------------

template <class T>
__global__ void one_atomic_each(const T* x, std::size_t n, T* out) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < n) atomicAdd(out, x[i]);
}

struct naive_atomic {
  static constexpr rung info{
      "naive-atomic",
      "Naive atomic",
      "No tree at all: every thread adds its element to the result by an atomic. The memory system "
      "chooses the order of additions.",
      yan,
      "",
      {"82 GB/s", yan_card}};
  static constexpr bool in_place = false;
  static constexpr auto sums = no_sums;
  template <class T>
  static void run(const arguments<T>& a) {
    cudaMemsetAsync(a.out, 0, sizeof(T), a.stream);
    one_atomic_each<<<static_cast<unsigned>(blocks_for(a.n, threads)), threads, 0, a.stream>>>(
        a.x, a.n, a.out);
  }
};

template <int Reads, class T>
__global__ void shuffled_atomic(const T* x, std::size_t n, T* out) {
  const T sum = block_sum(sum_of_reads<Reads>(x, n));
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

struct shuffle_atomic {
  static constexpr rung info{"shuffle-atomic",
                             "Shuffle with atomic",
                             "The tree by shuffles, reading 8, and one atomic for each block: one "
                             "launch, no workspace, and "
                             "an order that changes from run to run.",
                             yan,
                             "",
                             {"121.8 GB/s", yan_card}};
  static constexpr bool in_place = false;
  static constexpr auto sums = no_sums;
  template <class T>
  static void run(const arguments<T>& a) {
    cudaMemsetAsync(a.out, 0, sizeof(T), a.stream);
    shuffled_atomic<8>
        <<<static_cast<unsigned>(blocks_for(a.n, 8 * threads)), threads, 0, a.stream>>>(a.x, a.n,
                                                                                        a.out);
  }
};

// ---- Two passes ---------------------------------------------------------------------------------

template <class T>
__global__ void grid_stride(const T* x, std::size_t n, T* sums) {
  T sum = 0;
  const std::size_t step = std::size_t{blockDim.x} * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step)
    sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

struct two_pass {
  static constexpr rung info{
      "two-pass",
      "Two passes with a temporary buffer",
      "Shuffles with a grid stride: up to 1024 blocks of 512 threads leave their sums in a buffer, "
      "and "
      "one block of 1024 adds these. No atomic, so the order is fixed again.",
      "Justin Luitjens, Faster Parallel Reductions on Kepler (NVIDIA, 2014)",
      "",
      {}};
  static constexpr bool in_place = false;
  static constexpr std::size_t most_blocks = 1024;
  static constexpr auto sums = [](std::size_t) { return most_blocks; };
  template <class T>
  static void run(const arguments<T>& a) {
    const auto blocks = static_cast<unsigned>(std::min(blocks_for(a.n, 512), most_blocks));
    grid_stride<<<blocks, 512, 0, a.stream>>>(a.x, a.n, a.workspace);
    grid_stride<<<1, 1024, 0, a.stream>>>(a.workspace, blocks, a.out);
  }
};

}  // namespace bitfold::ladder
