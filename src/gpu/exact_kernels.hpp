// Which kernel adds up a set of terms, and how much it takes of a GPU.
#pragma once

#include <bitfold/cuda/exact_sizes.hpp>
#include <span>
#include <string>
#include <vector>

#include "plan.hpp"

namespace bitfold::gpu {

using exact::term;

/// What some of a problem's reductions sum, each term once.
std::vector<term> terms_of(const problem& p, std::span<const std::size_t> which);
int cells_of(dtype type, term what);
/// Bytes of a sum and its front; and of shared memory for a warp of many outputs, with those of so
/// many terms.
std::size_t bytes_of_sum(dtype type);
std::size_t bytes_of_warp(dtype type, std::size_t sums);

/// A kernel of whole arrays.
struct exact_kernel {
  dtype type;
  std::vector<term> terms;  ///< in the order of their cells
  int packs, threads;       ///< that a thread takes at once, of each input; of a block, at most
  std::size_t elements;     ///< that a block takes at once
  std::size_t shared;       ///< bytes of dynamic shared memory
  int blocks, blocks_of_pieces;  ///< of a processor, that registers are shared out for
  std::string definitions;       ///< `sums`, what a thread adds up, whose sizes these are
};
/// As many of these terms as go together: those of as many inputs, for whose columns a block has
/// room.
exact_kernel kernel_for(dtype type, std::span<const term> terms, const device_facts& on);

/// How many of its blocks a GPU runs at once, of so many threads each. `blocks`: those of a
/// processor that registers are shared out for.
int blocks_at_once(const exact_kernel& k, int threads, int blocks, const device_facts& on);

/// `terms`, and `results`, as kernels know them.
std::string definition_of_terms(dtype type, std::span<const term> terms);
std::string definition_of_results(const problem& p, std::span<const std::size_t> which);
/// The same of the sum of a term, for the result.
std::string definition_of_state(dtype type, term what);

}  // namespace bitfold::gpu
