// Products of matrices: what the suite multiplies, the truth of an element, and what bounds its
// error (docs/products.md, docs/measures.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <bitfold/dtype.hpp>

#include "oracle.hpp"

namespace bitfold::accuracy {

/// The rows of A and the columns of B, one behind the other.
struct factors {
  std::size_t inner;
  std::vector<double> rows, columns;
};

struct product_input {
  std::string_view name, description;
  /// Whether only the elements on the diagonal are what the description says; then the others are
  /// held to bounds and promises, but their errors are not measured.
  bool diagonal;
  /// `count` rows and as many columns of `inner` elements, meant to be rounded to the float type
  /// `type`.
  factors (*make)(std::size_t count, std::size_t inner, std::uint64_t seed, dtype type);
};
std::span<const product_input> all_product_inputs();

/// The elements of a vector as method `fixed` takes them, by docs/products.md: each rounded to a
/// multiple of the vector's unit, which leaves a double. All are finite.
struct fixed_vector {
  int bits;
  std::vector<double> elements;
  double largest, sum_abs;  ///< of the magnitudes that were given
};
fixed_vector fixed_elements(dtype type, const void* x, std::size_t n, int bits);

/// What `fixed` gives for a row and a column: the sum of its definition by MPFR, rounded once.
scalar fixed_product(const fixed_vector& row, const fixed_vector& column, dtype out);

/// The bound of docs/products.md and the last rounding: on |result - exact|, `exact` being the dot
/// of what was given. Infinite where the output might overflow.
real fixed_bound(const fixed_vector& row, const fixed_vector& column, dtype out, const real& exact);

}  // namespace bitfold::accuracy
