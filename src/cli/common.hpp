// What the subcommands share. Each of them is one file with one function here: it adds the
// subcommand and its options to the command line, and returns what to run.
#pragma once

#include <cstdint>
#include <filesystem>
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

namespace bitfold::cli {

struct subcommand {
  CLI::App* app;
  std::function<int()> run;  ///< returns the exit status, or throws
};

subcommand add_reduce(CLI::App& app);
subcommand add_ops(CLI::App& app);
subcommand add_record(CLI::App& app);
subcommand add_check(CLI::App& app);
subcommand add_order(CLI::App& app);
subcommand add_info(CLI::App& app);
subcommand add_report(CLI::App& app);

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
inline const std::vector<std::string> method_names = names_of(all_methods);
inline const std::vector<std::string> dtype_names = names_of(all_dtypes);

/// The help of --method.
std::string method_help();

std::optional<dtype> parse_dtype_option(const std::optional<std::string>& text);

/// Option checks: decimal digits, up to `max` (CLI11's own take -1 for 2^64 - 1, or print doubles;
/// its conversion, which comes afterwards, takes 010 for 8).
CLI::Validator whole_number(std::uint64_t max);

/// For --threads, as a transform. More than 1024 are taken as 1024: they would only cost memory.
CLI::Validator thread_count();

/// The parts of a list with commas, of which there is at least one; they may be empty.
std::vector<std::string> split(const std::string& list);

/// To stdout. Throws where it cannot be written.
void write_out(std::string_view text);

/// Throws (errc::usage) where `out`, which `option` names, is one of these files by whatever path.
void refuse_overwriting(std::string_view option, const std::string& out,
                        const std::vector<std::string>& inputs);

/// Where a path leads through links, in one spelling, whether something is there or not.
std::string place_of(const std::string& path);

/// The whole file or, where it throws, nothing: by way of a temporary file beside it. A file that
/// is replaced keeps its mode. What is no regular file (a pipe), or open already (/dev/stdout), is
/// written to directly, after what is there.
void write_file(const std::string& path, std::string_view text);

struct temporary_file;

/// Several files, likewise: `add` writes them beside their places, to which `commit` moves them
/// all. Where one cannot be moved, none is, as far as the file system can exchange two files.
class new_files {
 public:
  new_files() = default;
  new_files(const new_files&) = delete;
  ~new_files();
  void add(const std::string& path, std::string text);
  void commit();

 private:
  struct file {
    std::string path;
    std::filesystem::path target = {};
    // What is to be at the target; after an exchange, what was there.
    temporary_file* beside = nullptr;
    // Or else what is written to directly, and its text.
    int direct = -1;
    std::string text = {};
    enum { nothing, remove, exchange_again } undo = nothing;
  };
  static int put(file& f);
  static void take_back(const file& f);
  std::vector<file> files_;
};

/// From now on SIGINT, SIGTERM and SIGHUP, where they were not ignored, remove the files that
/// new_files has written and not yet moved, before they end the process.
void clean_up_on_signals();

/// "bitfold: TEXT" to stderr, the text as io::printable has it.
void complain(std::string_view text);

/// The error, with the file and the array that it is about.
error about(const std::string& file, const std::string& tensor, const error& e);

/// As a JSON string; bytes that are not UTF-8 (a file's name may have some) become U+FFFD.
std::string json_string(std::string_view text);
std::string json_strings(const std::vector<std::string>& list);

}  // namespace bitfold::cli
