// How the operands of a product lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <bitfold/matmul.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::detail {

/// Of an axis of a result, from those of a and b. Errors (errc::usage): they do not broadcast.
std::int64_t common_extent(std::int64_t a, std::int64_t b);

/// Errors (errc::usage): x, the operand of that name, is not of p's type.
void expect_type(const matrix_product& p, const view& x, const char* which);
/// Errors (errc::usage): p takes no addend, or not one of this type.
void expect_addend(const matrix_product& p, const view& addend);

/// Errors (errc::usage): what contractions do not take: operands not of p's type, other methods,
/// integers.
void expect_contractible(const matrix_product& p, const view& a, const view& b);

/// One operand: matrices of `vectors` rows, or columns, of n elements each. Axes have strides of x
/// alone, in elements.
struct operand_layout {
  dtype type;
  const std::byte* data;
  std::uint64_t vectors, n;
  axes along, elements;  ///< where vectors begin, and their elements lie from there; joined
  axes matrices;         ///< an axis along which all are the same has one
  std::int64_t vector_stride, element_stride;  ///< if `is_strided`

  /// Whether vectors lie along one axis, and elements along another.
  bool is_strided() const { return along.rank <= 1 && elements.rank <= 1; }
  std::uint64_t count() const { return matrices.size(); }
  const std::byte* address(std::uint64_t matrix, std::uint64_t vector,
                           std::uint64_t element) const {
    const std::int64_t at =
        matrices.offset_of(matrix).x + along.offset_of(vector).x + elements.offset_of(element).x;
    return data + at * static_cast<std::int64_t>(size_of(type));
  }
};

/// With rows for columns, and columns for rows.
view transposed(view x);

/// Without axes of one place; those that go on where the next one ends are one with it.
axes joined(const axes& from);

/// Two operands, and the matrices of each result: x and y of an axis are the strides, in matrices,
/// of the left and the right operand.
struct product_layout {
  operand_layout a, b;
  axes results;
  axes places;                        ///< the same axes with their strides in elements
  std::vector<std::int64_t> extents;  ///< of the result
  bool rows = true, columns = true;   ///< whether the last of these are a's vectors, and b's
};
/// Errors (errc::usage): those of matmul_extents.
product_layout layout_of(const view& a, const view& b);
/// Of a contraction: all of a's vectors are one extent of the result, and all of b's another.
/// Errors (errc::usage): those of contracted_extents; vectors of other lengths; null data of
/// elements.
product_layout layout_of(const view& a, const view& b, contracted_axes by);
/// The left or the right operand of a product. Errors (errc::usage): an array without axes, or
/// negative extents; null data of elements.
operand_layout layout_of(const view& x, bool left);

/// What is added to a product: the strides, in elements, of its matrices along the axes of the
/// results (x), and within them.
struct addend_layout {
  const std::byte* data;
  axes matrices;
  std::int64_t row_stride = 0, column_stride = 0;
};
/// Errors (errc::usage): an addend that does not broadcast to the result, or null data of elements.
addend_layout layout_of(const view& addend, const product_layout& l);

/// a and b as two arrays that broadcast to (..., m, n, k), whose last axis `dot` reduces. Errors:
/// as above, and more axes than a view has.
struct dot_operands {
  view a, b;
  int axis() const { return std::max(a.rank, b.rank) - 1; }
};
dot_operands as_dots(const view& a, const view& b);
/// The reduction of that axis, by p's method; of method `fixed`, which is that of integers, by any.
reduction dot_of(const matrix_product& p);

}  // namespace bitfold::detail
