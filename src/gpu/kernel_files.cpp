#include "kernel_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace bitfold::gpu {

std::string digest_of(std::string_view bytes) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  for (const unsigned char b : digest.digest)
    text.append({"0123456789abcdef"[b >> 4], "0123456789abcdef"[b & 15]});
  return text;
}

namespace {

namespace fs = std::filesystem;

constexpr const char* nowhere = "no directory for kernels: neither BITFOLD_CACHE nor HOME is set";
constexpr std::string_view magic = "bitfold kernel 1\n", extension = ".bitfold-kernel",
                           unfinished = ".bitfold-kernel-";

// A file is: magic, digest of all that follows, and three strings behind their lengths: the key (so
// that two keys of one digest are told apart), the name, the machine code.
void put(std::string& to, std::string_view s) {
  const std::uint64_t size = s.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size).append(s);
}
std::optional<std::string_view> take(std::string_view& from) {
  std::uint64_t size = 0;
  if (from.size() < sizeof size) return {};
  std::memcpy(&size, from.data(), sizeof size);
  from.remove_prefix(sizeof size);
  if (from.size() < size) return {};
  const std::string_view s = from.substr(0, size);
  from.remove_prefix(size);
  return s;
}

class open_file {
 public:
  open_file(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Whether what is open there is of that kind, belongs to this user, or root, and no other may write
// to it.
bool is_our(mode_t kind, int fd) {
  struct stat s;
  return ::fstat(fd, &s) == 0 && (s.st_mode & S_IFMT) == kind &&
         (s.st_uid == ::geteuid() || s.st_uid == 0) && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}
// Also where it is a pipe, in which nobody may ever write.
constexpr int to_read = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;

std::optional<std::string> read_all(int fd) {
  std::string bytes;
  char part[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got == 0) return bytes;
    if (got > 0)
      bytes.append(part, static_cast<std::size_t>(got));
    else if (errno != EINTR)
      return {};
  }
}
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done > 0)
      bytes.remove_prefix(static_cast<std::size_t>(done));
    else if (errno != EINTR)
      return false;
  }
  return true;
}

std::optional<std::string> stored_key(std::string_view bytes) {
  const std::size_t head = magic.size() + 32;
  if (bytes.size() < head || bytes.substr(0, magic.size()) != magic) return {};
  std::string_view body = bytes.substr(head);
  if (bytes.substr(magic.size(), 32) != digest_of(body)) return {};
  const auto key = take(body);
  return key ? std::optional<std::string>(*key) : std::nullopt;
}

std::string why(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

kernel_files kernel_files::of_user() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  fs::path directory = variable("BITFOLD_CACHE");
  if (directory.empty()) {
    const fs::path cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
    if (cache.is_absolute())
      directory = cache / "bitfold";
    else if (home.is_absolute())
      directory = home / ".cache" / "bitfold";
  }
  return kernel_files(directory);
}

fs::path kernel_files::path_of(std::string_view key) const {
  return directory_ / (digest_of(key) + std::string(extension));
}

std::string kernel_files::why_unread() const {
  if (directory_.empty()) return "no directory is named";
  const open_file directory(directory_, O_RDONLY | O_DIRECTORY);
  if (!directory) return why(directory_.c_str());
  return is_our(S_IFDIR, directory.fd())
             ? ""
             : directory_.string() +
                   ": not this user's alone, so that no kernel is read or kept there";
}

std::string kernel_files::why_unkept() const {
  if (directory_.empty()) return nowhere;
  std::error_code failed;
  fs::path there = directory_;
  if (fs::exists(there, failed)) {
    if (const std::string reason = why_unread(); !reason.empty()) return reason;
  } else {
    while (there.has_relative_path() && !fs::exists(there, failed)) there = there.parent_path();
    if (there.empty()) there = ".";
  }
  return ::access(there.c_str(), W_OK | X_OK) == 0 ? "" : why(there.c_str());
}

