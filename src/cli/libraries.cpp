#include "cli/libraries.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <bitfold/cuda.hpp>

namespace bitfold::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_in(const fs::path& folder, const std::string& begin) {
  std::vector<fs::path> found;
  std::error_code none;  // what cannot be read has nothing
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with(begin)) found.push_back(entry.path());
  std::ranges::sort(found, std::greater<>());  // the newest first
  return found;
}

std::vector<fs::path> folders_of_programs() {
  std::error_code none;
  std::vector<fs::path> folders{fs::read_symlink("/proc/self/exe", none).parent_path()};
  const char* const path = std::getenv("PATH");
  std::istringstream all(path ? path : "");
  for (std::string folder; std::getline(all, folder, ':');)
    if (fs::exists(fs::path(folder) / "python3", none)) {
      folders.emplace_back(folder);
      break;
    }
  return folders;
}

std::string library_of_packages(const std::string& name) {
  std::error_code none;
  for (const fs::path& programs : folders_of_programs())
    for (const fs::path& python : folders_in(programs.parent_path() / "lib", "python3"))
      for (const fs::path& package : folders_in(python / "site-packages/nvidia", ""))
        for (const char* const version : {".13", ".12"})
          if (const fs::path file = package / "lib" / (name + version); fs::exists(file, none))
            return file.string();
  return {};
}

}  // namespace

void look_for_gpu_libraries() {
  if (const auto nvrtc = library_of_packages("libnvrtc.so"); !nvrtc.empty())
    cuda::look_for_compiler_at(nvrtc);
  if (const auto products = library_of_packages("libcublasLt.so"); !products.empty())
    cuda::look_for_products_at(products);
}

}  // namespace bitfold::cli
