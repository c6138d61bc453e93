// Products of matrices by method `fixed` whose matrices have few rows, as those of depthwise
// convolutions: what their kernels (few_products.cuh) and their plan share.
#pragma once

#include <bitfold/cuda/outputs.hpp>
#include <bitfold/cuda/product_tiles.hpp>

namespace bitfold::cuda {

/// Rows of a matrix; elements of vectors that a thread's registers hold; and of longer vectors the
/// columns whose sums they hold.
inline constexpr index most_few_rows = 4, most_few_elements = 32, most_few_columns = 16;
/// Sums of so many products of two integers of up to so many bits fit 64 bits.
inline constexpr int few_bits = 28;
inline constexpr index most_few_products = 512;
static_assert((std::uint64_t{63 * 63} << 2 * (few_bits - 7)) * most_few_products < 1ull << 63);

/// An operand whose vectors are short: where a matrix's vectors are, and elements in a vector.
struct few_vectors {
  const void* x;
  detail::axes places;  ///< x: in elements
  divisors by_places;
  std::int32_t offsets[most_few_elements];
};
struct few_problem {
  few_vectors a, b;
  detail::axes results;  ///< x and y: where the matrices of a and b are, in elements
  divisors by_results;
  /// A warp takes `columns` of a matrix, a multiple of its threads; so many warps are of each, and
  /// of all.
  index columns, warps_of_matrix, warps;
  int bits;
  product_output out;
};
/// The same of matrices of one row and one column that lie side by side along the last axis of the
/// results, as depthwise convolutions have them whose channels lie last. Here that axis is the one
/// of a's and b's vectors, and `of.results` are the others, along which a's vectors are the same. A
/// warp takes 32 neighbours along that axis, in so many results in turn. (`of.columns` is not
/// used.)
struct beside_problem {
  few_problem of;
  index matrices, matrices_of_warp;
};

}  // namespace bitfold::cuda
