#include <bitfold/cuda/plan.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

namespace bitfold::cuda {
namespace {

[[noreturn]] void refuse(const char* field, int value, const char* allowed) {
  throw error(errc::usage,
              std::string("launch.") + field + ": " + std::to_string(value) + " is not " + allowed);
}

}  // namespace

std::size_t bytes_for_states(index states, std::size_t size) {
  return static_cast<std::size_t>(states <= 32 ? states : states + (states + 31) / 32) * size;
}
index room_for_states(std::size_t size) {
  return std::min<index>(1024, most_shared / size * 32 / 33);
}

void check_workspace(const void* workspace, std::size_t bytes, std::size_t need) {
  if (bytes < need)
    throw error(errc::usage, "workspace_size: " + std::to_string(bytes) + " bytes, need " +
                                 std::to_string(need));
  if (need > 0 && (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % 16))
    throw error(errc::usage, "workspace: null or not 16-byte aligned");
}

namespace {
index most_tiles(const sizes& of) { return std::bit_floor(room_for_states(of.state)); }
index most_nodes(const sizes& of) { return nodes_per_warp * room_for_states(of.largest); }
}  // namespace
index most_elements(const sizes& of) { return most_tiles(of) * most_nodes(of) * of.tile; }

plan make_plan(const sizes& of, std::size_t n, const launch& shape) {
  if (shape.threads != 0 &&
      (shape.threads < 32 || shape.threads > max_threads || shape.threads % 32))
    refuse("threads", shape.threads, "a multiple of 32 from 32 to 512");
  if (shape.blocks < 0) refuse("blocks", shape.blocks, "positive");
  if (shape.tiles != 0 &&
      (shape.tiles < 0 || shape.tiles > max_tiles || !std::has_single_bit(unsigned(shape.tiles))))
    refuse("tiles", shape.tiles, "a power of two from 1 to 1024");

  if (n > most_elements(of))
    throw error(errc::usage, "n: more than " + std::to_string(most_elements(of)) + " elements");
  const index tiles = n / of.tile + (n % of.tile != 0);

  plan p{};
  // Measured on an H200: one block up to 16 tiles; then one tile a warp until every multiprocessor
  // has work, then four, so that a block reads 128 KiB and the second pass stays short; for long
  // arrays half the threads and twice as much, which suits the methods that need many registers;
  // and twice that where there are nodes enough, for operations whose merges take long.
  const bool alone = tiles <= 16, large = tiles >= 32768;
  p.threads = shape.threads ? shape.threads
                            : static_cast<int>(32 * std::clamp<index>(tiles, 1,
                                                                      alone   ? 16
                                                                      : large ? 4
                                                                              : 8));
  const index warps = static_cast<index>(p.threads) / 32;
  index per_node = std::bit_ceil(alone   ? 16
                                 : large ? warps * (tiles >= 131072 ? 32 : 16)
                                         : warps * std::clamp<index>(tiles / 2048, 1, 4));
  if (shape.tiles) per_node = static_cast<index>(shape.tiles);
  while ((tiles + per_node - 1) / per_node > most_nodes(of)) per_node *= 2;
  p.tiles = static_cast<int>(std::min(per_node, most_tiles(of)));
  p.node = static_cast<index>(p.tiles) * of.tile;
  // Short arrays by leaves (measured on an H100, as the numbers of threads): few of them in one
  // block.
  const index leaves = order::leaf_count(n);
  const bool few = leaves <= few_leaves && of.by_tiles != only_by_tiles,
             some = n > of.by_tiles && leaves <= 1024;
  p.by_leaves = n > 0 && (few || some) && !shape.threads && !shape.blocks && !shape.tiles;
  if (p.by_leaves) {
    p.threads = static_cast<int>(few ? 32 * leaves : of.state > 4 ? 512 : 128);
    p.node = static_cast<index>(p.threads) / 32 * order::leaf;
  }
  p.nodes = std::max<index>(1, n / p.node + (n % p.node != 0));
  if (!shape.threads && !large)
    p.threads = std::min(max_threads, p.threads * of.folds);  // several share a tile
  p.begin = 0;
  p.end = p.nodes;
  p.blocks = static_cast<int>(shape.blocks ? std::min<index>(shape.blocks, p.nodes) : p.nodes);

  const index runs = (p.nodes + nodes_per_warp - 1) / nodes_per_warp;
  p.second_threads = static_cast<int>(32 * std::clamp<index>(runs, 1, max_threads / 32));
  p.workspace = p.nodes > 1 ? p.nodes * of.state : 0;
  p.shared = bytes_for_states(
      p.by_leaves ? static_cast<index>(p.threads) / 32 : std::min<index>(p.tiles, tiles), of.state);
  p.second_shared = bytes_for_states(runs, of.largest);
  return p;
}

}  // namespace bitfold::cuda
