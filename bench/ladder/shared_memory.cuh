// A block reads its elements once and adds up in shared memory. Sums of blocks are added by further
// launches, or by atomics on the result.
#pragma once

#include "common.cuh"

namespace bitfold::ladder {

template <class T>
__device__ T element(const T* x, std::size_t i, std::size_t n) {
  return i < n ? x[i] : T(0);
}

// ---- One element for each thread ----------------------------------------------------------------

template <class T>
__global__ void shared_interleaved(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  const unsigned t = threadIdx.x;
  s[t] = element(x, blockIdx.x * std::size_t{blockDim.x} + t, n);
  __syncthreads();
  for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
    if (t % (2 * stride) == 0) s[t] += s[t + stride];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = s[0];
}

template <class T>
__global__ void shared_strided_index(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  const unsigned t = threadIdx.x;
  s[t] = element(x, blockIdx.x * std::size_t{blockDim.x} + t, n);
  __syncthreads();
  for (unsigned stride = 1; stride < blockDim.x; stride *= 2) {
    const unsigned i = 2 * stride * t;
    if (i < blockDim.x) s[i] += s[i + stride];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = s[0];
}

// s[0] becomes the sum of s[0 .. blockDim.x - 1].
template <class T>
__device__ void sequential_tree(T* s) {
  const unsigned t = threadIdx.x;
  __syncthreads();
  for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
    if (t < stride) s[t] += s[t + stride];
    __syncthreads();
  }
}

template <class T>
__global__ void shared_sequential(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  s[threadIdx.x] = element(x, blockIdx.x * std::size_t{blockDim.x} + threadIdx.x, n);
  sequential_tree(s);
  if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}

struct shared_memory {
  static constexpr rung info{"shared-memory",
                             "Shared memory, interleaved",
                             "Interleaved addressing again, but on a copy in shared memory: global "
                             "memory is read once and "
                             "not written.",
                             harris,
                             "",
                             {"54 GB/s", yan_card}};
  static constexpr bool in_place = false;
  static constexpr auto sums = [](std::size_t n) { return repeat_sums(n, threads); };
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, threads, shared_interleaved<T>);
  }
};

struct strided_index {
  static constexpr rung info{"strided-index",
                             "Strided index",
                             "The same additions by consecutive threads: warps no longer diverge, "
                             "but threads of a warp now "
                             "meet in the same banks of shared memory.",
                             harris,
                             "",
                             {"70 GB/s", yan_card}};
  static constexpr bool in_place = false;
  static constexpr auto sums = [](std::size_t n) { return repeat_sums(n, threads); };
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, threads, shared_strided_index<T>);
  }
};

struct sequential_addressing {
  static constexpr rung info{
      "sequential-addressing",
      "Sequential addressing",
      "The halving distances of the contiguous prefix, in shared memory: no divergence and no bank "
      "conflicts.",
      harris,
      "",
      {}};
  static constexpr bool in_place = false;
  static constexpr auto sums = [](std::size_t n) { return repeat_sums(n, threads); };
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, threads, shared_sequential<T>);
  }
};

// ---- More than one element for each thread ------------------------------------------------------

// (The original adds two elements without asking whether they exist, and so reads past the end of
// an array that is no multiple of the block.)
template <class T>
__device__ T two_elements(const T* x, std::size_t n) {
  const std::size_t i = blockIdx.x * std::size_t{2} * blockDim.x + threadIdx.x;
  return element(x, i, n) + element(x, i + blockDim.x, n);
}

template <class T>
__global__ void shared_read_two(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  s[threadIdx.x] = two_elements(x, n);
  sequential_tree(s);
  if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}

struct read_two {
  static constexpr rung info{
      "read-two",
      "First addition during load (read two)",
      "A thread adds two elements while it loads them, so no thread idles from the first step on.",
      harris,
      "any n here; the original: multiples of twice the block",
      {"96.5 GB/s (with the strided index)", yan_card}};
  static constexpr bool in_place = false;
  static constexpr auto sums = [](std::size_t n) { return repeat_sums(n, 2 * threads); };
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, 2 * threads, shared_read_two<T>);
  }
};

// Lecture 9's segmented kernel (Factor 1) and its coarsened one. `out` starts at 0.
template <int Factor, class T>
__global__ void shared_coarsened(const T* x, std::size_t n, T* out) {
  __shared__ T s[threads];
  const std::size_t first = blockIdx.x * std::size_t{Factor} * blockDim.x + threadIdx.x;
  T sum = 0;
#pragma unroll
  for (int k = 0; k < Factor; ++k) sum += element(x, first + k * blockDim.x, n);
  s[threadIdx.x] = sum;
  sequential_tree(s);
  if (threadIdx.x == 0) atomicAdd(out, s[0]);
}

template <int Factor>
struct coarsened {
  static constexpr bool in_place = false;
  static constexpr auto sums = no_sums;
  template <class T>
  static void run(const arguments<T>& a) {
    cudaMemsetAsync(a.out, 0, sizeof(T), a.stream);
    shared_coarsened<Factor>
        <<<static_cast<unsigned>(blocks_for(a.n, Factor * threads)), threads, 0, a.stream>>>(
            a.x, a.n, a.out);
  }
};

