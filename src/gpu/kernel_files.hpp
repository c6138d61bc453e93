// Machine code that is kept in files, so that a kernel is compiled once on a machine: in
// BITFOLD_CACHE, or else XDG_CACHE_HOME/bitfold, or ~/.cache/bitfold. One user's alone; safe for
// many processes at once; never more than `max_bytes`. A pack is such a directory without a limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler.hpp"

namespace bitfold::gpu {

/// 32 hex digits of XXH3-128 (Collet, github.com/Cyan4973/xxHash).
std::string digest_of(std::string_view bytes);

class kernel_files {
 public:
  static constexpr std::uint64_t max_bytes = 1 << 30, no_limit = ~std::uint64_t{0};

  /// In that directory, which is made with the first file; in none where it is empty.
  explicit kernel_files(std::filesystem::path directory, std::uint64_t limit = max_bytes)
      : directory_(directory.has_filename() ? std::move(directory) : directory.parent_path()),
        limit_(limit) {}
  /// Where the environment says.
  static kernel_files of_user();
  static kernel_files of_pack(std::filesystem::path directory) {
    return kernel_files(std::move(directory), no_limit);
  }

  /// Why nothing is read from the directory: there is none, or others may write to it. Empty where
  /// its files are read.
  std::string why_unread() const;
  /// Why nothing can be kept there, as far as can be told without writing; empty where it can be,
  /// in a directory that there is or that the first file makes.
  std::string why_unkept() const;

  /// The file that was stored under `key`; nothing where there is none, or what there is was not
  /// written whole, is another key's, or may have been written by others than this user or root.
  std::optional<machine_code> find(std::string_view key) const;
  /// Keeps `code` under `key`, and removes the files that were used the longest time ago where all
  /// would be more than the limit. Empty, or why nothing was kept (a read-only or full disk, a
  /// directory that others may write to): without a file a kernel is compiled anew next time.
  std::string store(std::string_view key, const machine_code& code) const;

  struct entry {
    std::filesystem::path path;
    std::uint64_t bytes;
    std::filesystem::file_time_type used;
    std::string key;  ///< empty where it is not whole
  };
  /// The files there are, those used last first.
  std::vector<entry> list() const;
  struct cleared {
    std::size_t count = 0;
    std::string reason;  ///< why one was not removed; empty where all were
  };
  /// Removes them all, and says how many they were.
  cleared clear() const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path path_of(std::string_view key) const;
  std::vector<entry> files() const;  // without their keys, those used last first
  void make_room(const std::filesystem::path& for_file) const;

  std::filesystem::path directory_;
  std::uint64_t limit_;
};

}  // namespace bitfold::gpu
