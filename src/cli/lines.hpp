// The lines that reduce prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <bitfold/dtype.hpp>
#include <bitfold/reduction.hpp>

#include "cli/operands.hpp"
#include "cli/shapes.hpp"
#include "io/element.hpp"

namespace bitfold::cli {

struct result {
  scalar value;
  std::optional<double> bound;  ///< where it was asked for
};

/// What a line is about: an array, or two of one name, shape and type, or arrays that count as one.
struct subject {
  file_names files;  ///< all of them for --total
  std::string name;
  io::element_type type;
  std::vector<std::uint64_t> shape;
  std::optional<std::uint64_t> arrays = {};  ///< how many: --total
};

/// What a line ends with.
struct shown {
  std::string text, json;
};
shown show(const result& got);
shown show(const result_array& got);

/// `op` stands before what is shown.
std::string text_line(const subject& s, const std::string& op, const shown& got);
/// Of --json.
std::string json_line(const subject& s, const reduction& r, const std::string& device,
                      const shown& got);

}  // namespace bitfold::cli
