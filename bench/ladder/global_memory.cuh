// The beginning: a block adds up its segment of the array where it lies, in global memory.
//
// A step ends with __syncthreads(), so neither kernel has a race. Lecture 9 launches one block of
// 1024 threads on exactly 2048 elements; added here: a segment for each block, a short last
// segment, and further launches over the segments' sums.
#pragma once

#include "common.cuh"

namespace bitfold::ladder {

constexpr std::size_t segment = 2 * threads;

template <class T>
__global__ void interleaved_in_global(T* x, std::size_t n, T* sums) {
  x += blockIdx.x * segment;
  n -= blockIdx.x * segment;
  const unsigned t = threadIdx.x, i = 2 * t;
  for (unsigned stride = 1; stride <= blockDim.x; stride *= 2) {
    if (t % stride == 0 && i + stride < n)
      x[i] += x[i + stride];  // ever fewer threads of every warp
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = x[0];
}

template <class T>
__global__ void prefix_in_global(T* x, std::size_t n, T* sums) {
  x += blockIdx.x * segment;
  n -= blockIdx.x * segment;
  const unsigned t = threadIdx.x;
  for (unsigned stride = blockDim.x; stride > 0; stride /= 2) {
    if (t < stride && t + stride < n) x[t] += x[t + stride];  // the first threads: whole warps
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = x[0];
}

// The copy that prepare() makes stands first in the workspace.
template <class T, class Kernel>
void repeat_in_place(arguments<T> a, Kernel kernel) {
  T* const copy = a.workspace;
  a.workspace += a.n;
  repeat(a, copy, segment, [&](T* x, std::size_t n, T* sums, unsigned blocks) {
    kernel<<<blocks, threads, 0, a.stream>>>(x, n, sums);
  });
}
constexpr std::size_t segment_sums(std::size_t n) { return repeat_sums(n, segment); }

constexpr std::string_view one_block_only =
    "any n here; the original: one block, exactly 2048 elements";

struct interleaved {
  static constexpr rung info{
      "interleaved",
      "Interleaved addressing, in global memory",
      "Neighbours are added first, then sums at distance 2, 4, 8 and so on; the threads that go on "
      "are spread over all warps, so every warp diverges.",
      lecture,
      one_block_only,
      {"11.79 ms for 1 G elements", "step 1 of a reduction course, on an AMD MI250"}};
  static constexpr bool in_place = true;
  static constexpr auto sums = segment_sums;
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_in_place(a, interleaved_in_global<T>);
  }
};

struct contiguous_prefix {
  static constexpr rung info{
      "contiguous-prefix",
      "Contiguous prefix, in global memory",
      "The distance starts large and halves, so the threads that go on are always the first ones: "
      "whole warps retire, and neighbouring threads touch neighbouring elements.",
      lecture,
      one_block_only,
      {}};
  static constexpr bool in_place = true;
  static constexpr auto sums = segment_sums;
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_in_place(a, prefix_in_global<T>);
  }
};

}  // namespace bitfold::ladder
