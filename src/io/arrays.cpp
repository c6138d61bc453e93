#include "io/arrays.hpp"

#include <span>

#include <fmt/format.h>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"
#include "io/safetensors.hpp"

namespace bitfold::io {
namespace {

std::optional<file_format> format_of_content(std::span<const std::byte> bytes) {
  if (looks_like_npy(bytes)) return file_format::npy;
  if (looks_like_safetensors(bytes)) return file_format::safetensors;
  return std::nullopt;
}

file_format format_of(const std::filesystem::path& path, std::span<const std::byte> bytes,
                      const read_options& options) {
  const auto named = format_of_name(path);
  if (options.recorded == file_format::raw) return named.value_or(file_format::raw);
  if (options.recorded) return format_of_content(bytes).value_or(*options.recorded);
  if (named) return *named;
  if (options.raw_type) return file_format::raw;
  return format_of_content(bytes).value_or(file_format::raw);
}

array raw_array(std::span<const std::byte> bytes, dtype type,
                const std::shared_ptr<const void>& owner) {
  if (bytes.size() % size_of(type) != 0)
    bad("size", fmt::format("{} bytes is not a multiple of the {} bytes of {}", bytes.size(),
                            size_of(type), name(type)));
  const std::uint64_t count = bytes.size() / size_of(type);
  return {"", type, {count}, count, bytes.data(), owner};
}

file_contents parse(const std::filesystem::path& path, const read_options& options,
                    const std::shared_ptr<const mapping>& file) {
  const auto bytes = file->bytes();
  const file_format format = format_of(path, bytes, options);
  if (format == file_format::safetensors)
    return {format, parse_safetensors(bytes, options.tensor, file)};
  if (options.tensor)
    throw error(errc::usage, "tensor: only .safetensors files have named tensors");
  if (format == file_format::npy) return {format, {parse_npy(bytes, file)}};
  if (!options.raw_type)
    throw error(
        errc::usage,
        "dtype: needed for raw data (the file is no .npy or .safetensors, by its name or its "
        "content)");
  return {format, {raw_array(bytes, *options.raw_type, file)}};
}

file_contents read(const std::filesystem::path& path, const read_options& options) {
  const auto file = std::make_shared<const mapping>(path);
  try {
    auto contents = parse(path, options, file);
    file->check();
    return contents;
  } catch (const error&) {
    file->check();  // what is wrong with the content may be that it has gone
    throw;
  }
}

}  // namespace

file_contents read_file(const std::filesystem::path& path, const read_options& options) {
  try {
    return read(path, options);
  } catch (const error& e) {
    throw error(e.code(), printable(path.string()) + ": " + e.what());
  }
}

std::vector<array> read_arrays(const std::filesystem::path& path, const read_options& options) {
  return read_file(path, options).arrays;
}

}  // namespace bitfold::io
