// The golden file of `bitfold record` and `bitfold check`: what arrays contained and what they
// reduced to. JSON, one array per line; docs/regression.md describes the fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <bitfold/reduction.hpp>

#include "io/element.hpp"
#include "io/format.hpp"

namespace bitfold::io {

struct golden_result {
  reduction what;
  scalar value;
};

struct golden_array {
  std::string name;  ///< as in io::array
  element_type type;
  std::vector<std::uint64_t> shape;
  /// Of each input's elements' bytes, little endian, in row-major order.
  std::vector<std::string> digests;
  std::vector<golden_result> results;  ///< none of a type without arithmetic
};

struct golden_source {
  std::string file;    ///< the path as it was given; valid UTF-8
  file_format format;  ///< where it holds_one array, there is one
};

/// What one file holds; or two, whose arrays of one name, type and shape are reduced together.
struct golden_file {
  std::vector<golden_source> sources;
  std::vector<golden_array> arrays;
};

struct golden {
  std::string bitfold;  ///< the version that wrote it
  std::vector<golden_file> files;
  /// Patterns of fnmatch of the arrays that were to be recorded, of those that have names; none:
  /// all.
  std::vector<std::string> tensors = {};
};

/// Whether one of these patterns matches the name; there may be none, and then all are chosen. So
/// is an array without a name, which is its file's only one.
bool is_chosen(const std::vector<std::string>& patterns, const std::string& name);

/// What a field is called of the first input (0), and of the second: "file2".
std::string of_input(std::size_t k, std::string_view field);

/// A golden file that parse_golden reads; what it would refuse is refused here, with its errors.
std::string golden_text(const golden& g);

/// Bytes that a golden file may have.
inline constexpr std::uint64_t largest_golden = std::uint64_t{1} << 30;

/// Errors: errc::bad_input, "FIELD: what is wrong", with the path to the field
/// ("files[0].arrays[3].shape"). An order version that is not this library's is one of them.
golden parse_golden(std::string_view text);

/// The same from a file or a pipe of up to `max_size` bytes; the errors then begin with its name.
golden read_golden(const std::filesystem::path& path, std::uint64_t max_size = largest_golden);

}  // namespace bitfold::io
