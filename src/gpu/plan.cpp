#include "plan.hpp"

#include <algorithm>
#include <bitfold/cuda/plan.hpp>
#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "../dispatch.hpp"
#include "array_plan.hpp"
#include "groups.hpp"
#include "output_plan.hpp"

namespace bitfold::gpu {
namespace {

using order::index;

// Sizes of what a kernel of a group folds, which its plan depends on.
cuda::sizes sizes_of(const problem& p, const group& g) {
  const std::size_t size = size_of(p.reductions[g.reductions[0]].in()), state = g.state_bytes();
  if (!p.outputs || !p.outputs->two)
    return {.state = state,
            .tile = cuda::tile_bytes / size,
            .stored = true,
            .columns = cuda::neighbours_of_thread(state, size)};
  if (p.outputs->two_alike) return cuda::sizes_of_alike_pairs(state, size);
  return {.state = state, .tile = cuda::widened_tile, .stored = true};  // which are read one by one
}

// The passes of one group, one behind the other.
class planner {
 public:
  planner(plan& to, const problem& p, const group& g, const cuda::launch& shape, const tuning& by)
      : to_(to), p_(p), g_(g), shape_(shape), by_(by), sizes_(sizes_of(p, g)) {}

  /// Bytes of the workspace, behind those that others use.
  std::size_t add() {
    if (!p_.outputs) return add_flat();
    if (p_.outputs->listed) return add_segments();
    return add_axes();
  }

 private:
  fold_kernel make_kernel(strategy what, reading how, int first = 0, int second = 0) const {
    const reduction& r = p_.reductions[g_.reductions[0]];
    const bool two = info(r.op()).inputs == 2;
    fold_kernel k{
        what,
        how,
        r.in(),
        two,
        // Pairs' kernels look: without that question their loads are mixed with the fold,
        // which takes up to 11 % more time.
        (what == strategy::tiles || what == strategy::tile_nodes) && !two ? p_.aligned : true,
        static_cast<std::uint8_t>(first),
        static_cast<std::uint8_t>(second),
        {},
        sizes_.state};
    for (const std::size_t i : g_.reductions)
      k.outputs.push_back({p_.reductions[i].op(),
                           p_.reductions[i].method().value_or(method_id::tree),
                           p_.reductions[i].acc(), p_.reductions[i].out()});
    return k;
  }
  pass& add_pass(fold_kernel k, int blocks, int threads, std::size_t shared) {
    return std::get<pass>(to_.steps.emplace_back(
        pass{std::move(k), static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared}));
  }
  place state(index k = 0) const { return in_workspace(p_.workspace + k * sizes_.state); }

  std::size_t add_flat() {
    if (p_.n == 0) throw error(errc::usage, "n: no elements, of which no kernel makes a result");
    const auto [of, line] = plan_array(sizes_, p_.n, shape_, by_);
    const bool several = of.nodes > 1;
    // Of the nodes, those whose elements are there.
    const index begin = p_.first / of.node,
                end = std::min(of.nodes, (p_.first + p_.count + of.node - 1) / of.node),
                before = begin * of.node, here = (end == of.nodes ? p_.n : end * of.node) - before;
    const place nodes = several ? state(begin) : place{};
    const auto blocks =
        static_cast<int>(std::min<index>(static_cast<index>(of.blocks), end - begin));
    const reduction& r = p_.reductions[g_.reductions[0]];
    const cuda::elements array{nullptr, nullptr, r.in(), p_.aligned};
    pass& first =
        add_pass(make_kernel(of.by_leaves ? several ? strategy::leaf_nodes : strategy::one_node
                             : several    ? strategy::tile_nodes
                                          : strategy::tiles,
                             reading::array),
                 blocks, of.threads, of.shared);
    first.line = line;
    first.bytes_read = p_.count * size_of(r.in()) * static_cast<std::size_t>(info(r.op()).inputs);
    first.with.add(array)
        .set(offsetof(cuda::elements, x), p_.x)
        .set(offsetof(cuda::elements, y), info(r.op()).inputs == 2 ? p_.y : place{});
    if (of.by_leaves)
      first.with.add(static_cast<int>(here)).add(static_cast<int>(before));
    else
      first.with.add(here).add(of.tiles).add(end - begin).add(before);
    first.with.add_address(nodes);
    // Pairs' kernels of nodes have no code for results (fused.cuh), which takes 11 % of mse of f64;
    // of one input it would be sums of f64 that take 10 % more time without.
    if (several && !of.by_leaves && info(r.op()).inputs == 2)
      first.with.add(std::uint64_t{0});
    else
      add_results(first.with, p_, g_.reductions);
    if (several && end == of.nodes) {
      pass& second = add_pass(make_kernel(strategy::states, reading::array), 1, of.second_threads,
                              of.second_shared);
      second.overlaps = shape_.overlap;
      second.with.add_address(state())
          .add(static_cast<int>(of.nodes))
          .add(of.node)
          .add(index{p_.n});
      add_results(second.with, p_, g_.reductions);
    }
    return of.workspace;
  }

