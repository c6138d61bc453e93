// Arrays from files: .npy, .safetensors, or raw elements. Files are mapped, not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <bitfold/dtype.hpp>

#include "io/format.hpp"

namespace bitfold::io {

struct array {
  std::string name;  ///< the tensor's name; empty for npy and raw files
  dtype type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count;                ///< the product of shape
  const std::byte* data;              ///< contiguous, row-major, native endian; any alignment
  std::shared_ptr<const void> owner;  ///< keeps data alive
};

/// Where the elements of an array lie in a file.
struct array_place {
  std::string name;
  dtype type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count;
  std::uint64_t begin;        ///< the byte of the file
  bool swapped = false;       ///< big endian, of more than one byte
  bool column_major = false;  ///< and that is not row-major too
};

struct read_options {
  std::optional<dtype> raw_type = {};        ///< of the elements of raw files
  std::optional<std::string> tensor = {};    ///< read only this tensor of a .safetensors file
  std::optional<file_format> recorded = {};  ///< what this file, perhaps by another name, once was
};

struct file_contents {
  file_format format;
  std::vector<array> arrays;
};

/// The first bytes of a file, at least 12 or all of them, and its size.
struct file_start {
  std::span<const std::byte> bytes;
  std::uint64_t size;
};

/// The format in which a file is read: see read_file. Errors: errc::usage, as there.
file_format format_to_read(const std::filesystem::path& path, const file_start& start,
                           const read_options& options);

/// The elements of a raw file. Errors: errc::bad_input, "size: what is wrong".
std::uint64_t raw_count(std::uint64_t bytes, dtype type);

/// The arrays of a file, in the order of their data.
///
/// The name's ending gives the format; where it gives none, a file is raw if there is a raw_type,
/// and else what its content says. What was recorded as raw is raw, unless the name's ending says
/// otherwise; what was recorded in another format is what its content says, or else what was
/// recorded, whatever its name.
///
/// The file should not shrink while an array of it is alive: check_mapped_files (io/mapping.hpp).
///
/// Errors, as "FILE: FIELD: what is wrong" on one line: errc::bad_input for a file that cannot be
/// read or is malformed; errc::usage for a raw file without raw_type, and for `tensor` where the
/// format has no named tensors.
file_contents read_file(const std::filesystem::path& path, const read_options& options = {});

/// Its arrays alone.
std::vector<array> read_arrays(const std::filesystem::path& path, const read_options& options = {});

}  // namespace bitfold::io
