#include "bounds.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace bitfold::accuracy {
namespace {

std::uint64_t ceil_log2(std::uint64_t k) { return std::bit_width(k - 1); }

// The first leaf is the largest and, as a fold passes only a last odd item through, the deepest; so
// is lane 0 in it.
int first_leaf_size(std::uint64_t n) { return order::leaf_size(n, 0); }

std::uint64_t folds_above_lane(std::uint64_t n) {
  return ceil_log2(static_cast<std::uint64_t>(order::lane_count(first_leaf_size(n)))) +
         ceil_log2(order::leaf_count(n));
}

std::uint64_t first_lane_size(std::uint64_t n) {
  return static_cast<std::uint64_t>(order::lane_size(first_leaf_size(n), 0));
}

const real infinity = std::numeric_limits<double>::infinity();

// (1 + u)^k - 1
real g(const real& u, std::uint64_t k) { return pow(1 + u, k) - 1; }

// Covers the roundings of these formulas themselves, which are computed to over 2300 bits.
real upwards(const real& bound) { return bound * (1 + ldexp(real(1), -2000)); }

}  // namespace

std::uint64_t addition_depth(method_id method, std::uint64_t n) {
  if (n == 0) return 0;
  switch (method) {
    case method_id::sequential: return n - 1;
    case method_id::pairwise: return ceil_log2(first_lane_size(n)) + folds_above_lane(n);
    default: return first_lane_size(n) - 1 + folds_above_lane(n);
  }
}

std::uint64_t error_depth(std::uint64_t n) {
  // One addition for each element that a lane adds, and two for each merge.
  return n == 0 ? 0 : first_lane_size(n) - 1 + 2 * folds_above_lane(n);
}

real bound_before_rounding(const reduction& r, std::uint64_t n, const exact_sum& exact) {
  if (!is_float(r.in())) return 0;
  const real u = unit_roundoff(r.acc());
  const real error = g(u, addition_depth(*r.method(), n)) * exact.sum_abs;
  // Nothing computed on the way, not even inside two_sum, is larger than this.
  const real largest = 2 * (exact.sum_abs + error);
  if (largest >= ldexp(real(1), format_of(r.acc()).max_exponent)) return infinity;
  if (r.method() != method_id::kahan) return upwards(error);
  return upwards(g(u, error_depth(n)) * error);
}

real error_bound(const reduction& r, std::uint64_t n, const exact_sum& exact) {
  const real before = bound_before_rounding(r, n, exact);
  if (!is_float(r.out())) return before;
  const bool narrower = !is_float(r.in()) || format_of(r.out()).precision < format_of(r.acc()).precision;
  // What a plain method rounds is already a number of its accumulator's type.
  if (!narrower && r.method() != method_id::kahan) return before;
  const float_format out = format_of(r.out());
  const real u_out = unit_roundoff(r.out());
  const real largest = abs(exact.sum) + before;
  if (largest * (1 + u_out) >= ldexp(real(1), out.max_exponent)) return infinity;
  real rounding = u_out * largest;
  if (narrower) rounding = std::max(rounding, ldexp(real(1), out.min_exponent - 1));
  return upwards(before + rounding);
}

}  // namespace bitfold::accuracy
