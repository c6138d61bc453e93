// Functions of rows for calls that read their arrays in ways of their own.
#pragma once

#include "family.hpp"

#include <array>
#include <string_view>

#include <bitfold/rows.hpp>

namespace bitfold::python {

/// x, y, w, b, mean and rstd of rows: arrays or None, and x is one.
using of_rows = std::array<nb::handle, 6>;

/// The type in which rows of x are computed with, and of their statistics.
inline element_type wide_of(const described& x) {
  return {x.type.stored == dtype::f64 ? dtype::f64 : dtype::f32};
}

/// Elements of a row, and what a norm takes besides; of group_norm elements of a channel, and how
/// many channels w and b are of.
struct row_extents {
  std::size_t n;
  double eps = 0;
  std::size_t inner = 0, channels = 0;
};

/// To `out`, or a result that is made beside x. Arrays lie in a row, on one
/// device; statistics that a norm is not given room for are lost. Errors: RuntimeError where one is
/// not as large as the rows want it; ValueError for an unknown function.
nb::object apply_rows(std::string_view function, const of_rows& of, const row_extents& extents,
                      nb::handle out, const family& by);

/// To dw and db, or None.
void parameter_gradients(std::string_view function, const of_rows& of, std::size_t n, nb::handle dw,
                         nb::handle db, const family& by);

}  // namespace bitfold::python
