// What the rungs share: their arguments, and how blocks' sums become one.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ladder.hpp"

namespace bitfold::ladder {

// One size for every rung that does not come with its own, so that it does not tell them apart.
constexpr int threads = 256;

template <class T>
struct arguments {
  const T* x;
  std::size_t n;
  T* out;
  T* workspace;  // partial sums; before them a copy of x where the rung works in place
  cudaStream_t stream;
};

constexpr std::size_t blocks_for(std::size_t n, std::size_t per_block) {
  return (n + per_block - 1) / per_block;
}

inline int multiprocessors() {
  int device = 0, count = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

// One pass after another, each over the sums of the pass before, until one sum is left:
// pass(x, n, sums, blocks) is to write one sum for each `per_block` elements.
template <class T, class Pass>
void repeat(const arguments<T>& a, T* x, std::size_t per_block, Pass pass) {
  T* spare[2] = {a.workspace, a.workspace + blocks_for(a.n, per_block)};
  std::size_t n = a.n;
  for (int level = 0;; ++level) {
    const std::size_t blocks = blocks_for(n, per_block);
    T* const sums = blocks == 1 ? a.out : spare[level % 2];
    pass(x, n, sums, static_cast<unsigned>(blocks));
    if (blocks == 1) return;
    x = sums;
    n = blocks;
  }
}
// The elements of workspace that repeat() needs.
constexpr std::size_t repeat_sums(std::size_t n, std::size_t per_block) {
  const std::size_t blocks = blocks_for(n, per_block);
  return blocks + blocks_for(blocks, per_block);
}

// For kernels that only read.
template <class T, class Kernel>
void repeat_launch(const arguments<T>& a, std::size_t per_block, Kernel kernel) {
  repeat(a, const_cast<T*>(a.x), per_block,
         [&](const T* x, std::size_t n, T* sums, unsigned blocks) {
           kernel<<<blocks, threads, 0, a.stream>>>(x, n, sums);
         });
}

constexpr std::size_t no_sums(std::size_t) { return 0; }

// What the others wrote down of their own cards.
constexpr std::string_view yan = "Chunwei Yan, Reduce kernel in CUDA (2024)";
constexpr std::string_view yan_card = "Chunwei Yan's notes, their GTX 4080";
constexpr std::string_view lecture = "GPU MODE lecture 9 (Mark Saroufim; PMPP chapter 10)";
constexpr std::string_view harris = "Mark Harris, Optimizing Parallel Reduction in CUDA";

}  // namespace bitfold::ladder
