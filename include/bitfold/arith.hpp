// Exactly rounded arithmetic, on host and device: with formats.hpp the one home of intrinsics and
// of everything that depends on how a compiler treats floating point. Scalars here;
// src/cpu/simd.inl gives the same names to SIMD vectors. Every operation is IEEE 754 round to
// nearest even, subnormals kept.
#pragma once

#include <bit>
#include <cstdint>
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

}  // namespace bitfold::arith
