// What `check` found, and how it tells it: as text, as JSON, as a JUnit report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verdict.hpp"
#include "io/golden.hpp"

namespace bitfold::cli {

/// One thing that changed: a line below that of its array, and a JSON object.
struct detail {
  std::string text, json;
};
detail changed(std::string_view what, std::string_view golden, std::string_view now);
detail changed(std::string_view what, const std::vector<std::uint64_t>& golden,
               const std::vector<std::uint64_t>& now);
detail moved(const io::golden_result& golden, scalar now);
/// Where an array is, or is not.
detail located(std::string_view what, const std::string& file);

/// How many steps a result moved, or testing::no_distance. An answer of yes or no that changed is
/// no number of steps away.
std::uint64_t distance_of(const io::golden_result& golden, scalar now);

struct array_report {
  std::string array;  ///< the tensor's name; may be empty
  verdict what;
  std::vector<detail> details;  ///< none of what is the same
};

struct file_report {
  /// As they were recorded: one, or two of which the arrays were reduced together.
  std::vector<std::string> files;
  std::vector<array_report> arrays;
  // Where there is nothing to compare:
  std::optional<verdict> whole;      ///< missing or added
  std::optional<std::string> error;  ///< why the file could not be read

  std::vector<std::string> checked{};  ///< the files that were compared; none where none were
};
bool good(const file_report& f);

/// Each array that is not good, and a summary.
std::string text_of(const std::vector<file_report>& files, std::optional<std::uint64_t> ulps);
/// Each array that is not the same, and a summary: an object a line.
std::string json_of(const std::vector<file_report>& files);
/// One test suite for each file, one test case for each array.
std::string junit_of(const std::vector<file_report>& files);

}  // namespace bitfold::cli
