// A plan in words.
#pragma once

#include <string>

#include "plan.hpp"

namespace bitfold::gpu {

/// A line for each pass (its strategy, what it folds, its grid, what it reads, the line of the
/// table that chose it), one for the workspace, and one for the GPU.
std::string explain(const plan& p, const device_facts& on);

}  // namespace bitfold::gpu
