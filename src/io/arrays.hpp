// Arrays from files: .npy, .safetensors, or raw elements. Files are mapped, not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bitfold/dtype.hpp>

namespace bitfold::io {

struct array {
  std::string name;  ///< the tensor's name; empty for npy and raw files
  dtype type;
  std::vector<std::uint64_t> shape;
  std::uint64_t count;                ///< the product of shape
  const std::byte* data;              ///< contiguous, row-major, native endian; any alignment
  std::shared_ptr<const void> owner;  ///< keeps data alive
};

struct read_options {
  std::optional<dtype> raw_type;      ///< for files that are neither .npy nor .safetensors
  std::optional<std::string> tensor;  ///< read only this tensor of a .safetensors file
};

/// The arrays of a file, in the order of their data. The extension (in any case) gives the format.
/// The file must not shrink while an array of it is alive.
/// Errors, as "FILE: FIELD: what is wrong" on one line: errc::bad_input for a file that cannot be
/// read or is malformed; errc::usage for a raw file without raw_type, and for `tensor` where the
/// format has no named tensors.
std::vector<array> read_arrays(const std::filesystem::path& path, const read_options& options = {});

}  // namespace bitfold::io
