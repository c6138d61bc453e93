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

BITFOLD_HD inline float add_alternate(float a, float b) { return add(a, b); }
BITFOLD_HD inline double add_alternate(double a, double b) { return add(a, b); }
BITFOLD_HD inline float sub_alternate(float a, float b) { return sub(a, b); }
BITFOLD_HD inline double sub_alternate(double a, double b) { return sub(a, b); }

BITFOLD_HD inline float mul(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
BITFOLD_HD inline double mul(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
BITFOLD_HD inline std::int64_t mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
BITFOLD_HD inline std::uint64_t mul(std::uint64_t a, std::uint64_t b) { return a * b; }

BITFOLD_HD inline std::int64_t sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
BITFOLD_HD inline std::uint64_t sub(std::uint64_t a, std::uint64_t b) { return a - b; }

/// a * b + c, rounded once.
BITFOLD_HD inline float fma(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
BITFOLD_HD inline double fma(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}
BITFOLD_HD inline float div(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
BITFOLD_HD inline double div(double a, double b) {
#ifdef __CUDA_ARCH__
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}
BITFOLD_HD inline float sqrt(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}
BITFOLD_HD inline double sqrt(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD A neg(A x) {
  return -x;
}
BITFOLD_HD inline float abs(float x) {
  return bit_cast<float>(bit_cast<std::uint32_t>(x) & 0x7fffffffu);
}
BITFOLD_HD inline double abs(double x) {
  return bit_cast<double>(bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffu);
}

BITFOLD_HD inline int leading_zeros(std::uint64_t x) {
#ifdef __CUDA_ARCH__
  return __clzll(static_cast<long long>(x));
#else
  return std::countl_zero(x);
#endif
}
BITFOLD_HD inline bool is_negative(float x) { return bit_cast<std::uint32_t>(x) >> 31; }
BITFOLD_HD inline bool is_negative(double x) { return bit_cast<std::uint64_t>(x) >> 63; }

// ---- Comparison and choice: masks are bool here, a vector's own masks in simd.inl ---------------

template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD bool less(A a, A b) {
  return a < b;
}
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD bool equal(A a, A b) {
  return a == b;
}
/// Whether a mask for values like x holds for all of them.
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD bool all(A, bool mask) {
  return mask;
}
/// False for integers.
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD bool unordered(A x) {
  return x != x;
}
BITFOLD_HD inline bool either(bool a, bool b) { return a || b; }
BITFOLD_HD inline bool both(bool a, bool b) { return a && b; }
BITFOLD_HD inline bool opposite(bool a) { return !a; }
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD A select(bool condition, A yes, A no) {
  return condition ? yes : no;
}
/// The constant c, rounded to x's type.
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD A constant(A, double c) {
  return static_cast<A>(c);
}
template <class A>
using element_of = A;
/// What holds f64 for each number of an A.
template <class A>
using wide_of = double;
BITFOLD_HD inline double widened(float x) { return static_cast<double>(x); }
/// The larger of x and low; low where x is NaN.
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD A at_least(A x, A low) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<A, float>) return fmaxf(x, low);
#endif
  return low < x ? x : low;
}
/// The integer type in which an element of type A has its index in a run of at most 2^30 elements.
template <class A>
using index_of = std::int64_t;
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD std::int64_t index_constant(A, int i) {
  return i;
}
/// i < j, as a mask for values like x.
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD bool index_less(A, std::int64_t i, std::int64_t j) {
  return i < j;
}

/// x 2^k, where shifted is 1.5 2^23 + k for f32, 1.5 2^52 + k for f64, and neither x nor the result
/// is subnormal.
BITFOLD_HD inline float scale(float x, float shifted) {
  return bit_cast<float>(bit_cast<std::uint32_t>(x) + (bit_cast<std::uint32_t>(shifted) << 23));
}
BITFOLD_HD inline double scale(double x, double shifted) {
  return bit_cast<double>(bit_cast<std::uint64_t>(x) + (bit_cast<std::uint64_t>(shifted) << 52));
}

/// a / b for powers of two a <= b; 0 where that is no normal number.
BITFOLD_HD inline float power_ratio(float a, float b) {
  const auto r =
      static_cast<std::int32_t>(bit_cast<std::uint32_t>(a) - bit_cast<std::uint32_t>(b)) +
      0x3f800000;
  return bit_cast<float>(r < 0 ? 0 : r);
}
BITFOLD_HD inline double power_ratio(double a, double b) {
  const auto r =
      static_cast<std::int64_t>(bit_cast<std::uint64_t>(a) - bit_cast<std::uint64_t>(b)) +
      0x3ff0000000000000;
  return bit_cast<double>(r < 0 ? std::int64_t{0} : r);
}
/// The zero that changes no sum, not even -0: an exact identity of add.
BITFOLD_HD inline float neutral(float) { return -0.0f; }
BITFOLD_HD inline double neutral(double) { return -0.0; }

/// The same for elements as they are stored, integers too.
template <class T>
inline constexpr T stored_neutral = T{};
template <>
inline constexpr float16 stored_neutral<float16>{0x8000};
template <>
inline constexpr bfloat16 stored_neutral<bfloat16>{0x8000};
template <>
inline constexpr float stored_neutral<float> = -0.0f;
template <>
inline constexpr double stored_neutral<double> = -0.0;

/// IEEE 754-2019 minimum and maximum: NaN if an operand is one, and -0 below +0.
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD A minimum(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<A, float>) {
      float r;
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
      return r;
    }
#endif
    if (a != a) return a;
    if (a == b) return is_negative(a) ? a : b;
    return a < b ? a : b;
  } else {
    return b < a ? b : a;
  }
}
template <class A>
  requires std::is_arithmetic_v<A>
BITFOLD_HD A maximum(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
#ifdef __CUDA_ARCH__
    if constexpr (std::is_same_v<A, float>) {
      float r;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
      return r;
    }
#endif
    if (a != a) return a;
    if (a == b) return is_negative(a) ? b : a;
    return a > b ? a : b;
  } else {
    return a < b ? b : a;
  }
}

