#include "plan.hpp"

#include <algorithm>
#include <bit>

#include "kernels.hpp"

namespace bitfold::cuda {
namespace {

[[noreturn]] void refuse(const char* field, int value, const char* allowed) {
  throw error(errc::usage,
              std::string("launch.") + field + ": " + std::to_string(value) + " is not " + allowed);
}

struct sizes {
  std::size_t state;  // bytes
  index tile;         // elements
};
sizes sizes_of(const reduction& r) {
  return with_kernel<sizes>(r, []<class F, class T, class A>() {
    return sizes{sizeof(fold::settled<F, A>), kernel_choice<F, T, A>::stored ? tile_bytes / sizeof(T) : widened_tile};
  });
}

// A block's shared memory: its states and, past a warp of them, the states of the next level.
std::size_t shared_bytes(index states, std::size_t size) {
  return static_cast<std::size_t>(states <= 32 ? states : states + (states + 31) / 32) * size;
}

}  // namespace

plan make_plan(const reduction& r, std::size_t n, const launch& shape) {
  if (shape.threads != 0 && (shape.threads < 32 || shape.threads > max_threads || shape.threads % 32))
    refuse("threads", shape.threads, "a multiple of 32 from 32 to 512");
  if (shape.blocks < 0) refuse("blocks", shape.blocks, "positive");
  if (shape.tiles != 0 &&
      (shape.tiles < 0 || shape.tiles > max_tiles || !std::has_single_bit(unsigned(shape.tiles))))
    refuse("tiles", shape.tiles, "a power of two from 1 to 1024");

  if (detail::ordering_of(r) == ordering::sorted) {
    plan p{};
    p.workspace = sort_workspace(r.in(), n);
    return p;
  }
  const auto [state, tile] = sizes_of(r);
  const index tiles = n / tile + (n % tile != 0);
  if (tiles > index{max_tiles} * max_nodes) throw error(errc::usage, "n: more than 1 TiB of elements");

  plan p{};
  // Measured on an H200: one block up to 16 tiles; then one tile a warp until every multiprocessor has
  // work, then four, so that a block reads 128 KiB and the second pass stays short; for long arrays
  // half the threads and twice as much, which suits the methods that need many registers.
  const bool alone = tiles <= 16, large = tiles >= 32768;
  p.threads = shape.threads ? shape.threads
                            : static_cast<int>(32 * std::clamp<index>(tiles, 1, alone ? 16 : large ? 4 : 8));
  const index warps = static_cast<index>(p.threads) / 32;
  index per_node = std::bit_ceil(alone   ? 16
                                 : large ? warps * 16
                                         : warps * std::clamp<index>(tiles / 2048, 1, 4));
  if (shape.tiles) per_node = static_cast<index>(shape.tiles);
  while ((tiles + per_node - 1) / per_node > max_nodes) per_node *= 2;
  p.tiles = static_cast<int>(std::min<index>(per_node, max_tiles));
  p.nodes = std::max<index>(1, (tiles + p.tiles - 1) / p.tiles);
  p.blocks = static_cast<int>(shape.blocks ? std::min<index>(shape.blocks, p.nodes) : p.nodes);

  const index runs = (p.nodes + nodes_per_warp - 1) / nodes_per_warp;
  p.second_threads = static_cast<int>(32 * std::clamp<index>(runs, 1, max_threads / 32));
  p.workspace = p.nodes > 1 ? p.nodes * state : 0;
  p.shared = shared_bytes(std::min<index>(p.tiles, tiles), state);
  p.second_shared = shared_bytes(runs, state);
  return p;
}

}  // namespace bitfold::cuda
