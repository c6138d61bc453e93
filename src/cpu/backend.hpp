// The seam between the CPU engine and the code compiled once per instruction set.
#pragma once

#include <bitfold/cpu.hpp>

namespace bitfold::cpu {

/// Folds `leaves` full leaves at `data`, followed by a short leaf of `tail` elements when tail > 0 (at
/// least one element in all), into one state of the method in the accumulator's type, written to
/// `state`. Says which target it was compiled for.
using kernel = target (*)(const void* data, order::index leaves, int tail, void* state);

/// Room for any method's state.
struct alignas(16) state_storage {
  std::byte bytes[16];
};

/// The kernel of a target for r's method (not sequential), input and accumulator; null if this build
/// does not hold the target.
kernel find_kernel(target t, const reduction& r);

// One per file that compiles kernels.
kernel find_scalar_kernel(const reduction& r);
kernel find_simd_kernel(target t, const reduction& r);
/// The SIMD targets that are compiled in and that this machine runs, best last.
std::vector<target> simd_targets();

}  // namespace bitfold::cpu