  std::size_t add_axes() {
    const cuda::output_elements& from = *p_.outputs;
    const bool one = !from.two;
    const output_plan of = plan_outputs(sizes_, from, shape_, by_);
    const auto one_by_one = from.two_alike ? reading::alike : reading::anywhere;
    const auto how = from.two_alike && from.in_packs                  ? reading::alike_packets
                     : one && from.in_packs && from.reduced.rank == 1 ? reading::rows
                     : one && (from.in_packs || from.unaligned)       ? reading::runs
                                                                      : one_by_one;
    if (of.by == strategy::patches || of.by == strategy::across) return add_leaves(from, of);
    // The pass over the elements.
    const auto add = [&](fold_kernel k) {
      pass& p = add_pass(std::move(k), of.blocks, of.threads, of.shared);
      p.line = of.line;
      p.bytes_read = from.outputs * from.n * size_of(from.type) * (from.two ? 2 : 1);
      add_outputs(p.with, p_, from);
      add_numbers(p.with, of, state());
      add_results(p.with, p_, g_.reductions);
    };
    const auto add_reading = [&](reading as) {
      add(make_kernel(of.by, as, of.numbers.first, of.numbers.second));
    };
    switch (of.by) {
      case strategy::threads:
      case strategy::short_columns:
      case strategy::columns: add_reading(one_by_one); break;
      case strategy::lines:
      case strategy::leaf_teams:
      case strategy::staged_threads: add_reading(reading::anywhere); break;
      case strategy::row_teams:
      case strategy::warps:
      case strategy::blocks: add_reading(how); break;
      default:
        throw std::logic_error("no kernel of outputs on axes by " + std::string(name(of.by)));
    }
    if (of.nodes > 1) add_states(from, of, state(), of.node, of.nodes);
    return of.workspace;
  }
  void add_states(const cuda::output_elements& from, const output_plan& of, place states,
                  index node, index nodes) {
    pass& second = add_pass(make_kernel(strategy::output_states, reading::anywhere),
                            of.second_blocks, of.second_threads, of.second_shared);
    add_outputs(second.with, p_, from);
    add_state_numbers(second.with, of, states, node, nodes);
    add_results(second.with, p_, g_.reductions);
  }

  // Leaf by leaf: the nodes are leaves, of which there may be very many.
  std::size_t add_leaves(const cuda::output_elements& from, const output_plan& of) {
    const bool patches = of.by == strategy::patches;
    const reading how = from.two ? reading::alike : reading::anywhere;
    pass& first = add_pass(make_kernel(of.by, how, of.numbers.first, of.numbers.second), of.blocks,
                           of.threads, of.shared);
    first.line = of.line;
    first.bytes_read = from.outputs * from.n * size_of(from.type) * (from.two ? 2 : 1);
    add_outputs(first.with, p_, from);
    first.with.add(of.columns.inner).add(of.columns.stride).add(of.columns.beside);
    if (patches) first.with.add(of.patch.rows).add(of.patch.chunks);
    first.with.add_address(state());
    if (of.longer.each == 0) {
      add_states(from, of, state(), of.node, of.nodes);
      return of.workspace;
    }
    const place to = state().behind(of.longer.behind);
    pass& between = add_pass(make_kernel(strategy::longer_nodes, reading::anywhere),
                             of.longer.blocks, of.longer.threads, 0);
    between.with.add(index{from.n})
        .add(index{from.outputs})
        .add_address(state())
        .add(of.node)
        .add(of.nodes)
        .add(of.longer.each)
        .add_address(to);
    add_states(from, of, to, of.node * of.longer.each, of.longer.count);
    return of.workspace;
  }

  // The list of nodes, in the workspace.
  void add_list(arguments& to, const cuda::node_list& list) const {
    to.add(list);
    if (list.room == 0) return;
    const place at = state();
    using l = cuda::node_list;
    const std::size_t nodes = 2 * sizeof(index), several = nodes + list.room * sizeof(l::entry),
                      states = several + list.room_for_several * sizeof(l::entry);
    to.set(offsetof(l, counts), at)
        .set(offsetof(l, nodes), at.behind(nodes))
        .set(offsetof(l, several), at.behind(several))
        .set(offsetof(l, states), at.behind(states));
  }