struct segmented_atomic : coarsened<1> {
  static constexpr rung info{"segmented-atomic",
                             "Segments with atomics",
                             "One element for each thread again, and one launch: every block adds "
                             "its sum to the result by "
                             "an atomic, in whatever order blocks finish.",
                             lecture,
                             "",
                             {}};
};
struct coarsened_2 : coarsened<2> {
  static constexpr rung info{"coarsened-2",
                             "Thread coarsening, 2",
                             "A thread first adds 2 elements of its own, so there are half as many "
                             "blocks, barriers and atomics.",
                             lecture,
                             "",
                             {}};
};
struct coarsened_4 : coarsened<4> {
  static constexpr rung info{
      "coarsened-4", "Thread coarsening, 4", "4 elements for each thread.", lecture, "", {}};
};
struct coarsened_8 : coarsened<8> {
  static constexpr rung info{
      "coarsened-8", "Thread coarsening, 8", "8 elements for each thread.", lecture, "", {}};
};
struct coarsened_16 : coarsened<16> {
  static constexpr rung info{
      "coarsened-16", "Thread coarsening, 16", "16 elements for each thread.", lecture, "", {}};
};
struct coarsened_32 : coarsened<32> {
  static constexpr rung info{
      "coarsened-32", "Thread coarsening, 32", "32 elements for each thread.", lecture, "", {}};
};

// ---- Without the loop's cost --------------------------------------------------------------------

// s[0] becomes the sum of s[0 .. 63]; by the first warp. The original writes s[t] += s[t + d] with
// `volatile` and no barrier, on the belief that a warp runs in step. From Volta on it need not:
// that is a race. Here each step reads, waits, writes and waits.
template <class T>
__device__ void last_warp(T* s) {
  T v = s[threadIdx.x];
#pragma unroll
  for (int d = 32; d > 0; d /= 2) {
    v += s[threadIdx.x + d];
    __syncwarp();
    s[threadIdx.x] = v;
    __syncwarp();
  }
}

template <class T>
__global__ void shared_last_warp(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  const unsigned t = threadIdx.x;
  s[t] = two_elements(x, n);
  __syncthreads();
  for (unsigned stride = blockDim.x / 2; stride > 32; stride /= 2) {
    if (t < stride) s[t] += s[t + stride];
    __syncthreads();
  }
  if (t < 32) last_warp(s);
  if (t == 0) sums[blockIdx.x] = s[0];
}

struct unrolled_last_warp {
  static constexpr rung info{
      "unrolled-last-warp",
      "Unrolled last warp",
      "Read two, with further launches instead of atomics; the last six steps are one warp's, so "
      "they are written out and need no barrier of the block.",
      harris,
      "any n here; the original also has a race from Volta on",
      {}};
  static constexpr bool in_place = false;
  static constexpr auto sums = read_two::sums;
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, 2 * threads, shared_last_warp<T>);
  }
};

// s[0] becomes the sum of s[0 .. 2 * Half - 1].
template <int Half, class T>
__device__ void unrolled_tree(T* s) {
  if constexpr (Half > 32) {
    if (threadIdx.x < Half) s[threadIdx.x] += s[threadIdx.x + Half];
    __syncthreads();
    unrolled_tree<Half / 2>(s);
  } else {
    if (threadIdx.x < 32) last_warp(s);
  }
}

template <class T>
__global__ void shared_unrolled(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  s[threadIdx.x] = two_elements(x, n);
  __syncthreads();
  unrolled_tree<threads / 2>(s);
  if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}

struct fully_unrolled {
  static constexpr rung info{
      "fully-unrolled",
      "Fully unrolled by template",
      "The block's size is a template argument, so the compiler writes out every step of the tree.",
      harris,
      "any n here; the original as the rung before",
      {}};
  static constexpr bool in_place = false;
  static constexpr auto sums = read_two::sums;
  template <class T>
  static void run(const arguments<T>& a) {
    repeat_launch(a, 2 * threads, shared_unrolled<T>);
  }
};

template <class T>
__global__ void shared_cascading(const T* x, std::size_t n, T* sums) {
  __shared__ T s[threads];
  T sum = 0;
  const std::size_t step = std::size_t{2} * threads * gridDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{2} * threads + threadIdx.x; i < n; i += step)
    sum += x[i] + element(x, i + threads, n);
  s[threadIdx.x] = sum;
  __syncthreads();
  unrolled_tree<threads / 2>(s);
  if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}

struct cascading {
  static constexpr rung info{"cascading",
                             "Algorithm cascading (grid stride)",
                             "As many blocks as the GPU holds at once, each walking the whole "
                             "array in strides: long runs of "
                             "cheap additions, few trees, and two launches at any n.",
                             harris,
                             "any n here; the original as the rung before",
                             {}};
  static constexpr bool in_place = false;
  static constexpr std::size_t blocks_held(std::size_t processors) { return processors * 8; }
  // The GPU at hand decides the number; this is more than any has.
  static constexpr auto sums = [](std::size_t) { return blocks_held(1024); };
  template <class T>
  static void run(const arguments<T>& a) {
    const auto blocks = static_cast<unsigned>(
        std::min(blocks_for(a.n, 2 * threads), blocks_held(multiprocessors())));
    shared_cascading<<<blocks, threads, 0, a.stream>>>(a.x, a.n, blocks == 1 ? a.out : a.workspace);
    if (blocks > 1) shared_cascading<<<1, threads, 0, a.stream>>>(a.workspace, blocks, a.out);
  }
};

}  // namespace bitfold::ladder
