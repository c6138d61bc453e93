#include "cli/common.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <bitfold/cpu.hpp>

#include "io/field.hpp"

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
            if (problem.empty() && std::stoi(text) > cpu::most_threads)
              text = std::to_string(cpu::most_threads);
            return problem;
          },
          "NONNEGATIVE"};
}

void refuse_twice(const std::vector<std::string>& files) {
  std::set<std::string> seen;
  for (const std::string& file : files)
    if (!seen.insert(std::filesystem::path(file).lexically_normal().string()).second)
      throw error(errc::usage, io::printable(file) + ": given twice");
}

// Not through fmt::print or std::cout: their ways of losing or throwing a write error differ.
void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
}

void write_file(const std::string& path, std::string_view text) {
  namespace fs = std::filesystem;
  const auto fail = [&](int error_number) {
    throw std::runtime_error(
        fmt::format("{}: cannot be written: {}", io::printable(path), std::strerror(error_number)));
  };
  std::error_code ignored;
  const bool direct = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  // What a symbolic link points to is replaced, not the link.
  fs::path target = fs::canonical(path, ignored);
  if (target.empty()) target = path;
  const std::string temporary =
      direct ? target.string() : fmt::format("{}.{}.tmp", target.string(), ::getpid());
  const int flags = O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_EXCL);
  const int fd = ::open(temporary.c_str(), flags, 0666);
  if (fd < 0) fail(errno);
  int failed = 0;
  while (!text.empty() && !failed) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      failed = errno;
  }
  if (::close(fd) != 0 && !failed) failed = errno;
  if (!direct && !failed && std::rename(temporary.c_str(), target.c_str()) != 0) failed = errno;
  if (!direct && failed) ::unlink(temporary.c_str());
  if (failed) fail(failed);
}

void complain(std::string_view text) {
  std::fputs(fmt::format("bitfold: {}\n", text).c_str(), stderr);
}

error about(const std::string& file, const std::string& tensor, const error& e) {
  const std::string where = tensor.empty() ? "" : "tensor " + io::in_quotes(tensor) + ": ";
  return error(e.code(), io::printable(file) + ": " + where + e.what());
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
