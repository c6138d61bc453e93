#include "io/stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/npy.hpp"
#include "io/safetensors.hpp"

namespace bitfold::io {
namespace {

constexpr std::uint64_t unknown_size = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t max_head = 100'000'008;  // a pipe's; that of safetensors

template <class U>
void swap_bytes(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(U))
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + sizeof(U)));
}

void swap_elements(std::span<std::byte> bytes, std::size_t size) {
  switch (size) {
    case 2: return swap_bytes<std::uint16_t>(bytes);
    case 4: return swap_bytes<std::uint32_t>(bytes);
    default: return swap_bytes<std::uint64_t>(bytes);
  }
}

}  // namespace

template <class F>
auto stream::with_name(F f) {
  try {
    return f();
  } catch (const error& e) {
    throw error(e.code(), printable(path_.string()) + ": " + e.what());
  }
}

stream::stream(const std::filesystem::path& path, const read_options& options) : path_(path) {
  with_name([&] {
    try {
      open();
      read_head(options);
    } catch (...) {
      ::close(fd_);
      throw;
    }
  });
}
stream::~stream() { ::close(fd_); }

void stream::open() {
  const bool from_stdin = path_ == standard_input;
  // The end of our own process's standard input stays open for whoever comes after.
  fd_ = from_stdin ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                   : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) bad_file(errno);
  struct stat info;
  if (::fstat(fd_, &info) != 0) bad_file(errno);
  if (S_ISDIR(info.st_mode)) bad("file", "is a directory");
  if (!S_ISREG(info.st_mode)) return;
  // Files of /proc say that they are empty, and are read like pipes. Standard input may begin
  // anywhere.
  if (from_stdin || info.st_size == 0) return;
  size_ = static_cast<std::uint64_t>(info.st_size);
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);  // a hint
}

std::vector<std::byte> stream::head(std::uint64_t size) {
  if (!size_ && size > max_head)
    bad("header length",
        fmt::format("{} bytes before the data, above the limit of {}", size, max_head));
  std::vector<std::byte> bytes(size_ ? std::min(size, *size_) : size);
  bytes.resize(read_at(0, bytes));
  if (!size_ && bytes.size() > start_.size()) start_ = bytes;
  return bytes;
}

void stream::read_head(const read_options& options) {
  constexpr std::size_t enough = 12;  // to tell how long the head is
  const auto start = head(enough_to_tell);
  const std::uint64_t size = size_.value_or(start.size() < enough ? start.size() : unknown_size);
  const auto whole_head = [&](std::uint64_t bytes) {
    auto read = head(bytes);
    if (read.size() < bytes) bad("header length", "truncated file");
    return read;
  };
  const file_format format = format_to_read(path_, {start, size}, options);
  switch (format) {
    case file_format::safetensors: {
      const auto bytes = whole_head(safetensors_head_size(start, size));
      std::uint64_t end = 0;
      arrays_ = parse_safetensors_head(
          bytes, options.tensor, size_ ? std::optional(*size_ - bytes.size()) : std::nullopt, end);
      end_ = end;
      break;
    }
    case file_format::npy: {
      const auto bytes = whole_head(npy_head_size(start, size));
      arrays_ = {parse_npy_head(bytes, options.type)};
      end_ = bytes.size() + arrays_[0].bytes();
      if (size_) check_npy_size(arrays_[0], *size_ - bytes.size(), following());
      break;
    }
    case file_format::raw: {
      arrays_ = {{"", *options.type, {}, 0, 0}};
      if (!size_) break;
      arrays_[0].count = raw_count(*size_, *options.type);
      arrays_[0].shape = {arrays_[0].count};
      end_ = *size_;
      break;
    }
    case file_format::npz:
    case file_format::index:
      throw error(errc::usage,
                  fmt::format("format: {}, which is not read in pieces{}", name(format),
                              format == file_format::npz ? "" : "; give its files themselves"));
  }
  for (const array_place& a : arrays_) check_type(a.name, a.type, options);
  is_npy_ = format == file_format::npy;
  done_.resize(arrays_.size());
}

std::optional<std::uint64_t> stream::bytes() const {
  if (!end_) return std::nullopt;
  std::uint64_t all = 0;
  for (const array_place& a : arrays_) all += a.bytes();
  return all;
}

// As much as there is.
std::size_t stream::read_at(std::uint64_t offset, std::span<std::byte> buffer) {
  std::size_t n = 0;
  const auto more = [&](auto call) {
    while (n < buffer.size()) {
      const ssize_t got = call();
      if (got == 0) break;
      if (got > 0)
        n += static_cast<std::size_t>(got);
      else if (errno != EINTR)
        bad_file(errno);
    }
  };
  if (size_) {
    more([&] {
      return ::pread(fd_, buffer.data() + n, buffer.size() - n, static_cast<off_t>(offset + n));
    });
    return n;
  }
  if (offset < start_.size()) {
    n = std::min<std::size_t>(buffer.size(), start_.size() - offset);
    std::memcpy(buffer.data(), start_.data() + offset, n);
  }
  if (n < buffer.size() && offset + n < position_)
    bad("order",
        "the data of this array are past; from a pipe, arrays come in the order of the file");
  while (n == 0 && position_ < offset) {  // what nobody wants
    std::byte nothing[4096];
    const ssize_t got =
        ::read(fd_, nothing, std::min<std::uint64_t>(sizeof nothing, offset - position_));
    if (got == 0) return 0;
    if (got > 0)
      position_ += static_cast<std::uint64_t>(got);
    else if (errno != EINTR)
      bad_file(errno);
  }
  const std::size_t before = n;
  more([&] { return ::read(fd_, buffer.data() + n, buffer.size() - n); });
  position_ += n - before;
  return n;
}

// How what comes after the data begins.
std::vector<std::byte> stream::following() {
  std::vector<std::byte> bytes(npy_mark_size);
  bytes.resize(read_at(*end_, bytes));
  return bytes;
}

std::size_t stream::read(std::size_t k, std::span<std::byte> buffer) {
  return with_name([&]() -> std::size_t {
    array_place& a = arrays_[k];
    const std::size_t size = size_of(arithmetic(a.type));
    const std::uint64_t begin = a.begin + done_[k] * size;
    std::uint64_t most = buffer.size() / size;
    if (end_) most = std::min(most, a.count - done_[k]);
    if (most == 0) return 0;
    const std::size_t got = read_at(begin, buffer.first(most * size));
    if (!end_ && got < most * size) {
      a.count = raw_count(begin + got, a.type);
      a.shape = {a.count};
    } else if (got < most * size) {
      bad("file", size_
                      ? "became shorter while it was read"
                      : fmt::format("ends after {} bytes, in the middle of the data", begin + got));
    }
    if (a.swapped) swap_elements(buffer.first(got), size);
    if (is_bool(a.type)) make_truths(buffer.first(got));
    done_[k] += got / size;
    return got / size;
  });
}

void stream::check_end() {
  with_name([&] {
    if (!end_) return;
    if (!size_) {
      const auto more = following();
      if (is_npy_) refuse_second_npy(more);
      if (!more.empty())
        bad("size", fmt::format("more than the {} bytes that its head says", *end_));
      if (position_ < *end_)
        bad("file", fmt::format("ends after {} bytes, in the middle of the data", position_));
      return;
    }
    struct stat info;
    if (::fstat(fd_, &info) != 0) bad_file(errno);
    if (static_cast<std::uint64_t>(info.st_size) < *size_)
      bad("file", "became shorter while it was read");
  });
}

}  // namespace bitfold::io
