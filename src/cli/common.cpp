#include "cli/common.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
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
              "The element type of raw files, and of .npy files of bfloat16, in which NumPy "
              "leaves it out. Others carry their own, and it is an error where that is "
              "another one")
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
            if (problem.empty() && std::stoi(text) > cpu::most_threads)
              text = std::to_string(cpu::most_threads);
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

namespace {

// What a symbolic link leads to, there or not.
std::filesystem::path behind_links(std::filesystem::path path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (int i = 0; i < 40 && fs::is_symlink(path, failed); ++i)  // as many as Linux follows
    path = path.parent_path() / fs::read_symlink(path, failed);
  return path;
}

}  // namespace

std::string place_of(const std::string& path) {
  std::error_code untold;
  const std::filesystem::path target = behind_links(path),
                              place = std::filesystem::weakly_canonical(target, untold);
  return untold ? target : place;
}

struct temporary_file {
  std::filesystem::path path;
  std::atomic<bool> there = true;
  temporary_file* next = nullptr;

  void remove() {
    if (there) ::unlink(path.c_str());
    there = false;
  }
};

namespace {

// The open descriptor that this is another name of: the file that stdout goes to, or /dev/fd/3.
std::optional<int> descriptor_of(const std::filesystem::path& path) {
  struct stat there, here;
  if (::stat(path.c_str(), &there) != 0) return std::nullopt;
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (::fstat(fd, &here) == 0 && there.st_dev == here.st_dev && there.st_ino == here.st_ino)
      return fd;
  if (path.parent_path() != "/dev/fd" && path.parent_path() != "/proc/self/fd") return std::nullopt;
  const std::string digits = path.filename().string();
  int fd = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, fd);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return fd;
}

// 0 or the errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

int open_directly(const std::string& path) {
  const auto open_already = descriptor_of(path);
  return open_already ? ::dup(*open_already) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
}

// Those that were made, as a signal's handler may read them: a list that only grows.
std::atomic<temporary_file*> temporary_files = nullptr;

void remove_temporary_files(int number) {
  for (temporary_file* t = temporary_files; t; t = t->next) t->remove();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// A new file beside the target with the text and, where it takes the place of another, that one's
// mode.
int write_new(temporary_file*& made, const std::filesystem::path& target, std::string_view text) {
  static int number = 0;
  std::filesystem::path path;
  int fd = -1;
  do  // Short, since the name of the target may be as long as names can be. There may be one of a
      // process that was killed.
    path = target.parent_path() / fmt::format(".bitfold.{}.{}.tmp", ::getpid(), number++);
  while ((fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666)) < 0 &&
         errno == EEXIST);
  if (fd < 0) return errno;
  made = new temporary_file{.path = path, .next = temporary_files};
  temporary_files = made;
  int failed = write_all(fd, text);
  struct stat old;
  if (!failed && ::stat(target.c_str(), &old) == 0 && ::fchmod(fd, old.st_mode & 0777) != 0)
    failed = errno;
  if (::close(fd) != 0 && !failed) failed = errno;
  if (failed) made->remove();
  return failed;
}

bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

[[noreturn]] void refuse_writing(const std::string& path, int problem) {
  throw std::runtime_error(
      fmt::format("{}: cannot be written: {}", io::printable(path), std::strerror(problem)));
}

}  // namespace

new_files::~new_files() {
  for (const file& f : files_) {
    if (f.direct >= 0) ::close(f.direct);
    if (f.beside) f.beside->remove();
  }
}

void new_files::add(const std::string& path, std::string text) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (failed && status.type() != fs::file_type::not_found) refuse_writing(path, failed.value());
  if ((fs::exists(status) && !fs::is_regular_file(status)) || descriptor_of(path)) {
    const int fd = open_directly(path);
    if (fd < 0) refuse_writing(path, errno);
    files_.push_back({.path = path, .direct = fd, .text = std::move(text)});
    return;
  }
  file f{.path = path, .target = behind_links(path)};
  if (const int problem = write_new(f.beside, f.target, text)) refuse_writing(path, problem);
  files_.push_back(std::move(f));
}

// To its target: 0 or the errno.
int new_files::put(file& f) {
  std::error_code none;
  const bool new_there = !std::filesystem::exists(f.target, none);
  if (std::filesystem::is_regular_file(f.target, none) && exchange(f.beside->path, f.target)) {
    f.undo = file::exchange_again;
    return 0;
  }
  if (std::rename(f.beside->path.c_str(), f.target.c_str()) != 0) return errno;
  f.beside->there = false;
  if (new_there) f.undo = file::remove;
  return 0;
}

void new_files::take_back(const file& f) {
  if (f.undo == file::exchange_again) exchange(f.beside->path, f.target);
  if (f.undo == file::remove) ::unlink(f.target.c_str());
}

void new_files::commit() {
  for (file& f : files_) {  // what may fail half-way comes first
    if (f.direct < 0) continue;
    int problem = write_all(f.direct, f.text);
    if (::close(f.direct) != 0 && !problem) problem = errno;
    f.direct = -1;
    if (problem) refuse_writing(f.path, problem);
  }
  for (file& f : files_)
    if (const int problem = f.beside ? put(f) : 0) {
      std::for_each(files_.begin(), files_.end(), take_back);
      refuse_writing(f.path, problem);
    }
}

void write_file(const std::string& path, std::string_view text) {
  new_files one;
  one.add(path, std::string(text));
  one.commit();
}

void clean_up_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(number, remove_temporary_files) == SIG_IGN) std::signal(number, SIG_IGN);
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
