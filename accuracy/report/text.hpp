// What the texts of a report share.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "accuracy/rows.hpp"

namespace bitfold::accuracy {

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

inline std::string power_of_two(std::uint64_t n) {
  return std::has_single_bit(n) ? fmt::format("2^{}", std::countr_zero(n)) : std::to_string(n);
}

}  // namespace bitfold::accuracy
