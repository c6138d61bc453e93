// What row functions (rows.hpp) take: for host code and kernels alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include <bitfold/dtype.hpp>

namespace bitfold {

/// What is done with each row: rows.hpp has the formulas.
enum class row_function : std::uint8_t {
  softmax,
  log_softmax,
  layer_norm,
  rms_norm,
  softmax_backward,
  log_softmax_backward,
  layer_norm_backward,
  rms_norm_backward,
  exp,
  group_norm
};

/// `count` rows of n <= 2^24 elements (exp: any n) of a float type, one behind the other, and what
/// a function takes besides. Elements lie at addresses aligned to themselves.
struct rows {
  dtype type;
  std::size_t count, n;
  const void* x;            ///< of a gradient: g
  const void* y = nullptr;  ///< of a gradient: what the function gave (softmax) or took (norms)
  const void* w = nullptr;  ///< of norms and their gradients: n weights of type `type`; none: 1
  const void* b = nullptr;  ///< of layer_norm: n of them; none: nothing is added
  /// One for each row, f32 or, for f64, f64: written by norms, read by their gradients. `mean` of
  /// layer_norm alone.
  void *mean = nullptr, *rstd = nullptr;
  double eps = 0;
  /// Of group_norm, whose rows are groups of channels: elements of a channel, and how many channels
  /// w and b are of. Rows go through them in turn, n / inner at a time.
  std::size_t inner = 0, channels = 0;
};

/// Rows whose elements lie `inner` apart, as along an axis that is not the last: row-major of
/// extents outer, n and inner, a row for each outer and inner. For softmax, log_softmax and their
/// gradients.
struct rows_across {
  dtype type;
  std::size_t outer, n, inner;
  const void* x;            ///< of a gradient: g
  const void* y = nullptr;  ///< of a gradient: what the function gave
  /// Of each row, f32 or, for f64, f64: the results of max and softmax_denominator; or of a
  /// gradient, first alone, dot(g, y) for softmax and sum(g) for log_softmax.
  const void *first = nullptr, *second = nullptr;

  /// How many elements there are.
  std::size_t size() const { return outer * n * inner; }
};

}  // namespace bitfold
