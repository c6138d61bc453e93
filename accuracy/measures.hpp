// The measures of the suite, as docs/measures.md defines them with their sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include <bitfold/reduction.hpp>

#include "oracle.hpp"

namespace bitfold::accuracy {

/// What one reduction went through, found by walking the canonical order element by element with
/// the method's own functions, in the accumulator's arithmetic.
///
/// The running bound (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3
/// and (4.3)). A computed sum s of two numbers is off by at most u |s|, u being the unit roundoff
/// of the accumulator. A method either loses this error or, by two_sum, has it as a number that it
/// sums as well. So, in exact arithmetic, the parts of the state (kahan's are its sum and its
/// error) together always are the exact sum but for the errors lost, and
///   |result - S| <= u (sum of |s| over the additions that lose their error) + |result - state|,
/// where the last term is the one rounding to the output type, which is known. For tree, pairwise
/// and sequential every addition loses its error; for kahan those of the error part do. What adds
/// in any order has no order to walk: integers lose nothing, and its state is S.
struct trace {
  scalar result;  ///< equals reference()
  /// |result - S| <= this, the rounding errors of the bound itself included. For integers S is
  /// modulo 2^64 (by method exact it is not). Infinite where something overflowed or an element is
  /// not finite.
  real running_bound;
  /// Additions, of those that lose their error, of an operand that is not 0 that left the other, a
  /// finite one, unchanged.
  std::uint64_t stagnations;
  /// Additions of finite numbers with an infinite sum, or by two_sum an infinite error, and the
  /// rounding of a finite state to an infinite result.
  std::uint64_t overflows;
};

/// Errors: std::logic_error when result is not that of reference().
trace trace_of(const reduction& r, const void* data, std::size_t n);

/// (result - exact) / ulp(exact): error_in_ulps with its sign; its mean over samples is the bias.
/// NaN when one of the two is NaN.
double signed_error_in_ulps(scalar result, const real& exact);

/// -log2 of the relative error, from 0 (also for a wrong infinity or NaN) to the precision of the
/// output type (also for an exact result).
double correct_bits(scalar result, const real& exact);

}  // namespace bitfold::accuracy
