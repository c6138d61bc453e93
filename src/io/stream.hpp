// A file or a pipe that is read in pieces, and never held in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/arrays.hpp"

namespace bitfold::io {

/// The path that stands for standard input.
inline constexpr std::string_view standard_input = "-";

class stream {
 public:
  /// Opens it and reads what comes before the data. The format, and errors, as for read_file.
  stream(const std::filesystem::path& path, const read_options& options);
  ~stream();
  stream(const stream&) = delete;

  /// Its arrays, in the order of their data.
  const std::vector<array_place>& arrays() const { return arrays_; }
  /// Of all arrays together; nothing where that shows at the end.
  std::optional<std::uint64_t> bytes() const;

  /// The next elements of array k, which has arithmetic, in the order in which they are stored, as
  /// numbers_of has them: as many as there are left, and as `to` has room for. What a raw array
  /// from a pipe is like is known when it has ended, by its shape and count. From a pipe arrays
  /// come one after the other. Errors as "FILE: FIELD: what is wrong".
  std::size_t read(std::size_t k, std::span<std::byte> buffer);

  /// To be called at the end. Throws where something follows, or the file became shorter.
  void check_end();

 private:
  void open();
  void read_head(const read_options& options);
  std::vector<std::byte> head(std::uint64_t size);
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> buffer);
  std::vector<std::byte> following();
  template <class F>
  auto with_name(F f);

  std::filesystem::path path_;
  int fd_ = -1;
  std::optional<std::uint64_t> size_;  // of a regular file
  std::vector<std::byte> start_;       // of a pipe, what was read to tell its format
  std::uint64_t position_ = 0;         // of a pipe, where it is
  std::vector<array_place> arrays_;
  std::vector<std::uint64_t> done_;   // elements of each array
  std::optional<std::uint64_t> end_;  // nothing: that is raw, from a pipe
  bool is_npy_ = false;
};

}  // namespace bitfold::io
