#include "io/arrays.hpp"

#include <fmt/format.h>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"
#include "io/safetensors.hpp"

namespace bitfold::io {
namespace {

std::optional<file_format> format_of_content(const file_start& start) {
  if (looks_like_npy(start.bytes)) return file_format::npy;
  if (looks_like_safetensors(start.bytes, start.size)) return file_format::safetensors;
  return std::nullopt;
}

file_format format_of(const std::filesystem::path& path, const file_start& start,
                      const read_options& options) {
  const auto named = format_of_name(path);
  if (options.recorded == file_format::raw) return named.value_or(file_format::raw);
  if (options.recorded) return format_of_content(start).value_or(*options.recorded);
  if (named) return *named;
  if (options.raw_type) return file_format::raw;
  return format_of_content(start).value_or(file_format::raw);
}

file_contents parse(const std::filesystem::path& path, const read_options& options,
                    const std::shared_ptr<const mapping>& file) {
  const auto bytes = file->bytes();
  const file_format format = format_to_read(path, {bytes, bytes.size()}, options);
  if (format == file_format::safetensors)
    return {format, parse_safetensors(bytes, options.tensor, file)};
  if (format == file_format::npy) return {format, {parse_npy(bytes, file)}};
  const std::uint64_t count = raw_count(bytes.size(), *options.raw_type);
  return {format, {{"", *options.raw_type, {count}, count, bytes.data(), file}}};
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

file_format format_to_read(const std::filesystem::path& path, const file_start& start,
                           const read_options& options) {
  const file_format format = format_of(path, start, options);
  if (options.tensor && format != file_format::safetensors)
    throw error(errc::usage, "tensor: only .safetensors files have named tensors");
  if (format == file_format::raw && !options.raw_type)
    throw error(
        errc::usage,
        "dtype: needed for raw data (the file is no .npy or .safetensors, by its name or its "
        "content)");
  return format;
}

std::uint64_t raw_count(std::uint64_t bytes, dtype type) {
  if (bytes % size_of(type) != 0)
    bad("size", fmt::format("{} bytes is not a multiple of the {} bytes of {}", bytes,
                            size_of(type), name(type)));
  return bytes / size_of(type);
}

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
