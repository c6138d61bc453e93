// The formats of files: those that are read here, and those that are known well enough to say what
// to do instead.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace bitfold::io {

enum class file_format { npy, safetensors, raw, npz, index };

/// "npy", "safetensors", "raw", "npz", "safetensors-index".
std::string_view name(file_format f);
std::optional<file_format> parse_format(std::string_view text);

/// Whether a file of that format holds one array, without a name.
constexpr bool holds_one(file_format f) { return f == file_format::npy || f == file_format::raw; }

inline constexpr std::string_view index_ending = ".safetensors.index.json";

/// What the ending of a file's name says (in any case): .npy, .npz, .safetensors, index_ending, or
/// nothing.
std::optional<file_format> format_of_name(const std::filesystem::path& path);

/// A format that is not read here.
struct other_format {
  std::string_view name;    ///< "a PyTorch checkpoint"
  std::string_view advice;  ///< how to make a file of it that is read
};

/// The name of the first entry of a zip archive that begins so; empty where it is none.
std::string_view zip_entry(std::string_view start);

/// Of a file that begins so, or has such a name; null: none that is known.
const other_format* other_format_of_content(std::string_view start);
const other_format* other_format_of_name(const std::filesystem::path& path);

}  // namespace bitfold::io
