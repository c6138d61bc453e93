// count_distinct of whole arrays without a sort: of few elements by a table in one block's shared
// memory, of elements of 1 or 2 bytes by a bit for each pattern that they may be. Who comes first
// differs from run to run; what there is at last does not.
#pragma once

#include <bitfold/arith.hpp>
#include <bitfold/cuda/device.cuh>
#include <bitfold/cuda/distinct.hpp>
#include <bitfold/formats.hpp>
#include <bitfold/order.hpp>
#include <type_traits>

namespace bitfold::cuda {

using order::index;

// ---- A table ------------------------------------------------------------------------------------

__device__ inline std::uint32_t scattered(std::uint32_t key) {
  key = (key ^ key >> 16) * 0x85ebca6bu;
  key = (key ^ key >> 13) * 0xc2b2ae35u;
  return key ^ key >> 16;
}
__device__ inline std::uint32_t scattered(std::uint64_t key) {
  return scattered(static_cast<std::uint32_t>((key ^ key >> 32) * 0x9e3779b97f4a7c15u >> 32));
}

/// Puts a key, which is not `nothing`, into a table that has room for it. Whether it is new: of
/// several threads with the same key to one alone.
template <class Key>
__device__ bool put_into_table(Key* table, std::uint32_t slots, Key nothing, Key key) {
  for (std::uint32_t at = high_product(scattered(key), slots);; at = at + 1 < slots ? at + 1 : 0) {
    // Most keys of few that differ are there by now. Once a slot has a key, it stays there.
    Key there = *static_cast<const volatile Key*>(table + at);
    if (there == nothing) {
      there = replace_if(table[at], nothing, key);
      if (there == nothing) return true;
    }
    if (there == key) return false;
  }
}

/// Of n elements, elements_of_table() at most, by one block.
template <class T>
__global__ void __launch_bounds__(distinct_threads)
    count_by_table(const T* x, std::uint32_t n, std::uint32_t slots, std::int64_t* result) {
  using key = decltype(arith::key_of(T{}));
  constexpr key nothing = static_cast<key>(-1);  // is counted apart
  constexpr auto each = static_cast<int>(elements_of_table(sizeof(T)) / distinct_threads);
  __shared__ std::uint32_t count;
  auto* const table = reinterpret_cast<key*>(shared_bytes);

  // The loads are on their way while the table is cleared.
  T element[each];
#pragma unroll
  for (int u = 0; u < each; ++u)
    if (const std::uint32_t i = threadIdx.x + u * distinct_threads; i < n) element[u] = x[i];
  for (std::uint32_t i = threadIdx.x; i < slots; i += distinct_threads) table[i] = nothing;
  if (threadIdx.x == 0) count = 0;
  wait_for_the_block();

  unsigned news = 0;
  bool has_nothing = false;
#pragma unroll
  for (int u = 0; u < each; ++u) {
    if (threadIdx.x + u * distinct_threads >= n) continue;
    const key k = arith::key_of(element[u]);
    if (k == nothing)
      has_nothing = true;
    else
      news += put_into_table(table, slots, nothing, k);
  }
  news = sum_of_the_warp(news);
  if (threadIdx.x % warp == 0 && news > 0) add_to(count, news);
  has_nothing = any_of_the_block(has_nothing);
  if (threadIdx.x == 0) *result = std::int64_t{count} + has_nothing;
}

// ---- A bit for each pattern ---------------------------------------------------------------------

/// Sets the bits of elements, `Size` bytes each, that lie in words one behind the other.
template <int Size, int Words>
__device__ void set_patterns(std::uint32_t* seen, const std::uint32_t (&word)[Words]) {
  constexpr int bits = 8 * Size, of_word = 32 / bits, at_once = 4;
#pragma unroll
  for (int w = 0; w < Words; w += at_once / of_word) {
    std::uint32_t pattern[at_once], bit[at_once], missing = 0;
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      pattern[k] = word[w + k / of_word] >> k % of_word * bits & ((1u << bits) - 1);
      bit[k] = 1u << pattern[k] % 32;
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) missing |= bit[k] & ~seen[pattern[k] / 32];
    // Most have been seen, and reading is quicker than writing.
    if (missing == 0) continue;
#pragma unroll
    for (int k = 0; k < at_once; ++k) set_bits_of(seen[pattern[k] / 32], bit[k]);
  }
}

