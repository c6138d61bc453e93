#include "cli/operands.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

namespace bitfold::cli {

std::string text_of(file_names files) {
  return files.size() == 2 ? files[0] + " and " + files[1] : files[0];
}

std::size_t inputs_of(const std::vector<op_id>& ops, const char* option, std::size_t files) {
  const auto inputs = static_cast<std::size_t>(info(ops[0]).inputs);
  for (const op_id op : ops)
    if (const auto others = static_cast<std::size_t>(info(op).inputs); others != inputs)
      throw error(
          errc::usage,
          fmt::format("{}: {} takes {} input{}, but {} takes {}; they need two calls", option,
                      name(ops[0]), inputs, inputs == 1 ? "" : "s", name(op), others));
  if (inputs == 2 && files % 2 != 0)
    throw error(errc::usage,
                fmt::format("FILE: {} takes files in pairs, not {}", name(ops[0]), files));
  return inputs;
}

std::vector<file_names> groups_of(file_names files, std::size_t inputs) {
  std::vector<file_names> all;
  for (std::size_t i = 0; i < files.size(); i += inputs) all.push_back(files.subspan(i, inputs));
  return all;
}

namespace {

std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& file) {
  struct stat info;
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

}  // namespace

input_files::input_files(const std::vector<std::string>& files) {
  const auto add = [&](const std::string& file) {
    places_.emplace(place_of(file), file);
    if (const auto id = identity_of(file)) identities_.emplace(*id, file);
  };
  for (const std::string& file : files) {
    add(file);
    for (const std::string& shard : io::shards_of(file)) add(shard);
  }
}

void input_files::refuse_overwriting(std::string_view option, const std::string& out) const {
  namespace fs = std::filesystem;
  std::error_code ignored;  // of files that are not there
  if (fs::exists(out, ignored) && !fs::is_regular_file(out, ignored)) return;
  const auto refuse = [&](const std::string& input) {
    throw error(errc::usage, fmt::format("{}: is also {}, which would overwrite it",
                                         io::printable(input), option));
  };
  if (const auto found = places_.find(place_of(out)); found != places_.end()) refuse(found->second);
  if (const auto id = identity_of(out))
    if (const auto found = identities_.find(*id); found != identities_.end()) refuse(found->second);
}

void refuse_overwriting(std::string_view option, const std::string& out,
                        const std::vector<std::string>& files) {
  input_files(files).refuse_overwriting(option, out);
}

namespace {

// 0 where one does not tell.
double size_of_files(file_names files) {
  double bytes = 0;
  for (const std::string& file : files) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    if (failed || size == 0) return 0;
    bytes += static_cast<double>(size);
    if (const auto shards = io::shards_of(file); !shards.empty()) bytes += size_of_files(shards);
  }
  return bytes;
}

}  // namespace

bytes_read::bytes_read(file_names files, bool quiet)
    : progress(quiet || !::isatty(STDERR_FILENO) ? 0 : size_of_files(files),
               passing_unless(quiet)) {}

void bytes_read::end_of(file_names files) {
  if (visible()) reach(read_ += size_of_files(files));
}

void refuse_twice(const std::vector<file_names>& groups) {
  std::set<std::vector<std::filesystem::path>> seen;
  for (const file_names files : groups) {
    std::vector<std::filesystem::path> paths;
    for (const std::string& file : files)
      paths.push_back(std::filesystem::path(file).lexically_normal());
    if (!seen.insert(paths).second)
      throw error(errc::usage, io::printable(text_of(files)) + ": given twice");
  }
}

}  // namespace bitfold::cli
