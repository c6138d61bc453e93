// Kernels for tests, made several at a time.
#pragma once

#include <vector>

#include "gpu/kernels.hpp"
#include "gpu/launcher.hpp"

namespace bitfold::test {

/// Compiles the kernels of these plans that are not there yet, as many at a time as there are
/// processors.
inline void prepare(const std::vector<gpu::plan>& plans) {
  std::vector<gpu::kernel> kernels;
  for (const gpu::plan& p : plans)
    for (gpu::kernel& k : gpu::kernels_of(p)) kernels.push_back(std::move(k));
  gpu::prepare(kernels, gpu::current_device());
}

}  // namespace bitfold::test
