// One plan for the workspace query and for the launch. Pure arithmetic: needs no CUDA header.
#pragma once

#include <cstddef>

#include <bitfold/cuda.hpp>
#include <bitfold/cuda/tile.hpp>

namespace bitfold::cuda {

struct plan {
  bool by_leaves;       ///< a node is a leaf for each of a block's warps; or tiles:
  int tiles;            ///< then per node: a power of two
  index node;           ///< elements of all but the last
  index nodes;          ///< states that the first pass yields; a single one is the result
  int threads, blocks;  ///< of the first pass
  int second_threads;   ///< of the second pass, which is one block, if there is more than one node
  std::size_t workspace;              ///< bytes
  std::size_t shared, second_shared;  ///< bytes of shared memory of each pass
};

/// What a plan depends on besides the length and the launch shape.
struct sizes {
  std::size_t state;  ///< bytes of a settled state; of those of several folds together
  index tile;         ///< elements that a warp folds at once
  bool stored;        ///< elements are folded as they are stored
  int columns = 0;    ///< that a thread folds, of outputs on axes
};

/// What a block has room to fold (1 TiB of elements at least, as they are stored, for states of up
/// to 46 bytes).
index most_elements(const sizes& of);

/// Errors (errc::usage, naming the field): a launch shape that is not allowed.
void check(const launch& shape);
/// For the current device. Errors (errc::usage): a launch shape that is not allowed; n above
/// most_elements.
plan make_plan(const sizes& of, std::size_t n, const launch& shape);

/// Bytes of a block's shared memory for so many states of that size and, past a warp of them, those
/// of the next level.
std::size_t bytes_for_states(index states, std::size_t size);
/// How many states a block has room for, of those that it has without asking for more.
index room_for_states(std::size_t size);

/// Errors (errc::usage): a workspace of fewer bytes than are needed, null or not aligned to 16
/// bytes.
void check_workspace(const void* workspace, std::size_t bytes, std::size_t need);

/// Whether the current device starts a kernel before the one ahead of it has ended. Errors:
/// errc::cuda.
bool overlaps();

}  // namespace bitfold::cuda
