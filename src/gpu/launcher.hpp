// What touches a GPU: it launches the passes of a plan as they stand.
#pragma once

#include "kernels.hpp"
#include "plan.hpp"

namespace bitfold::gpu {

/// Enqueues the passes on `on`; out[k] takes the results of the k-th reduction. `workspace` has
/// plan::workspace bytes, aligned to 16. Does not allocate device memory or wait, and can be
/// captured in a graph. The caller has checked the reductions' inputs (an array has elements, and
/// each output whose reductions want some) and the workspace. Errors: those of load(), before
/// anything is enqueued; errc::cuda, of the launch.
void run(const plan& p, const problem& what, void* const* out, void* workspace, stream on);

}  // namespace bitfold::gpu
