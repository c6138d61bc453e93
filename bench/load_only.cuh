// The read ceiling on a GPU: kernels that load every 16 bytes of an array and nothing else.
#pragma once

#include <algorithm>
#include <cstddef>

#include "load_only_kernels.cuh"

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
    load_only_grid<><<<std::min(blocks(256), 132u * 8), 256, 0, stream>>>(p, packs, to);
}
