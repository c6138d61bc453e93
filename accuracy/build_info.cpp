#include "build_info.hpp"

#include <fstream>

#include "commit.hpp"  // made by cmake/commit.cmake at each build

namespace bitfold::accuracy::build {
namespace {

// The rest of the first line of a file that starts with `key`.
std::string line_of(const char* path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return line.substr(key.size());
  return {};
}

}  // namespace

const std::string_view version = BITFOLD_VERSION;
const std::string_view commit = BITFOLD_COMMIT;
#ifdef __clang__
const std::string_view compiler = "Clang " __clang_version__;
#else
const std::string_view compiler = "GCC " __VERSION__;
#endif
const std::string_view cuda = BITFOLD_CUDA_VERSION;

std::string cpu_model() {
  const std::string rest = line_of("/proc/cpuinfo", "model name");
  const auto start = rest.find(": ");
  return start == std::string::npos ? "unknown CPU" : rest.substr(start + 2);
}

std::string system_name() {
  std::string name = line_of("/etc/os-release", "PRETTY_NAME=");
  std::erase(name, '"');
  return name.empty() ? "unknown system" : name;
}

}  // namespace bitfold::accuracy::build