std::optional<machine_code> kernel_files::find(std::string_view key) const {
  if (!why_unread().empty()) return {};
  const open_file file(path_of(key), to_read);
  if (!file || !is_our(S_IFREG, file.fd())) return {};
  const auto bytes = read_all(file.fd());
  if (!bytes || stored_key(*bytes) != key) return {};
  std::string_view body = std::string_view(*bytes).substr(magic.size() + 32);
  (void)take(body);
  const auto name = take(body), image = take(body);
  if (!name || !image || !body.empty()) return {};
  ::futimens(file.fd(), nullptr);  // used now
  return machine_code{std::string(*name), std::string(*image)};
}

std::string kernel_files::store(std::string_view key, const machine_code& code) const {
  if (directory_.empty()) return nowhere;
  std::error_code failed;
  fs::create_directories(directory_.parent_path(), failed);
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) return why(directory_.c_str());
  if (std::string reason = why_unread(); !reason.empty()) return reason;

  std::string body;
  put(body, key);
  put(body, code.name);
  put(body, code.image);
  std::string bytes(magic);
  bytes += digest_of(body);
  bytes += body;
  // Written aside and renamed, so that nobody ever reads a part of it.
  std::string aside = (directory_ / (std::string(unfinished) + "XXXXXX")).string();
  const int fd = ::mkostemp(aside.data(), O_CLOEXEC);
  if (fd < 0) return why(directory_.c_str());
  const bool written = write_all(fd, bytes);
  const std::string reason = written ? "" : why(aside.c_str());
  const bool closed = ::close(fd) == 0;
  if (!written || !closed || ::rename(aside.c_str(), path_of(key).c_str()) != 0) {
    const std::string why_not = reason.empty() ? why(aside.c_str()) : reason;
    ::unlink(aside.c_str());
    return why_not;
  }
  make_room(path_of(key));
  return "";
}

std::vector<kernel_files::entry> kernel_files::files() const {
  std::vector<entry> found;
  std::error_code failed;
  if (directory_.empty()) return found;
  for (fs::directory_iterator at(directory_, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->path().extension() != extension) continue;
    std::error_code gone;
    const auto used = fs::last_write_time(at->path(), gone);
    const std::uint64_t bytes = gone ? 0 : fs::file_size(at->path(), gone);
    if (!gone) found.push_back({at->path(), bytes, used, {}});
  }
  std::sort(found.begin(), found.end(),
            [](const entry& a, const entry& b) { return a.used > b.used; });
  return found;
}

std::vector<kernel_files::entry> kernel_files::list() const {
  std::vector<entry> found = files();
  for (entry& e : found) {
    const open_file file(e.path, to_read);
    const auto bytes = file && is_our(S_IFREG, file.fd()) ? read_all(file.fd()) : std::nullopt;
    if (bytes) e.key = stored_key(*bytes).value_or("");
  }
  return found;
}

kernel_files::cleared kernel_files::clear() const {
  cleared done;
  for (const entry& e : files()) {
    if (::unlink(e.path.c_str()) == 0)
      ++done.count;
    else if (errno != ENOENT)  // another process may have removed it
      done.reason = why(e.path.c_str());
  }
  return done;
}

void kernel_files::make_room(const fs::path& for_file) const {
  std::error_code failed;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(directory_, failed), end; !failed && at != end;
       at.increment(failed)) {
    std::error_code gone;
    // What a killed process was writing.
    if (at->path().filename().string().starts_with(unfinished) &&
        now - fs::last_write_time(at->path(), gone) > std::chrono::hours(1) && !gone)
      fs::remove(at->path(), gone);
  }
  const std::vector<entry> found = files();
  std::uint64_t all = 0;
  for (const entry& e : found)
    if (e.path == for_file) all = e.bytes;  // whatever the others' clocks said
  for (const entry& e : found) {
    if (e.path == for_file) continue;
    all += e.bytes;
    if (all > limit_) ::unlink(e.path.c_str());
  }
}

}  // namespace bitfold::gpu
