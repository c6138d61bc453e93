// What plans and kernels both know: how much a warp and a block fold at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include <bitfold/dtype.hpp>
#include <bitfold/order.hpp>

namespace bitfold::cuda {

using order::index;

inline constexpr int tile_bytes = 4096;  ///< folded by one warp at once, of elements as stored
inline constexpr int widened_tile =
    1024;  ///< elements, likewise, of those widened when they are read
inline constexpr int widened_pairs = 512;  ///< of two inputs
inline constexpr int bytes_of_pair =
    8;  ///< of each of two inputs that lie alike, that a thread reads at once
inline constexpr int max_threads = 512;     ///< of a block
inline constexpr int max_tiles = 1024;      ///< of a node
inline constexpr int nodes_per_warp = 256;  ///< of the second pass
inline constexpr std::size_t most_shared =
    48 << 10;  ///< bytes that a block has without asking for more

/// One or two arrays on the device.
struct elements {
  const void *x, *y;
  dtype type;
  bool aligned;  ///< both, to 16 bytes
};

/// Where a kernel's results go, one for each output one behind the other; and what they depend on
/// besides its states.
struct result_place {
  void* to;
  std::uint64_t empty;  ///< the bits of one of no elements
  std::int64_t ddof;
};

}  // namespace bitfold::cuda
