// The read ceiling on a GPU: a kernel that loads every 16 bytes of an array and nothing else.
#pragma once

#include <algorithm>
#include <cstddef>

static __global__ void load_only_kernel(const int4* p, std::size_t n, int* out) {
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
  if (x == 0x12345678) *out = x;  // keeps the loads
}

// Enqueues it over `bytes`, rounded down to 16; `out` is room for an int that is hardly ever written.
inline void load_only(const void* data, std::size_t bytes, void* out, cudaStream_t stream) {
  const std::size_t packs = bytes / 16;
  const int blocks = static_cast<int>(std::clamp<std::size_t>((packs + 255) / 256, 1, 132 * 8));
  load_only_kernel<<<blocks, 256, 0, stream>>>(static_cast<const int4*>(data), packs, static_cast<int*>(out));
}
