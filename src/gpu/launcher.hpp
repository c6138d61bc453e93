// What touches a GPU: it launches the steps of a plan as they stand.
#pragma once

#include "kernels.hpp"
#include "plan.hpp"

namespace bitfold::gpu {

/// Where a plan's addresses are counted from.
struct addresses {
  const void *x = nullptr, *y = nullptr, *list = nullptr;
  void* workspace = nullptr;  ///< plan::workspace bytes, aligned to 16
  void* const* results = nullptr;
};

/// Enqueues the steps on `on`. Does not allocate device memory or wait, and can be captured in a
/// graph. The caller has checked the reductions' inputs and the workspace. Errors: those of load(),
/// before anything is enqueued; errc::cuda, of the launch.
void run(const plan& p, const addresses& at, stream on);

std::vector<kernel> kernels_of(const plan& p);
/// Compiles and loads the plan's kernels that are not there yet.
void prepare(const plan& p, const current& where);

}  // namespace bitfold::gpu
