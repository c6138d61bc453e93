// The words and lines by which `check` and `diff` tell what became of an array.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include <bitfold/reduction.hpp>

namespace bitfold::cli {

enum class verdict {
  same,
  within,   ///< a tolerance
  moved,    ///< other elements
  changed,  ///< another type or shape
  missing,  ///< not there any more
  added     ///< not there before: "new"
};
inline constexpr std::string_view verdict_names[] = {"same",    "within",  "moved",
                                                     "changed", "missing", "new"};
constexpr std::string_view name(verdict v) { return verdict_names[static_cast<std::size_t>(v)]; }
constexpr bool good(verdict v) { return v == verdict::same || v == verdict::within; }

/// A line below that of an array.
inline std::string detail_line(std::string_view label, std::string_view text) {
  return fmt::format("    {:<15} {}\n", label, text);
}
inline std::string moved_line(std::string_view label, std::string_view before,
                              std::string_view after, std::string_view note = "") {
  return detail_line(label, before == after ? fmt::format("{}{}", before, note)
                                            : fmt::format("{} -> {}{}", before, after, note));
}

/// A value and its bits.
inline std::string text_of(scalar v) { return to_string(v) + " (" + to_hex(v) + ")"; }

}  // namespace bitfold::cli
