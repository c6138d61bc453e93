#include "cli/operands.hpp"

#include <filesystem>
#include <set>

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
