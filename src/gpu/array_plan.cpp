#include "array_plan.hpp"

#include <algorithm>
#include <bit>
#include <bitfold/error.hpp>
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
index most_nodes(const sizes& of) { return nodes_per_warp * room_for_states(of.state); }

const gpu::array_line& line_for(const sizes& of, std::size_t n, index leaves, index tiles,
                                bool can_take_leaves, const gpu::tuning& by) {
  const index of_one_block =
      of.stored ? std::min(by.tiles_of_one_block * of.tile, by.elements_of_one_block) : 0;
  const auto fits = [&](const gpu::array_line& l) {
    if (l.tiles > 0) return tiles <= l.most;
    const bool in_one_block = leaves <= static_cast<index>(l.warps);
    return can_take_leaves && leaves <= l.most && of.state <= l.most_state &&
           (in_one_block || n > of_one_block);
  };
  return *std::find_if(by.arrays.begin(), by.arrays.end(), fits);
}

}  // namespace

index most_elements(const sizes& of) { return most_tiles(of) * most_nodes(of) * of.tile; }

void check(const launch& shape) {
  if (shape.threads != 0 &&
      (shape.threads < 32 || shape.threads > max_threads || shape.threads % 32))
    refuse("threads", shape.threads, "a multiple of 32 from 32 to 512");
  if (shape.blocks < 0) refuse("blocks", shape.blocks, "positive");
  if (shape.tiles != 0 &&
      (shape.tiles < 0 || shape.tiles > max_tiles || !std::has_single_bit(unsigned(shape.tiles))))
    refuse("tiles", shape.tiles, "a power of two from 1 to 1024");
}

plan make_plan(const sizes& of, std::size_t n, const launch& shape) {
  return gpu::plan_array(of, n, shape, *gpu::facts_of_current_device().numbers).of;
}

}  // namespace bitfold::cuda

namespace bitfold::gpu {

array_plan plan_array(const cuda::sizes& of, std::size_t n, const cuda::launch& shape,
                      const tuning& by) {
  using namespace cuda;
  cuda::check(shape);
  if (n > most_elements(of))
    throw error(errc::usage, "n: more than " + std::to_string(most_elements(of)) + " elements");
  const index tiles = n / of.tile + (n % of.tile != 0), leaves = order::leaf_count(n);
  const bool no_shape = !shape.threads && !shape.blocks && !shape.tiles;
  const array_line& line = line_for(of, n, leaves, tiles, n > 0 && no_shape, by);

  cuda::plan p{};
  p.by_leaves = line.tiles == 0;
  // Nodes of leaves are of a power of two of them.
  index most_warps = static_cast<index>(line.warps);
  if (p.by_leaves && leaves > most_warps) most_warps = std::bit_floor(most_warps);
  p.threads =
      shape.threads
          ? shape.threads
          : static_cast<int>(32 * std::clamp<index>(p.by_leaves ? leaves : tiles, 1, most_warps));
  const index warps = static_cast<index>(p.threads) / 32;
  if (p.by_leaves) {
    p.node = warps * order::leaf;
  } else {
    index per_node = shape.tiles ? static_cast<index>(shape.tiles)
                                 : std::max(static_cast<index>(line.tiles), std::bit_ceil(warps));
    while ((tiles + per_node - 1) / per_node > most_nodes(of)) per_node *= 2;
    p.tiles = static_cast<int>(std::min(per_node, most_tiles(of)));
    p.node = static_cast<index>(p.tiles) * of.tile;
  }
  p.nodes = std::max<index>(1, n / p.node + (n % p.node != 0));
  p.blocks = static_cast<int>(shape.blocks ? std::min<index>(shape.blocks, p.nodes) : p.nodes);

  const index runs = (p.nodes + nodes_per_warp - 1) / nodes_per_warp;
  p.second_threads = static_cast<int>(32 * std::clamp<index>(runs, 1, max_threads / 32));
  p.workspace = p.nodes > 1 ? p.nodes * of.state : 0;
  p.shared = bytes_for_states(p.by_leaves ? warps : std::min<index>(p.tiles, tiles), of.state);
  p.second_shared = bytes_for_states(runs, of.state);
  return {p, line.name};
}

}  // namespace bitfold::gpu
