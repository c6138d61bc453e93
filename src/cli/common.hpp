// What the subcommands share. Each of them is one file with one function here: it adds the
// subcommand and its options to the command line, and returns what to run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <bitfold/dtype.hpp>
#include <bitfold/error.hpp>
#include <bitfold/method.hpp>
#include <bitfold/op.hpp>

#include "io/arrays.hpp"
#include "io/new_files.hpp"

namespace bitfold::cli {

struct subcommand {
  CLI::App* app;
  std::function<int()> run;  ///< returns the exit status, or throws
};

subcommand add_reduce(CLI::App& app);
subcommand add_ops(CLI::App& app);
subcommand add_record(CLI::App& app);
subcommand add_check(CLI::App& app);
subcommand add_diff(CLI::App& app);
subcommand add_order(CLI::App& app);
subcommand add_matmul(CLI::App& app);
subcommand add_kernels(CLI::App& app);
subcommand add_info(CLI::App& app);
subcommand add_report(CLI::App& app);
subcommand add_completion(CLI::App& app);
subcommand add_man(CLI::App& app);

/// The exit status where no errc fits: output that cannot be written, no memory.
inline constexpr int failure = 1;

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& item : list) {
    if constexpr (requires { item.name; })
      names.emplace_back(item.name);
    else
      names.emplace_back(name(item));
  }
  return names;
}
inline const std::vector<std::string> op_names = names_of(all_ops);
/// Of those of which that is true.
std::vector<std::string> op_names_where(bool (*is)(op_id));
inline const std::vector<std::string> method_names = names_of(all_methods);
inline const std::vector<std::string> dtype_names = names_of(all_dtypes);

/// Those of elements in files: besides, of types without arithmetic.
inline const std::vector<std::string> element_names = [] {
  std::vector<std::string> names = dtype_names;
  for (const auto& type : io::other_elements) names.emplace_back(type.name);
  return names;
}();

/// The help of --method.
std::string method_help();

std::optional<dtype> parse_dtype_option(const std::optional<std::string>& text);

/// Adds --dtype and --raw, by which raw files are read.
struct raw_options {
  std::optional<std::string> type;
  bool raw = false;
  io::read_options reading() const;
};
void add_raw_options(CLI::App& command, raw_options& options);

/// Option checks: decimal digits, up to `max` (CLI11's own take -1 for 2^64 - 1, or print doubles;
/// its conversion, which comes afterwards, takes 010 for 8).
CLI::Validator whole_number(std::uint64_t max);

/// For --threads, as a transform. More than 1024 are taken as 1024: they would only cost memory.
CLI::Validator thread_count();

/// Adds --threads.
template <class Threads>
void add_threads(CLI::App& command, Threads& threads) {
  command.add_option("--threads", threads, "CPU threads (default, and 0: one per core)")
      ->transform(thread_count());
}

/// The parts of a list with commas, of which there is at least one; they may be empty.
std::vector<std::string> split(const std::string& list);

/// To stdout. Throws where it cannot be written.
void write_out(std::string_view text);

using io::new_files, io::place_of, io::write_file;

/// "bitfold: TEXT" to stderr, the text as io::printable has it.
void complain(std::string_view text);

/// "; did you mean NAME?" of the name that is at most two letters away from the word, a third of
/// its length at most, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

/// Throws errc::usage.
[[noreturn]] void refuse(const std::string& what);

/// The error, with the file and the array that it is about.
error about(const std::string& file, const std::string& tensor, const error& e);

/// As a JSON string; bytes that are not UTF-8 (a file's name may have some) become U+FFFD.
std::string json_string(std::string_view text);
std::string json_strings(const std::vector<std::string>& list);

}  // namespace bitfold::cli
