// Sums of products as doubles that are rounded to odd. Included once as portable code, and once for
// each SIMD target, inside its namespace, of which compilers make vectors.

/// Of the bits of a number that was rounded to nearest those of the same rounded to odd: cut off
/// towards zero, with a last bit of 1 where that lost something. (By integers alone, of which
/// compilers make vectors.)
template <class Bits>
BITFOLD_INLINE Bits odd_bits(Bits rounded, Bits sign_of_error, bool inexact) {
  const Bits lost = inexact ? -1 : 0,
             too_large = ((sign_of_error ^ rounded) >> (8 * sizeof(Bits) - 1)) & lost;
  return (rounded + too_large) | (lost & 1);
}
/// A sum that was rounded to nearest, with what that left out, rounded to odd.
BITFOLD_INLINE double to_odd(double sum, double error) {
  using bitfold::arith::bit_cast;
  const auto bits = bit_cast<std::int64_t>(error);
  return bit_cast<double>(odd_bits(bit_cast<std::int64_t>(sum), bits, (bits << 1) != 0));
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
/// The same of any two.
BITFOLD_INLINE double odd_sum_of_any(double a, double b) {
  const double sum = a + b;
  return to_odd(sum, error_of(sum, a, b));
}
/// a + b + c, |a| > |b| or a 0. (Boldo and Melquiond, IEEE Trans. Comput. 57(4), 2008: of three
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
  const auto error = bit_cast<std::int64_t>(x - static_cast<double>(f));
  return bit_cast<float>(odd_bits(bit_cast<std::int32_t>(f), static_cast<std::int32_t>(error >> 32),
                                  (error << 1) != 0));
}
