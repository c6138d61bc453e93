// The types of elements that files hold: those of the library, and others, of which there is a
// digest alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <bitfold/dtype.hpp>

namespace bitfold::io {

/// A dtype, or one of the types of other_elements. Any byte of a bool but 0 is true: see
/// arithmetic.
class element_type {
 public:
  constexpr element_type(dtype t) : row_(static_cast<std::uint8_t>(t)) {}
  friend bool operator==(const element_type&, const element_type&) = default;

  struct info {
    std::string_view name;
    std::uint8_t bits;
    std::uint8_t swapped;  // bytes whose order is that of the machine: half a complex number
    std::optional<dtype> arithmetic;
  };
  constexpr info properties() const;
  static constexpr std::optional<element_type> parse(std::string_view name);

 private:
  constexpr explicit element_type(std::size_t row) : row_(static_cast<std::uint8_t>(row)) {}
  std::uint8_t row_;
};

/// Those of safetensors and NumPy. f4 and f6 lie packed.
inline constexpr std::array<element_type::info, 11> other_elements{{
    {"bool", 8, 1, dtype::u8},
    {"f4", 4, 1, {}},
    {"f6_e2m3", 6, 1, {}},
    {"f6_e3m2", 6, 1, {}},
    {"f8_e4m3", 8, 1, {}},
    {"f8_e5m2", 8, 1, {}},
    {"f8_e8m0", 8, 1, {}},
    {"f8_e4m3fnuz", 8, 1, {}},
    {"f8_e5m2fnuz", 8, 1, {}},
    {"c64", 64, 4, {}},
    {"c128", 128, 8, {}},
}};

constexpr element_type::info element_type::properties() const {
  if (row_ >= all_dtypes.size()) return other_elements[row_ - all_dtypes.size()];
  const auto t = static_cast<dtype>(row_);
  const auto size = static_cast<std::uint8_t>(size_of(t));
  return {bitfold::name(t), static_cast<std::uint8_t>(8 * size), size, t};
}

constexpr std::optional<element_type> element_type::parse(std::string_view name) {
  if (const auto t = parse_dtype(name)) return *t;
  for (std::size_t i = 0; i < other_elements.size(); ++i)
    if (other_elements[i].name == name) return element_type(all_dtypes.size() + i);
  return std::nullopt;
}

/// "f32", "bool", "f8_e4m3".
constexpr std::string_view name(element_type t) { return t.properties().name; }

/// The dtype in which such elements are reduced: their own, u8 of bool; nothing where they cannot.
constexpr std::optional<dtype> arithmetic_of(element_type t) { return t.properties().arithmetic; }

constexpr bool is_bool(element_type t) { return t == *element_type::parse("bool"); }

/// Bytes of one element, rounded up.
constexpr std::uint64_t item_bytes(element_type t) { return (t.properties().bits + 7u) / 8; }

/// Of so many elements, which end with a byte: not all numbers of f4 do.
constexpr std::uint64_t bytes_of(element_type t, std::uint64_t count) {
  const std::uint64_t bits = t.properties().bits;
  return count / 8 * bits + count % 8 * bits / 8;
}

}  // namespace bitfold::io
