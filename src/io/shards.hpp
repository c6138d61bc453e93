// A checkpoint in several .safetensors files, with an index that names the file of each tensor, as
// Hugging Face's libraries write it (model.safetensors.index.json).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace bitfold::io {

/// Whether the text begins as a JSON object does, and speaks of a weight_map soon.
bool looks_like_index(std::span<const std::byte> text);

/// The tensors of each file, which is named from the index's own folder.
/// Errors: errc::bad_input, "FIELD: what is wrong".
std::map<std::string, std::vector<std::string>> parse_index(std::span<const std::byte> text);

}  // namespace bitfold::io
