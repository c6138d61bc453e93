// The command line as data: what completions and manual pages are made of.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace bitfold::cli {

struct described_option {
  std::vector<std::string> names;  ///< with their dashes; none of a positional
  std::string value;  ///< what a positional, or an option's value, is called; empty: a flag
  std::vector<std::string> choices;  ///< that the value may be; empty: anything
  std::string help;                  ///< lines
  bool required, many, takes_file;

  bool is_positional() const { return names.empty(); }
};

struct described_command {
  std::string name, help, footer;
  std::vector<described_option> options;
};

/// The program itself, which has its name, and the options that stand before a command.
described_command program_of(const CLI::App& app);

/// Its commands, in the order of the help.
std::vector<described_command> commands_of(const CLI::App& app);

/// The first sentence, without an end.
std::string brief(const std::string& help);

}  // namespace bitfold::cli
