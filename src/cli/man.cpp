// bitfold man: manual pages, made of the command line's own options.
#include <algorithm>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/common.hpp"
#include "cli/described.hpp"
#include "io/field.hpp"

namespace bitfold::cli {
namespace {

// As text of roff, in which a line that begins with . or ' is a request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

// Of which each line stands alone.
std::string roff_lines(const std::string& text) {
  std::string out;
  for (const char c : roff(text)) out += c == '\n' ? "\n.br\n" : std::string(1, c);
  return out;
}

std::string page_name(const std::string& command) {
  return command.empty() ? "bitfold" : "bitfold-" + command;
}

std::string heading(const std::string& command, const std::string& help) {
  return fmt::format(
      ".TH {} 1 \"\" \"bitfold {}\" \"bitfold\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
      [&] {
        std::string upper = page_name(command);
        std::transform(upper.begin(), upper.end(), upper.begin(),
                       [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        return roff(upper);
      }(),
      BITFOLD_VERSION, roff(page_name(command)), roff(help));
}

std::string tag_of(const described_option& o) {
  if (o.is_positional()) return fmt::format("\\fI{}\\fR{}", roff(o.value), o.many ? " ..." : "");
  std::string text;
  for (const std::string& name : o.names)
    text += (text.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  return o.value.empty() ? text : fmt::format("{} \\fI{}\\fR", text, roff(o.value));
}

std::string entry_of(const described_option& o) {
  std::string text = fmt::format(".TP\n{}\n{}\n", tag_of(o), roff_lines(o.help));
  if (!o.choices.empty()) {
    text += ".br\nOne of:";
    for (const std::string& choice : o.choices) text += " " + roff(choice);
    text += "\n";
  }
  return text;
}

std::string options_of(const described_command& command) {
  std::string positionals, options;
  for (const described_option& o : command.options)
    (o.is_positional() ? positionals : options) += entry_of(o);
  return (positionals.empty() ? "" : ".SH ARGUMENTS\n" + positionals) + ".SH OPTIONS\n" + options;
}

std::string see_also(const std::vector<std::string>& pages) {
  std::string text;
  for (const std::string& page : pages)
    text += fmt::format("{}\\fB{}\\fR(1)", text.empty() ? "" : ", ", roff(page));
  return ".SH SEE ALSO\n" + text + "\n";
}

std::string program_page(const described_command& program,
                         const std::vector<described_command>& commands) {
  std::string list;
  std::vector<std::string> pages;
  for (const described_command& c : commands) {
    list += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(c.name), roff(c.help));
    pages.push_back(page_name(c.name));
  }
  return heading("", "deterministic reductions") +
         "\\fBbitfold\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...\n.SH DESCRIPTION\n" +
         roff(program.help) + "\n.SH COMMANDS\n" + list + options_of(program) +
         ".SH EXIT STATUS\n" + roff(program.footer) + "\n" + see_also(pages);
}

std::string command_page(const described_command& command) {
  std::string synopsis = fmt::format("\\fBbitfold {}\\fR [\\fIOPTIONS\\fR]", roff(command.name));
  for (const described_option& o : command.options)
    if (o.required)
      synopsis += " " + tag_of(o);
    else if (o.is_positional())
      synopsis += " [" + tag_of(o) + "]";
  return heading(command.name, command.help) + synopsis + "\n" + options_of(command) +
         (command.footer.empty() ? "" : ".SH NOTES\n" + roff(command.footer) + "\n") +
         see_also({"bitfold"});
}

struct man_arguments {
  std::optional<std::string> command, out;
};

// Every page, into a folder.
int write_pages(const std::string& folder, const described_command& program,
                const std::vector<described_command>& commands) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);  // else what is written there tells
  const auto write = [&](const std::string& command, const std::string& text) {
    write_file((std::filesystem::path(folder) / (page_name(command) + ".1")).string(), text);
  };
  write("", program_page(program, commands));
  for (const described_command& c : commands) write(c.name, command_page(c));
  return 0;
}

int man(const CLI::App& app, const man_arguments& args) {
  const described_command program = program_of(app);
  const auto commands = commands_of(app);
  if (args.out && args.command) refuse("--out: writes every page; not with COMMAND");
  if (args.out) return write_pages(*args.out, program, commands);
  if (!args.command) {
    write_out(program_page(program, commands));
    return 0;
  }
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](auto& c) { return c.name == *args.command; });
  if (found == commands.end())
    refuse(fmt::format("COMMAND: there is no {}{}", io::in_quotes(*args.command),
                       did_you_mean(*args.command, names_of(commands))));
  write_out(command_page(*found));
  return 0;
}

}  // namespace

subcommand add_man(CLI::App& app) {
  const auto args = std::make_shared<man_arguments>();
  CLI::App* command = app.add_subcommand("man", "Print a manual page");
  command->add_option("COMMAND", args->command,
                      "The command that it is about (default: bitfold as a whole)");
  command->add_option("--out", args->out, "Write every page into this folder");
  command->footer(
      "An installation by CMake has the pages where man looks. Else: bitfold man reduce | man -l "
      "-");
  return {command, [&app, args] { return man(app, *args); }};
}

}  // namespace bitfold::cli
