// Many outputs on a GPU: their plan, and the calls of cuda.hpp that take views, segments and keys.
#include "views.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include <cuda_runtime_api.h>

#include "../binned.hpp"
#include "exact.hpp"
#include "groups.hpp"
#include "room.hpp"

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
  if (from.y || from.offsets || reinterpret_cast<std::uintptr_t>(from.x) % 16 || n <= 1 ||
      n * size > 1024)
    return 0;
  if (from.kept.rank != 1 || from.kept.dims[0].x != n || from.reduced.rank != 1 ||
      from.reduced.dims[0].x != 1)
    return 0;
  if (size >= 4) return static_cast<int>(n | 1);
  return static_cast<int>((n + 1) / 4 * 4 + 2);
}

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
  output_elements e{l.x,
                    l.y,
                    l.type,
                    runs_of::packs,
                    false,
                    false,
                    false,
                    l.kept,
                    l.reduced,
                    divisors_of(l.kept),
                    divisors_of(l.reduced),
                    l.outputs,
                    l.n,
                    0,
                    nullptr,
                    nullptr};
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

// What is done one after the other, in the same workspace.
struct output_step {
  kernel_kind kind;
  ordering order;
  std::vector<std::size_t> which;
  output_plan plan;                // of kernels of states,
  std::vector<exact::term> terms;  // or what is summed exactly, and how
  exact_outputs_plan exact;
  std::size_t workspace;
};

// Room for the elements of one output, and whatever follows.
std::size_t gathered_bytes(const output_elements& from) {
  return rounded_up(from.n * size_of(from.type));
}

// A sort of each output, one after the other.
const char* launch_distinct_of_each(const output_elements& from, std::byte* out, void* workspace,
                                    stream where) {
  const char* err = nullptr;
  if (from.n == 0) {
    const cudaError_t none = cudaMemsetAsync(out, 0, 8 * from.outputs, where);
    return none == cudaSuccess ? nullptr : cudaGetErrorString(none);
  }
  for (index o = 0; o < from.outputs && !err; ++o) {
    err = launch_gather(from, o, workspace, where);
    arguments a{{workspace, nullptr, from.type, true},
                from.n,
                0,
                from.n,
                {},
                static_cast<std::byte*>(workspace) + gathered_bytes(from),
                where,
                false};
    a.how.each[a.how.count++] = {out + 8 * o, dtype::i64, op_id::count_distinct, 0};
    if (!err) err = launch_distinct(a);
  }
  return err;
}

