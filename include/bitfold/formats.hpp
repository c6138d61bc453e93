// The formats of elements, on host and device: what is stored, widened exactly, and results,
// rounded once to what is stored.
#pragma once

#include <cstdint>
#include <type_traits>

#include <bitfold/arith.hpp>
#include <bitfold/config.hpp>
#include <bitfold/dtype.hpp>

namespace bitfold::arith {

/// The canonical quiet NaN of each float type: the only NaN that bitfold ever returns.
template <class T>
inline constexpr T canonical_nan = T{};
template <>
inline constexpr float16 canonical_nan<float16>{0x7e00};
template <>
inline constexpr bfloat16 canonical_nan<bfloat16>{0x7fc0};
template <>
inline constexpr float canonical_nan<float> = bit_cast<float>(0x7fc00000u);
template <>
inline constexpr double canonical_nan<double> = bit_cast<double>(0x7ff8000000000000ull);

/// Exact widening of a stored element to an accumulator (float, double, int64_t or uint64_t).
template <class A, class T>
BITFOLD_HD inline A widen(T x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return static_cast<A>(bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16));
  } else if constexpr (std::is_same_v<T, float16>) {
#ifdef __CUDA_ARCH__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return static_cast<A>(f);
#else
    const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16,
                        rest = x.bits & 0x7fffu;
    // Without branches, of which compilers make vectors: a subnormal counts 2^-24s.
    const auto subnormal =
        bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24f);
    const std::uint32_t normal = (rest << 13) + ((127u - 15u) << 23),
                        quiet = rest > 0x7c00u ? 0x400000u : 0u;
    const std::uint32_t bits = rest < 0x400u    ? subnormal
                               : rest < 0x7c00u ? normal
                                                : 0x7f800000u | rest << 13 | quiet;
    return static_cast<A>(bit_cast<float>(sign | bits));
#endif
  } else {
    return static_cast<A>(x);
  }
}

namespace detail {
template <class Out>
struct format_of;  // how a float type is stored
template <>
struct format_of<float16> {
  using bits = std::uint16_t;
  static constexpr int mantissa = 10;
};
template <>
struct format_of<bfloat16> {
  using bits = std::uint16_t;
  static constexpr int mantissa = 7;
};
template <>
struct format_of<float> {
  using bits = std::uint32_t;
  static constexpr int mantissa = 23;
};
template <>
struct format_of<double> {
  using bits = std::uint64_t;
  static constexpr int mantissa = 52;
};

/// (-1)^negative m 2^e rounded to nearest even, once. Bit 63 of m is set; bit 0 is, too, where bits
/// below it were lost (rounding to odd), which any narrower rounding then sees as exact.
template <class Out>
BITFOLD_HD inline Out round_odd_to(bool negative, std::uint64_t m, int e) {
  using bits = typename format_of<Out>::bits;
  constexpr int mantissa = format_of<Out>::mantissa, width = 8 * sizeof(bits);
  constexpr int bias = (1 << (width - 2 - mantissa)) - 1;
  constexpr std::uint64_t infinity = (2ull * bias + 1) << mantissa;
  const int top = e + 63;  // the exponent of m's first bit
  const int below_normal = top < 1 - bias ? 1 - bias - top : 0;
  const int drop = 63 - mantissa + below_normal;
  std::uint64_t r;
  if (top > bias) {
    r = infinity;
  } else if (drop >= 64) {
    r = drop == 64 && m > 1ull << 63;
  } else {
    std::uint64_t kept = m >> drop;
    const std::uint64_t rest = m & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    // A carry out of the significand runs into the exponent, which is what it should do.
    r = below_normal
            ? kept
            : (static_cast<std::uint64_t>(top + bias) << mantissa) + kept - (1ull << mantissa);
  }
  return bit_cast<Out>(static_cast<bits>(static_cast<std::uint64_t>(negative) << (width - 1) | r));
}

/// x = m 2^e for a finite x > 0 in magnitude; m has 53 bits.
struct significand_and_exponent {
  std::uint64_t m;
  int e;
  BITFOLD_HD explicit significand_and_exponent(double x) {
    const auto bits = bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffu;
    const int biased = static_cast<int>(bits >> 52);
    m = bits & 0xfffffffffffffu;
    e = biased ? biased - 1075 : -1074;
    if (biased) m |= 1ull << 52;
    while (m && !(m >> 52)) m <<= 1, --e;
  }
};
}  // namespace detail

