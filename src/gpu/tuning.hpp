// The numbers that a plan is made with, besides what is asked for: a table for each architecture of
// GPUs. They change the speed and never a bit, so that a sweep (scripts/tune) may try any.
#pragma once

#include <bitfold/cuda/exact_sizes.hpp>
#include <bitfold/cuda/tile.hpp>
#include <cstddef>
#include <span>
#include <string_view>

#include "kernel.hpp"

namespace bitfold::gpu {

using order::index;

inline constexpr index any_number = ~index{0};

/// Of a whole array. The first line that it fits is taken.
struct array_line {
  std::string_view name;
  index most;              ///< leaves, or tiles, of the array
  std::size_t most_state;  ///< bytes of a state
  int warps;               ///< of a block, at most
  int tiles;               ///< of a node, a power of two; 0: the warps take leaves, one each
};

/// Of outputs on axes. The first line is taken that they fit and whose strategy can take them.
struct outputs_line {
  std::string_view name;
  strategy by;
  index most_elements = any_number;     ///< of an output
  std::size_t most_state = any_number;  ///< bytes of a state
  index least_outputs = 0;              ///< or groups of neighbouring columns that a thread takes
  index least_leaves = 0;               ///< of all outputs together
  bool only_neighbours = false;  ///< where outputs lie nearer to each other than their elements
  int threads;                   ///< of a block, at most
  /// Workers (threads, warps or blocks, as the strategy has them) that hide the latency of memory;
  /// and more of them, between which a worker is given a second output. Of patches: the leaves of a
  /// column that a block takes at least.
  index enough = 1, more = 1;
  index most_blocks = 1 << 20;
  index beside = 16;  ///< of columns: groups of neighbouring ones that a block takes at most
};

/// Of segments, and of keys once they are sorted.
struct segments_numbers {
  std::string_view name;
  int threads, tiles;  ///< of a block that takes nodes; of a node, at first
  std::size_t enough;  ///< warps for those that warps take: more segments go to one
  int most_blocks, most_short_blocks, most_list_blocks, most_second_blocks;
};

/// What adds up the terms of exact sums. Sets of terms have a bit for each.
using term_set = unsigned;
constexpr term_set only(exact::term what) { return 1u << static_cast<int>(what); }
inline constexpr term_set of_two_inputs = only(exact::term::difference) |
                                          only(exact::term::product) |
                                          only(exact::term::squared_difference);
struct exact_line {
  dtype type;
  term_set terms;
  int packs, threads;  ///< that a thread takes at once; of a block
  /// Of a processor: what registers are shared out for. Those of pieces.
  int blocks, blocks_of_pieces;
};
struct exact_numbers {
  std::span<const exact_line> alone;     ///< of just those terms
  std::span<const exact_line> together;  ///< of some of those, the first that has them all
  /// Several terms have to leave room for the columns of so many threads: fewer wait for memory
  /// longer than passes of their own would take.
  std::size_t enough_threads;
  /// Threads of a block that has few elements; and where there are blocks for all processors only
  /// if each has few threads.
  int few_threads, some_threads;
  /// Of many outputs: enough warps for any GPU; the least elements of a chunk of a column; of an
  /// output in several runs, that goes by chunks.
  index many_warps, least_chunk, least_of_runs;
  std::size_t stripe_bytes;  ///< of one of several arrays, that a block takes before the next
};

/// Of a radix sort with keys and values of at most so many bytes. The first line that fits is
/// taken.
struct sort_line {
  std::string_view name;
  std::size_t key, value;
  index most;          ///< elements
  int threads, items;  ///< of a block; elements of each thread
  int least_blocks;    ///< of a processor: what registers are shared out for
};
constexpr index tile_of(const sort_line& l) {
  return static_cast<index>(l.threads) * static_cast<index>(l.items);
}

/// What decides whether digits of products are made in tiles, or go through memory to a library:
/// what a processor does in a nanosecond.
struct products_numbers {
  double library, tiles[4];  ///< products of digits; of integers of 1 to 4 of them
  double bytes;              ///< to and from memory
  double elements, results;  ///< of tiles: that become digits; that are rounded, besides
  double of_call_library, of_call_tiles;  ///< nanoseconds of a call
  double of_step;                         ///< and, at least, of a step of a tile
};

struct tuning {
  std::string_view name;      ///< of the architecture
  std::string_view measured;  ///< on which GPUs; empty: on none
  /// What a thread keeps of several folds in one kernel.
  std::size_t most_folds, most_state_bytes;
  std::span<const array_line> arrays;
  /// Arrays of so many tiles, and so many elements, are for one block; longer ones are for leaves.
  index tiles_of_one_block, elements_of_one_block;
  std::span<const outputs_line> outputs;
  index states_of_one_pass;  ///< of an output's leaves, before several are folded to one
  segments_numbers segments;
  exact_numbers exact;
  std::span<const sort_line> sorts;
  int pattern_blocks_of_processor;  ///< that count patterns of bits for count_distinct
  index rows_of_wide_packets;       ///< of row functions, from which a thread takes twice as much
  std::size_t parameter_blocks;     ///< enough of them for gradients of parameters
  products_numbers products;
};

/// The table for GPUs of that compute capability: its own, or else that of the nearest below.
const tuning& tuning_for(int major, int minor);

}  // namespace bitfold::gpu
