#include "cli/common.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace bitfold::cli {

std::string method_help() {
  std::string text = "How to accumulate:";
  for (const auto& m : all_methods)
    text += fmt::format("\n{}: {}{}", m.name, m.summary, m.on_gpu ? "" : " (cpu only)");
  return text;
}

std::optional<dtype> parse_dtype_option(const std::optional<std::string>& text) {
  return text ? parse_dtype(*text) : std::nullopt;
}

// Not through fmt::print or std::cout: their ways of losing or throwing a write error differ.
void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
}

void complain(std::string_view text) {
  std::fputs(fmt::format("bitfold: {}\n", text).c_str(), stderr);
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_strings(const std::vector<std::string>& list) {
  std::vector<std::string> quoted;
  for (const auto& text : list) quoted.push_back(json_string(text));
  return fmt::format("[{}]", fmt::join(quoted, ","));
}

}  // namespace bitfold::cli
