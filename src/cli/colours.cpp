#include "cli/colours.hpp"

#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

namespace bitfold::cli {
namespace {

constexpr int red = 31, green = 32, yellow = 33;

int colour_of(verdict v) {
  switch (v) {
    case verdict::same:
    case verdict::within: return green;
    case verdict::missing:
    case verdict::added: return yellow;
    case verdict::moved:
    case verdict::changed: break;
  }
  return red;
}

std::string coloured(int colour, std::string_view text) {
  return fmt::format("\x1b[{}m{}\x1b[0m", colour, text);
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool shows_colours(int stream) {
  return ::isatty(stream) && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

std::string word_of(verdict v, std::size_t width) {
  static const bool colours = shows_colours(STDOUT_FILENO);
  const std::string spaces(width > name(v).size() ? width - name(v).size() : 0, ' ');
  return (colours ? coloured(colour_of(v), name(v)) : std::string(name(v))) + spaces;
}

std::string alarming(std::string_view text) {
  static const bool colours = shows_colours(STDERR_FILENO);
  return colours ? coloured(red, text) : std::string(text);
}

}  // namespace bitfold::cli
