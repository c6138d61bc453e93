// Results with a bound of their error, found in the same pass, but for some on a GPU: |value -
// exact value| <= bound.
//
// The bound is that of docs/operations.md, of which the sum of magnitudes is computed in f64 beside
// the result (or told from the result, where all terms are of one sign), and every step of it is
// rounded upwards. It says what these elements cannot exceed, not what the error is: see
// docs/semantics.md.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reduction.hpp>
#include <bitfold/totals.hpp>

namespace bitfold {

/// Whether nothing is rounded, by whatever engine: extrema, their indices, counts, any, all.
constexpr bool rounds_nothing(op_id op) { return !accumulates(op); }

/// Whether an operation has such a bound: those that take a method, norm_inf, those that round
/// nothing, where it is 0, and whatever is done by method exact, where it is that of the one
/// rounding.
constexpr bool has_error_bound(op_id op, std::optional<method_id> method = {}) {
  return method == method_id::exact || rounds_nothing(op) || info(op).takes_method ||
         op == op_id::norm_inf;
}

/// A result, and a bound of how far it is from the exact value for these elements (in the result's
/// unit; integers that add modulo 2^64: from the exact value modulo 2^64, 0 where the output is an
/// integer too). Infinite where the value is not finite, and where an overflow on the way cannot be
/// excluded.
struct bounded {
  scalar value;
  double bound;
};

namespace cpu {
/// As cpu::reduce: the same bits, and bounds that depend on neither target nor threads.
/// x, y: y is null where the reductions take one input.
/// Cost: the same read of the elements, of which magnitudes are added in f64 beside the results.
/// Errors, besides: an operation that has no bound (errc::usage).
std::vector<bounded> reduce_with_bounds(std::span<const reduction> reductions, const void* x,
                                        const void* y, std::size_t n, const options& opts = {});
bounded reduce_with_bound(const reduction& r, const void* data, std::size_t n,
                          const options& opts = {});
bounded reduce_with_bound(const reduction& r, const void* x, const void* y, std::size_t n,
                          const options& opts = {});
}  // namespace cpu

/// sums.result(k), and the bound of its one rounding. Errors: those of totals::result.
bounded result_with_bound(const totals& sums, std::size_t k);

namespace cuda {
/// As cuda::reduce_host, and the bounds of cpu::reduce_with_bounds. x and y are in the memory of
/// the host. For nansum, nanmean, dot, cosine, and mse and mae of 64-bit integers, the elements'
/// magnitudes are summed in a pass of the CPU.
std::vector<bounded> reduce_host_with_bounds(std::span<const reduction> reductions, const void* x,
                                             const void* y, std::size_t n, int device = 0,
                                             const launch& shape = {});
}  // namespace cuda

}  // namespace bitfold
