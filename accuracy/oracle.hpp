// The ground truth: the exact value of every op by MPFR, and its one correct rounding. Nothing here
// uses an engine, the canonical order or bitfold's own conversions.
#pragma once

#include <cstddef>
#include <cstdint>

#include <boost/multiprecision/mpfr.hpp>

#include <bitfold/reduction.hpp>

namespace bitfold::accuracy {

/// An MPFR number wide enough to hold exactly any sum of fewer than 2^64 elements of any dtype, or
/// of products of two or squares of differences: this is a multiple of 2^-2148 below 2^(2050 + 64),
/// which is 4262 bits; 1300 digits are over 4318. What is no such sum (a quotient, a root, a
/// product of many, a higher moment) has a relative error of some 2^-4318, far below all that it is
/// compared with.
using real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<1300>,
                                           boost::multiprecision::et_off>;

/// A binary floating-point format with subnormals: the integers below 2^precision times
/// 2^min_exponent, and so on upwards.
struct float_format {
  int precision;     ///< bits of the significand, the hidden one included
  int min_exponent;  ///< of the smallest subnormal
  int max_exponent;  ///< finite values are below 2^max_exponent
};
float_format format_of(dtype float_type);
/// 2^-precision, the largest relative error of one rounding.
real unit_roundoff(dtype float_type);

/// The value of one element, exact: a double for floats, an integer for integers.
real value_of(scalar v);

struct exact_sum {
  real sum;      ///< NaN or infinite by IEEE 754's rules when elements are; -0 when all of them are
  real sum_abs;  ///< the sum of |x|
  real condition() const;  ///< sum_abs / |sum|: infinite when only sum is 0, 1 when both are
};

/// n elements of a type, or of two arrays of it.
struct elements {
  dtype type;
  const void* x;
  const void* y;  ///< null where there is one array
  std::size_t n;
};

/// What is summed.
enum class term {
  element,
  number,  ///< an element, or +0 for a NaN
  magnitude,
  square,
  product,
  difference,  ///< |x - y|
  squared_difference,
  extent,  ///< |x| + |y|
  squared_extent,
};

/// The exact sum of terms (integers as the mathematical sum, without wrapping).
/// Throws std::logic_error if MPFR ever reports a rounding.
exact_sum sum_exactly(term what, const elements& in);
exact_sum sum_exactly(dtype type, const void* data, std::size_t n);  ///< of the elements

/// How many elements of x are not NaN.
std::size_t count_numbers(const elements& in);

/// n^k m_k, m_k being the k-th central moment of x, for k = 2, 3 or 4; computed exactly from n and
/// the sums of powers. NaN where an element is not finite.
real scaled_moment(int k, const elements& in);

struct exact_dot {
  real dot;
  real dot_abs;            ///< the sum of |x y|
  real condition() const;  ///< 2 dot_abs / |dot|: infinite when only dot is 0, 2 when both are
};

/// The exact dot product of n elements of a float type. Errors as above.
exact_dot dot_exactly(dtype float_type, const void* x, const void* y, std::size_t n);

/// The exact value of an op, which a result approximates: as docs/operations.md defines it,
/// integers without wrapping (but for prod: modulo 2^64). Errors as above, and std::logic_error for
/// no elements where the op refuses them.
real exact_value(op_id op, const elements& in, int ddof = 0);
real exact_value(op_id op, dtype type, const void* data, std::size_t n);
/// What r approximates: the same, but modulo 2^64 where integers add as integers, other than by
/// method exact.
real exact_value(const reduction& r, const elements& in);

/// x rounded to nearest even to a float type, once, with subnormals and overflow; NaN is canonical.
/// To an integer type, of which x must be an integer: modulo 2^bits.
scalar round_correctly(const real& x, dtype type);

/// The spacing of a type at x: of its binade, or of the subnormals; 1 for integers.
real ulp(const real& x, dtype type);

/// |result - exact| / ulp(exact). 0 for the right infinity or NaN, and for an infinity that exact
/// rounds to; infinite for a wrong one.
double error_in_ulps(scalar result, const real& exact);
/// |result - exact| / |exact|, likewise; 0 / 0 is 0.
double relative_error(scalar result, const real& exact);

}  // namespace bitfold::accuracy
