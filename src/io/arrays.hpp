// Arrays from files: .npy, .npz, .safetensors, such in shards with an index, or raw elements. Files
// are mapped, not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/element.hpp"
#include "io/format.hpp"

namespace bitfold::io {

struct array {
  std::string name;  ///< the tensor's name; empty for npy and raw files
  element_type type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count;                ///< the product of shape
  const std::byte* data;              ///< contiguous, row-major, native endian; any alignment
  std::shared_ptr<const void> owner;  ///< keeps data alive

  std::uint64_t bytes() const { return bytes_of(type, count); }
};

/// What is reduced of an array: its elements or, of bool, a 1 for each byte that is not 0 (in a
/// copy, where one is neither). Errors: errc::usage, "dtype: ...", of a type without arithmetic.
struct numbers {
  dtype type;
  const std::byte* data;
  std::shared_ptr<const void> owner;
};
numbers numbers_of(const array& a);

/// The type alone, and its errors.
dtype arithmetic(element_type type);

/// Every byte but 0 becomes 1, as of bool.
void make_truths(std::span<std::byte> bytes);

/// Where the elements of an array lie in a file.
struct array_place {
  std::string name;
  element_type type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count;
  std::uint64_t begin;        ///< the byte of the file
  bool swapped = false;       ///< big endian, of more than one byte
  bool column_major = false;  ///< and that is not row-major too

  std::uint64_t bytes() const { return bytes_of(type, count); }
};

struct read_options {
  /// Of the elements of raw files, and of .npy files that do not say (as of bfloat16).
  std::optional<element_type> type = {};
  std::optional<std::string> tensor = {};    ///< read only this tensor of a file of named ones
  std::optional<file_format> recorded = {};  ///< what this file, perhaps by another name, once was
  bool raw = false;                          ///< the file is raw, whatever it looks like
};

struct file_contents {
  file_format format;
  std::vector<array> arrays;
};

/// How a file begins: the first bytes, `enough_to_tell` or all of them, and its size.
struct file_start {
  std::span<const std::byte> bytes;
  std::uint64_t size;
};
inline constexpr std::size_t enough_to_tell = 256;

/// The format in which a file is read: see read_file. Errors: errc::usage, as there.
file_format format_to_read(const std::filesystem::path& path, const file_start& start,
                           const read_options& options);

/// Throws (errc::usage) where an array is of another type than the one that was given for it: a
/// word that would do nothing.
void check_type(const std::string& name, element_type type, const read_options& options);

/// The elements of a raw file. Errors: errc::bad_input, "size: what is wrong".
std::uint64_t raw_count(std::uint64_t bytes, element_type type);

/// The arrays of a file, in the order of their data; those of shards by name.
///
/// The name's ending gives the format; where it gives none, the content does, and else a file is
/// raw. What was recorded as raw is raw, unless the name's ending says otherwise; what was recorded
/// in another format is what its content says, or else what was recorded, whatever its name.
///
/// The file should not shrink while an array of it is alive: check_mapped_files (io/mapping.hpp).
///
/// Errors, as "FILE: FIELD: what is wrong" on one line: errc::bad_input for a file that cannot be
/// read, is malformed, or of a format that is not read here, such as a pickle; errc::usage for a
/// raw file without type, a type that is not the file's, and for `tensor` where the format has no
/// named tensors.
file_contents read_file(const std::filesystem::path& path, const read_options& options = {});

/// Whether the arrays of the file, which has to be there, have names. Errors as those of read_file.
bool has_named_arrays(const std::filesystem::path& path);

/// The files that an index of shards names; none where the file is no such index that can be read.
std::vector<std::string> shards_of(const std::filesystem::path& path);

/// Its arrays alone.
std::vector<array> read_arrays(const std::filesystem::path& path, const read_options& options = {});

}  // namespace bitfold::io
