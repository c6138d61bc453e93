// The plan of many outputs. Pure arithmetic: needs no CUDA header.
#include <algorithm>
#include <bit>
#include <string>

#include "output_plan.hpp"

namespace bitfold::cuda {
namespace {

// Enough of them to hide the latency of memory, whatever the GPU; and as many as run at a time, so
// that a few more of the outputs to each cost less than those that wait.
constexpr index many_threads = index{1} << 19, many_column_threads = 1 << 16, many_groups = 1 << 12,
                columns_of_block = 16, many_warps = 1 << 12, many_blocks = 1 << 11;
constexpr index resident_warps = 1 << 11;
constexpr index warp_size = 32, most_nodes = warp_size << 16;

constexpr index shares(index items, index of_each) { return (items + of_each - 1) / of_each; }

// Rows without gaps, of up to 1 KiB, in shared memory: elements from one to the next, so that the
// threads of a warp, each in a row of its own, find their words in different banks. 0: they are not
// that.
int staged_pitch(const output_elements& from) {
  const auto n = static_cast<std::int64_t>(from.n),
             size = static_cast<std::int64_t>(size_of(from.type));
  if (from.two || from.listed || !from.aligned || n <= 1 || n * size > 1024) return 0;
  if (from.kept.rank != 1 || from.kept.dims[0].x != n || from.reduced.rank != 1 ||
      from.reduced.dims[0].x != 1)
    return 0;
  if (size >= 4) return static_cast<int>(n | 1);
  return static_cast<int>((n + 1) / 4 * 4 + 2);
}

}  // namespace

divisors divisors_of(const detail::axes& of) {
  divisors d{};
  d.narrow = of.size() <= index{1} << 32;
  for (int k = 0; k < of.rank && d.narrow; ++k) {
    const index extent = of.dims[k].extent;
    if (extent == 0) continue;
    d.each[k].shift = static_cast<int>(std::bit_width(extent - 1));
    d.each[k].factor = static_cast<std::uint32_t>(
        ((index{1} << 32) * ((index{1} << d.each[k].shift) - extent)) / extent + 1);
  }
  return d;
}

// The elements of several outputs on axes.
output_elements elements_of(const detail::layout& l) {
  output_elements e{};
  e.type = l.type;
  e.runs = runs_of::packs;
  e.kept = l.kept;
  e.reduced = l.reduced;
  e.by_kept = divisors_of(l.kept);
  e.by_reduced = divisors_of(l.reduced);
  e.outputs = l.outputs;
  e.n = l.n;
  e.two = l.y != nullptr;
  const auto is_aligned = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  };
  e.aligned = is_aligned(l.x) && is_aligned(l.y);
  const auto pack = static_cast<std::int64_t>(16 / size_of(l.type));
  // Whether 16 bytes of neighbours along the last of some axes are neighbours in memory, and
  // aligned.
  const auto in_packs = [&](const detail::axes& along, const detail::axes& other,
                            std::int64_t detail::axes::axis::* stride, const void* data) {
    const auto whole = [&](const detail::axes& some, int rank) {
      return std::all_of(some.dims, some.dims + rank,
                         [&](const auto& axis) { return axis.*stride % pack == 0; });
    };
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && along.rank > 0 &&
           along.dims[along.rank - 1].*stride == 1 && whole(along, along.rank - 1) &&
           whole(other, other.rank);
  };
  const auto both_in_packs = [&](const detail::axes& along, const detail::axes& other) {
    using axis = detail::axes::axis;
    return in_packs(along, other, &axis::x, l.x) && (!l.y || in_packs(along, other, &axis::y, l.y));
  };
  const auto ends_with_a_pack = [&](const detail::axes& along) {
    return static_cast<std::int64_t>(along.dims[along.rank - 1].extent) % pack == 0;
  };
  e.in_packs =
      both_in_packs(l.reduced, l.kept) && (l.reduced.rank == 1 || ends_with_a_pack(l.reduced));
  e.unaligned = !e.in_packs && !l.y && l.reduced.rank == 1 && l.reduced.dims[0].x == 1 &&
                l.n > order::leaf &&
                (size_of(l.type) > 2 || l.n % order::leaf * size_of(l.type) >= 16);
  e.columns = l.reduced.rank == 1 && both_in_packs(l.kept, l.reduced) && ends_with_a_pack(l.kept);
  const index run = l.reduced.rank > 0 ? l.reduced.dims[l.reduced.rank - 1].extent : 0;
  e.runs = run % order::leaf == 0    ? runs_of::leaves
           : run % order::lanes == 0 ? runs_of::lanes
                                     : runs_of::packs;
  return e;
}

