// What the engines of products share (docs/products.md): the scale of a row or a column, the
// integers of its elements, and the one rounding of each exact sum.
#pragma once

#include <bitfold/exact.hpp>

namespace bitfold::product {

/// The largest s with |a| 2^s <= 63 2^(bits - 7) for the largest |a|, which is finite.
BITFOLD_HD inline int scale_of(double largest, int bits) {
  if (largest == 0) return 0;
  const arith::detail::significand_and_exponent a(largest);  // m of 53 bits
  const bool above = a.m > std::uint64_t{63} << 47;          // 63/64 of the next power of two
  return bits - 1 - (a.e + 53) - (above ? 1 : 0);
}
/// The same of a float, in fewer instructions.
BITFOLD_HD inline int scale_of(float largest, int bits) {
  constexpr std::uint32_t one = 1u << 23, most = (63u << 18) - one;
  const auto word = arith::bit_cast<std::uint32_t>(largest);
  if (word < one) return scale_of(static_cast<double>(largest), bits);  // 0, or a subnormal
  // What is above 63/64 of the next power of two carries to that one's exponent.
  return bits - 1 + 126 - static_cast<int>((word + (one - 1 - most)) >> 23);
}

/// 2^s in two steps, since a row of subnormals has a scale above any double (or float, where A is
/// one). What the first step rounds is far below 1/2.
template <class A>
struct scale_factors {
  scale_factors() = default;
  BITFOLD_HD explicit scale_factors(int s) {
    constexpr int most = sizeof(A) == 4 ? 100 : 1000;
    const int some = s < most ? s : most;
    first = power(some);
    second = power(s - some);
  }
  /// 2^e, which is no subnormal.
  BITFOLD_HD static A power(int e) {
    using bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
    constexpr int mantissa = exact::range<A>::mantissa, bias = sizeof(A) == 4 ? 127 : 1023;
    return arith::bit_cast<A>(static_cast<bits>(e + bias) << mantissa);
  }
  A first, second;
};

/// To nearest, ties to even.
BITFOLD_HD inline double nearest_integer(double x) {
#ifdef __CUDA_ARCH__
  return ::rint(x);
#else
  return __builtin_rint(x);
#endif
}

/// The product of two elements, or an addend, that is not finite, as a bit.
enum special_bits : unsigned { plus = 1, minus = 2, not_a_number = 4 };
BITFOLD_HD inline unsigned special_bit(double x) {
  if (arith::is_finite(x)) return 0;
  return arith::is_nan(x) ? not_a_number : x > 0 ? plus : minus;
}
BITFOLD_HD inline unsigned special_product(double a, double b) {
  return arith::is_finite(a) && arith::is_finite(b) ? 0 : special_bit(arith::mul(a, b));
}
/// The result where some of them were seen.
template <class Out>
BITFOLD_HD Out special_result(unsigned seen) {
  return seen == plus    ? arith::round_to<Out>(exact::infinity)
         : seen == minus ? arith::round_to<Out>(-exact::infinity)
                         : arith::canonical_nan<Out>;
}

__extension__ typedef __int128 signed_wide;

/// A number of 64 bits whose first one is set, and the last one is where bits below it were lost:
/// times 2^e, rounded once.
template <class Out>
BITFOLD_HD Out rounded_word(exact::word sign, exact::word m, int e) {
  if constexpr (std::is_same_v<Out, double>) {
    if (e > -1000 && e < 900) {  // neither subnormal nor too large
      const double size = static_cast<double>(m) * scale_factors<double>::power(e);
      return arith::bit_cast<double>(arith::bit_cast<exact::word>(size) | sign << 63);
    }
  }
  return arith::detail::round_odd_to<Out>(sign != 0, m, e);
}

/// t 2^e, rounded once.
template <class Out>
BITFOLD_HD Out rounded(signed_wide t, int e) {
  if (t == 0) return arith::round_to<Out>(0.0);
  // (A branch by the sign would be guessed wrong half of the time.)
  const auto sign = static_cast<exact::wide>(t >> 127),
             m = (static_cast<exact::wide>(t) ^ sign) - sign;
  const auto upper = static_cast<exact::word>(m >> 64);
  const int zeros =
      upper ? arith::leading_zeros(upper) : 64 + arith::leading_zeros(static_cast<exact::word>(m));
  const exact::wide normal = m << zeros;
  const bool lost = static_cast<exact::word>(normal) != 0;
  return rounded_word<Out>(static_cast<exact::word>(sign) & 1,
                           static_cast<exact::word>(normal >> 64) | (lost ? 1 : 0), e + 64 - zeros);
}

/// A two's complement number times 2^e. Sums of products are below 2^175: of 2^60 terms.
class exact_sum {
 public:
  BITFOLD_HD explicit exact_sum(int e) : e_(e) {}

  /// Adds t 2^shift, in units of 2^e.
  BITFOLD_HD void add(signed_wide t, int shift) {
    const word sign = t < 0 ? ~word{0} : 0;
    add({{static_cast<word>(t), static_cast<word>(t >> 64), sign, sign}}, shift);
  }
  /// Adds a finite number, exactly or, where it and the sum are too far apart, so that every
  /// rounding to 53 bits or fewer is that of the true sum: the lower one is rounded to odd.
  BITFOLD_HD void add(double c) {
    if (c == 0) return;
    const arith::detail::significand_and_exponent parts(c);
    const int zeros = 63 - arith::leading_zeros(parts.m & (0 - parts.m)),
              exponent = parts.e + zeros;
    auto m = static_cast<std::int64_t>(parts.m >> zeros);
    if (arith::is_negative(c)) m = -m;
    if (is_zero()) e_ = exponent;
    int up = exponent - e_;
    if (up < 0) {  // the sum moves up, by at most so much
      const int room = -up < 70 ? -up : 70;
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
    add(signed_wide{m}, up);
  }

  template <class Out>
  BITFOLD_HD Out round() const {
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

  BITFOLD_HD bool is_zero() const { return (w_.w[0] | w_.w[1] | w_.w[2] | w_.w[3]) == 0; }
  BITFOLD_HD static std::int64_t odd_shift(std::int64_t m, int by) {
    if (by > 62) return m < 0 ? -1 : 1;
    const std::int64_t kept = m >> by;
    return kept | (kept * (std::int64_t{1} << by) != m);
  }
  BITFOLD_HD void add(const number& t, int shift) {
    const int whole = shift / 64, rest = shift % 64;
    bool carry = false;
    for (int i = 0; i < words; ++i) {
      const word here = i >= whole ? t.w[i - whole] : 0, below = i > whole ? t.w[i - whole - 1] : 0;
      w_.w[i] = exact::add_carry(w_.w[i], rest ? here << rest | below >> (64 - rest) : here, carry);
    }
  }
  BITFOLD_HD void shift_left(int by) {
    const number old = w_;
    w_ = {};
    add(old, by);
    e_ -= by;
  }
  BITFOLD_HD void shift_right_to_odd(int by) {
    const word sign = w_.w[words - 1] >> 63 ? ~word{0} : 0;
    bool lost = false;
    for (int done = 0; done < by;) {
      const int step = by - done < 63 ? by - done : 63;
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

#define BITFOLD_INLINE BITFOLD_HD inline
#include <bitfold/product_sum.inl>
#undef BITFOLD_INLINE

/// A double that was rounded to odd, rounded once more.
template <class Out>
BITFOLD_HD Out round_odd(double x) {
  if constexpr (sizeof(Out) == 2)
    return arith::round_to<Out>(odd_float(x));
  else
    return arith::round_to<Out>(x);
}

}  // namespace bitfold::product
