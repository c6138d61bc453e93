// A kernel as a value: what it folds, of which elements, and which results it writes. Its text is a
// few lines over the headers of the algebra.
#pragma once

#include <bitfold/reduction.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler.hpp"

namespace bitfold::gpu {

/// The strategies: who takes what. Each has a kernel in engine.cuh, or in what outputs.cuh
/// includes.
// clang-format off
#define BITFOLD_STRATEGIES(STRATEGY)                                                        \
  /* of a whole array */                                                                    \
  STRATEGY(tiles, "one block folds all, a tile to each warp")                               \
  STRATEGY(tile_nodes, "blocks fold nodes of tiles, a tile to each warp")                   \
  STRATEGY(one_node, "one block folds all, a leaf to each warp")                            \
  STRATEGY(leaf_nodes, "blocks fold nodes of leaves, a leaf to each warp")                  \
  STRATEGY(states, "one block folds the states of the nodes")                               \
  /* of many outputs */                                                                     \
  STRATEGY(threads, "a thread folds an output, or a node of one")                           \
  STRATEGY(lines, "a thread folds an output of up to a leaf at equal distances")            \
  STRATEGY(staged_threads, "a thread folds a row, which its warp brings to shared memory")  \
  STRATEGY(columns, "a thread folds parts of neighbouring columns")                         \
  STRATEGY(short_columns, "a thread folds neighbouring columns")                            \
  STRATEGY(row_teams, "some threads of a warp fold a row")                                  \
  STRATEGY(leaf_teams, "some threads of a warp fold a leaf, one thread those of an output") \
  STRATEGY(warps, "a warp folds an output, tile by tile")                                   \
  STRATEGY(blocks, "a block folds an output, or a node of one, a tile to each warp")        \
  STRATEGY(patches, "a block brings columns to shared memory, a leaf to each warp")         \
  STRATEGY(across, "a warp folds leaves of neighbouring columns, a row to each thread")     \
  STRATEGY(longer_nodes, "a warp folds the states of nodes to that of a longer one")        \
  STRATEGY(output_states, "blocks or warps fold the states of the nodes of each output")    \
  /* of segments */                                                                         \
  STRATEGY(short_segments, "a thread folds a short one, and lists the nodes of long ones")  \
  STRATEGY(segment_nodes, "a block folds a listed node")                                    \
  STRATEGY(segment_states, "a block folds the states of the nodes of a segment")
// clang-format on

enum class strategy : std::uint8_t {
#define BITFOLD_STRATEGY(name, ...) name,
  BITFOLD_STRATEGIES(BITFOLD_STRATEGY)
#undef BITFOLD_STRATEGY
};
constexpr std::string_view name(strategy s) {
  constexpr std::string_view names[] = {
#define BITFOLD_STRATEGY(name, ...) #name,
      BITFOLD_STRATEGIES(BITFOLD_STRATEGY)
#undef BITFOLD_STRATEGY
  };
  return names[static_cast<std::size_t>(s)];
}
/// Whether it takes elements, or states.
constexpr bool takes_elements(strategy s) {
  return s != strategy::states && s != strategy::longer_nodes && s != strategy::output_states &&
         s != strategy::segment_states;
}

/// How a kernel reads its elements: as the sources of elements.cuh do.
enum class reading : std::uint8_t {
  array,         ///< one behind the other
  rows,          ///< of an output in aligned packs, on one axis
  runs,          ///< in packs, on several axes or at any address
  anywhere,      ///< one by one
  alike,         ///< two inputs at the same places, one by one
  alike_packets  ///< and in packets
};

/// One of a kernel's results. (The degrees of freedom are an argument, not a part of the kernel.)
struct kernel_output {
  op_id op;
  method_id method;
  dtype acc, out;
  friend bool operator==(const kernel_output&, const kernel_output&) = default;
};

/// A kernel that folds in the canonical order.
struct fold_kernel {
  strategy what;
  reading how;
  dtype in;
  bool two;                                          ///< inputs
  bool aligned;                                      ///< of `array`, one input: to 16 bytes
  std::uint8_t first_number = 0, second_number = 0;  ///< that the kernel is compiled for, if any
  std::vector<kernel_output> outputs;
  std::size_t state_bytes;  ///< of its folds together, which the text holds the device to
};

/// Any other: an instantiation of a kernel template.
struct instantiation {
  std::string_view name;    ///< for people
  std::string_view header;  ///< that has the template, such as "bitfold/cuda/sort.cuh"
  std::string definitions;  ///< in namespace kernel, ahead of it
  std::string expression;   ///< such as "bitfold::cuda::count_digits<float>"
};

/// A kernel of outputs on axes, or of their states, whose folds, source, accumulator and results
/// are those of `definitions`; the numbers are as in fold_kernel.
instantiation fold_of(strategy what, int first_number, int second_number, std::string_view header,
                      std::string definitions);

/// The type of elements in a kernel's text, which uses namespace bitfold.
std::string type_name(dtype t);

using kernel = std::variant<fold_kernel, instantiation>;

kernel_source source_of(const kernel& k);
/// Equal for equal kernels alone; shorter than the text.
std::string signature_of(const kernel& k);
/// For people: the strategy, or the template.
std::string_view name(const kernel& k);

}  // namespace bitfold::gpu
