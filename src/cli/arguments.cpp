#include "cli/arguments.hpp"

#include <algorithm>

namespace bitfold::cli {
namespace {

constexpr char mark = '\1';

}  // namespace

std::vector<std::string> marked(int argc, const char* const* argv) {
  std::vector<std::string> all;
  bool in_subcommand = false, only_files = false;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    if (only_files || !text.starts_with('-')) {
      if (in_subcommand) text.insert(0, 1, mark);
      in_subcommand = true;
    } else if (text == "--") {
      only_files = true;
    }
    all.push_back(std::move(text));
  }
  std::reverse(all.begin(), all.end());
  return all;
}

void take_marks(CLI::App& command) {
  for (CLI::Option* option : command.get_options())
    option->transform(
        [](const std::string& text) { return text.starts_with(mark) ? text.substr(1) : text; });
}

std::string without_marks(std::string text) {
  std::erase(text, mark);
  return text;
}

CLI::Option* add_files(CLI::App& command, const std::string& name, std::vector<std::string>& files,
                       const std::string& help) {
  // Not converted by CLI11, to which {} is a list without elements.
  const auto take = [&files](const CLI::results_t& given) {
    files = given;
    return true;
  };
  return command.add_option(name, CLI::callback_t(take), help)
      ->type_name("TEXT")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args();
}

}  // namespace bitfold::cli
