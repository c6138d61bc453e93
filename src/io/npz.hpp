// NumPy's archives of arrays: zip files of .npy files, stored or deflated.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/arrays.hpp"

namespace bitfold::io {

/// Whether the file begins with the entry of a .npy file.
bool looks_like_npz(std::span<const std::byte> start);

/// The arrays in the bytes of a .npz file, in the order of its directory, or the one called
/// `tensor`; `type` as for parse_npy. Those that are stored point into `file`, which `owner` keeps
/// alive. Errors: errc::bad_input, "FIELD: what is wrong".
std::vector<array> parse_npz(std::span<const std::byte> file, std::optional<element_type> type,
                             const std::optional<std::string>& tensor,
                             const std::shared_ptr<const void>& owner);

}  // namespace bitfold::io
