// Exactly rounded arithmetic, on host and device: the one home of intrinsics and of everything that
// depends on how a compiler treats floating point. Scalars here; src/cpu/simd.inl gives the same
// names to SIMD vectors. Every operation is IEEE 754 round to nearest even, subnormals kept.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <bitfold/config.hpp>
#include <bitfold/dtype.hpp>
#include <bitfold/strict_math.hpp>

namespace bitfold::arith {

/// std::bit_cast, on the device too.
template <class To, class From>
BITFOLD_HD constexpr To bit_cast(const From& x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}

BITFOLD_HD inline float add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
BITFOLD_HD inline double add(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
/// Integers wrap modulo 2^64.
BITFOLD_HD inline std::int64_t add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
BITFOLD_HD inline std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a + b; }

BITFOLD_HD inline float sub(float a, float b) { return add(a, -b); }
BITFOLD_HD inline double sub(double a, double b) { return add(a, -b); }

BITFOLD_HD inline float add_too(float a, float b) { return add(a, b); }
BITFOLD_HD inline double add_too(double a, double b) { return add(a, b); }
BITFOLD_HD inline float sub_too(float a, float b) { return sub(a, b); }
BITFOLD_HD inline double sub_too(double a, double b) { return sub(a, b); }

/// The zero that changes no sum, not even -0: an exact identity of add.
BITFOLD_HD inline float neutral(float) { return -0.0f; }
BITFOLD_HD inline double neutral(double) { return -0.0; }

#define BITFOLD_INLINE BITFOLD_HD inline
#include <bitfold/arith.inl>
#undef BITFOLD_INLINE

BITFOLD_HD inline bool is_nan(double x) { return x != x; }
BITFOLD_HD inline bool is_finite(double x) { return sub(x, x) == 0.0; }

// ---- Formats -------------------------------------------------------------------------------------

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
    const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
    const std::uint32_t rest = x.bits & 0x7fffu;
    std::uint32_t bits;
    if (rest >= 0x7c00u) {  // inf, nan
      bits = 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0u);
    } else if (rest >= 0x400u) {
      bits = (rest << 13) + ((127u - 15u) << 23);
    } else if (rest == 0) {
      bits = 0;
    } else {  // subnormal: rest * 2^-24
      const int top = 31 - std::countl_zero(rest);
      bits = static_cast<std::uint32_t>(top + 127 - 24) << 23 | (rest << (23 - top) & 0x7fffffu);
    }
    return static_cast<A>(bit_cast<float>(sign | bits));
#endif
  } else {
    return static_cast<A>(x);
  }
}

namespace detail {
/// Rounds a double to a 16-bit format with `Mantissa` stored bits, to nearest even, once.
template <int Mantissa>
BITFOLD_HD inline std::uint16_t round_to_16(double x) {
  constexpr int exponent_bits = 15 - Mantissa;
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr std::uint64_t infinity = ((1ull << exponent_bits) - 1) << Mantissa;
  const auto bits = bit_cast<std::uint64_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000u);
  const int biased = static_cast<int>(bits >> 52 & 0x7ff);
  if (biased == 0x7ff) return static_cast<std::uint16_t>(sign | infinity);
  if (biased == 0) return sign;  // zero, or far below half of the smallest subnormal
  const std::uint64_t significand = (bits & 0xfffffffffffffull) | 1ull << 52;
  const int e = biased - 1023;
  const int below_normal = e < 1 - bias ? 1 - bias - e : 0;
  const int drop = 52 - Mantissa + below_normal;
  if (drop > 53) return sign;
  std::uint64_t kept = significand >> drop;
  const std::uint64_t rest = significand & ((1ull << drop) - 1), half = 1ull << (drop - 1);
  kept += rest > half || (rest == half && (kept & 1));
  // A carry out of the significand runs into the exponent, which is what it should do.
  const std::uint64_t r =
      below_normal ? kept
                   : (static_cast<std::uint64_t>(e + bias) << Mantissa) + kept - (1ull << Mantissa);
  return static_cast<std::uint16_t>(sign | (r < infinity ? r : infinity));
}
}  // namespace detail

/// x rounded once, to nearest even, to a float type; any NaN becomes the canonical one.
template <class Out>
BITFOLD_HD inline Out round_to(double x) {
  if (is_nan(x)) return canonical_nan<Out>;
  if constexpr (std::is_same_v<Out, float16>) {
    return float16{detail::round_to_16<10>(x)};
  } else if constexpr (std::is_same_v<Out, bfloat16>) {
    return bfloat16{detail::round_to_16<7>(x)};
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

/// The same from a float, without the way through double where there is nothing to round.
template <class Out>
BITFOLD_HD inline Out round_to(float x) {
  if constexpr (std::is_same_v<Out, float>)
    return x != x ? canonical_nan<float> : x;
  else
    return round_to<Out>(static_cast<double>(x));
}

/// hi + lo rounded once to a float type, as if the sum were exact: the sum is first rounded to odd in
/// double, which any narrower rounding then sees as exact (Boldo and Melquiond, 2008). A hi that is
/// not finite is the result by itself; so is hi when lo is zero (which keeps -0) or not finite.
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
