// Reductions of whole arrays: one plan, made of facts alone, and what launches it.
#pragma once

#include <bitfold/cuda.hpp>
#include <span>

#include "kernels.hpp"

namespace bitfold::gpu {

/// What is asked, but for where it lies.
struct problem {
  std::span<const reduction> reductions;  ///< of one element type and number of inputs, in an order
  std::size_t n;
  bool aligned;  ///< the inputs, to 16 bytes
};

/// An argument of a kernel: a number, or what the launcher puts in its place.
struct argument {
  enum class kind : std::uint8_t { number32, number64, inputs, workspace, results } what;
  std::uint64_t value = 0;  ///< the number, or the bytes ahead in the workspace
};

struct pass {
  kernel what;
  unsigned blocks, threads;
  std::size_t shared_bytes;
  bool overlaps;  ///< may be set up while the pass ahead of it ends
  std::vector<argument> arguments;
  std::vector<std::size_t> reductions;  ///< the one of each of the kernel's outputs
};

struct plan {
  std::vector<pass> passes;  ///< in this order
  std::size_t workspace;     ///< bytes
};

/// Reductions of one base are folded once, those of several in one kernel. Errors (errc::usage):
/// those of cuda::make_plan.
plan make_plan(const problem& p, const cuda::launch& shape = {});

/// Enqueues the passes. `workspace` has plan::workspace bytes, aligned to 16. Errors: those of
/// load(); errc::cuda, of the launch.
void run(const plan& p, const problem& what, const void* x, const void* y, void* const* out,
         void* workspace, stream on);

}  // namespace bitfold::gpu
