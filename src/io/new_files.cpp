#include "io/new_files.hpp"

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
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "io/field.hpp"

namespace bitfold::io {

write_error::write_error(const std::string& file, int error_number)
    : std::runtime_error(
          fmt::format("{}: cannot be written: {}", printable(file), std::strerror(error_number))),
      path(file),
      number(error_number) {}

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
  std::atomic<bool> exists = true;
  temporary_file* next = nullptr;

  void remove() {
    if (exists) ::unlink(path.c_str());
    exists = false;
  }
};

namespace {

// The open descriptor that this is another name of: the file that stdout goes to, or /dev/fd/3.
std::optional<int> descriptor_of(const std::filesystem::path& path) {
  struct stat named, open;
  if (::stat(path.c_str(), &named) != 0) return std::nullopt;
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (::fstat(fd, &open) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino)
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

// Where signals clean up: those that were made, as a handler may read them, in a list that only
// grows.
std::atomic<bool> cleans_up = false;
std::atomic<temporary_file*> temporary_files = nullptr;

void remove_temporary_files(int number) {
  for (temporary_file* t = temporary_files; t; t = t->next) t->remove();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// A new file beside the target with the text. Where it takes the place of another it has that one's
// mode, and is on the disk, so that a machine that stops leaves one of them.
int write_new(temporary_file*& created, const std::filesystem::path& target,
              std::string_view text) {
  static std::atomic<int> number = 0;
  std::filesystem::path path;
  int fd = -1;
  do  // Short, since the name of the target may be as long as names can be. There may be one of a
      // process that was killed.
    path = target.parent_path() / fmt::format(".bitfold.{}.{}.tmp", ::getpid(), number++);
  while ((fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666)) < 0 &&
         errno == EEXIST);
  if (fd < 0) return errno;
  created = new temporary_file{.path = path};
  if (cleans_up) {
    created->next = temporary_files;
    while (!temporary_files.compare_exchange_weak(created->next, created)) {
    }
  }
  struct stat old;
  const bool replaces = ::stat(target.c_str(), &old) == 0;
  int failed =
      replaces && ::fchmod(fd, old.st_mode & 0777) != 0 ? errno : 0;  // before others could read it
  if (!failed) failed = write_all(fd, text);
  if (!failed && replaces && ::fsync(fd) != 0) failed = errno;
  if (::close(fd) != 0 && !failed) failed = errno;
  if (failed) created->remove();
  return failed;
}

bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

new_files::~new_files() {
  for (const file& f : files_) {
    if (f.direct >= 0) ::close(f.direct);
    if (!f.beside) continue;
    f.beside->remove();
    if (!cleans_up) delete f.beside;
  }
}

void new_files::add(const std::string& path, std::string text) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (failed && status.type() != fs::file_type::not_found) throw write_error(path, failed.value());
  if ((fs::exists(status) && !fs::is_regular_file(status)) || descriptor_of(path)) {
    const int fd = open_directly(path);
    if (fd < 0) throw write_error(path, errno);
    files_.push_back({.path = path, .direct = fd, .text = std::move(text)});
    return;
  }
  file f{.path = path, .target = behind_links(path)};
  const int problem = write_new(f.beside, f.target, text);
  files_.push_back(std::move(f));
  if (problem) throw write_error(path, problem);
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
  f.beside->exists = false;
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
    if (problem) throw write_error(f.path, problem);
  }
  for (file& f : files_)
    if (const int problem = f.beside ? put(f) : 0) {
      std::for_each(files_.begin(), files_.end(), take_back);
      throw write_error(f.path, problem);
    }
}

void write_file(const std::string& path, std::string_view text) {
  new_files one;
  one.add(path, std::string(text));
  one.commit();
}

void clean_up_on_signals() {
  cleans_up = true;
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(number, remove_temporary_files) == SIG_IGN) std::signal(number, SIG_IGN);
}

}  // namespace bitfold::io
