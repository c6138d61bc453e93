// How the elements of many outputs lie, and how they are shared out: pure arithmetic.
#pragma once

#include <bitfold/cuda/outputs.hpp>
#include <bitfold/cuda/plan.hpp>

#include "../batch.hpp"
#include "facts.hpp"

namespace bitfold::cuda {

divisors divisors_of(const detail::axes& of);
/// The elements of several outputs on axes; and of about so many lists, of n elements of one or two
/// inputs together. Without addresses.
output_elements elements_of(const detail::layout& l);
output_elements elements_of_lists(dtype type, bool two, std::size_t n, std::size_t outputs);

/// Of kernels of outputs of two inputs that lie alike (elements.cuh).
constexpr sizes sizes_of_alike_pairs(std::size_t state, std::size_t element) {
  const std::size_t owned = static_cast<std::size_t>(bytes_of_pair) / element;
  return {
      .state = state,
      .tile = owned * order::leaf,
      .stored = true,
      .columns = std::max(neighbours_of_thread(state, 2 * element), 4 / static_cast<int>(element))};
}

/// Whether neighbouring outputs lie nearer to each other than neighbouring elements of an output.
bool outputs_are_neighbours(const output_elements& from);

}  // namespace bitfold::cuda

namespace bitfold::gpu {

/// How the outputs are shared out, for kernels whose states and tiles have these sizes.
struct output_plan {
  strategy by;  ///< of segments short_segments, which lists the nodes of long ones
  struct {
    int first, second;
  } numbers;              ///< that its kernel is compiled for, if any (kernel.hpp)
  std::string_view line;  ///< of the table, that chose it
  int at_once;            ///< outputs that a warp takes
  int team;               ///< threads that take a row
  int parts;              ///< of a node of a column, a thread each
  int split;              ///< of these so many for the lanes of one leaf
  int pitch;              ///< of rows in shared memory, elements from one to the next
  struct {
    index inner, beside;  ///< elements of each; of these so many are neighbours
    std::int64_t stride;  ///< between elements of a column; 0: it is not the same for all
  } columns;              ///< of patches, and of leaves across
  struct {
    index rows, chunks;  ///< of a column, that a block takes at once
  } patch;
  index node;   ///< elements of a node
  index nodes;  ///< of an output; a single one is the result
  int threads, blocks;
  int second_threads,
      second_blocks;    ///< of the pass that folds the nodes, a block or a warp for each output
  index nodes_of_warp;  ///< in that pass
  std::size_t second_shared;  ///< its blocks' shared memory
  struct {
    index each;          ///< nodes of a longer one; 0: there are none
    index count;         ///< of an output
    std::size_t behind;  ///< bytes of the workspace ahead of their states
    int blocks, threads;
  } longer;              ///< nodes, which a pass between makes of these
  cuda::node_list list;  ///< of segments
  int short_blocks;      ///< of segments, that look for short ones
  int list_blocks;       ///< that fold what it names
  int tiles;             ///< of a node, where blocks fold them
  std::size_t workspace, shared;
};
/// Errors: errc::usage (a launch shape that is not allowed; outputs of more elements than there is
/// room to fold).
output_plan plan_outputs(const cuda::sizes& of, const cuda::output_elements& from,
                         const cuda::launch& shape, const tuning& by);

}  // namespace bitfold::gpu
