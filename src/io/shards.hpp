// A checkpoint in several .safetensors files, with an index that names the file of each tensor, as
// Hugging Face's libraries write it (model.safetensors.index.json).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <cstddef>

namespace bitfold::io {

/// Whether the text is a JSON object that speaks of a weight_map.
bool looks_like_index(std::span<const std::byte> text);

/// The tensors of each file, which is named from the index's own folder.
/// Errors: errc::bad_input, "FIELD: what is wrong".
std::map<std::string, std::vector<std::string>> parse_index(std::span<const std::byte> text);

}  // namespace bitfold::io