std::vector<output_step> steps_of(std::span<const reduction> all, const output_elements& from,
                                  const launch& shape) {
  std::vector<output_step> steps;
  for (group& g : groups_of_outputs(all)) {
    const reduction& r = all[g.which[0]];
    output_step step{g.kind == kernel_kind::own ? kernel_kind::shared : g.kind,
                     detail::ordering_of(r),
                     std::move(g.which),
                     {},
                     {},
                     {},
                     0};
    if (step.order == ordering::independent) {
      step.terms = terms_of(all, step.which);
      step.exact = plan_exact_outputs(step.terms, from, shape);
      check_compiled(r, step.exact.blocks > 0);
      step.workspace = step.exact.workspace;
    } else if (step.order == ordering::sorted) {
      if (from.offsets && from.outputs >= (index{1} << 32) - 1)
        throw error(errc::usage, "segments: 2^32 or more, of which count_distinct is asked for");
      step.workspace = from.offsets
                           ? sort_workspace_of_segments(from.type, from.total, from.outputs)
                           : gathered_bytes(from) + sort_workspace(from.type, from.n);
    } else {
      const auto [of, in_packs] =
          with_kernel<std::pair<sizes, bool>>(step.kind, r, []<class F, class T, class A>() {
            constexpr bool stored = output_kernel_choice<F, T, A>::stored;
            return std::pair(
                sizes{sizeof(fold::partial<F, A>), stored ? tile_bytes / sizeof(T) : widened_tile},
                stored);
          });
      check_compiled(r, of.state > 0);
      step.plan = plan_outputs(of, in_packs, from, shape);
      step.workspace = step.plan.workspace;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::size_t workspace_of(const std::vector<output_step>& steps) {
  std::size_t most = 0;
  for (const output_step& s : steps) most = std::max(most, s.workspace);
  return most;
}

void run(const std::vector<output_step>& steps, std::span<const reduction> all,
         const output_elements& from, std::span<void* const> out, void* workspace, stream where) {
  using launcher = const char* (*)(kernel_kind, const reduction&, const output_plan&,
                                   const output_elements&, const output_results&, void*, stream);
  for (const output_step& s : steps) {
    output_results how{};
    for (const std::size_t k : s.which) {
      const reduction& r = all[k];
      how.bytes[how.list.count] = static_cast<int>(size_of(r.out()));
      // Of what has none for no elements, the host has made sure that there are some, or was told
      // that there are.
      how.empty[how.list.count] =
          info(r.op()).empty == if_empty::refused ? 0 : detail::empty_result(r).bits;
      how.list.each[how.list.count++] = {out[k], r.out(), r.op(), r.ddof()};
    }
    const reduction& r = all[s.which[0]];
    const auto launched = [&] {
      if (s.order == ordering::independent)
        return launch_exact_outputs(s.exact, s.terms, from, how, workspace, where);
      if (s.order == ordering::sorted && from.offsets)
        return launch_distinct_of_segments(from, static_cast<std::int64_t*>(out[s.which[0]]),
                                           workspace, where);
      if (s.order == ordering::sorted)
        return launch_distinct_of_each(from, static_cast<std::byte*>(out[s.which[0]]), workspace,
                                       where);
      return with_kernel<launcher>(s.kind, r, []<class F, class T, class A>() -> launcher {
        return launch_outputs<output_kernel_choice<F, T, A>::in>;
      })(s.kind, r, s.plan, from, how, workspace, where);
    };
    check_launch(launched());
  }
}

}  // namespace

bool outputs_are_neighbours(const output_elements& from) {
  if (from.offsets || from.kept.rank == 0 || from.reduced.rank == 0) return false;
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
  if (from.offsets) {
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
  } else if (in_packs && !from.in_packs && !from.y && from.reduced.rank == 1 &&
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

// ---- Axes ---------------------------------------------------------------------------------------

namespace {
void check_aligned(dtype type, const void* x, const void* y) {
  for (const auto& [name, data] : {std::pair{"x", x}, {"y", y}})
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(type))
      throw error(errc::usage, std::string(name) + ".data: not aligned to its elements");
}

// One output whose elements lie one behind the other is an array, for which there are kernels.
bool is_array(const detail::layout& l) {
  return l.outputs == 1 && l.n > 0 && l.reduced.rank == 1 && l.contiguous();
}
}  // namespace

std::size_t workspace_bytes(std::span<const reduction> all, const view& x, const view* y,
                            std::span<const int> axes, const launch& shape) {
  const detail::layout l = detail::layout_of(x, y, axes);
  return is_array(l) ? workspace_bytes(all, l.n, shape)
                     : workspace_of(steps_of(all, elements_of(l), shape));
}

void reduce(std::span<const reduction> all, const view& x, const view* y, std::span<const int> axes,
            std::span<void* const> out, void* workspace, std::size_t workspace_size, stream where,
            const launch& shape) {
  const detail::layout l = detail::layout_of(x, y, axes);
  detail::check_batch(detail::strided_batch(l), all, out);
  check_engine(all);
  check_aligned(l.type, l.x, l.y);
  if (is_array(l)) return reduce(all, l.x, l.y, l.n, out, workspace, workspace_size, where, shape);
  const output_elements from = elements_of(l);
  const auto steps = steps_of(all, from, shape);
  check_workspace(workspace, workspace_size, workspace_of(steps));
  if (l.outputs > 0) run(steps, all, from, out, workspace, where);
}

// ---- Windows ------------------------------------------------------------------------------------

namespace {

// Where a box leaves its results, one behind the other, before they are moved to their places: the
// first takes it all.
struct room_of_results {
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
};
room_of_results room_for(std::span<const reduction> all, const detail::window_boxes& boxes,
                         const detail::window_box& b) {
  room_of_results room;
  for (const reduction& r : all) {
    room.at.push_back(room.bytes);
    if (boxes.boxes.size() > 1) room.bytes += rounded_up(b.results.size() * size_of(r.out()));
  }
  return room;
}

std::size_t workspace_of(std::span<const reduction> all, const detail::window_boxes& boxes,
                         const launch& shape) {
  std::size_t most = 0;
  for (const auto& b : boxes.boxes)
    most = std::max(most, room_for(all, boxes, b).bytes +
                              workspace_bytes(all, b.x, nullptr, boxes.reduced, shape));
  return most;
}

}  // namespace

std::size_t windows_workspace_bytes(std::span<const reduction> all, const view& x,
                                    std::span<const window> of, const launch& shape) {
  return workspace_of(all, detail::boxes_of(x, of), shape);
}

void reduce_windows(std::span<const reduction> all, const view& x, std::span<const window> of,
                    std::span<void* const> out, void* workspace, std::size_t workspace_size,
                    stream where, const launch& shape) {
  const detail::window_boxes boxes = detail::boxes_of(x, of);
  for (const auto& b : boxes.boxes)
    detail::check_batch(detail::strided_batch(detail::layout_of(b.x, nullptr, boxes.reduced)), all,
                        out, b.first);
  if (boxes.boxes.size() == 1)
    return reduce(all, boxes.boxes[0].x, nullptr, boxes.reduced, out, workspace, workspace_size,
                  where, shape);
  check_engine(all);
  check_aligned(x.type, x.data, nullptr);
  check_workspace(workspace, workspace_size, workspace_of(all, boxes, shape));
  for (const auto& b : boxes.boxes) {
    const room_of_results room = room_for(all, boxes, b);
    auto* const results = static_cast<std::byte*>(workspace);
    std::vector<void*> to;
    for (const std::size_t at : room.at) to.push_back(results + at);
    reduce(all, b.x, nullptr, boxes.reduced, to, results + room.bytes, workspace_size - room.bytes,
           where, shape);
    for (std::size_t k = 0; k < all.size(); ++k)
      check_launch(launch_scatter(to[k], all[k].out(), b.results, divisors_of(b.results), b.first,
                                  out[k], where));
  }
}

// ---- Segments and keys --------------------------------------------------------------------------

namespace {

output_elements elements_of(std::span<const reduction> all, const void* x, const void* y,
                            std::size_t n, std::size_t outputs) {
  const index each = n / std::max<std::size_t>(outputs, 1);
  return {x,
          y,
          all.empty() ? dtype::f32 : all[0].in(),
          runs_of::packs,
          false,
          false,
          false,
          {},
          {},
          {},
          {},
          outputs,
          each,
          n,
          nullptr,
          nullptr};
}

// A list without entries may be anywhere.
void check_lists(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                 std::size_t entries, const std::int64_t* list, const char* name,
                 std::span<void* const> out) {
  // As of one output: what depends on the lengths is not known here.
  const view one =
      row_major(all.empty() ? dtype::f32 : all[0].in(), x, {static_cast<std::int64_t>(n)});
  view other = one;
  other.data = y;
  detail::check_batch(
      detail::strided_batch(detail::layout_of(one, y ? &other : nullptr, std::array{0})),
      n > 0 ? all : all.first(0), n > 0 ? out : out.first(0));
  if (entries > 0 &&
      (list == nullptr || reinterpret_cast<std::uintptr_t>(list) % alignof(std::int64_t)))
    throw error(errc::usage, std::string(name) + ": null or not aligned");
  check_engine(all);
  check_aligned(one.type, x, y);
}

// Any address that is not null: the plan asks whether there are segments, not where.
constexpr std::int64_t somewhere = 0;

// Where the elements are is not known yet.
std::vector<output_step> steps_of_lists(std::span<const reduction> all, output_elements from,
                                        const launch& shape) {
  from.offsets = &somewhere;
  return steps_of(all, from, shape);
}

}  // namespace

std::size_t segments_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                     std::size_t segments, const launch& shape) {
  return workspace_of(steps_of_lists(all, elements_of(all, nullptr, nullptr, n, segments), shape));
}
void reduce_segments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     const std::int64_t* offsets, std::size_t segments, std::span<void* const> out,
                     void* workspace, std::size_t workspace_size, stream where,
                     const launch& shape) {
  check_lists(all, x, y, n, segments, offsets, "offsets", out);
  output_elements from = elements_of(all, x, y, n, segments);
  const auto steps = steps_of_lists(all, from, shape);
  check_workspace(workspace, workspace_size, workspace_of(steps));
  from.offsets = offsets;
  if (segments > 0) run(steps, all, from, out, workspace, where);
}

std::size_t by_key_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                   std::size_t outputs, const launch& shape) {
  if (all.empty()) return 0;
  return keys_workspace(all[0].in(), info(all[0].op()).inputs == 2, n, outputs) +
         workspace_of(steps_of_lists(all, elements_of(all, nullptr, nullptr, n, outputs), shape));
}
void reduce_by_key(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                   const std::int64_t* keys, std::size_t outputs, std::span<void* const> out,
                   void* workspace, std::size_t workspace_size, stream where, const launch& shape) {
  check_lists(all, x, y, n, n, keys, "keys", out);
  if (n >= std::size_t{1} << 32 || outputs >= (std::size_t{1} << 32) - 1)
    throw error(errc::usage, "n: 2^32 elements or outputs, or more");
  if (all.empty()) return;
  output_elements from = elements_of(all, x, y, n, outputs);
  const auto steps = steps_of_lists(all, from, shape);
  const std::size_t for_keys = keys_workspace(from.type, y != nullptr, n, outputs);
  check_workspace(workspace, workspace_size, for_keys + workspace_of(steps));
  if (outputs == 0) return;
  check_launch(launch_keys(keys, n, outputs, workspace, where, from));
  run(steps, all, from, out, static_cast<std::byte*>(workspace) + for_keys, where);
}

namespace {
std::vector<std::int64_t> on_the_host(const std::int64_t* from, std::size_t n, stream where) {
  std::vector<std::int64_t> copy(n);
  check(cudaMemcpyAsync(copy.data(), from, n * sizeof(std::int64_t), cudaMemcpyDeviceToHost, where),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(where), "cudaStreamSynchronize");
  return copy;
}
}  // namespace

void check_offsets(const std::int64_t* offsets, std::size_t segments, std::size_t n, stream where) {
  (void)detail::segments_of(dtype::f32, {nullptr, nullptr}, n,
                            on_the_host(offsets, segments + 1, where));
}
void check_keys(const std::int64_t* keys, std::size_t n, std::size_t outputs, stream where) {
  detail::check_keys(on_the_host(keys, n, where), outputs);
}

}  // namespace bitfold::cuda
