// bitfold completion: what completes the command line in a shell, made of its own options.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common.hpp"
#include "cli/described.hpp"

namespace bitfold::cli {
namespace {

std::vector<std::string> names_of_options(const described_command& command) {
  std::vector<std::string> all;
  for (const described_option& o : command.options)
    all.insert(all.end(), o.names.begin(), o.names.end());
  return all;
}

const described_option* first_positional(const described_command& command) {
  const auto found = std::find_if(command.options.begin(), command.options.end(),
                                  [](auto& o) { return o.is_positional(); });
  return found == command.options.end() ? nullptr : &*found;
}

// ---- bash: where it is given nothing, it goes on with files

std::string bash_case(const described_command& command) {
  std::string text;
  for (const described_option& o : command.options)
    if (!o.value.empty() && !o.is_positional()) {
      std::vector<std::string> patterns;
      for (const std::string& name : o.names)
        patterns.push_back(fmt::format("{}:{}", command.name, name));
      text += fmt::format("    {}) words=\"{}\" value=1 ;;\n", fmt::join(patterns, "|"),
                          fmt::join(o.choices, " "));
    }
  return text;
}

std::string bash_text(const described_command& program,
                      const std::vector<described_command>& commands) {
  std::string values, options, firsts;
  std::vector<std::string> names;
  for (const described_command& c : commands) {
    names.push_back(c.name);
    values += bash_case(c);
    options +=
        fmt::format("    {}) words=\"{}\" ;;\n", c.name, fmt::join(names_of_options(c), " "));
    if (const auto* first = first_positional(c); first && !first->choices.empty())
      firsts += fmt::format("    {}) words=\"{}\" ;;\n", c.name, fmt::join(first->choices, " "));
  }
  return fmt::format(R"(# bash completion of bitfold
_bitfold() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= words= value= k place=0
  for ((k = 1; k < COMP_CWORD; ++k)); do
    if [[ ${{COMP_WORDS[k]}} != -* ]]; then command=${{COMP_WORDS[k]}} place=$k; break; fi
  done
  # --option=value is three words
  if [[ $current == "=" ]]; then
    current=
  elif [[ $before == "=" ]]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  case $command:$before in
{}  esac
  if [[ -z $value && $current == -* ]]; then
    case $command in
{}    *) words="{}" ;;
    esac
  elif [[ -z $command ]]; then
    words="{}"
  elif [[ -z $value && $COMP_CWORD -eq $((place + 1)) ]]; then
    case $command in
{}    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _bitfold bitfold
)",
                     values, options, fmt::join(names_of_options(program), " "),
                     fmt::join(names, " "), firsts);
}

// ---- zsh

// Within '...' of a specification, where [, ] and : have a meaning.
std::string zsh_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted;
}

std::string zsh_action(const described_option& o) {
  if (!o.choices.empty()) return fmt::format("({})", fmt::join(o.choices, " "));
  return o.takes_file ? "_files" : " ";
}

std::string zsh_specifications(const described_command& command) {
  std::string text;
  int place = 0;
  for (const described_option& o : command.options) {
    if (o.is_positional()) {
      const std::string where = o.many ? "*" : std::to_string(++place);
      text += fmt::format(" \\\n        '{}:{}:{}'", where, zsh_quoted(o.value), zsh_action(o));
      continue;
    }
    for (const std::string& name : o.names)
      text += fmt::format(" \\\n        '*{}{}[{}]{}'", name,
                          !o.value.empty() && name.starts_with("--") ? "=" : "",
                          zsh_quoted(brief(o.help)),
                          o.value.empty() ? "" : fmt::format(":{}:{}", o.value, zsh_action(o)));
  }
  return text;
}

std::string zsh_text(const described_command& program,
                     const std::vector<described_command>& commands) {
  std::string list, cases;
  for (const described_command& c : commands) {
    list += fmt::format("        '{}:{}'\n", c.name, zsh_quoted(brief(c.help)));
    cases += fmt::format("      {})\n        _arguments -s{}\n        ;;\n", c.name,
                         zsh_specifications(c));
  }
  return fmt::format(R"(#compdef bitfold
_bitfold() {{
  local context state state_descr line
  local -a commands
  typeset -A opt_args
  _arguments -C{} \
        '1:command:->command' '*::argument:->arguments'
  case $state in
    command)
      commands=(
{}      )
      _describe command commands
      ;;
    arguments)
      case $words[1] in
{}      esac
      ;;
  esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _bitfold "$@"; else compdef _bitfold bitfold; fi
)",
                     zsh_specifications(program), list, cases);
}

// ---- fish

std::string fish_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return "'" + quoted + "'";
}

std::string fish_option(const described_option& o, const std::string& when) {
  std::string text = fmt::format("complete -c bitfold -n {}", fish_quoted(when));
  for (const std::string& name : o.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!o.value.empty()) text += o.takes_file ? " -r -F" : " -x";
  if (!o.choices.empty())
    text += " -a " + fish_quoted(fmt::format("{}", fmt::join(o.choices, " ")));
  return text + " -d " + fish_quoted(brief(o.help)) + "\n";
}

std::string fish_text(const described_command& program,
                      const std::vector<described_command>& commands) {
  std::string text = "# fish completion of bitfold\n";
  for (const described_option& o : program.options) text += fish_option(o, "__fish_use_subcommand");
  for (const described_command& c : commands) {
    text += fmt::format("complete -c bitfold -f -n __fish_use_subcommand -a {} -d {}\n", c.name,
                        fish_quoted(brief(c.help)));
    const std::string within = "__fish_seen_subcommand_from " + c.name;
    for (const described_option& o : c.options)
      if (!o.is_positional()) text += fish_option(o, within);
    if (const auto* first = first_positional(c); first && !first->choices.empty())
      text += fmt::format("complete -c bitfold -f -n {} -a {}\n",
                          fish_quoted(within + "; and test (count (commandline -opc)) -eq 2"),
                          fish_quoted(fmt::format("{}", fmt::join(first->choices, " "))));
  }
  return text;
}

struct shell {
  const char* name;
  std::string (*text)(const described_command&, const std::vector<described_command>&);
};
constexpr shell shells[] = {{"bash", bash_text}, {"zsh", zsh_text}, {"fish", fish_text}};

struct completion_arguments {
  std::string shell;
  std::optional<std::string> out;
};

int completion(const CLI::App& app, const completion_arguments& args) {
  const auto found = std::find_if(std::begin(shells), std::end(shells),
                                  [&](const shell& s) { return args.shell == s.name; });
  const std::string text = found->text(program_of(app), commands_of(app));
  if (args.out)
    write_file(*args.out, text);
  else
    write_out(text);
  return 0;
}

}  // namespace

subcommand add_completion(CLI::App& app) {
  const auto args = std::make_shared<completion_arguments>();
  CLI::App* command =
      app.add_subcommand("completion", "Print what completes this command line in a shell");
  command->add_option("SHELL", args->shell, "The shell")
      ->required()
      ->check(CLI::IsMember(names_of(shells)));
  command->add_option("--out", args->out, "Write it into this file instead");
  command->footer(
      "An installation by CMake has it where shells look. Else, for one session of bash:\n"
      "source <(bitfold completion bash); of zsh, after compinit: source <(bitfold completion "
      "zsh);\n"
      "of fish: bitfold completion fish | source");
  return {command, [&app, args] { return completion(app, *args); }};
}

}  // namespace bitfold::cli
