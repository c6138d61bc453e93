#include "cli/chosen.hpp"

#include <fnmatch.h>

#include <algorithm>

#include <fmt/format.h>

#include "cli/common.hpp"
#include "io/field.hpp"

namespace bitfold::cli {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

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
    const auto fits = [&](const std::string& name) { return matches(patterns.back(), name); };
    if (std::none_of(names.begin(), names.end(), fits))
      refuse(fmt::format("--tensor {}: no array of {} has such a name{}", io::in_quotes(text),
                         files, did_you_mean(text, names)));
  }
  return patterns;
}

bool is_chosen(const std::vector<std::string>& patterns, const std::string& name) {
  return patterns.empty() || name.empty() ||
         std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& p) { return matches(p, name); });
}

void choose(const std::vector<std::string>& patterns, std::vector<io::array>& arrays) {
  std::erase_if(arrays, [&](const io::array& a) { return !is_chosen(patterns, a.name); });
}

}  // namespace bitfold::cli
