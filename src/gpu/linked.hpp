// Kernels of ranks whose GPUs write to one another's memory (bitfold/linked.hpp).
#pragma once

#include <bitfold/linked.hpp>

#include "kernel.hpp"

namespace bitfold::gpu {

/// Every rank folds all elements; or its share, of which all get the results, or it alone does.
enum class linked_way { at_once, gathered, scattered };

instantiation kernel_of_linked(const reduction& r, int ranks, linked_way way);

}  // namespace bitfold::gpu
