// The one rounding of each element of a product, of its exact sum.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include <bitfold/exact.hpp>
#include <bitfold/matmul.hpp>

#include "products.hpp"

namespace bitfold::cpu {

/// t 2^e, rounded once.
template <class Out>
Out rounded(__int128 t, int e) {
  if (t == 0) return arith::round_to<Out>(0.0);
  // (A branch by the sign would be guessed wrong half of the time.)
  const auto sign = static_cast<exact::wide>(t >> 127),
             m = (static_cast<exact::wide>(t) ^ sign) - sign;
  const auto upper = static_cast<exact::word>(m >> 64);
  const int zeros =
      upper ? std::countl_zero(upper) : 64 + std::countl_zero(static_cast<exact::word>(m));
  const exact::wide normal = m << zeros;
  const int power = e + 64 - zeros;
  // Rounded to odd, which the rounding that follows sees as exact.
  const exact::word top =
      static_cast<exact::word>(normal >> 64) | (static_cast<exact::word>(normal) != 0 ? 1 : 0);
  if constexpr (std::is_same_v<Out, double>) {
    if (power > -1000 && power < 900) {  // neither subnormal nor too large
      const double size =
          static_cast<double>(top) * arith::bit_cast<double>((std::int64_t{1023} + power) << 52);
      return arith::bit_cast<double>(arith::bit_cast<exact::word>(size) |
                                     static_cast<exact::word>(sign) << 63);
    }
  }
  return arith::detail::round_odd_to<Out>(sign != 0, top, power);
}

/// The sum of the products of two digits of rows of at most this length is below 2^127.
inline constexpr std::size_t max_short = std::size_t{1} << 13;
static_assert(2 * (max_product_bits - 1) + 13 <= 127);
inline __int128 short_sum(__int128 high, __int128 middle, __int128 low) {
  return high * (__int128{1} << 2 * digit_bits) + middle * (__int128{1} << digit_bits) + low;
}

/// A two's complement number times 2^e. Sums of products are below 2^175: of 2^60 terms.
class exact_sum {
 public:
  explicit exact_sum(int e) : e_(e) {}

  /// Adds t 2^shift, in units of 2^e.
  void add(__int128 t, int shift) {
    const word sign = t < 0 ? ~word{0} : 0;
    add({{static_cast<word>(t), static_cast<word>(t >> 64), sign, sign}}, shift);
  }
  /// Adds a finite number, exactly or, where it and the sum are too far apart, so that every
  /// rounding to 53 bits or fewer is that of the true sum: the lower one is rounded to odd.
  void add(double c) {
    if (c == 0) return;
    int exponent;
    auto m = static_cast<std::int64_t>(std::ldexp(std::frexp(c, &exponent), 53));
    exponent -= 53;
    const int zeros = std::countr_zero(static_cast<word>(m));
    m >>= zeros;
    exponent += zeros;
    if (is_zero()) e_ = exponent;
    int up = exponent - e_;
    if (up < 0) {  // the sum moves up, by at most so much
      const int room = std::min(-up, 70);
      shift_left(room);
      up += room;
    }
    if (up < 0) {
      m = odd_shift(m, -up);
      up = 0;
    }
    if (up > 190) {
      shift_right_to_odd(up - 190);
      up = 190;
    }
    add(__int128{m}, up);
  }

  template <class Out>
  Out round() const {
    if (is_zero()) return arith::round_to<Out>(0.0);
    const bool negative = w_.w[words - 1] >> 63;
    number m = w_;
    if (negative) {
      bool borrow = false;
      for (word& w : m.w) w = exact::sub_borrow(0, w, borrow);
    }
    return exact::leading(m.w, words, e_).template round<Out>(negative);
  }

 private:
  using word = exact::word;
  static constexpr int words = 4;
  struct number {
    word w[words];
  };

  bool is_zero() const {
    return std::all_of(w_.w, w_.w + words, [](word w) { return w == 0; });
  }
  static std::int64_t odd_shift(std::int64_t m, int by) {
    if (by > 62) return m < 0 ? -1 : 1;
    const std::int64_t kept = m >> by;
    return kept | (kept * (std::int64_t{1} << by) != m);
  }
  void add(const number& t, int shift) {
    const int whole = shift / 64, rest = shift % 64;
    bool carry = false;
    for (int i = 0; i < words; ++i) {
      const word here = i >= whole ? t.w[i - whole] : 0, below = i > whole ? t.w[i - whole - 1] : 0;
      w_.w[i] = exact::add_carry(w_.w[i], rest ? here << rest | below >> (64 - rest) : here, carry);
    }
  }
  void shift_left(int by) {
    const number old = w_;
    w_ = {};
    add(old, by);
    e_ -= by;
  }
  void shift_right_to_odd(int by) {
    const word sign = w_.w[words - 1] >> 63 ? ~word{0} : 0;
    bool lost = false;
    for (int done = 0; done < by;) {
      const int step = std::min(by - done, 63);
      lost = lost || (w_.w[0] & ((word{1} << step) - 1)) != 0;
      for (int i = 0; i < words; ++i)
        w_.w[i] = w_.w[i] >> step | (i + 1 < words ? w_.w[i + 1] : sign) << (64 - step);
      done += step;
      if (done >= 64 * words) done = by;  // nothing but the sign is left
    }
    if (lost) w_.w[0] |= 1;
    e_ += by;
  }

  number w_{};
  int e_;
};

}  // namespace bitfold::cpu
