#include "cli/chosen.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/common.hpp"
#include "io/field.hpp"
#include "io/golden.hpp"

namespace bitfold::cli {
namespace {

// A pattern that matches this text alone.
std::string literally(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

std::vector<std::string> patterns_of(const std::vector<std::string>& given,
                                     const std::vector<std::string>& names,
                                     const std::string& files) {
  std::vector<std::string> patterns;
  for (const std::string& text : given) {
    const bool is_name = std::find(names.begin(), names.end(), text) != names.end();
    patterns.push_back(is_name ? literally(text) : text);
    const auto fits = [&](const std::string& name) {
      return !name.empty() && io::is_chosen({patterns.back()}, name);
    };
    if (std::none_of(names.begin(), names.end(), fits))
      refuse(fmt::format("--tensor {}: no array of {} has such a name{}", io::in_quotes(text),
                         files, did_you_mean(text, names)));
  }
  return patterns;
}

void choose(const std::vector<std::string>& patterns, std::vector<io::array>& arrays) {
  std::erase_if(arrays, [&](const io::array& a) { return !io::is_chosen(patterns, a.name); });
}

}  // namespace bitfold::cli
