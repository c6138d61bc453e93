#include "io/format.hpp"

#include <algorithm>
#include <string>

namespace bitfold::io {
namespace {

constexpr std::string_view names[] = {"npy", "safetensors", "raw"};

}  // namespace

std::string_view name(file_format f) { return names[static_cast<std::size_t>(f)]; }

std::optional<file_format> parse_format(std::string_view text) {
  const auto found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<file_format>(found - std::begin(names));
}

std::optional<file_format> format_of_name(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (extension == ".npy") return file_format::npy;
  if (extension == ".safetensors") return file_format::safetensors;
  return std::nullopt;
}

}  // namespace bitfold::io
