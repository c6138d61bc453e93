// reduce --axis, --offsets and --keys: an array of results for each array and operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <bitfold/cpu.hpp>
#include <bitfold/reduction.hpp>

#include "cli/operands.hpp"
#include "cli/parts.hpp"
#include "io/arrays.hpp"

namespace bitfold::cli {

struct shape_options {
  std::optional<std::string> axis, offsets, keys, out;
  std::optional<std::uint64_t> outputs, gpu_memory;
  bool keepdims = false;

  bool given() const { return axis || offsets || keys; }
};

void add_shape_options(CLI::App& command, shape_options& options);

/// Throws (errc::usage) where some of them do not go together.
void check_shape_options(const shape_options& options);

/// Where arrays are reduced: on the CPU, or on a device, of which `done` hears.
struct executor {
  cpu::options cpu;
  cli::device* device = nullptr;
  given done = {};
};

/// The results of a reduction of one array, in row-major order.
struct result_array {
  reduction request;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;

  std::string digest() const;  ///< of the bytes
};

/// Which elements make an output.
class grouping {
 public:
  /// Reads the offsets or the keys. Errors: those of the option, with its name.
  explicit grouping(const shape_options& options);

  /// That of the array, or to which two broadcast along --axis. Errors (errc::usage): there is
  /// none.
  std::vector<std::uint64_t> common_shape(const io::array& x, const io::array* y) const;
  /// All of them in one pass. Errors (errc::usage): an array that the option does not fit.
  std::vector<result_array> reduce(const std::vector<reduction>& all, const io::array& x,
                                   const io::array* y, const executor& exec) const;

 private:
  shape_options options_;
  std::vector<std::int64_t> axes_;    // of --axis, as given
  std::vector<std::int64_t> places_;  // the offsets or the keys
  std::uint64_t outputs_ = 0;         // of offsets and keys
};

/// What --out names: a file, of one result, or a folder. Without it nothing is written.
class result_files {
 public:
  /// Errors (errc::usage): a file, and several operations or groups of files.
  result_files(const shape_options& options, std::size_t operations, std::size_t groups,
               std::vector<std::string> inputs);

  bool wanted() const { return !out_.empty(); }
  /// Throws (errc::usage) where one of them makes elements that a .npy file cannot have.
  void check(const std::vector<reduction>& all) const;

  struct file {
    std::string path;
    result_array result;
  };
  /// What the arrays of one group of files gave.
  using contents = std::map<std::string, file>;  // by where the path leads
  /// Adds an array's results. Errors (errc::usage): a path that was taken, or is an input's.
  void add(contents& files_to_write, std::span<const std::string> files, const std::string& tensor,
           std::vector<result_array> results) const;
  /// All of them or, where it throws, none.
  void write(const contents& all);

 private:
  bool is_file() const;
  std::string out_;
  input_files inputs_;
  std::set<std::string> written_;
};

}  // namespace bitfold::cli
