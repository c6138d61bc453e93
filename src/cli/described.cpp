#include "cli/described.hpp"

#include <algorithm>

#include "cli/common.hpp"

namespace bitfold::cli {
namespace {

// "TEXT:{a,b}" is what CLI11 makes of a check by CLI::IsMember. (Ours of lists with commas do not
// show there: of these the first element is known.)
std::vector<std::string> choices_of(const CLI::Option& option, const std::string& type) {
  if (option.get_name() == "OP" || option.get_name() == "--ops") return op_names;
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos) return {};
  return split(type.substr(begin + 1, end - begin - 1));
}

described_option option_of(const CLI::Option& option) {
  described_option d{};
  for (const std::string& name : option.get_snames()) d.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) d.names.push_back("--" + name);
  const std::string type = option.get_type_name();
  if (d.is_positional())
    d.value = option.get_name();
  else if (option.get_items_expected_max() > 0)
    d.value = type.substr(0, type.find(':'));
  d.choices = choices_of(option, type);
  d.help = option.get_description();
  d.required = option.get_required();
  d.many = option.get_items_expected_max() > 1;
  d.takes_file = !d.value.empty() && d.choices.empty() && !type.starts_with("INT") &&
                 !type.starts_with("UINT") && !type.starts_with("FLOAT");
  return d;
}

described_command command_of(const CLI::App& app) {
  described_command d{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) d.options.push_back(option_of(*option));  // else it is hidden
  return d;
}

}  // namespace

described_command program_of(const CLI::App& app) { return command_of(app); }

std::vector<described_command> commands_of(const CLI::App& app) {
  std::vector<described_command> all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    all.push_back(command_of(*command));
  return all;
}

std::string brief(const std::string& help) {
  std::string text = help.substr(0, std::min(help.find('\n'), help.find(". ")));
  while (!text.empty() && (text.back() == '.' || text.back() == ':')) text.pop_back();
  return text;
}

}  // namespace bitfold::cli
