// The device of --device cuda.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "cli/parts.hpp"

namespace bitfold::cli {

/// The first GPU, of which a part takes what is free now or, if that is less, `most` bytes. Errors:
/// errc::cuda; errc::no_device.
std::unique_ptr<device> first_gpu(std::optional<std::size_t> most);

}  // namespace bitfold::cli
