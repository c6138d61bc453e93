#include "cli/arguments.hpp"

#include <algorithm>

#include "cli/common.hpp"

namespace bitfold::cli {
namespace {

constexpr char mark = '\1';

std::string unmarked(const std::string& text) {
  return text.starts_with(mark) ? text.substr(1) : text;
}

// Those of add_files, which take the marks themselves: {} alone is a list without elements to
// CLI11, and, from 2.4 on, gets a second word.
std::vector<const CLI::Option*>& files_options() {
  static std::vector<const CLI::Option*> all;
  return all;
}

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
    if (std::ranges::find(files_options(), option) == files_options().end())
      option->transform(unmarked);
}

std::string without_marks(std::string text) {
  std::erase(text, mark);
  return text;
}

std::string meant(const CLI::App& command, const CLI::ParseError& e) {
  const std::string text = without_marks(e.what());
  if (dynamic_cast<const CLI::ExtrasError*>(&e)) {
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::size_t begin = text.find(" --");
    if (begin == std::string::npos) return "";
    const std::string word = text.substr(begin + 1);
    return did_you_mean(word.substr(0, word.find_first_of(" =")), names);
  }
  // "--OPTION: WORD not in {NAME,...}", as CLI::IsMember has it
  const std::size_t word = text.find(": "), end = text.rfind(" not in {");
  if (word == std::string::npos || end == std::string::npos || end < word || text.back() != '}')
    return "";
  const std::size_t names = end + std::string_view(" not in {").size();
  return did_you_mean(text.substr(word + 2, end - word - 2),
                      split(text.substr(names, text.size() - 1 - names)));
}

CLI::Option* add_files(CLI::App& command, const std::string& name, std::vector<std::string>& files,
                       const std::string& help) {
  const auto take = [&files](const CLI::results_t& given) {
    files.clear();
    for (const std::string& file : given) files.push_back(unmarked(file));
    return true;
  };
  CLI::Option* const option = command.add_option(name, CLI::callback_t(take), help)
                                  ->type_name("TEXT")
                                  ->expected(1, CLI::detail::expected_max_vector_size)
                                  ->allow_extra_args();
  files_options().push_back(option);
  return option;
}

}  // namespace bitfold::cli
