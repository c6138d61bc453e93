// The read ceiling on a GPU: kernels that load every 16 bytes of an array and nothing else.
#pragma once

#include <algorithm>
#include <cstddef>

// Each block so many neighbouring packs at once.
template <int Loads>
static __global__ void load_only_blocks(const int4* p, std::size_t n, int* out) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x * Loads + threadIdx.x;
  int4 v[Loads] = {};
#pragma unroll
  for (int k = 0; k < Loads; ++k)
    if (first + k * blockDim.x < n) v[k] = __ldcs(p + first + k * blockDim.x);
  int x = 0;
#pragma unroll
  for (int k = 0; k < Loads; ++k) x |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  if (x == 0x12345678) *out = x;  // keeps the loads
}

// A grid that fills the GPU once and goes on from there.
static __global__ void load_only_grid(const int4* p, std::size_t n, int* out) {
  int x = 0;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  for (; i + 7 * stride < n; i += 8 * stride) {
    int4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(p + i + k * stride);
#pragma unroll
    for (int k = 0; k < 8; ++k) x |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  for (; i < n; i += stride) x |= p[i].x ^ p[i].y ^ p[i].z ^ p[i].w;
  if (x == 0x12345678) *out = x;
}

// Enqueues the fastest over `bytes`, rounded down to 16; `out` is room for an int that is hardly
// ever written. On an H200, of 14 shapes (blocks of 128 to 1024 threads with 1 to 16 loads each,
// and the grid): one load a thread wins up to 4 MiB, 8 loads from 1 GiB on, the grid between.
inline void load_only(const void* data, std::size_t bytes, void* out, cudaStream_t stream) {
  const std::size_t packs = bytes / 16, mib = std::size_t{1} << 20;
  const auto* p = static_cast<const int4*>(data);
  auto* const to = static_cast<int*>(out);
  const auto blocks = [&](std::size_t each) {
    return static_cast<unsigned>(std::max<std::size_t>(1, (packs + each - 1) / each));
  };
  if (bytes <= 4 * mib)
    load_only_blocks<1><<<blocks(256), 256, 0, stream>>>(p, packs, to);
  else if (bytes >= 1024 * mib)
    load_only_blocks<8><<<blocks(256 * 8), 256, 0, stream>>>(p, packs, to);
  else
    load_only_grid<<<std::min(blocks(256), 132u * 8), 256, 0, stream>>>(p, packs, to);
}
