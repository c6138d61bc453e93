// How far a sum of computed terms may be off before its last rounding, as accuracy/bounds.hpp
// derives it: for the a-priori bounds there, and for those of bitfold/bound.hpp.
#pragma once

#include <bit>
#include <cstdint>

#include <bitfold/order.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::detail {

inline std::uint64_t ceil_log2(std::uint64_t k) {
  return static_cast<std::uint64_t>(std::bit_width(k - 1));
}

// The first leaf is the largest and, as a fold passes only a last odd item through, the deepest; so
// is lane 0 in it.
inline int first_leaf_size(std::uint64_t n) { return order::leaf_size(n, 0); }
inline std::uint64_t first_lane_size(std::uint64_t n) {
  return static_cast<std::uint64_t>(order::lane_size(first_leaf_size(n), 0));
}
inline std::uint64_t folds_above_lane(std::uint64_t n) {
  return ceil_log2(static_cast<std::uint64_t>(order::lane_count(first_leaf_size(n)))) +
         ceil_log2(order::leaf_count(n));
}

/// d: the largest number of additions that an element of n passes through.
inline std::uint64_t addition_depth(method_id method, std::uint64_t n) {
  if (n == 0) return 0;
  switch (method) {
    case method_id::sequential: return n - 1;
    case method_id::pairwise: return ceil_log2(first_lane_size(n)) + folds_above_lane(n);
    case method_id::tree:
    case method_id::kahan: return first_lane_size(n) - 1 + folds_above_lane(n);
    case method_id::exact: break;  // they are of integers
  }
  return 0;
}

/// d': an upper bound on the additions that a rounding error passes through in method `kahan`.
inline std::uint64_t error_depth(std::uint64_t n) {
  // One addition for each element that a lane adds, and two for each merge.
  return n == 0 ? 0 : first_lane_size(n) - 1 + 2 * folds_above_lane(n);
}

/// How a term is made of elements.
struct term_arithmetic {
  int roundings = 0;  // before a product
  bool product =
      false;  // and then a product: rounded, or by two_prod where the method takes its error
  bool scaled = false;  // or such that no product underflows
  bool lanes_scaled =
      false;  // nothing overflows, and what underflows is below 2^-100 of the largest product
};

/// Whether elements are rounded as they are widened.
inline bool conversion_rounds(dtype in, dtype acc) {
  return !is_float(in) && size_of(in) == 8 && is_float(acc);
}

/// Of the operations that are sums.
inline term_arithmetic arithmetic_of(op_id op, dtype in, dtype acc) {
  const int c = conversion_rounds(in, acc) ? 1 : 0;
  switch (op) {
    case op_id::sum_squares:
    case op_id::norm_l2:
    case op_id::dot: return {2 * c, true};
    case op_id::cosine: return {2 * c, true, false, true};
    case op_id::squared_distance:
    case op_id::mse: return {2 * (1 + c), true};
    case op_id::mae: return {1 + c};
    default: return {c};
  }
}

template <class N>
struct terms_error {
  N bound;    // while nothing overflows, which is certain where
  N largest;  // is below the accumulator's range
};

/// On the sum of n terms, where `size` is the sum of the numbers that the terms' errors are
/// proportional to, u and eta are the accumulator's, and g(k) is (1 + u)^k - 1.
template <class N, class G>
terms_error<N> terms_bound(method_id method, std::uint64_t n, const N& size,
                           const term_arithmetic& term, const N& u, const N& eta, G g) {
  const auto k = static_cast<std::uint64_t>(term.roundings);
  const bool compensated = method == method_id::kahan;
  const N zero(0.0), two(2.0),
      underflow = term.product && !term.scaled && !term.lanes_scaled
                      ? N(static_cast<double>(n)) * eta
                      : zero;
  // A scaled product does not underflow, its error may: by half of 2^-1074, of 2^-1022 at least.
  const N term_error = g(k + (term.product && (!compensated || term.scaled) ? 1 : 0)) * size;
  // Of the terms as computed, or of their products before these' errors.
  const N magnitude = size + term_error + (term.product ? u * size + underflow : zero);
  const N plain = g(addition_depth(method, n)) * magnitude;
  // Nothing computed on the way, not even inside two_sum, is larger than this.
  const N largest = term.scaled || term.lanes_scaled ? zero : two * (magnitude + plain);
  if (!compensated) return {term_error + plain + underflow, largest};
  const N product_error = term.product ? u * magnitude + underflow : zero;
  return {
      term_error + underflow + g(error_depth(n) + (term.product ? 1 : 0)) * (plain + product_error),
      largest};
}

}  // namespace bitfold::detail