output_elements elements_of_lists(dtype type, bool two, std::size_t n, std::size_t outputs) {
  output_elements e{};
  e.type = type;
  e.runs = runs_of::packs;
  e.outputs = outputs;
  e.n = n / std::max<std::size_t>(outputs, 1);
  e.total = n;
  e.two = two;
  e.listed = true;
  return e;
}

bool outputs_are_neighbours(const output_elements& from) {
  if (from.listed || from.kept.rank == 0 || from.reduced.rank == 0) return false;
  const auto inner = [](const detail::axes& of) { return std::abs(of.dims[of.rank - 1].x); };
  return inner(from.kept) < inner(from.reduced);
}

output_plan plan_outputs(const sizes& of, bool in_packs, const output_elements& from,
                         const launch& shape) {
  const plan flat = make_plan(of, from.n, shape);  // refuses what is not allowed
  output_plan p{};
  const index leaves = order::leaf_count(from.n),
              tiles = from.n / of.tile + (from.n % of.tile != 0);
  const auto blocks_for = [](index items, index of_each) {
    return static_cast<int>(std::clamp<index>(shares(items, of_each), 1, 1 << 20));
  };
  const index many = static_cast<index>(neighbours_of_thread(of.state, tile_bytes / of.tile)),
              groups = from.outputs / many;  // of columns
  // A power of two of about so many, of which `parts` make a node.
  const auto leaves_of_thread = [&](index about, index parts) {
    index each = std::clamp<index>(std::bit_floor(about + 1), 1, index{most_leaves_of_thread});
    while ((leaves + each * parts - 1) / (each * parts) > most_nodes) each *= 2;
    if (each > index{most_leaves_of_thread})
      throw error(errc::usage,
                  "x: outputs of " + std::to_string(from.n) + " elements each are too long");
    return each;
  };
  const auto set_nodes = [&](index leaves_of_node) {
    p.node = leaves_of_node * order::leaf;
    p.nodes = std::max<index>(1, (leaves + leaves_of_node - 1) / leaves_of_node);
  };
  if (from.listed) {
    // Of any lengths. Nodes are small, so that many blocks have some.
    p.by = output_plan::by_length;
    p.threads = shape.threads ? shape.threads : 64;
    p.tiles = shape.tiles ? flat.tiles : 32;
    p.nodes = 1;
    p.at_once = warp_size;
    p.blocks = std::min(blocks_for(from.outputs, static_cast<index>(p.threads)), 1 << 16);
    const index most_tiles = std::bit_floor(room_for_states(of.state));
    const auto node = [&] { return static_cast<index>(p.tiles) * of.tile; };
    while (from.total / node() > most_nodes && static_cast<index>(p.tiles) < most_tiles)
      p.tiles *= 2;
    if (from.total / node() > most_nodes)
      throw error(errc::usage, "n: " + std::to_string(from.total) + " elements are too many");
    p.list = node_list::of(node(), from.total);
    p.shared = bytes_for_states(static_cast<index>(p.tiles), of.state);
    p.list_blocks = std::min(blocks_for(p.list.room, 1), 1 << 12);
    p.second_threads = 256;
    p.second_blocks = std::min(blocks_for(p.list.room_for_several, 1), 1 << 10);
    p.workspace = p.list.bytes(of.state);
    if (shape.blocks)
      p.blocks = std::min(p.blocks, shape.blocks),
      p.list_blocks = std::min(p.list_blocks, shape.blocks);
    return p;
  }
  if (const index owned = of.tile / order::leaf;
      in_packs && from.in_packs && from.reduced.rank == 1 && from.n > 0 && from.n % owned == 0 &&
      from.n <= of.tile / 2 && shape.tiles == 0) {
    p.by = output_plan::teams_take;
    const index of_leaf = order::lanes / owned;
    p.team = static_cast<int>(from.n <= order::lanes ? std::bit_ceil(from.n / owned)
                                                     : of_leaf * std::bit_ceil(leaves));
    const index teams = warp_size / static_cast<index>(p.team);
    p.at_once = static_cast<int>(std::clamp<index>(
        shares(shares(from.outputs, resident_warps), teams) * teams, teams, warp_size));
    p.threads = shape.threads ? std::min(shape.threads, 128) : 64;
    p.nodes = 1;
    p.blocks =
        std::min(blocks_for(from.outputs, static_cast<index>(p.threads / 32 * p.at_once)), 1 << 14);
  } else if (in_packs && from.columns && from.n > 1 &&
             (from.n <= order::lanes || (from.n <= 2 * order::lanes && groups >= many_groups))) {
    p.by = output_plan::threads_take_short_columns;
    p.threads = 128;
    p.nodes = 1;
    p.blocks = blocks_for(groups, 128);
  } else if (in_packs && from.columns && from.n > 1) {
    p.by = output_plan::threads_take_columns;
    p.threads = 128;
    const index threads = static_cast<index>(p.threads);
    const index width = std::min(columns_of_block, std::bit_ceil(groups)), items = leaves * groups;
    const index split = std::clamp<index>(
        std::bit_floor(many_column_threads / 2 / std::max<index>(items, 1)), 1, 8);
    const index parts = std::min(threads / width, std::bit_ceil(leaves) * split),
                outputs_of_block = threads / parts;
    p.parts = static_cast<int>(parts);
    p.split = static_cast<int>(split);
    // No more than there are.
    set_nodes(std::min(parts / split * leaves_of_thread(items / many_column_threads, parts / split),
                       std::bit_ceil(leaves)));
    p.shared = threads * many * of.state;
    p.blocks = blocks_for((groups + outputs_of_block - 1) / outputs_of_block * p.nodes, 1);
  } else if (outputs_are_neighbours(from) || from.n <= order::lanes) {
    p.by = output_plan::threads_take;
    p.threads = 128;
    set_nodes(leaves_of_thread(leaves * from.outputs / many_threads, 1));
    p.blocks = blocks_for(from.outputs * p.nodes, static_cast<index>(p.threads));
  } else if (const int pitch = staged_pitch(from);
             in_packs && pitch > 0 && from.outputs >= many_warps && shape.tiles == 0) {
    p.by = output_plan::threads_take_rows;
    p.pitch = pitch;
    p.threads = 64;
    p.nodes = 1;
    p.shared =
        static_cast<std::size_t>(p.threads) * static_cast<std::size_t>(pitch) * size_of(from.type);
    p.blocks = std::min(blocks_for(from.outputs, 64), 1 << 14);
  } else if (in_packs && !from.in_packs && !from.two && from.reduced.rank == 1 &&
             from.reduced.dims[0].x == 1 && from.n <= most_by_warp && shape.tiles == 0 &&
             (leaves <= 4 || from.outputs >= resident_warps / 2)) {
    p.by = output_plan::teams_take_leaves;
    p.at_once = static_cast<int>(std::clamp<index>(shares(from.outputs, many_warps), 1, warp_size));
    p.threads = shape.threads ? std::min(shape.threads, 128) : 64;
    p.nodes = 1;
    p.blocks =
        std::min(blocks_for(from.outputs, static_cast<index>(p.threads / 32 * p.at_once)), 1 << 14);
  } else if (tiles < 32 && from.outputs >= resident_warps / 2 && shape.tiles == 0) {
    p.by = output_plan::warps_take;
    p.at_once = static_cast<int>(std::clamp<index>(
        from.outputs / (2 * many_warps),
        std::min<index>(shares(from.outputs, resident_warps), std::max<index>(16 / tiles, 1)),
        warp_size));
    p.threads = shape.threads ? std::min(shape.threads, 256) : 128;
    p.nodes = 1;
    p.blocks =
        std::min(blocks_for(from.outputs, static_cast<index>(p.threads / 32 * p.at_once)), 1 << 13);
  } else {
    // As many warps as an output has tiles, or as are left to one where they are many; few long
    // ones in nodes.
    p.by = output_plan::blocks_take;
    const index warps = std::clamp<index>(tiles, 1, from.outputs < 64 ? 16 : 8);
    p.threads = shape.threads ? shape.threads : static_cast<int>(32 * std::bit_ceil(warps));
    const index room = std::bit_floor(room_for_states(of.state));
    const index per_node =
        shape.tiles ? static_cast<index>(flat.tiles)
                    : std::clamp<index>(
                          std::bit_ceil(tiles * std::max<index>(from.outputs, 1) / many_blocks + 1),
                          16, room);
    p.tiles = static_cast<int>(per_node);
    p.node = per_node * of.tile;
    p.nodes = std::max<index>(1, (tiles + per_node - 1) / per_node);
    if (p.nodes > most_nodes)
      throw error(errc::usage,
                  "x: outputs of " + std::to_string(from.n) + " elements each are too long");
    p.shared = bytes_for_states(std::min(per_node, std::max<index>(tiles, 1)), of.state);
    p.blocks = std::min(blocks_for(from.outputs * p.nodes, 1), 1 << 16);
  }
  p.nodes_of_warp = std::max<index>(warp_size, std::bit_ceil((p.nodes + 15) / 16));
  const index second_warps = (p.nodes + p.nodes_of_warp - 1) / p.nodes_of_warp;
  p.second_threads = static_cast<int>(second_warps > 1 ? second_warps * warp_size : 256);
  p.second_blocks = std::min(blocks_for(from.outputs, second_warps > 1 ? 1 : 8), 1 << 16);
  if (shape.blocks) p.blocks = std::min(p.blocks, shape.blocks);
  p.workspace = p.nodes > 1 ? from.outputs * p.nodes * of.state : 0;
  return p;
}

}  // namespace bitfold::cuda
