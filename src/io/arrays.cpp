#include "io/arrays.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <system_error>

#include <fmt/format.h>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/safetensors.hpp"
#include "io/shards.hpp"

namespace bitfold::io {
namespace {

std::optional<file_format> format_of_content(const file_start& start) {
  if (looks_like_npy(start.bytes)) return file_format::npy;
  if (looks_like_npz(start.bytes)) return file_format::npz;
  if (looks_like_safetensors(start.bytes, start.size)) return file_format::safetensors;
  if (looks_like_index(start.bytes)) return file_format::index;
  return std::nullopt;
}

// Whatever its bytes are, they are not taken for elements without a word that says so.
void refuse_other_formats(const std::filesystem::path& path, const file_start& start) {
  const std::string_view text = as_text(start.bytes).substr(0, enough_to_tell);
  const other_format* const content = other_format_of_content(text);
  const other_format* const other = content ? content : other_format_of_name(path);
  if (!other) return;
  bad("format",
      fmt::format("{}, by its {}, which is not read here; {}. Its bytes as they are: --raw "
                  "--dtype TYPE",
                  other->name, content ? "content" : "name", other->advice));
}

file_format format_of(const std::filesystem::path& path, const file_start& start,
                      const read_options& options) {
  if (options.raw) return file_format::raw;
  const auto named = format_of_name(path);
  if (options.recorded == file_format::raw) return named.value_or(file_format::raw);
  if (named && !options.recorded) return *named;
  if (const auto content = format_of_content(start)) return *content;
  if (named == file_format::npz && options.recorded == named)
    return *named;  // one without entries is any zip archive
  refuse_other_formats(path, start);
  return options.recorded.value_or(file_format::raw);
}

// The tensors that the index names, which are all that its files hold, by name: in whatever shards
// they lie, they come in one order.
std::vector<array> read_shards(const std::filesystem::path& path, std::span<const std::byte> index,
                               const std::optional<std::string>& tensor) {
  std::vector<array> arrays;
  for (auto& [file, tensors] : parse_index(index)) {
    if (tensor && std::find(tensors.begin(), tensors.end(), *tensor) == tensors.end()) continue;
    try {
      const auto shard = std::make_shared<const mapping>(path.parent_path() / file);
      const auto bytes = shard->bytes();
      if (format_to_read(file, {bytes, bytes.size()}, {}) != file_format::safetensors)
        bad("format", "an index is of .safetensors files, and this is another");
      auto found = parse_safetensors(bytes, tensor, shard);
      std::sort(tensors.begin(), tensors.end());
      const auto by_name = [](const array& a, const array& b) { return a.name < b.name; };
      std::sort(found.begin(), found.end(), by_name);
      for (std::size_t i = 0; !tensor && i < std::max(found.size(), tensors.size()); ++i) {
        if (i < found.size() && (i == tensors.size() || found[i].name < tensors[i]))
          bad("tensor " + in_quotes(found[i].name), "is not in the index");
        if (i == found.size() || tensors[i] < found[i].name)
          bad("tensor " + in_quotes(tensors[i]), "is in the index, but not in the file");
      }
      std::move(found.begin(), found.end(), std::back_inserter(arrays));
    } catch (const error& e) {
      throw error(e.code(), printable(file) + ": " + e.what());
    }
  }
  if (tensor && arrays.empty()) bad("tensor " + in_quotes(*tensor), "not in the index");
  std::sort(arrays.begin(), arrays.end(),
            [](const array& a, const array& b) { return a.name < b.name; });
  return arrays;
}

file_contents parse(const std::filesystem::path& path, const read_options& options,
                    const std::shared_ptr<const mapping>& file) {
  const auto bytes = file->bytes();
  const file_format format = format_to_read(path, {bytes, bytes.size()}, options);
  switch (format) {
    case file_format::safetensors: return {format, parse_safetensors(bytes, options.tensor, file)};
    case file_format::npy: return {format, {parse_npy(bytes, options.type, file)}};
    case file_format::npz: return {format, parse_npz(bytes, options.type, options.tensor, file)};
    case file_format::index: return {format, read_shards(path, bytes, options.tensor)};
    case file_format::raw: break;
  }
  const std::uint64_t count = raw_count(bytes.size(), *options.type);
  return {format, {{"", *options.type, {count}, count, bytes.data(), file}}};
}

file_contents read(const std::filesystem::path& path, const read_options& options) {
  const auto file = std::make_shared<const mapping>(path);
  try {
    auto contents = parse(path, options, file);
    // Of a .npz file, it is the type of those arrays that do not tell.
    const auto is_given = [&](const array& a) { return a.type == options.type; };
    if (contents.format != file_format::npz || std::ranges::none_of(contents.arrays, is_given))
      for (const array& a : contents.arrays) check_type(a.name, a.type, options);
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
  if (options.raw && !options.type) throw error(errc::usage, "dtype: needed for raw data");
  const file_format format = format_of(path, start, options);
  if (options.tensor && holds_one(format))
    throw error(errc::usage, "tensor: only .safetensors and .npz files have named tensors");
  if (format == file_format::raw && !options.type)
    throw error(
        errc::usage,
        "dtype: needed for raw data (the file is no .npy, .npz or .safetensors, by its name or its "
        "content)");
  return format;
}

void check_type(const std::string& name, element_type type, const read_options& options) {
  if (!options.type || options.recorded || type == *options.type) return;
  throw error(
      errc::usage,
      fmt::format(
          "dtype: {}, not the {} of --dtype, which is for raw files; --acc and "
          "--out-dtype, where a command has them, choose what to add in and the result's type",
          (name.empty() ? "" : "tensor " + in_quotes(name) + " is ") + std::string(io::name(type)),
          io::name(*options.type)));
}

std::uint64_t raw_count(std::uint64_t bytes, element_type type) {
  const std::uint64_t bits = type.properties().bits;
  const std::uint64_t step =
      bits / std::gcd(bits, 8u);  // of several elements, where they share bytes
  if (bytes % step != 0)
    bad("size",
        fmt::format("{} bytes is not a multiple of the {} bytes of {}", bytes, step, name(type)));
  return bytes / step * (8 * step / bits);
}

dtype arithmetic(element_type type) {
  if (const auto t = arithmetic_of(type)) return *t;
  throw error(errc::usage,
              fmt::format("dtype: {} has no arithmetic here, and so no results; `bitfold "
                          "record` takes its digest",
                          name(type)));
}

void make_truths(std::span<std::byte> bytes) {
  for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
}

numbers numbers_of(const array& a) {
  const dtype type = arithmetic(a.type);
  const std::span<const std::byte> bytes(a.data, a.bytes());
  if (!is_bool(a.type) ||
      std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; }))
    return {type, a.data, a.owner};
  const std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::copy(bytes.begin(), bytes.end(), copy.get());
  make_truths({copy.get(), bytes.size()});
  return {type, copy.get(), copy};
}

namespace {

// Calls f, whose errors are about that file.
template <class F>
auto about(const std::filesystem::path& path, F f) {
  try {
    return f();
  } catch (const error& e) {
    throw error(e.code(), printable(path.string()) + ": " + e.what());
  }
}

}  // namespace

file_contents read_file(const std::filesystem::path& path, const read_options& options) {
  return about(path, [&] { return read(path, options); });
}

bool has_named_arrays(const std::filesystem::path& path) {
  return about(path, [&] {
    const mapping file(path);
    const auto named = format_of_name(path);
    const auto format = named ? named : format_of_content({file.bytes(), file.bytes().size()});
    return format && !holds_one(*format);
  });
}

std::vector<std::string> shards_of(const std::filesystem::path& path) {
  std::vector<std::string> shards;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return shards;
  try {
    const mapping file(path);
    if (!looks_like_index(file.bytes())) return shards;
    for (const auto& shard : parse_index(file.bytes()))
      shards.push_back((path.parent_path() / shard.first).string());
  } catch (const error&) {  // which is told when it is read
  }
  return shards;
}

std::vector<array> read_arrays(const std::filesystem::path& path, const read_options& options) {
  return read_file(path, options).arrays;
}

}  // namespace bitfold::io
