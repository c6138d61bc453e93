#include "build_info.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>

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

std::optional<std::uint64_t> cpu_cache() {
  namespace fs = std::filesystem;
  const auto text = [](const fs::path& file) {
    std::string line;
    std::ifstream in(file);
    std::getline(in, line);
    return line;
  };
  // By level: which cores share one, and its size, which is in KiB.
  std::map<int, std::map<std::string, std::uint64_t>> levels;
  std::error_code failed;
  for (const auto& cpu : fs::directory_iterator("/sys/devices/system/cpu", failed)) {
    for (const auto& cache : fs::directory_iterator(cpu.path() / "cache", failed)) {
      const std::string level = text(cache.path() / "level"), size = text(cache.path() / "size");
      std::uint64_t kib = 0;
      int number = 0;
      const auto end = std::from_chars(size.data(), size.data() + size.size(), kib).ptr;
      std::from_chars(level.data(), level.data() + level.size(), number);
      if (number > 0 && kib > 0 && std::string_view(end, size.data() + size.size()) == "K")
        levels[number][text(cache.path() / "shared_cpu_list")] = kib << 10;
    }
  }
  if (levels.empty()) return {};
  std::uint64_t bytes = 0;
  for (const auto& [cores, size] : levels.rbegin()->second) bytes += size;
  return bytes;
}

std::string system_name() {
  std::string name = line_of("/etc/os-release", "PRETTY_NAME=");
  std::erase(name, '"');
  return name.empty() ? "unknown system" : name;
}

}  // namespace bitfold::accuracy::build