/// Of n elements, by all blocks: 16 bytes at once, but for the few ahead of a multiple of 16 and
/// behind the last one.
template <int Size>
__device__ void set_patterns_of(std::uint32_t* seen, const std::byte* x, index n) {
  using pattern = std::conditional_t<Size == 1, std::uint8_t, std::uint16_t>;
  constexpr index pack = 16, of_pack = pack / Size;
  constexpr int at_once = 2;
  const index to_multiple = (pack - reinterpret_cast<std::uintptr_t>(x) % pack) % pack / Size,
              ahead = to_multiple < n ? to_multiple : n, packs = (n - ahead) / of_pack,
              behind = n - ahead - packs * of_pack;
  const auto set_one = [&](index i) {
    const std::uint32_t p = reinterpret_cast<const pattern*>(x)[i];
    set_bits_of(seen[p / 32], 1u << p % 32);
  };
  if (blockIdx.x == 0 && threadIdx.x < ahead) set_one(threadIdx.x);
  if (blockIdx.x == 0 && threadIdx.x < behind) set_one(n - 1 - threadIdx.x);

  const index stride = index{gridDim.x} * distinct_threads;
  for (index i = index{blockIdx.x} * distinct_threads + threadIdx.x; i < packs;
       i += at_once * stride) {
    std::uint32_t word[at_once][4];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      // The last ones may be read twice, which does not show.
      const index k = i + static_cast<index>(u) * stride;
      load_16_bytes(x + (ahead * Size + (k < packs ? k : i) * pack), word[u]);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) set_patterns<Size>(seen, word[u]);
  }
}

/// Adds what this block has seen to what all have. Whether it is the last: then `seen` is what all
/// have seen.
template <int Words>
__device__ bool join_patterns(std::uint32_t* seen, std::uint32_t* all, std::uint32_t& blocks_done) {
  __shared__ bool is_last;
  for (int w = static_cast<int>(threadIdx.x); w < Words; w += distinct_threads) {
    std::uint32_t before;
    load_shared_word(all + w, before);
    if (seen[w] & ~before) set_bits_of(all[w], seen[w]);
  }
  fence_of_all_blocks();
  wait_for_the_block();
  if (threadIdx.x == 0) is_last = add_to(blocks_done, 1) == gridDim.x - 1;
  wait_for_the_block();
  if (!is_last) return false;
  fence_of_all_blocks();
  for (int w = static_cast<int>(threadIdx.x); w < Words; w += distinct_threads)
    load_shared_word(all + w, seen[w]);
  wait_for_the_block();
  return true;
}

/// Of 32 patterns from `first` on, those that are not their own key (nans and -0) and are in
/// `seen`: their bits. Calls f(key) for each.
template <class T, class Function>
__device__ std::uint32_t without_own_key(std::uint32_t first, std::uint32_t seen, Function f) {
  using bits = decltype(arith::key_of(T{}));
  const auto key_of = [](std::uint32_t pattern) {
    return std::uint32_t{arith::key_of(arith::bit_cast<T>(static_cast<bits>(pattern)))};
  };
  std::uint32_t others = 0;
  if constexpr (!std::is_integral_v<T>) {
    // Nans are the last ones of either sign, and -0 is the first.
    if (key_of(first) == first && key_of(first + 31) == first + 31) return 0;
    for (std::uint32_t rest = seen; rest != 0; rest &= rest - 1) {
      const auto k = static_cast<std::uint32_t>(first_bit(rest));
      const std::uint32_t key = key_of(first + k);
      if (key == first + k) continue;
      others |= 1u << k;
      f(key);
    }
  }
  return others;
}

/// Of n elements. Blocks share `all`, a bit for each pattern, and `blocks_done`, all 0 at first;
/// one alone does not look at them.
template <class T>
__global__ void __launch_bounds__(distinct_threads, 2)
    count_patterns(const std::byte* x, index n, std::uint32_t* all, std::uint32_t* blocks_done,
                   std::int64_t* result) {
  constexpr auto words = static_cast<int>(words_of_patterns(sizeof(T)));
  __shared__ std::uint32_t seen[words], count;
  const auto for_each_word = [&](auto f) {
    for (int w = static_cast<int>(threadIdx.x); w < words; w += distinct_threads)
      f(seen[w], static_cast<std::uint32_t>(w) * 32);
  };
  for_each_word([](std::uint32_t& word, std::uint32_t) { word = 0; });
  if (threadIdx.x == 0) count = 0;
  wait_for_the_block();
  set_patterns_of<sizeof(T)>(seen, x, n);
  wait_for_the_block();
  if (gridDim.x > 1 && !join_patterns<words>(seen, all, *blocks_done)) return;

  for_each_word([&](std::uint32_t word, std::uint32_t first) {
    without_own_key<T>(first, word, [&](std::uint32_t key) {
      if (!(seen[key / 32] >> key % 32 & 1)) set_bits_of(seen[key / 32], 1u << key % 32);
    });
  });
  wait_for_the_block();
  unsigned keys = 0;
  for_each_word([&](std::uint32_t word, std::uint32_t first) {
    const std::uint32_t others = without_own_key<T>(first, word, [](std::uint32_t) {});
    keys += static_cast<unsigned>(count_of_bits(word & ~others));
  });
  keys = sum_of_the_warp(keys);
  if (threadIdx.x % warp == 0 && keys > 0) add_to(count, keys);
  wait_for_the_block();
  if (threadIdx.x == 0) *result = std::int64_t{count};
}

}  // namespace bitfold::cuda
