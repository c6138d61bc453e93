// The seam between host code and the kernels of exact sums.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <bitfold/exact.hpp>

#include "kernels.hpp"
#include "views.hpp"

namespace bitfold::cuda {

/// A kernel that adds all terms of one kind, or of two, to the cells of its block.
struct exact_kernel {
  const void* function = nullptr;
  const void* finish = nullptr;  ///< makes results of the cells of all blocks, of up to most_slots terms, in one block
  const void* of_outputs = nullptr;  ///< what makes results of many outputs, of up to most_slots terms, a block for each
  int threads = 0;             ///< of a block, at most
  std::size_t shared = 0;      ///< bytes of dynamic shared memory
  std::size_t elements = 0;    ///< that a block takes at once
  std::size_t cells[2] = {};   ///< of each term, its flags among them
};
/// That of a term of elements T, or of elements and their squares together, if there is one: each T is compiled in a
/// file of its own, integers as std::int64_t.
template <class T>
exact_kernel exact_kernel_of(exact::term what, bool and_squares);
inline constexpr int finish_threads = 512, output_threads = 256;
/// Of a pass: its cells are added up in 64 bits (docs/exact.md).
inline constexpr int most_blocks = 1 << 13;

/// The cells of one term, those of a block one behind the other.
struct exact_slot {
  exact::term what;
  int blocks, cells;  ///< cells of a block
  std::int64_t* at;
};
inline constexpr int most_slots = 8;
struct exact_slots {
  int count;
  exact_slot each[most_slots];
};

/// The passes of several exact reductions of elements of one type, one for each term or pair of terms; their cells
/// lie in the workspace one behind the other.
struct exact_plan {
  struct pass {
    exact_kernel kernel;
    int threads, blocks;
    exact_slot slots[2];
    int terms;
  };
  std::vector<pass> passes;
  bool alone;  ///< one block, which finishes
  std::size_t workspace;
};
/// Errors: errc::usage (a launch shape that is not allowed), errc::cuda (no GPU).
exact_plan plan_exact(std::span<const exact::term> terms, dtype type, std::size_t n, const launch& shape);
/// Enqueues the plan; its results are a.how's. Returns the name of the CUDA error, or null.
const char* launch_exact(const exact_plan& p, const arguments& a);
/// The same of many outputs; without workspace, whose elements have to be read once for each term.
const char* launch_exact_outputs(std::span<const exact::term> terms, const output_elements& from, const output_results& how,
                                 stream where);

}  // namespace bitfold::cuda
