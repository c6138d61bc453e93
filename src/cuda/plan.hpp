// One plan for the workspace query and for the launch. Pure arithmetic, needs no CUDA, but for a sort.
#pragma once

#include <cstddef>

#include <bitfold/cuda.hpp>

namespace bitfold::cuda {

using order::index;

inline constexpr int tile_bytes = 4096;      ///< folded by one warp at once, of elements as stored
inline constexpr int widened_tile = 1024;    ///< likewise, of elements widened when they are read
inline constexpr int max_threads = 512;      ///< of a block
inline constexpr int max_tiles = 1024;       ///< of a node
inline constexpr int nodes_per_warp = 256;   ///< of the second pass
inline constexpr int max_nodes = nodes_per_warp * 1024;

struct plan {
  int tiles;            ///< per node: a power of two
  index nodes;          ///< states that the first pass yields; a single one is the result
  int threads, blocks;  ///< of the first pass
  int second_threads;   ///< of the second pass, which is one block, if there is more than one node
  std::size_t workspace;              ///< bytes
  std::size_t shared, second_shared;  ///< bytes of shared memory of each pass
};

/// Bytes of workspace for a sort of the keys of n elements. Errors (errc::cuda): CUB's.
std::size_t sort_workspace(dtype in, std::size_t n);

/// Of a sort the workspace alone. Errors (errc::usage, naming the field): a launch shape that is not allowed;
/// n beyond 1 TiB. Those of sort_workspace.
plan make_plan(const reduction& r, std::size_t n, const launch& shape);

}  // namespace bitfold::cuda
