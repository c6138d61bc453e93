// What the texts of a report share.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "accuracy/rows.hpp"
#include "io/field.hpp"

namespace bitfold::accuracy {

/// What is printed of x: texts, which may come from a file, are made fit for a terminal.
template <class T>
auto fit(const T& x) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return io::printable(x);
  else
    return x;
}
/// fmt::format of what is fit for a terminal: all that is told of a report goes through it.
template <class... T>
std::string printed(fmt::format_string<decltype(fit(std::declval<const T&>()))...> format,
                    const T&... x) {
  return fmt::format(format, fit(x)...);
}

inline std::map<std::string, const contestant_row*> contestants_by_id(const report_rows& rows) {
  std::map<std::string, const contestant_row*> by_id;
  for (const contestant_row& c : rows.contestants) by_id[c.id] = &c;
  return by_id;
}

inline std::string short_number(std::optional<double> x) {
  if (!x || std::isnan(*x)) return "-";
  const bool plain = *x == 0 || (std::fabs(*x) >= 0.001 && std::fabs(*x) < 100000);
  return plain ? fmt::format("{:.3g}", *x) : fmt::format("{:.1e}", *x);
}

/// Throughput in tables, marked where it is noisy.
template <class Row>
std::string rate(const Row& row, std::string shown) {
  return (row.noisy.value_or(false) ? "~" : "") + std::move(shown);
}

inline std::string power_of_two(std::uint64_t n) {
  return std::has_single_bit(n) ? fmt::format("2^{}", std::countr_zero(n)) : std::to_string(n);
}

}  // namespace bitfold::accuracy
