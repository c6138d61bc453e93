// Kernels for tests, made several at a time.
#pragma once

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <cstdio>
#include <string_view>
#include <vector>

#include "gpu/compiler.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launcher.hpp"

namespace bitfold::test {

/// The facts of the GPU that is here; or else of one of compute capability 9.0.
inline const gpu::device_facts& this_gpu() {
  static const gpu::device_facts none = gpu::facts_of({9, 0});
  return cuda::devices().empty() ? none : gpu::facts_of_current_device();
}
inline const gpu::tuning& numbers() { return *this_gpu().numbers; }

/// Compiles the kernels of these plans that are not there yet, as many at a time as there are
/// processors.
inline void prepare(const std::vector<gpu::plan>& plans) {
  std::vector<gpu::kernel> kernels;
  for (const gpu::plan& p : plans)
    for (gpu::kernel& k : gpu::kernels_of(p)) kernels.push_back(std::move(k));
  gpu::prepare(kernels, gpu::current_device());
}

/// Whether NVRTC is here; says so, or that the test is skipped.
inline bool has_compiler() {
  try {
    std::printf("NVRTC %s\n", gpu::compiler_version().c_str());
    return true;
  } catch (const error& e) {
    if (std::string_view(e.what()).find("install NVRTC") == std::string_view::npos) throw;
    std::printf("skipped: %s\n", e.what());
    return false;
  }
}

}  // namespace bitfold::test
