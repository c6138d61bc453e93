// The operations: what a reduction computes. Each is one small struct.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace bitfold {

enum class op_id : std::uint8_t { sum };

inline constexpr std::array<op_id, 1> all_ops{op_id::sum};

constexpr std::string_view name(op_id) { return "sum"; }

constexpr std::optional<op_id> parse_op(std::string_view text) {
  for (op_id op : all_ops)
    if (name(op) == text) return op;
  return std::nullopt;
}

}  // namespace bitfold
