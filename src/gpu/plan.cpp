#include "plan.hpp"

#include <algorithm>
#include <bitfold/cuda/plan.hpp>

#include "../cuda/views.hpp"
#include "groups.hpp"

namespace bitfold::gpu {
namespace {

using enum argument::kind;
using order::index;

// The passes of one group, one behind the other.
class planner {
 public:
  planner(plan& to, const problem& p, const group& g, const cuda::launch& shape)
      : to_(to), p_(p), g_(g), shape_(shape), state_(g.state_bytes()) {
    const dtype in = p.reductions[0].in();
    // As the kernels' source has it: pairs anywhere are read one by one.
    const bool pairs = p.outputs && p.outputs->y;
    const index tile = pairs ? cuda::widened_tile : cuda::tile_bytes / size_of(in);
    sizes_ = {.state = state_, .tile = tile, .by_tiles = cuda::by_tiles_of(tile)};
    if (!p.outputs)
      add_flat();
    else if (p.outputs->offsets)
      add_segments();
    else
      add_outputs();
  }

 private:
  kernel make_kernel(strategy what, reading how, int first = 0, int second = 0) const {
    const reduction& r = p_.reductions[g_.reductions[0]];
    kernel k{what,
             how,
             r.in(),
             info(r.op()).inputs == 2,
             what == strategy::tiles ? p_.array.aligned : true,
             static_cast<std::uint8_t>(first),
             static_cast<std::uint8_t>(second),
             {},
             state_};
    for (const std::size_t i : g_.reductions)
      k.outputs.push_back({p_.reductions[i].op(),
                           p_.reductions[i].method().value_or(method_id::tree),
                           p_.reductions[i].acc(), p_.reductions[i].out()});
    return k;
  }
  pass& add(kernel k, int blocks, int threads, std::size_t shared,
            std::vector<argument> arguments) {
    return to_.passes.emplace_back(std::move(k), static_cast<unsigned>(blocks),
                                   static_cast<unsigned>(threads), shared, std::move(arguments),
                                   g_.reductions);
  }
  static argument number(int n) { return {number32, static_cast<std::uint64_t>(n)}; }
  static argument number(index n) { return {number64, n}; }

  void add_flat() {
    if (p_.n == 0) throw error(errc::usage, "n: no elements, of which no kernel makes a result");
    const cuda::plan of = cuda::make_plan(sizes_, p_.n, shape_);
    const bool several = of.nodes > 1;
    const argument nodes = several ? argument{workspace} : number(index{0});
    if (of.by_leaves)
      add(make_kernel(several ? strategy::leaf_nodes : strategy::one_node, reading::array),
          of.blocks, of.threads, of.shared,
          {{array}, {number32, p_.n}, number(0), nodes, {results}});
    else
      add(make_kernel(strategy::tiles, reading::array), of.blocks, of.threads, of.shared,
          {{array},
           number(index{p_.n}),
           number(of.tiles),
           number(of.nodes),
           number(index{0}),
           nodes,
           {results}});
    if (several)
      add(make_kernel(strategy::states, reading::array), 1, of.second_threads, of.second_shared,
          {nodes, {number32, of.nodes}, number(of.node), number(index{p_.n}), {results}})
          .overlaps = shape_.overlap;
    to_.workspace = std::max(to_.workspace, of.workspace);
  }

  std::size_t states_of_warps(int threads) const {
    return static_cast<std::size_t>(threads) / 32 * state_;
  }

