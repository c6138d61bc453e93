// The NumPy array format, versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "io/arrays.hpp"

namespace bitfold::io {

/// Whether the file begins as every .npy file does.
bool looks_like_npy(std::span<const std::byte> file);

/// The array in the bytes of a .npy file. Its data points into `file`, which `owner` keeps alive,
/// or into a copy of its own where Fortran order or big endian need one.
/// Errors: errc::bad_input, "FIELD: what is wrong".
array parse_npy(std::span<const std::byte> file, const std::shared_ptr<const void>& owner);

}  // namespace bitfold::io
