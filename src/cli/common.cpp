#include "cli/common.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <bitfold/cpu.hpp>

#include "cli/colours.hpp"
#include "io/field.hpp"

namespace bitfold::cli {

std::vector<std::string> op_names_where(bool (*is)(op_id)) {
  std::vector<std::string> names;
  for (const op_id op : all_ops)
    if (is(op)) names.emplace_back(name(op));
  return names;
}

std::string method_help() {
  std::string text = "How to accumulate:";
  for (const auto& m : all_methods)
    text += fmt::format("\n{}: {}{}", m.name, m.summary, m.on_gpu() ? "" : " (cpu only)");
  return text;
}

std::optional<dtype> parse_dtype_option(const std::optional<std::string>& text) {
  return text ? parse_dtype(*text) : std::nullopt;
}

io::read_options raw_options::reading() const {
  return {.type = type ? io::element_type::parse(*type) : std::nullopt, .raw = raw};
}

void add_raw_options(CLI::App& command, raw_options& options) {
  auto* const type =
      command
          .add_option(
              "--dtype", options.type,
              "The element type of raw files, and of .npy files of bfloat16 and of floats of 8 "
              "bits, in which NumPy leaves it out. Others carry their own, and it is an error "
              "where that is another one")
          ->check(CLI::IsMember(element_names));
  command.add_flag("--raw", options.raw, "The files are raw elements, whatever they look like")
      ->needs(type);
}

CLI::Validator whole_number(std::uint64_t max) {
  return {[max](std::string& text) {
            std::uint64_t n = 0;
            const char* const end = text.data() + text.size();
            const auto [stop, problem] = std::from_chars(text.data(), end, n);
            // CLI11, which converts the text afterwards, would take 010 for 8.
            const bool octal = text.size() > 1 && text[0] == '0';
            if (problem == std::errc() && stop == end && n <= max && !octal) return std::string();
            return fmt::format("{} is no whole number from 0 to {}{}", io::in_quotes(text), max,
                               octal ? " (leading zeros are refused)" : "");
          },
          "NONNEGATIVE"};
}

CLI::Validator thread_count() {
  return {[](std::string& text) {
            const std::string problem = whole_number(std::numeric_limits<int>::max())(text);
            if (problem.empty() && std::stoi(text) > cpu::max_threads)
              text = std::to_string(cpu::max_threads);
            return problem;
          },
          "NONNEGATIVE"};
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Not through fmt::print or std::cout: their ways of losing or throwing a write error differ.
void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
}

void complain(std::string_view text) {
  std::fputs(fmt::format("{} {}\n", alarming("bitfold:"), io::printable(text)).c_str(), stderr);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  // Letters to insert, leave out, replace, or swap with the next.
  const auto distance = [&](std::string_view name) {
    const std::size_t n = word.size(), m = name.size();
    std::vector<std::vector<std::size_t>> d(n + 1, std::vector<std::size_t>(m + 1));
    for (std::size_t i = 0; i <= n; ++i)
      for (std::size_t j = 0; j <= m; ++j) {
        d[i][j] = i == 0 || j == 0 ? i + j
                                   : std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                                               d[i - 1][j - 1] + (word[i - 1] != name[j - 1])});
        if (i > 1 && j > 1 && word[i - 1] == name[j - 2] && word[i - 2] == name[j - 1])
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    return d[n][m];
  };
  const std::string* nearest = nullptr;
  std::size_t least = std::min<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names)
    if (const std::size_t d = distance(name); d < least) {
      least = d;
      nearest = &name;
    }
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

void refuse(const std::string& what) { throw error(errc::usage, what); }

error about(const std::string& file, const std::string& tensor, const error& e) {
  const std::string where = tensor.empty() ? "" : "tensor " + io::in_quotes(tensor) + ": ";
  return error(e.code(), io::printable(file) + ": " + where + e.what());
}

std::string json_string(std::string_view text) {
  // In ASCII where the text has what a terminal might obey.
  const bool ascii = io::printable(text) != text;
  return nlohmann::json(text).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

std::string json_strings(const std::vector<std::string>& list) {
  std::vector<std::string> quoted;
  for (const auto& text : list) quoted.push_back(json_string(text));
  return fmt::format("[{}]", fmt::join(quoted, ","));
}

}  // namespace bitfold::cli