  void add_outputs() {
    using cuda::output_plan;
    const cuda::output_elements& from = *p_.outputs;
    const bool one = from.y == nullptr;
    const output_plan of = cuda::plan_outputs(sizes_, one, from, shape_);
    const std::size_t element = size_of(from.type);
    const int many = cuda::neighbours_of_thread(state_, element);
    const auto how = one && from.in_packs && from.reduced.rank == 1 ? reading::rows
                     : one && (from.in_packs || from.unaligned)     ? reading::runs
                                                                    : reading::anywhere;
    const argument in{outputs}, to{results}, states{workspace};
    const int few_threads = std::min(of.threads, 256);
    switch (of.by) {
      case output_plan::threads_take:
        add(make_kernel(strategy::threads, reading::anywhere), of.blocks, few_threads, 0,
            {in, number(of.node), number(of.nodes), states, to});
        break;
      case output_plan::threads_take_short_columns:
        add(make_kernel(strategy::short_columns, reading::anywhere, many,
                        from.n <= order::lanes ? 1 : 2),
            of.blocks, of.threads, 0, {in, to});
        break;
      case output_plan::threads_take_columns:
        add(make_kernel(strategy::columns, reading::anywhere, many), of.blocks, of.threads,
            of.shared,
            {in, number(of.parts), number(of.split), number(of.node), number(of.nodes), states,
             to});
        break;
      case output_plan::teams_take: {
        const int rows = from.n <= order::lanes       ? 1
                         : from.n <= 2 * order::lanes ? 2
                         : from.n <= 4 * order::lanes ? 4
                                                      : order::rows;
        add(make_kernel(strategy::row_teams, reading::rows, rows,
                        rows <= 2   ? 4
                        : rows == 4 ? 2
                                    : 1),
            of.blocks, of.threads, 0, {in, number(of.team), number(of.at_once), to});
        break;
      }
      case output_plan::teams_take_leaves:
        add(make_kernel(strategy::leaf_teams, reading::anywhere), of.blocks, of.threads, 0,
            {in, number(of.at_once), to});
        break;
      case output_plan::threads_take_rows:
        add(make_kernel(strategy::staged_threads, reading::anywhere), of.blocks, of.threads,
            of.shared, {in, number(of.pitch), to});
        break;
      case output_plan::warps_take:
        add(make_kernel(strategy::warps, how), of.blocks, few_threads, 0,
            {in, number(of.at_once), to});
        break;
      case output_plan::blocks_take:
        add(make_kernel(strategy::blocks, how), of.blocks, of.threads, of.shared,
            {in, number(of.tiles), number(of.nodes), states, to});
        break;
      case output_plan::by_length: break;  // add_segments
    }
    if (of.nodes > 1)
      add(make_kernel(strategy::output_states, reading::anywhere), of.second_blocks,
          of.second_threads, states_of_warps(of.second_threads),
          {in, states, number(of.node), number(of.nodes), number(of.nodes_of_warp), to});
    to_.workspace = std::max(to_.workspace, of.workspace);
  }

  void add_segments() {
    const cuda::output_elements& from = *p_.outputs;
    const bool one = from.y == nullptr;
    const cuda::output_plan of = cuda::plan_outputs(sizes_, one, from, shape_);
    const argument in{outputs}, to{results}, list{listed_nodes};
    const auto listed = [&](pass& made) { made.list = of.list; };
    pass& first = add(make_kernel(strategy::short_segments, reading::anywhere),
                      std::min(of.blocks, 1 << 11), std::min(of.threads, 256), 0, {in, list, to});
    listed(first);
    first.cleared_bytes = of.list.room > 0 ? sizeof(index[2]) : 0;
    // Elements that keys have sorted, two inputs', have places of their own.
    const bool lines = one && !from.places;
    add(make_kernel(lines ? strategy::leaf_teams : strategy::warps, reading::anywhere), of.blocks,
        std::min(of.threads, lines ? 128 : 256), 0, {in, number(of.at_once), to});
    if (of.list.room > 0) {
      // Elements of one or two bytes are not read across packs, as there may be none behind them.
      const bool across = lines && size_of(from.type) > 2;
      listed(add(make_kernel(strategy::segment_nodes, across ? reading::runs : reading::anywhere),
                 of.list_blocks, of.threads, of.shared,
                 {{across ? unaligned_outputs : outputs}, list, to}));
    }
    if (of.list.room_for_several > 0)
      listed(add(make_kernel(strategy::segment_states, reading::anywhere), of.second_blocks,
                 of.second_threads, states_of_warps(of.second_threads), {in, list, to}));
    to_.workspace = std::max(to_.workspace, of.workspace);
  }

  plan& to_;
  const problem& p_;
  const group& g_;
  const cuda::launch& shape_;
  const std::size_t state_;
  cuda::sizes sizes_{};
};

}  // namespace

plan make_plan(const problem& p, const cuda::launch& shape) {
  plan made{};
  for (const group& g : groups_of(p.reductions)) planner(made, p, g, shape);
  return made;
}

}  // namespace bitfold::gpu
