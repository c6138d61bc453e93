// Completions and manual pages have every command and every option that --help tells of.
#include <cstdio>
#include <regex>
#include <set>

#include "cli.hpp"

namespace {

using namespace cli;

std::string output_of(const std::vector<std::string>& arguments) {
  const outcome r = bitfold_cli(arguments);
  CAPTURE(arguments, r.err);
  REQUIRE(r.status == 0);
  return r.out;
}

// The names at the beginnings of the lines below "Options:", or of those below "Subcommands:".
std::set<std::string> listed(const std::string& help, const std::string& title) {
  std::set<std::string> names;
  bool below = false;
  for (const std::string& line : lines_of(help)) {
    if (!line.starts_with(" ")) below = line == title;
    if (!below || !line.starts_with("  ") || line[2] == ' ') continue;
    std::istringstream words(line);
    std::string first;
    words >> first;
    std::istringstream parts(first);
    for (std::string name; std::getline(parts, name, ',');) names.insert(name);
  }
  return names;
}

std::set<std::string> commands() { return listed(output_of({"--help"}), "Subcommands:"); }

std::set<std::string> options_of(const std::string& command) {
  return listed(output_of({command, "--help"}), "Options:");
}

// What bash offers for the last of these words.
std::set<std::string> offered(const std::string& script, const std::string& words) {
  const std::string line = "bash --norc -c 'source " + script + "; COMP_WORDS=(" + words +
                           "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _bitfold; "
                           "printf \"%s\\n\" \"${COMPREPLY[@]}\"'";
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  REQUIRE(::pclose(pipe) == 0);
  std::set<std::string> all;
  for (const std::string& word : lines_of(text)) all.insert(word);
  all.erase("");
  return all;
}

// The lines of `text` from one that holds `begin` to one that is `end`.
std::string part(const std::string& text, const std::string& begin, const std::string& end) {
  const auto at = text.find(begin);
  return at == text.npos ? "" : text.substr(at, text.find(end, at) - at);
}

}  // namespace

TEST_CASE("the help lists what these tests ask for") {
  CHECK(commands().contains("reduce"));
  CHECK(commands().contains("man"));
  CHECK(commands().size() > 10);
  CHECK(options_of("diff") == std::set<std::string>{"-h", "--help", "--tensor", "--ulps", "--json",
                                                    "-q", "--quiet", "--dtype", "--raw",
                                                    "--threads"});
}

TEST_CASE("bash completes every command, every option and the values of a choice") {
  const bytes::directory dir;
  const auto script = dir.write("bitfold.bash", output_of({"completion", "bash"}));
  CHECK(offered(script, "bitfold \"\"") == commands());
  CHECK(offered(script, "bitfold -") == std::set<std::string>{"-h", "--help", "--version"});
  for (const std::string& command : commands()) {
    CAPTURE(command);
    CHECK(offered(script, "bitfold " + command + " -") == options_of(command));
  }
  using words = std::set<std::string>;
  CHECK(offered(script, "bitfold reduce sum --device \"\"") == words{"cpu", "cuda"});
  CHECK(offered(script, "bitfold reduce --device = cu") == words{"cuda"});
  CHECK(offered(script, "bitfold reduce sum --method ka") == words{"kahan"});
  CHECK(offered(script, "bitfold kernels \"\"") == words{"list", "clear", "make"});
  CHECK(offered(script, "bitfold reduce norm_l") == words{"norm_l1", "norm_l2"});
  CHECK(offered(script, "bitfold check --junit \"\"").empty());  // files, as bash does by default
}

TEST_CASE("zsh, fish and the manual have every command and every option") {
  const bytes::directory dir;
  const std::string zsh = output_of({"completion", "zsh"}),
                    fish = output_of({"completion", "fish"}), page = output_of({"man"});
  const auto folder = dir.path("man");
  CHECK(output_of({"man", "--out", folder}).empty());
  CHECK(content(folder + "/bitfold.1") == page);
  const auto roff = [](const std::string& name) {
    return std::regex_replace(name, std::regex("-"), "\\-");
  };
  for (const std::string& command : commands()) {
    CAPTURE(command);
    CHECK(contains(zsh, "        '" + command + ":"));
    CHECK(contains(fish, " -n __fish_use_subcommand -a " + command + " -d "));
    CHECK(contains(page, "\\fB" + command + "\\fR\n"));
    const std::string in_zsh = part(zsh, "      " + command + ")\n", ";;"),
                      manual = output_of({"man", command});
    CHECK(content(folder + "/bitfold-" + command + ".1") == manual);
    CHECK(manual.starts_with(".TH "));
    for (const std::string& option : options_of(command)) {
      CAPTURE(option);
      CHECK(std::regex_search(in_zsh, std::regex("'\\*" + option + "=?\\[")));
      const std::string flag = (option.starts_with("--") ? " -l " : " -s ") +
                               option.substr(option.find_first_not_of('-'));
      CHECK(std::regex_search(
          fish, std::regex("-n '__fish_seen_subcommand_from " + command + "'[^\n]*" + flag + " ")));
      CHECK(contains(manual, "\\fB" + roff(option) + "\\fR"));
    }
  }
  check_usage({"man", "redcue"}, {"COMMAND: there is no 'redcue'; did you mean reduce?"});
  check_usage({"completion", "tcsh"}, {"SHELL"});
}