/// ln 2 in two parts. The high one ends in zeros, so that its product with the exponent of any
/// finite number is exact.
template <class A>
inline constexpr A ln2_high =
    static_cast<A>(std::is_same_v<A, float> ? 0x1.62e4p-1 : 0x1.62e42fefa38p-1);
template <class A>
inline constexpr A ln2_low =
    static_cast<A>(std::is_same_v<A, float> ? 0x1.7f7d1cf79abcap-20 : 0x1.ef35793c7673p-45);
/// Where exp_nonpositive ends: below it results would be subnormal.
template <class A>
inline constexpr A exp_floor = std::is_same_v<A, float> ? -86 : -708;

#define BITFOLD_INLINE BITFOLD_HD inline
#include <bitfold/arith.inl>
#undef BITFOLD_INLINE

BITFOLD_HD inline bool is_nan(double x) { return x != x; }
BITFOLD_HD inline bool is_finite(double x) { return sub(x, x) == 0.0; }

/// log(x) for x >= 1, +0 for 1; the relative error is below 5 u, u = 2^-53. By 2 artanh((z - 1) /
/// (z + 1)) for z = x / 2^k in [3/4, 3/2): u and, of log z, which is at most 0.71 of the result
/// where k > 0, 2 u in the quotient, 1.1 u in the series (of which 0.01 u is left out) and 1 u
/// where k ln 2 is added.
BITFOLD_HD inline double log_from_one(double x) {
  const auto bits = bit_cast<std::uint64_t>(x);
  const std::uint64_t k = (bits - bit_cast<std::uint64_t>(0.75)) >> 52;
  const double z = bit_cast<double>(bits - (k << 52)), n = static_cast<double>(k);
  const double q = div(sub(z, 1.0), add(z, 1.0)), q2 = mul(q, q), twice = add(q, q);
  const double series = polynomial(q2, 1 / 3.0, 1 / 5.0, 1 / 7.0, 1 / 9.0, 1 / 11.0, 1 / 13.0,
                                   1 / 15.0, 1 / 17.0, 1 / 19.0, 1 / 21.0, 1 / 23.0);
  const double log_z = fma(twice, mul(q2, series), twice);
  return fma(n, ln2_high<double>, fma(n, ln2_low<double>, log_z));
}

// ---- Formats ------------------------------------------------------------------------------------

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
