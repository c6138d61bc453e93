// For tests: how far apart two values are, and whether their bits are the same. Only headers:
// nothing has to be linked. The Catch2 matchers are in testing_catch2.hpp.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <type_traits>

#include <bitfold/dtype.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::testing {

/// A type that elements may have.
template <class T>
concept element =
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || (std::is_integral_v<T> && !std::is_same_v<T, bool>);

/// What ulp_distance says where there is no distance. No tolerance admits it.
inline constexpr std::uint64_t no_distance = UINT64_MAX;

/// The value as a scalar.
template <element T>
constexpr scalar as_scalar(T x) {
  if constexpr (std::is_integral_v<T>)
    return {dtype_of<T>, static_cast<std::make_unsigned_t<T>>(x)};
  else if constexpr (sizeof(T) == 2)
    return {dtype_of<T>, x.bits};
  else if constexpr (sizeof(T) == 4)
    return {dtype_of<T>, std::bit_cast<std::uint32_t>(x)};
  else
    return {dtype_of<T>, std::bit_cast<std::uint64_t>(x)};
}
constexpr scalar as_scalar(scalar x) { return x; }

/// Steps from a to b on the line of the values that their type has:
///   -0 and +0 are the same point; infinity is one step beyond the largest finite value;
///   two NaNs are 0 apart, whatever their bits; a NaN and a number have no_distance;
///   for integers it is |a - b|. Scalars of different types have no_distance.
constexpr std::uint64_t ulp_distance(scalar a, scalar b) {
  if (a.type != b.type) return no_distance;
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(a.type) - 1);
  const auto apart = [](std::uint64_t x, std::uint64_t y) { return x < y ? y - x : x - y; };
  if (!is_float(a.type)) {
    // With the sign bit flipped, the bits of signed integers are in the order of their values.
    const std::uint64_t flip = is_signed_int(a.type) ? sign : 0;
    return apart(a.bits ^ flip, b.bits ^ flip);
  }
  const int mantissa = a.type == dtype::f16    ? 10
                       : a.type == dtype::bf16 ? 7
                       : a.type == dtype::f32  ? 23
                                               : 52;
  const std::uint64_t infinity = (sign - 1) >> mantissa << mantissa;
  const std::uint64_t x = a.bits & (sign - 1), y = b.bits & (sign - 1);  // steps away from zero
  if (x > infinity || y > infinity) return x > infinity && y > infinity ? 0 : no_distance;
  return (a.bits & sign) == (b.bits & sign) ? apart(x, y) : x + y;
}
/// Both of one type: nothing is converted.
template <element T>
constexpr std::uint64_t ulp_distance(T a, T b) {
  return ulp_distance(as_scalar(a), as_scalar(b));
}

/// Whether type and bits are equal: so +0 and -0 differ, and a NaN equals itself.
constexpr bool same_bits(scalar a, scalar b) { return a == b; }
template <element T>
constexpr bool same_bits(T a, T b) {
  return as_scalar(a) == as_scalar(b);
}

/// A vector, a span, an array: of elements, or of scalars.
template <class R>
concept element_range = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                        requires(const std::ranges::range_value_t<R>& x) { as_scalar(x); };

/// The first index where the bits differ, or where one of the two ends; nothing if they are the
/// same.
template <element_range A, element_range B>
  requires std::is_same_v<std::ranges::range_value_t<A>, std::ranges::range_value_t<B>>
constexpr std::optional<std::size_t> first_difference(const A& a, const B& b) {
  const std::size_t m = std::ranges::size(a), n = std::ranges::size(b), both = m < n ? m : n;
  for (std::size_t i = 0; i < both; ++i)
    if (!same_bits(std::ranges::data(a)[i], std::ranges::data(b)[i])) return i;
  if (m != n) return both;
  return std::nullopt;
}

/// Whether the lengths, and all bits, are equal.
template <element_range A, element_range B>
constexpr bool same_bits(const A& a, const B& b) {
  return !first_difference(a, b);
}

}  // namespace bitfold::testing
