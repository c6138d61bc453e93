// A plan in words.
#pragma once

#include <string>

#include "plan.hpp"

namespace bitfold::gpu {

/// A line for each pass (its strategy, what it folds, its grid, what it reads) and one for the
/// workspace.
std::string explain(const plan& p);

}  // namespace bitfold::gpu
