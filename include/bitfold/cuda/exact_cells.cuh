// Cells of exact sums: what threads, warps and blocks add to together. No order of additions shows,
// so nothing here cares for one.
#pragma once

#include <bitfold/cuda/device.cuh>
#include <bitfold/cuda/engine.cuh>
#include <bitfold/cuda/exact_sizes.hpp>

namespace bitfold::cuda {

using exact::wide;
using exact::word;
__extension__ typedef __int128 signed_wide;

__device__ inline word& as_word(std::int64_t& cell) { return reinterpret_cast<word&>(cell); }
// The lower half of a cell, which has the flags.
__device__ inline unsigned& flags_in(std::int64_t& cell) {
  return reinterpret_cast<unsigned&>(cell);
}
__device__ inline word warp_sum(word v) {
#pragma unroll
  for (int d = warp / 2; d > 0; d /= 2) v += shuffle_across(v, d);
  return v;
}
// Adds v 2^shift, the same v of all threads of a warp: a number below 2^32 to each of some cells.
__device__ inline void add_to_cells(std::int64_t* cells, int count, signed_wide v, int shift) {
  const int k = threadIdx.x % warp, at = shift / 32 + k, down = 32 * k - shift % 32;
  if (v == 0 || k > 4 || at >= count - 1) return;
  const wide m = v < 0 ? -static_cast<wide>(v) : static_cast<wide>(v);
  const auto digit = static_cast<std::uint32_t>(down >= 128 ? 0
                                                : down < 0  ? m << -down
                                                            : m >> down);
  if (digit) add_to(as_word(cells[at]), v < 0 ? 0 - word{digit} : word{digit});
}
// Adds all v 2^shift of a warp.
__device__ inline void add_all_to_cells(std::int64_t* cells, int count, std::int64_t v, int shift) {
  if (!any_of_the_warp(v != 0)) return;
  const auto sum_at = [=](int at) {
    return signed_wide{sum_of_the_warp(static_cast<unsigned>(v >> at) & 0xffff)} << at;
  };
  const signed_wide top = sum_of_the_warp(static_cast<int>(v >> 48));
  add_to_cells(cells, count, sum_at(0) + sum_at(16) + sum_at(32) + (top << 48), shift);
}
// Adds v to a cell in shared memory that nobody reads meanwhile: hardware adds 32 bits there, and
// only swaps 64.
__device__ inline void add_halves(std::int64_t& cell, std::int64_t v) {
  auto* const half = reinterpret_cast<unsigned*>(&cell);
  const auto low = static_cast<unsigned>(v);
  const bool carry = low && add_to(half[0], low) + low < low;
  if (const auto high = static_cast<unsigned>(v >> 32) + carry) add_to(half[1], high);
}
// Adds v 2^shift, of each thread its own, to such cells.
__device__ inline void add_each_to_cells(std::int64_t* cells, int count, std::int64_t v,
                                         int shift) {
  if (v == 0) return;
  const std::uint64_t m = v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
  const auto low = static_cast<std::uint32_t>(m), high = static_cast<std::uint32_t>(m >> 32);
  const std::uint32_t digits[3] = {low << shift % 32, shift_left_across(low, high, shift % 32),
                                   shift_left_across(high, 0, shift % 32)};
#pragma unroll
  for (int k = 0; k < 3; ++k)
    if (digits[k] && shift / 32 + k < count - 1)
      add_halves(cells[shift / 32 + k], v < 0 ? -std::int64_t{digits[k]} : std::int64_t{digits[k]});
}
// Leaves 32 bits, and a carry, in each cell but the topmost, of whose bits the lower 32 count. By
// `threads` threads, of which this is the t-th, and which may add to them meanwhile.
__device__ inline void carry_cells(std::int64_t* cells, int count, int t, int threads) {
  for (int i = t; i < count - 2; i += threads) {
    const word v = exchange_with(as_word(cells[i]), 0);
    add_to(as_word(cells[i]), v & 0xffffffff);
    add_to(as_word(cells[i + 1]), static_cast<word>(static_cast<std::int64_t>(v) >> 32));
  }
}

}  // namespace bitfold::cuda
