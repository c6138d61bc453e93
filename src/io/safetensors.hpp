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

/// Whether a file of `size` bytes, of which the first 10 are enough, begins with the length of a
/// header that fits in it, and a header with {.
bool looks_like_safetensors(std::span<const std::byte> start, std::uint64_t size);

/// How many bytes come before the data of a file of `size` bytes, as its first 8 tell.
/// Errors: errc::bad_input, "FIELD: what is wrong".
std::uint64_t safetensors_head_size(std::span<const std::byte> start, std::uint64_t size);

/// Where the tensors lie, from that many bytes, in the order and with the errors of
/// parse_safetensors. After them come `data` bytes; nothing: as many as they say, which `end` is
/// then set to.
std::vector<array_place> parse_safetensors_head(std::span<const std::byte> head,
                                                const std::optional<std::string>& tensor,
                                                std::optional<std::uint64_t> data,
                                                std::uint64_t& end);

/// The tensors in the bytes of a .safetensors file, by data offset and then name, or the one called
/// `tensor` (only its element type must then be known). They point into `file`, which `owner` keeps
/// alive. As strict as the official implementation, and with names that stand there twice.
/// Errors: errc::bad_input, "FIELD: what is wrong".
std::vector<array> parse_safetensors(std::span<const std::byte> file,
                                     const std::optional<std::string>& tensor,
                                     const std::shared_ptr<const void>& owner);

}  // namespace bitfold::io
