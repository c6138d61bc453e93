// Files that are written whole or not at all: results, reports and golden files, of the command
// line and of Python.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bitfold::io {

/// A file that cannot be written; what() names it and says why.
struct write_error : std::runtime_error {
  write_error(const std::string& file, int error_number);
  std::string path;  ///< as it was given
  int number;        ///< the errno
};

/// Where a path leads through links, in one spelling, whether something is there or not.
std::string place_of(const std::string& path);

/// The whole file or, where it throws, nothing: by way of a temporary file beside it, of a name
/// that nothing else has. A link stays one, and where it leads is written. A file that is replaced
/// keeps its mode, and its successor is on the disk before it goes. What is no regular file (a
/// pipe, a device), or open already (/dev/stdout), is written to directly, after what is there.
void write_file(const std::string& path, std::string_view text);

struct temporary_file;

/// Several files, likewise: `add` writes them beside their places, to which `commit` moves them
/// all. Where one cannot be moved, none is, as far as the file system can exchange two files.
class new_files {
 public:
  new_files() = default;
  new_files(const new_files&) = delete;
  ~new_files();
  void add(const std::string& path, std::string text);
  void commit();

 private:
  struct file {
    std::string path;
    std::filesystem::path target = {};
    // What is to be at the target; after an exchange, what was there.
    temporary_file* beside = nullptr;
    // Or else what is written to directly, and its text.
    int direct = -1;
    std::string text = {};
    enum { nothing, remove, exchange_again } undo = nothing;
  };
  static int put(file& f);
  static void take_back(const file& f);
  std::vector<file> files_;
};

/// From now on SIGINT, SIGTERM and SIGHUP, where they were not ignored, remove the files that
/// new_files has written and not yet moved, before they end the process. For programs of our own:
/// called before the first new_files.
void clean_up_on_signals();

}  // namespace bitfold::io
