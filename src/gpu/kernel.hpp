// A kernel as a value: what it folds, of which elements, and which results it writes. Its text is a
// few lines over the headers of the algebra.
#pragma once

#include <bitfold/reduction.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler.hpp"

namespace bitfold::gpu {

/// Which of the kernels of engine.cuh and outputs.cuh.
enum class strategy : std::uint8_t {
  // Of a whole array.
  tiles,       ///< blocks fold nodes of tiles, a tile to each warp
  one_node,    ///< one block folds all, a leaf to each warp
  leaf_nodes,  ///< blocks fold nodes of leaves, a leaf to each warp
  states,      ///< one block folds the nodes' states
  // Of many outputs: what takes one.
  threads,
  staged_threads,
  columns,
  short_columns,
  row_teams,
  leaf_teams,
  warps,
  blocks,
  output_states,  ///< folds the states of nodes of outputs
  // Of segments.
  short_segments,  ///< folds those for threads, and lists the nodes of those for blocks
  segment_nodes,
  segment_states
};

/// How a kernel reads its elements: as the sources of outputs.cuh do.
enum class reading : std::uint8_t {
  array,    ///< one behind the other
  rows,     ///< of an output in aligned packs, on one axis
  runs,     ///< in packs, on several axes or at any address
  anywhere  ///< one by one
};

/// One of a kernel's results. (The degrees of freedom are an argument, not a part of the kernel.)
struct kernel_output {
  op_id op;
  method_id method;
  dtype acc, out;
  friend bool operator==(const kernel_output&, const kernel_output&) = default;
};

struct kernel {
  strategy what;
  reading how;
  dtype in;
  bool two;                                          ///< inputs
  bool aligned;                                      ///< of `array`: to 16 bytes
  std::uint8_t first_number = 0, second_number = 0;  ///< that the kernel is compiled for, if any
  std::vector<kernel_output> outputs;
  std::size_t state_bytes;  ///< of its folds together, which the text holds the device to
};

kernel_source source_of(const kernel& k);
/// Equal for equal kernels alone; shorter than the text.
std::string signature_of(const kernel& k);

}  // namespace bitfold::gpu
