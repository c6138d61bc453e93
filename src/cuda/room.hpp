// Places in a workspace.
#pragma once

#include <cstddef>

namespace bitfold::cuda {

/// Bytes to where the next thing may lie, as aligned as what cudaMalloc gives.
constexpr std::size_t rounded_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace bitfold::cuda
