// The measures of the suite, as docs/measures.md defines them with their sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include <bitfold/reduction.hpp>

#include "oracle.hpp"

namespace bitfold::accuracy {

/// What one reduction went through, found by walking the canonical order element by element in the
/// accumulator's arithmetic.
struct trace {
  scalar result;              ///< equals reference()
  real running_bound;         ///< |result - S| <= this; infinite where something overflowed
  std::uint64_t stagnations;  ///< additions of an operand that is not 0 that left the other unchanged
  std::uint64_t overflows;    ///< roundings of a finite value to an infinite one, that to the output type included
};

/// Errors: std::logic_error when result is not that of reference().
trace trace_of(const reduction& r, const void* data, std::size_t n);

/// (result - exact) / ulp(exact): error_in_ulps with its sign; its mean over samples is the bias.
double signed_error_in_ulps(scalar result, const real& exact);

/// -log2 of the relative error, from 0 (none, or a wrong infinity or NaN) to the precision of the
/// output type (also for an exact result).
double correct_bits(scalar result, const real& exact);

}  // namespace bitfold::accuracy
