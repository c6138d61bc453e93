// The formats of files.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace bitfold::io {

enum class file_format { npy, safetensors, raw };

/// "npy", "safetensors", "raw".
std::string_view name(file_format f);
std::optional<file_format> parse_format(std::string_view text);

/// What the ending of a file's name says (in any case): .npy, .safetensors, or nothing.
std::optional<file_format> format_of_name(const std::filesystem::path& path);

}  // namespace bitfold::io
