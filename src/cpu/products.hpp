// The seam between products of matrices (include/bitfold/matmul.hpp) and the code compiled once
// per instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <bitfold/cpu.hpp>
#include <bitfold/matmul.hpp>

#include "task.hpp"

namespace bitfold::cpu {

/// What is known of a row or a column before its scale.
struct magnitudes {
  double largest = 0;    ///< of its finite elements
  bool special = false;  ///< whether one is not finite
};

/// Integers of more bits are two digits, of which the low one has `digit_bits`, from
/// -2^(digit_bits - 1) on.
inline constexpr int digit_bits = 29;
constexpr int digits_of(int bits) { return bits > digit_bits ? 2 : 1; }

/// A panel of rows times a panel of columns, of one digit each.
struct panel_pair {
  const std::int32_t *rows, *columns;
};
/// 64-bit sums of one tile, each as high * 2^32 + low. `pitch`: from row to row. `room`: for what
/// panel_kernels::add keeps meanwhile, aligned to 64 bytes.
struct tile_sums {
  std::int64_t *high, *low;
  std::ptrdiff_t pitch;
  std::byte* room;
};

/// The most terms of one call of panel_kernels::add, where it does not say otherwise.
inline constexpr std::size_t max_terms = 512;
/// Operands are made so many terms at a time, or a multiple of that: of panel_kernels::terms too.
inline constexpr std::size_t terms_at_once = 64;

/// A way in which integers lie in panels, and are multiplied. (The rows of a tile, and `add`, are
/// the left operand's.)
struct panel_kernels {
  int tile_rows = 0;
  /// So many terms lie together, and take so many integers of 32 bits of each row, or column. As
  /// they are made they lie one term after the other: term p of the tile's row r is at
  /// rows[p * tile_rows + r], likewise of columns.
  int terms = 1, row_words = 1, column_words = 1;
  std::size_t most_terms = max_terms;  ///< of one call of `add`
  std::size_t room = 0;                ///< bytes
  /// From n terms as they are made, of which the first is the first of some that lie together.
  /// Missing ones of the last are 0. Null: they stay as they are.
  using packer = void (*)(const std::int32_t* from, std::size_t n, std::int32_t* to);
  packer pack_rows = nullptr, pack_columns = nullptr;
  /// The same of the terms that lie together alone: those of one vector, then those of the next.
  /// Null: not faster than one term after the other.
  using vector_packer = void (*)(const std::int32_t* from, std::int32_t* to);
  vector_packer pack_row_vectors = nullptr, pack_column_vectors = nullptr;
  /// Adds the products of `count` pairs of panels of n >= 1 terms to the sums, or, where these are
  /// fresh, writes them. No sum of `run` terms of all pairs overflows 64 bits.
  void (*add)(const panel_pair* pairs, int count, std::size_t n, std::size_t run, bool fresh,
              tile_sums sums) = nullptr;
};

/// Integers of at most so many bits go in pairs of 16 bits: those of rows as they are, those of
/// columns in two digits of 8 bits, so that sums of max_terms products fit 32 bits.
inline constexpr int pair_bits = 16;
static_assert(std::int64_t{63} << (pair_bits - 7) <= (std::int64_t{1} << 31) / (128 * max_terms));

/// How elements of a type become integers.
struct product_elements {
  /// Of n elements, one behind the other. (Null of integers.)
  magnitudes (*measure)(const void* x, std::size_t n) = nullptr;
  /// Writes n elements times 2^scale, rounded to integers; those that are not finite as 0. Into
  /// digits, high and low, if low is not null. (Integers as they are.)
  void (*scale)(const void* x, std::size_t n, int scale, std::int32_t* high,
                std::int32_t* low) = nullptr;
  /// The same of all vectors of a panel of columns whose elements are neighbours: element p of
  /// vector v is at x[places[p] + v], and its integer goes to high[p * tile_columns + v]. Measures
  /// are scales for integers of so many bits, and whether an element is not finite. Null where
  /// there is nothing faster than one vector after the other.
  void (*measure_across)(const void* x, const std::ptrdiff_t* places, std::size_t n, int bits,
                         int* scales, char* specials) = nullptr;
  void (*scale_across)(const void* x, const std::ptrdiff_t* places, std::size_t n,
                       const int* scales, std::int32_t* high, std::int32_t* low) = nullptr;
};

/// Columns that are neighbours: element p of column c is at x[places[p] + c], p below n. Each meets
/// the same row of integers, whose term p is at row[p * pitch], or one of its own, whose term p is
/// at row[p * pitch + c].
struct neighbour_columns {
  const void* x;
  const std::ptrdiff_t* places;
  std::size_t n, count;
  const std::int32_t* row;
  std::size_t pitch;
};
/// What is found of each column: its scale, whether an element is not finite, and its sum with the
/// row, high * 2^32 + low.
struct column_results {
  int* scales;
  char* specials;
  std::int64_t *high, *low;
};

/// Rows' sums with columns whose integers, of so many bits in one digit, are made as they are
/// multiplied and kept nowhere. No sum of `run` products overflows 64 bits.
struct direct_kernels {
  /// With one column, of n elements one behind the other.
  void (*along)(const std::int32_t* row, const void* x, std::size_t n, int scale, std::size_t run,
                std::int64_t* high, std::int64_t* low) = nullptr;
  /// With at least `least_columns` neighbours, of one row or of a row each.
  using of_columns = void (*)(const neighbour_columns& of, int bits, std::size_t run,
                              const column_results& to);
  of_columns across = nullptr, across_each = nullptr;
  std::size_t least_columns = 0;
};

/// Writes n sums, high 2^32 + low, times 2^exponents[c], as doubles; with addends where it takes
/// those.
using sum_converter = void (*)(const std::int64_t* high, const std::int64_t* low, std::size_t n,
                               const int* exponents, const double* addends, double* to);

/// The most products of two integers of so many bits, in one digit, whose sums converters take:
/// |high| < 2^50, low < 2^62.
constexpr std::size_t max_converted(int bits) {
  return std::size_t{1} << std::min(28, 82 - 2 * (bits - 1));
}

/// Rounds n doubles to elements at `to`, of any alignment.
using sum_rounding = void (*)(const double* sums, std::size_t n, void* to);

/// Writes `count` <= max_interleaved vectors of n integers, which lie `pitch` apart, one element of
/// each beside the other: element p of vector v at to[p * width + v].
using interleaver = void (*)(const std::int32_t* vectors, std::size_t count, std::size_t pitch,
                             std::size_t n, std::int32_t* to, std::size_t width);
inline constexpr std::size_t max_interleaved = 4;

/// What a target has for products.
struct product_kernels {
  int tile_columns = 0;
  panel_kernels panels{};  ///< of any integers of one digit
  panel_kernels pairs{};   ///< `add` is null where nothing is gained
  interleaver interleave = nullptr;
  product_elements (*elements)(dtype type) = nullptr;
  /// Of elements of 16 or 32 bits; null where a target has none.
  direct_kernels (*direct)(dtype type) = nullptr;
  /// Rounded to odd (the last one, too), of which any narrower rounding makes what it would of the
  /// sum; and to nearest. Where |high| < 2^50, low < 2^62 and no result is near a double's ends.
  sum_converter as_odd = nullptr, as_nearest = nullptr, with_addends = nullptr;
  /// To an output type: from doubles rounded to odd, or to nearest where that is f64.
  sum_rounding (*round)(dtype out) = nullptr;
};

/// What find_kernels_of is asked for.
struct product_request {};
template <target>
product_kernels find_kernels_of(const product_request&);
template <>
product_kernels find_kernels_of<target::scalar>(const product_request&);
template <>
product_kernels find_kernels_of<target::avx2>(const product_request&);
template <>
product_kernels find_kernels_of<target::avx512>(const product_request&);
template <>
product_kernels find_kernels_of<target::neon>(const product_request&);

product_kernels find_product_kernels(target t);

/// By digits of 8 or 7 bits in the tiles of AMX: for floats' integers of one digit, of at most so
/// many bits, and so many rows. `add` is null where there is none.
panel_kernels find_amx_kernels(int bits, std::uint64_t rows);
/// The columns of its panels.
inline constexpr int amx_columns = 32;

}  // namespace bitfold::cpu