  std::size_t add_segments() {
    const cuda::output_elements& from = *p_.outputs;
    const bool one = !from.two;
    const output_plan of = plan_outputs(sizes_, from, shape_, by_);
    const auto add = [&](fold_kernel k, int blocks, int threads, std::size_t shared,
                         const cuda::output_elements& read, bool has_list) -> pass& {
      pass& p = add_pass(std::move(k), blocks, threads, shared);
      p.line = of.line;
      add_outputs(p.with, p_, read);
      if (has_list) add_list(p.with, of.list);
      return p;
    };
    if (of.list.room > 0) to_.steps.emplace_back(fill{state(), sizeof(index[2])});
    const std::size_t bytes = from.total * size_of(from.type) * (from.two ? 2 : 1);
    {
      pass& p = add(make_kernel(strategy::short_segments, reading::anywhere), of.short_blocks,
                    std::min(of.threads, 256), 0, from, true);
      p.bytes_read = bytes;
      add_results(p.with, p_, g_.reductions);
    }
    // Elements that keys have sorted, two inputs', have places of their own.
    const bool lines = !from.placed;
    {
      pass& p = add(make_kernel(lines ? strategy::leaf_teams : strategy::warps, reading::anywhere),
                    of.blocks, std::min(of.threads, lines ? 128 : 256), 0, from, false);
      p.bytes_read = bytes;
      p.with.add(of.at_once);
      add_results(p.with, p_, g_.reductions);
    }
    if (of.list.room > 0) {
      const bool in_runs = one && lines;
      cuda::output_elements read = from;
      read.unaligned = read.unaligned || in_runs;
      pass& p =
          add(make_kernel(strategy::segment_nodes, in_runs ? reading::runs : reading::anywhere),
              of.list_blocks, of.threads, of.shared, read, true);
      p.bytes_read = bytes;
      add_results(p.with, p_, g_.reductions);
    }
    if (of.list.room_for_several > 0) {
      pass& p = add(make_kernel(strategy::segment_states, reading::anywhere), of.second_blocks,
                    of.second_threads, of.second_shared, from, true);
      add_results(p.with, p_, g_.reductions);
    }
    return of.workspace;
  }

  plan& to_;
  const problem& p_;
  const group& g_;
  const cuda::launch& shape_;
  const tuning& by_;
  const cuda::sizes sizes_;
};

}  // namespace

unsigned grid_of(std::size_t blocks, std::size_t n) {
  constexpr std::size_t most = (std::size_t{1} << 31) - 1;
  if (blocks > most)
    throw error(errc::usage, "n: " + std::to_string(n) + " elements, which want " +
                                 std::to_string(blocks) + " blocks, and a grid has at most " +
                                 std::to_string(most));
  return static_cast<unsigned>(blocks);
}

void add_folds(plan& to, const problem& p, std::span<const std::size_t> which,
               const cuda::launch& shape, const tuning& by) {
  problem one = p;
  for (const group& g : groups_of(p.reductions, which, by)) {
    const std::size_t bytes = planner(to, one, g, shape, by).add();
    to.workspace = std::max(to.workspace, one.workspace + bytes);
    // What parts of an array leave is kept from one to the next.
    if (p.is_in_parts()) one.workspace += rounded_up(bytes);
  }
}

std::size_t node_of(const problem& p, std::span<const std::size_t> which, const cuda::launch& shape,
                    const tuning& by) {
  std::size_t node = 1;
  for (const group& g : groups_of(p.reductions, which, by))
    node = std::lcm(node, plan_array(sizes_of(p, g), p.n, shape, by).of.node);
  return node;
}

void add_numbers(arguments& to, const output_plan& of, place states) {
  switch (of.by) {
    case strategy::threads: to.add(of.node).add(of.nodes); break;
    case strategy::columns: to.add(of.parts).add(of.split).add(of.node).add(of.nodes); break;
    case strategy::blocks: to.add(of.tiles).add(of.nodes); break;
    case strategy::row_teams: to.add(of.team).add(of.at_once); return;
    case strategy::leaf_teams:
    case strategy::warps: to.add(of.at_once); return;
    case strategy::staged_threads: to.add(of.pitch); return;
    case strategy::lines:
    case strategy::short_columns: return;
    default:
      throw std::logic_error("no arguments of outputs on axes by " + std::string(name(of.by)));
  }
  to.add_address(of.nodes > 1 ? states : place{});
}
void add_state_numbers(arguments& to, const output_plan& of, place states, index node,
                       index nodes) {
  to.add_address(states).add(node).add(nodes).add(of.nodes_of_warp);
}

void add_results(arguments& to, const problem& p, std::span<const std::size_t> which) {
  std::vector<cuda::result_place> all;
  for (const std::size_t k : which) {
    const reduction& r = p.reductions[k];
    // An array has elements. Of what has no result for none, the caller has made sure that there
    // are some.
    const bool may_be_empty = p.outputs && info(r.op()).empty != if_empty::refused;
    all.push_back({nullptr, may_be_empty ? detail::empty_result(r).bits : 0, r.ddof()});
  }
  to.add_bytes(all.data(), all.size() * sizeof(all[0]));
  for (std::size_t i = 0; i < which.size(); ++i)
    to.set(i * sizeof(all[0]) + offsetof(cuda::result_place, to), p.result(which[i]));
}

void add_outputs(arguments& to, const problem& p, const cuda::output_elements& from) {
  using e = cuda::output_elements;
  to.add(from).set(offsetof(e, x), p.x);
  if (from.two) to.set(offsetof(e, y), p.y);
  if (from.listed) to.set(offsetof(e, offsets), p.offsets);
  if (from.placed) to.set(offsetof(e, places), p.places);
}

}  // namespace bitfold::gpu