/// x rounded once, to nearest even, to a float type; any NaN becomes the canonical one.
template <class Out>
BITFOLD_HD inline Out round_to(double x) {
  if (is_nan(x)) return canonical_nan<Out>;
  if constexpr (sizeof(Out) == 2) {
    constexpr int mantissa = detail::format_of<Out>::mantissa;
    const auto bits = bit_cast<std::uint64_t>(x);
    const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000u);
    if (!is_finite(x)) return Out{static_cast<std::uint16_t>(sign | (0x8000u - (1u << mantissa)))};
    if (x == 0) return Out{sign};
    const detail::significand_and_exponent parts(x);
    return detail::round_odd_to<Out>(sign, parts.m << 11, parts.e - 11);
  } else if constexpr (std::is_same_v<Out, float>) {
#ifdef __CUDA_ARCH__
    return __double2float_rn(x);
#else
    return static_cast<float>(x);
#endif
  } else {
    static_assert(std::is_same_v<Out, double>);
    return x;
  }
}

namespace detail {
// A float that is no NaN, to nearest even. By hand without branches, of which compilers make
// vectors.
BITFOLD_HD inline float16 narrow(float x, float16) {
#ifdef __CUDA_ARCH__
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return float16{bits};
#else
  const auto wide = bit_cast<std::uint32_t>(x);
  const std::uint32_t rest = wide & 0x7fffffffu, least_normal = (127u - 14u) << 23,
                      overflow = (127u + 16u) << 23;
  const std::uint32_t normal = (rest - ((127u - 15u) << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
  // A subnormal counts 2^-24s: x is m 2^(e - 150).
  const std::uint32_t m = (rest & 0x7fffffu) | 0x800000u,
                      e = rest < least_normal ? rest >> 23 : 112u;
  const std::uint32_t drop = e < 95u ? 31u : 126u - e;
  const std::uint32_t subnormal = (m + (1u << (drop - 1u)) - 1u + (m >> drop & 1u)) >> drop;
  const std::uint32_t bits = rest < least_normal ? subnormal : rest < overflow ? normal : 0x7c00u;
  return float16{static_cast<std::uint16_t>((wide >> 16 & 0x8000u) | bits)};
#endif
}
BITFOLD_HD inline bfloat16 narrow(float x, bfloat16) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
  const auto wide = bit_cast<std::uint32_t>(x);  // an infinity stays one
  const auto bits = static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
#endif
  return bfloat16{bits};
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
/// Two numbers, the first in the low half.
template <class T>
__device__ inline std::uint32_t narrow_both(float first, float second) {
  std::uint32_t bits;
  if constexpr (std::is_same_v<T, float16>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  return bits;
}
#endif
}  // namespace detail

/// The same from a float, without the way through double.
template <class Out>
BITFOLD_HD inline Out round_to(float x) {
  if constexpr (sizeof(Out) == 2) {
    const Out rounded = detail::narrow(x, Out{});  // in any case: a branch around it is slower
    return Out{x != x ? canonical_nan<Out>.bits : rounded.bits};
  } else if constexpr (std::is_same_v<Out, float>) {
    return x != x ? canonical_nan<float> : x;
  } else {
    return round_to<Out>(static_cast<double>(x));
  }
}

/// hi + lo rounded once to a float type, as if the sum were exact: the sum is first rounded to odd
/// in double, which any narrower rounding then sees as exact (Boldo and Melquiond, 2008). A hi that
/// is not finite is the result by itself; so is hi when lo is zero (which keeps -0) or not finite.
template <class Out>
BITFOLD_HD inline Out round_sum_to(double hi, double lo) {
  if (!is_finite(hi) || !is_finite(lo) || lo == 0.0) return round_to<Out>(hi);
  const auto [s, e] = two_sum(hi, lo);
  if constexpr (std::is_same_v<Out, double>) {
    return s;
  } else {
    auto bits = bit_cast<std::uint64_t>(s);
    // Inexact with an even significand: step one ulp towards the error, to the odd neighbour.
    if (is_finite(s) && e != 0.0 && !(bits & 1))
      bits = (e > 0.0) == (s > 0.0) ? bits + 1 : bits - 1;
    return round_to<Out>(bit_cast<double>(bits));
  }
}

/// An integer that equal elements share and no others do: -0 is +0, and all NaNs are one.
template <class T>
BITFOLD_HD inline auto key_of(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(x);
  } else {
    using bits = typename detail::format_of<T>::bits;
    constexpr bits nan = bit_cast<bits>(canonical_nan<T>);
    constexpr bits infinity =
        nan & static_cast<bits>(~(bits{1} << (detail::format_of<T>::mantissa - 1)));
    const bits key = bit_cast<bits>(x),
               magnitude = key & static_cast<bits>(static_cast<bits>(-1) >> 1);
    return magnitude > infinity ? nan : magnitude ? key : bits{0};
  }
}

/// (hi + lo) / n rounded once to a float type, as if the sum and the quotient were exact; n > 0. A
/// sum that is not finite is the result by itself; a lo that is not finite counts as nothing.
template <class Out>
BITFOLD_HD inline Out round_quotient_to(double hi, double lo, std::uint64_t n) {
  // Of a double the division rounds once, as n is one. Of a float: where the quotient is not
  // halfway between two numbers of at most 24 bits, it is at least 2^-50 of itself away from there,
  // which the division's rounding does not cross.
  if (lo == 0 && n <= 1 << 24 &&
      (std::is_same_v<Out, double> || hi == static_cast<double>(static_cast<float>(hi))))
    return round_to<Out>(div(hi, static_cast<double>(n)));
  if (!is_finite(hi) || !is_finite(lo)) lo = 0;
  const auto [s, r] = two_sum(hi, lo);
  if (!is_finite(s) || s == 0) return round_to<Out>(lo == 0 ? hi : s);
  __extension__ typedef unsigned __int128 wide;
  const detail::significand_and_exponent big(s), small(r);
  // The magnitude of s + r as m 2^e: rounded down, and whether anything was lost by that.
  wide m = wide{big.m} << 74;
  const int e = big.e - 74;
  bool inexact = false;
  if (r != 0) {
    const int shift = small.e - e;
    const wide part = shift >= 0    ? wide{small.m} << shift
                      : shift > -64 ? wide{small.m >> -shift}
                                    : 0;
    inexact = shift < 0 && (shift <= -64 || (small.m & ((1ull << -shift) - 1)));
    if (is_negative(r) == is_negative(s))
      m += part;
    else
      m -= part + (inexact ? 1 : 0);
  }
  const wide q = m / n;
  inexact = inexact || q * n != m;
  const auto high = static_cast<std::uint64_t>(q >> 64), low = static_cast<std::uint64_t>(q);
  const int width = high ? 128 - leading_zeros(high) : 64 - leading_zeros(low);
  std::uint64_t top;
  if (width > 64) {
    top = static_cast<std::uint64_t>(q >> (width - 64));
    inexact = inexact || (q & ((wide{1} << (width - 64)) - 1));
  } else {
    top = low << (64 - width);
  }
  return detail::round_odd_to<Out>(is_negative(s), top | (inexact ? 1 : 0), e + width - 64);
}

/// A 64-bit integer to any output type: integers wrap modulo their size, floats round once.
template <class Out, class I>
BITFOLD_HD inline Out round_integer_to(I x) {
  if constexpr (std::is_integral_v<Out>) {
    return static_cast<Out>(x);
  } else if constexpr (std::is_same_v<Out, double>) {
    return static_cast<double>(x);
  } else {
    // Round to odd at 53 bits first (see round_sum_to), so that the double is a faithful stand-in.
    bool negative = false;
    if constexpr (std::is_signed_v<I>) negative = x < 0;
    std::uint64_t m = static_cast<std::uint64_t>(x);
    if (negative) m = 0 - m;
    if (m >> 53) m = (m & ~0x7ffull) | ((m & 0x7ff) ? 0x800ull : 0ull);
    const double d = static_cast<double>(m);
    return round_to<Out>(negative ? -d : d);
  }
}

}  // namespace bitfold::arith

namespace bitfold::detail {
/// Elements as functions take them: f16 and bf16 as float, all others as they are.
template <class T>
BITFOLD_HD auto as_number(const T& x) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    return arith::widen<float>(x);
  else
    return x;
}
}  // namespace bitfold::detail
