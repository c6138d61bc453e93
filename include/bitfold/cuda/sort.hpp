// What plans and kernels of a radix sort both know.
#pragma once

#include <bitfold/config.hpp>
#include <bitfold/order.hpp>
#include <cstddef>
#include <cstdint>

namespace bitfold::cuda {

using order::index;

inline constexpr int digit_bits = 8, digits = 1 << digit_bits;  ///< of keys, a pass for each digit
BITFOLD_HD constexpr int digits_of(int bits) { return (bits + digit_bits - 1) / digit_bits; }

inline constexpr int counting_threads = 512;

/// How many keys have each digit, for all passes, which is counted before the first one.
struct digit_counts {
  std::uint64_t* counts;  ///< `digits` for each pass; at last, how many keys have a lower digit
  std::uint32_t* blocks_done;  ///< that count
  int first_bit, bits;         ///< of keys, that are sorted by
};

/// Keys of elements for count_distinct, `key_bits` each, and the numbers of their outputs: above a
/// key, in one word with it, where both fit in 32 or 64 bits, or else apart.
struct made_keys {
  void* keys;
  std::uint32_t* outputs;
  int key_bits;
  int unused = 0;  ///< so that a kernel is sent no byte that nobody has set
};
inline constexpr int moving_threads = 256;  ///< of a block, of kernels that look at each element
inline constexpr int rows_of_runs = 32;     ///< of a warp's keys, that it counts
inline constexpr index keys_of_block = index{moving_threads} * rows_of_runs;

/// Words that a kernel is sent, as many as fit beside its other parameters.
struct words_to_put {
  index count;
  std::uint64_t each[448];
};

/// One pass, by one digit.
struct sort_step {
  const void* keys;
  void* sorted_keys;
  const void* values;  ///< null: their numbers
  void* sorted_values;
  const std::uint64_t* begins;  ///< of each digit
  std::uint32_t* tiles_begun;
  void* status;       ///< of each tile `digits` words, at first 0
  void* next_status;  ///< those of the next pass, which this one sets to 0; null: there is none
  index n;
  int first_bit, bits;  ///< of the digit
};

}  // namespace bitfold::cuda
