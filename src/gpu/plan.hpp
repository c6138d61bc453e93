// What is asked of a GPU, and the plan of it: pure arithmetic, which the launcher takes as it
// stands.
#pragma once

#include <bitfold/cuda.hpp>
#include <bitfold/cuda/outputs.hpp>
#include <bitfold/cuda/tile.hpp>
#include <span>
#include <vector>

#include "kernel.hpp"

namespace bitfold::gpu {

/// Reductions of one element type and number of inputs, each with a canonical order: of a whole
/// array, or of each of many outputs.
struct problem {
  std::span<const reduction> reductions;
  cuda::elements array;                            ///< where there are no outputs,
  std::size_t n;                                   ///< of so many elements, at least one
  const cuda::output_elements* outputs = nullptr;  ///< on axes, or segments; or null
};

/// An argument of a kernel: a number, or what the launcher puts in its place.
struct argument {
  enum class kind : std::uint8_t {
    number32,
    number64,
    workspace,  ///< where it begins
    array,
    outputs,
    unaligned_outputs,  ///< the same, which are read at any address
    listed_nodes,       ///< pass::list, in the workspace
    results
  } what;
  std::uint64_t value = 0;  ///< the number
};

struct pass {
  kernel what;
  unsigned blocks, threads;
  std::size_t shared_bytes;
  std::vector<argument> arguments;
  std::vector<std::size_t> reductions;  ///< the one of each of the kernel's outputs
  bool overlaps = false;                ///< may be set up while the pass ahead of it ends
  std::size_t cleared_bytes = 0;        ///< of the workspace's beginning, ahead of it
  cuda::node_list list{};
};

struct plan {
  std::vector<pass> passes;  ///< in this order
  std::size_t workspace;     ///< bytes
};

/// Reductions of one base are folded once, those of several in one kernel. Errors (errc::usage):
/// those of cuda::make_plan and cuda::plan_outputs.
plan make_plan(const problem& p, const cuda::launch& shape = {});

}  // namespace bitfold::gpu
