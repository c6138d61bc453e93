// Sums of products as doubles that are rounded to odd. Included once as portable code, and once for
// each SIMD target, inside its namespace, of which compilers make vectors.

/// A sum that was rounded to nearest, with what that left out, rounded to odd: the true sum, cut
/// off towards zero, with a last bit of 1 where that lost something. (By integers alone, of which
/// compilers make vectors.)
BITFOLD_INLINE double to_odd(double sum, double error) {
  using bitfold::arith::bit_cast;
  const auto bits = bit_cast<std::int64_t>(sum), error_bits = bit_cast<std::int64_t>(error);
  const std::int64_t inexact = (error_bits << 1) != 0 ? -1 : 0,
                     too_large = (error_bits ^ bits) >> 63 & inexact;
  return bit_cast<double>((bits + too_large) | (inexact & 1));
}
/// What the rounding of sum = a + b left out.
BITFOLD_INLINE double error_of(double sum, double a, double b) {
  const double b_part = sum - a;
  return (a - (sum - b_part)) + (b - b_part);
}

/// a + b, |a| > |b| or a 0, rounded to odd.
BITFOLD_INLINE double odd_sum(double a, double b) {
  const double sum = a + b;
  return to_odd(sum, b - (sum - a));
}
/// a + b + c, a and b as above. (Boldo and Melquiond, IEEE Trans. Comput. 57(4), 2008: of three
/// numbers, what the two larger ones leave is rounded to odd first.)
BITFOLD_INLINE double odd_sum(double a, double b, double c) {
  const double small = b + c, small_error = error_of(small, b, c), large = a + small,
               large_error = error_of(large, a, small), left = large_error + small_error,
               odd = to_odd(left, error_of(left, large_error, small_error)), sum = large + odd;
  return to_odd(sum, error_of(sum, large, odd));
}

/// What comes of to_odd, as a float: rounded to odd again, so that a narrower type sees it as
/// exact.
BITFOLD_INLINE float odd_float(double x) {
  using bitfold::arith::bit_cast;
  const auto f = static_cast<float>(x);
  const auto bits = bit_cast<std::int32_t>(f);
  const auto error_bits = bit_cast<std::int64_t>(x - static_cast<double>(f));
  const std::int32_t inexact = (error_bits << 1) != 0 ? -1 : 0,
                     too_large =
                         (static_cast<std::int32_t>(error_bits >> 32) ^ bits) >> 31 & inexact;
  return bit_cast<float>((bits + too_large) | (inexact & 1));
}
