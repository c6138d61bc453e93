// A file in memory, and what happens when another program makes it shorter meanwhile.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace bitfold::io {

/// A regular file, mapped to be read. Errors: errc::bad_input, "file: what is wrong".
class mapping {
 public:
  explicit mapping(const std::filesystem::path& path);
  ~mapping();
  mapping(const mapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  /// Throws errc::bad_input, "file: ...", where the file is shorter now, or was when it was read:
  /// some of the bytes that were read are then zeros.
  void check() const;

 private:
  friend void check_mapped_files();
  friend void survive_shorter_files();
  struct region;
  static region* free_region();

  std::filesystem::path path_;
  int fd_;
  std::span<const std::byte> bytes_;
  region* region_ = nullptr;  // none for an empty file
};

/// mapping::check of all there are; the error begins with the file's name. To be called when arrays
/// have been read, while they are alive.
void check_mapped_files();

/// Without this, reading what is no longer in a mapped file ends the program (SIGBUS). With it,
/// zeros are read and the check above fails. Other bus errors go to the handler before. For main().
void survive_shorter_files();

}  // namespace bitfold::io
