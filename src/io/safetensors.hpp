// The safetensors format: an 8-byte header length, a JSON header, and the tensors' bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/arrays.hpp"

namespace bitfold::io {

/// Whether the file begins with the length of a header that fits in it, and a header with {.
bool looks_like_safetensors(std::span<const std::byte> file);

/// The tensors in the bytes of a .safetensors file, by data offset and then name, or the one called
/// `tensor` (only its element type must then be known). They point into `file`, which `owner` keeps
/// alive. As strict as the official implementation; unknown fields of a tensor are errors too.
/// Errors: errc::bad_input, "FIELD: what is wrong".
std::vector<array> parse_safetensors(std::span<const std::byte> file,
                                     const std::optional<std::string>& tensor,
                                     const std::shared_ptr<const void>& owner);

}  // namespace bitfold::io
