// The element types of bitfold: names, sizes, storage types, and the one place that maps a run-time
// dtype to a C++ type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <bitfold/config.hpp>

namespace bitfold {

/// IEEE 754 binary16, as stored. bitfold only widens it (exactly) and rounds to it.
struct float16 {
  std::uint16_t bits;
};

/// bfloat16: the upper half of an IEEE 754 binary32, as stored.
struct bfloat16 {
  std::uint16_t bits;
};

/// The type of an array's elements: IEEE's floats of 16, 32 and 64 bits, bfloat16, and integers
/// with a sign and without.
enum class dtype : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 };

namespace detail {
struct dtype_info {
  dtype id;
  std::string_view name;
  std::uint8_t size;  // bytes
  bool is_float;
};
inline constexpr std::array<dtype_info, 12> dtype_table{{
    {dtype::f16, "f16", 2, true},
    {dtype::bf16, "bf16", 2, true},
    {dtype::f32, "f32", 4, true},
    {dtype::f64, "f64", 8, true},
    {dtype::i8, "i8", 1, false},
    {dtype::i16, "i16", 2, false},
    {dtype::i32, "i32", 4, false},
    {dtype::i64, "i64", 8, false},
    {dtype::u8, "u8", 1, false},
    {dtype::u16, "u16", 2, false},
    {dtype::u32, "u32", 4, false},
    {dtype::u64, "u64", 8, false},
}};
}  // namespace detail

/// Every type, in the order of the enumeration.
inline constexpr std::array<dtype, 12> all_dtypes = [] {
  std::array<dtype, 12> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = detail::dtype_table[i].id;
  return out;
}();

/// "f16", "bf16", "f32", ... "u64".
constexpr std::string_view name(dtype t) {
  return detail::dtype_table[static_cast<std::size_t>(t)].name;
}
/// Bytes per element.
constexpr std::size_t size_of(dtype t) {
  return detail::dtype_table[static_cast<std::size_t>(t)].size;
}
/// Whether it is f16, bf16, f32 or f64.
constexpr bool is_float(dtype t) {
  return detail::dtype_table[static_cast<std::size_t>(t)].is_float;
}
/// Whether it is an integer with a sign.
constexpr bool is_signed_int(dtype t) { return t >= dtype::i8 && t <= dtype::i64; }

/// The dtype of that name, or nothing.
constexpr std::optional<dtype> parse_dtype(std::string_view text) {
  for (const auto& row : detail::dtype_table)
    if (row.name == text) return row.id;
  return std::nullopt;
}

/// Calls f(std::type_identity<T>{}) with the storage type of t: float16, bfloat16, float, double,
/// or a fixed-width integer.
#ifdef __CUDACC__
#pragma nv_exec_check_disable  // f may be for the host alone, where this is called on the host
#endif
template <class F>
BITFOLD_HD constexpr decltype(auto) visit(dtype t, F&& f) {
  switch (t) {
    case dtype::f16: return f(std::type_identity<float16>{});
    case dtype::bf16: return f(std::type_identity<bfloat16>{});
    case dtype::f32: return f(std::type_identity<float>{});
    case dtype::f64: return f(std::type_identity<double>{});
    case dtype::i8: return f(std::type_identity<std::int8_t>{});
    case dtype::i16: return f(std::type_identity<std::int16_t>{});
    case dtype::i32: return f(std::type_identity<std::int32_t>{});
    case dtype::i64: return f(std::type_identity<std::int64_t>{});
    case dtype::u8: return f(std::type_identity<std::uint8_t>{});
    case dtype::u16: return f(std::type_identity<std::uint16_t>{});
    case dtype::u32: return f(std::type_identity<std::uint32_t>{});
    case dtype::u64: break;
  }
  return f(std::type_identity<std::uint64_t>{});
}

/// dtype_of<T>: the dtype of a storage type.
template <class T>
inline constexpr dtype dtype_of = [] {
  if constexpr (std::is_same_v<T, float16>)
    return dtype::f16;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return dtype::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return dtype::f32;
  else if constexpr (std::is_same_v<T, double>)
    return dtype::f64;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8 && !std::is_same_v<T, bool>,
                  "bitfold: not an element type (f16 bf16 f32 f64 i8..i64 u8..u64)");
    constexpr int log2_size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return static_cast<dtype>(static_cast<int>(std::is_signed_v<T> ? dtype::i8 : dtype::u8) +
                              log2_size);
  }
}();

namespace detail {
template <std::size_t I, class First, class... Rest>
struct nth : nth<I - 1, Rest...> {};
template <class First, class... Rest>
struct nth<0, First, Rest...> {
  using type = First;
};
}  // namespace detail

/// type_of<D>: the storage type of a dtype, float16 or std::int8_t for example.
template <dtype D>
using type_of =
    typename detail::nth<static_cast<std::size_t>(D), float16, bfloat16, float, double, std::int8_t,
                         std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                         std::uint32_t, std::uint64_t>::type;

}  // namespace bitfold
