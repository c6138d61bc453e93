// Products of matrices by method `fixed` in tiles of results, whose digits a block makes where it
// multiplies them, or finds made: what their kernels (product_tiles.cuh) and their plan share.
#pragma once

#include <bitfold/cuda/products.hpp>

namespace bitfold::cuda {

/// Of a step, that the units multiply at once.
inline constexpr int elements_of_fragment = 32;
inline constexpr int most_tile_digits = 4;
/// Sums of so many products of all pairs of digits of one weight fit 32 bits.
constexpr order::index most_elements_of_part(int digits) {
  return ((order::index{1} << 17) / static_cast<order::index>(digits) - 1) / longest_step *
         longest_step;
}
/// The sums of all pairs lie in so many words of 64 bits; of rows of no more elements.
BITFOLD_HD constexpr int words_of_tile_sum(int digits) { return digits > 2 ? 2 : 1; }
inline constexpr order::index most_elements_of_tiles = order::index{1} << 20;

/// The fragments of 16 rows, and of 8 columns, of a warp, and how many warps lie below one another,
/// and beside one another; elements of each vector that a block takes at a time; blocks that a
/// processor has registers for.
struct tile_shape {
  int row_fragments, column_fragments, warps_down, warps_across, step, blocks;
  BITFOLD_HD constexpr int rows() const { return 16 * row_fragments * warps_down; }
  BITFOLD_HD constexpr int columns() const { return 8 * column_fragments * warps_across; }
  BITFOLD_HD constexpr int threads() const { return 32 * warps_down * warps_across; }
  BITFOLD_HD constexpr int vectors() const { return rows() + columns(); }
  /// Bytes from a vector's digits of a step to the next vector's, a multiple of 16: the eight
  /// vectors that a warp reads at once begin in other banks.
  BITFOLD_HD constexpr int pitch() const { return step + 16; }
};
/// Of a vector: where it begins, where its results and addends do, its scale and its factors.
inline constexpr int bytes_of_tile_vector = 8 + 16 + 12;
/// Of a block: two steps' digits, and what is noted of each vector.
constexpr int shared_bytes_of_tile(tile_shape s, int digits) {
  return s.vectors() * (2 * digits * s.pitch() + bytes_of_tile_vector);
}

/// How a block reads a step of elements: neighbouring threads take neighbouring quads of a vector
/// (packed: which lie in a row, at a multiple of their size), or neighbouring vectors; or digits,
/// which another kernel has made.
enum class tile_reading { along, packed, across, digits };

/// Results in tiles, those of one column of tiles one behind the other; and parts of their rows.
struct tile_problem {
  product_vectors a, b;
  bool one_a, one_b;  ///< as product_results'
  order::index row_count, column_count, row_tiles, column_tiles;
  order::index part;  ///< elements
  int bits;
  std::uint64_t* sums;  ///< of several parts: the words of each result, those of one word together
  product_output out;
};

}  // namespace bitfold::cuda
