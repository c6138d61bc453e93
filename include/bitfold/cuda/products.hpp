// Products of matrices by method `fixed` on a GPU: what its kernels and its plan share. Digits are
// product_digits.cuh's, the sums of their products a library's (cuBLASLt), results products.cuh's.
#pragma once

#include <bitfold/order.hpp>
#include <bitfold/strides.hpp>
#include <cstddef>

namespace bitfold::cuda {

inline constexpr int threads_on_products = 256;
/// Digits are made of so many vectors and elements at a time, which lie in shared memory.
inline constexpr int vectors_of_tile = 32, elements_of_tile = 128;
inline constexpr int pitch_of_tile = elements_of_tile + 4;
/// Vectors are measured in parts of so many elements: by some threads of a warp each, or by a block
/// many at once.
inline constexpr int measured_along = 4096, measured_across = 256;
/// Vectors whose elements are neighbours, and no more of them than a team's threads have in so many
/// packs each, are read once: by some threads of a warp, or by a block.
inline constexpr int most_packs_of_thread = 16;
/// Digits that tiles take have zeros behind them up to a multiple of so many.
inline constexpr int longest_step = 64;
/// Offsets that are listed have zeros behind them up to a multiple of so many, which tiles read
/// together.
inline constexpr int elements_of_quad = 4;
/// Neighbouring results of a row, which a thread makes.
inline constexpr int results_of_thread = 4;
/// A sum of so many products of two digits fits 32 bits, and one that was reduced besides. (Of
/// whole tiles.)
inline constexpr order::index max_products_of_digits = (1 << 17) - elements_of_tile;

/// The digits of an integer: the numbers modulo which it is known, or its digits to the base 256.
/// Of the first there are as many products as digits, of the others all pairs.
inline constexpr int moduli[] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                                 223, 217, 211, 199, 197, 193, 191, 181, 179, 173};
inline constexpr int max_moduli = static_cast<int>(sizeof moduli / sizeof moduli[0]);

/// The rows of a left operand, or the columns of a right one, numbered through all matrices.
struct product_vectors {
  const void* x;
  order::index vectors, n;        ///< of a matrix; elements of a vector
  detail::axes matrices, places;  ///< where a matrix begins, and a vector in it: x, in elements
  std::int64_t element_stride;
  const std::int32_t* offsets;  ///< of elements from where a vector begins, if not by that stride
  std::uint64_t* largest;       ///< of each vector: the bits of its largest finite magnitude
  std::uint32_t* specials;      ///< whether there is a NaN (product::not_a_number), or an infinity
  std::int32_t* scales;         ///< of each vector, 8 s and its specials: written with its digits
  // Of digits that are made for tiles: where those of a vector begin, those of one weight behind
  // the other.
  const std::byte* digits;
  order::index digit_bytes, digit_pitch;
};

/// Where digits go: those of `count` vectors from `first` on, of `n` elements of each from `begin`.
struct product_digits {
  std::int8_t* to;
  order::index first, count, begin, n;
  order::index pitch;                      ///< bytes from a vector to the next: n and zeros
  order::index matrix_vectors;             ///< that go to a matrix
  order::index digit_bytes, matrix_bytes;  ///< from a digit, or matrix, to the next
};

/// Where results go, and what is added to each.
struct product_output {
  order::index rows, columns;  ///< of a matrix
  void* to;
  const void* addend;
  detail::axes addend_matrices;  ///< x: in elements
  std::int64_t addend_row_stride, addend_column_stride;
};

/// Results of which there are sums: of matrices, rows and columns from the first ones on. Where one
/// operand has one matrix, the vectors of all matrices of the other are rows, or columns, of one.
struct product_results {
  product_vectors a, b;
  bool one_a, one_b;  ///< whether that operand has one matrix
  const std::int32_t* sums;
  order::index sum_rows, sum_columns;  ///< of a matrix of sums
  order::index first_matrix, first_row, first_column;
  order::index matrix_count, row_count, column_count;
  int bits;
  product_output out;
};

}  // namespace bitfold::cuda
