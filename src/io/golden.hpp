// The golden file of `bitfold record` and `bitfold check`: what arrays contained and what they
// reduced to. JSON, one array per line; docs/regression.md describes the fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <bitfold/reduction.hpp>

#include "io/format.hpp"

namespace bitfold::io {

struct golden_result {
  reduction what;
  scalar value;
};

struct golden_array {
  std::string name;  ///< as in io::array
  dtype type;
  std::vector<std::uint64_t> shape;
  /// Of each input's elements' bytes, little endian, in row-major order.
  std::vector<std::string> digests;
  std::vector<golden_result> results;
};

struct golden_source {
  std::string file;    ///< the path as it was given; valid UTF-8
  file_format format;  ///< a raw or npy file has one array
};

/// What one file holds; or two, whose arrays of one name, type and shape are reduced together.
struct golden_file {
  std::vector<golden_source> from;
  std::vector<golden_array> arrays;
};

struct golden {
  std::string bitfold;  ///< the version that wrote it
  std::vector<golden_file> files;
};

/// What a field is called of the first input (0), and of the second: "file2".
std::string of_input(std::size_t k, std::string_view field);

std::string golden_text(const golden& g);

/// Errors: errc::bad_input, "FIELD: what is wrong", with the path to the field
/// ("files[0].arrays[3].shape"). An order version that is not this library's is one of them.
golden parse_golden(std::string_view text);

/// The same from a file or a pipe of up to `max_size` bytes; the errors then begin with its name.
golden read_golden(const std::filesystem::path& path,
                   std::uint64_t max_size = std::uint64_t{1} << 30);

}  // namespace bitfold::io
