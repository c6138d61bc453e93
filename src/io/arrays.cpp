#include "io/arrays.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/npy.hpp"
#include "io/safetensors.hpp"

namespace bitfold::io {
namespace {

struct mapping {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

[[noreturn]] void bad_file(int error_number) {
  bad("file", std::generic_category().message(error_number));
}

mapping map_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) bad_file(errno);
  struct closer {
    int fd;
    ~closer() { ::close(fd); }
  } const close_at_end{fd};
  struct stat info;
  if (::fstat(fd, &info) != 0) bad_file(errno);
  if (S_ISDIR(info.st_mode)) bad("file", "is a directory");
  if (!S_ISREG(info.st_mode)) bad("file", "is not a regular file");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return {};  // mmap refuses length 0
  void* const p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) bad_file(errno);
  ::madvise(p, size, MADV_SEQUENTIAL);  // a hint: failure changes nothing
  return {{static_cast<const std::byte*>(p), size},
          {p, [size](const void* q) { ::munmap(const_cast<void*>(q), size); }}};
}

std::vector<array> read(const std::filesystem::path& path, const read_options& options) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const bool safetensors = extension == ".safetensors", npy = extension == ".npy";
  if (!safetensors && !npy && !options.raw_type)
    throw error(errc::usage,
                "dtype: needed for raw data (the name ends in neither .npy nor .safetensors)");
  if (!safetensors && options.tensor)
    throw error(errc::usage, "tensor: only .safetensors files have named tensors");

  const auto [bytes, owner] = map_file(path);
  if (safetensors) return parse_safetensors(bytes, options.tensor, owner);
  if (npy) return {parse_npy(bytes, owner)};
  const dtype type = *options.raw_type;
  if (bytes.size() % size_of(type) != 0)
    bad("size", fmt::format("{} bytes is not a multiple of the {} bytes of {}", bytes.size(),
                            size_of(type), name(type)));
  const std::uint64_t count = bytes.size() / size_of(type);
  return {{"", type, {count}, count, bytes.data(), owner}};
}

}  // namespace

std::vector<array> read_arrays(const std::filesystem::path& path, const read_options& options) {
  try {
    return read(path, options);
  } catch (const error& e) {
    throw error(e.code(), printable(path.string()) + ": " + e.what());
  }
}

}  // namespace bitfold::io
