// Functions of channels on a GPU: plans, and the calls that run them.
#include "channels.hpp"

#include <algorithm>
#include <bitfold/cuda/plan.hpp>
#include <string>

#include "../channel_functions.hpp"
#include "launcher.hpp"
#include "output_plan.hpp"

namespace bitfold::gpu {
namespace {

using cuda::channel_elements;
using cuda::channel_places;

bool is_at_a_multiple(const void* p, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

channel_places places_of(const channels& of) {
  channel_places p{of, {}, {}};
  p.extents.rank = 4;
  const std::size_t extents[] = {of.outer, of.count / of.sharing, of.sharing, of.inner};
  for (int k = 0; k < 4; ++k) p.extents.dims[k].extent = extents[k];
  p.by = cuda::divisors_of(p.extents);
  return p;
}

std::string of_type(const channels& of) { return "using element = " + type_name(of.type) + ";\n"; }

// ---- Maps ---------------------------------------------------------------------------------------

pass map(channel_function f, const channels& of, void* out, const device_facts& on) {
  const std::size_t size = size_of(of.type), packet = 16 / size;
  const bool in_packets = is_at_a_multiple(of.x, 16) && is_at_a_multiple(of.y, 16) &&
                          is_at_a_multiple(out, 16),
             beside = in_packets && of.inner == 1 && of.sharing == 1 && !of.of_each_outer &&
                      of.count % packet == 0;
  const std::size_t owned = in_packets ? packet : 1;
  const std::string_view name = beside ? "map_channels_beside" : "map_channels";
  instantiation k{
      name, "bitfold/cuda/channels.cuh",
      of_type(of) + "using function = channel::" + std::string(channel::name(f)) + ";\n",
      "bitfold::cuda::" + std::string(name) + "<kernel::function, kernel::element, " +
          std::to_string(owned) + ">"};
  const std::size_t of_block = cuda::threads_on_channels * owned,
                    blocks = (of.size() + of_block - 1) / of_block,
                    most = static_cast<std::size_t>(on.processors) * 32;
  pass p{std::move(k), static_cast<unsigned>(std::min(blocks, most)), cuda::threads_on_channels};
  p.with.add(places_of(of)).add(out);
  const bool two = channel::visit(f, []<class F>(std::type_identity<F>) { return F::takes_y; });
  p.bytes_read = of.size() * size * (two ? 2 : 1);
  return p;
}

// ---- What gradients sum -------------------------------------------------------------------------

// How the elements of a pass's outputs lie: those of x alone, which those of y lie like.
channel_elements elements_of(const channels& of, const channel::sums_pass& p) {
  const auto layout = detail::layout_of(channel::view_of(of), nullptr, channel::axes_of(of, p));
  channel_elements e{cuda::elements_of(layout), places_of(of)};
  e.x = of.x;
  e.y = of.y;
  e.two_alike = true;
  e.unaligned = false;
  // A thread reads packets of one line; and of columns the parameters once.
  const bool aligned = is_at_a_multiple(of.y, 16);
  e.in_packs = e.in_packs && aligned && of.inner % (cuda::bytes_of_pair / size_of(of.type)) == 0;
  e.columns = e.columns && aligned && of.inner == 1 && !of.of_each_outer;
  return e;
}

// Whether an output's elements are of one channel, and of one statistic.
bool has_one_channel(const channels& of, const channel::sums_pass& p) {
  return p.of_channels ? !of.of_each_outer : of.sharing == 1;
}

class planner {
 public:
  planner(plan& to, const channels& of, const channel::sums_pass& p, const tuning& by)
      : to_(to),
        p_(p),
        from_(elements_of(of, p)),
        both_(p.weighted && p.plain && of.w),
        sizes_(cuda::sizes_of_alike_pairs(size_of_states(of.type, both_), size_of(of.type))),
        of_(plan_outputs(sizes_, from_, {}, by)) {
    const std::string folds = both_ ? "both_sums" : p.weighted ? "sums<true>" : "sums<false>";
    definitions_ =
        of_type(of) +
        "using accumulator = row::accumulator<element>;\nusing folds = channel::" + folds +
        ";\nusing source = cuda::" + (from_.in_packs ? "alike_packets" : "alike_pairs") +
        "<cuda::channel_known<element, " + (has_one_channel(of, p) ? "true" : "false") +
        ">, element>;\nusing results = cuda::channel_results<" + (both_ ? "true" : "false") +
        ", accumulator>;\nstatic_assert(sizeof(fold::partial<folds, accumulator>) == " +
        std::to_string(sizes_.state) +
        " && cuda::engine<folds, source, accumulator>::tile == " + std::to_string(sizes_.tile) +
        ");\n";
  }

  void add() {
    add_elements();
    if (of_.nodes > 1) add_states();
    to_.workspace = std::max(to_.workspace, of_.workspace);
  }

 private:
  static std::size_t size_of_states(dtype type, bool both) {
    return (both ? 4 : 2) * (type == dtype::f64 ? sizeof(double) : sizeof(float));
  }

  pass& add_pass(strategy what, int blocks, int threads, std::size_t shared) {
    return std::get<pass>(to_.steps.emplace_back(
        pass{fold_of(what, of_.numbers.first, of_.numbers.second, "bitfold/cuda/channel_sums.cuh",
                     definitions_),
             static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared}));
  }
  void add_elements() {
    pass& p = add_pass(of_.by, of_.blocks, of_.threads, of_.shared);
    p.line = of_.line;
    p.bytes_read = 2 * from_.outputs * from_.n * size_of(from_.type);
    p.with.add(from_);
    add_numbers(p.with, of_, in_workspace(0));
    p.with.add(p_.to);
  }
  void add_states() {
    pass& p =
        add_pass(strategy::output_states, of_.second_blocks, of_.second_threads, of_.second_shared);
    p.with.add(static_cast<const cuda::output_elements&>(from_));
    add_state_numbers(p.with, of_, in_workspace(0), of_.node, of_.nodes);
    p.with.add(p_.to);
  }

  plan& to_;
  const channel::sums_pass& p_;
  const channel_elements from_;
  const bool both_;
  const cuda::sizes sizes_;
  const output_plan of_;
  std::string definitions_;
};

}  // namespace

plan plan_channels(channel_function f, const channels& of, void* out, const device_facts& on) {
  plan made;
  if (of.size() > 0) made.steps.emplace_back(map(f, of, out, on));
  return made;
}

plan plan_gradient_sums(const channels& of, const channel_sums& to, const tuning& by) {
  plan made;
  for (const channel::sums_pass& p : channel::passes_of(of, to)) planner(made, of, p, by).add();
  return made;
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {

void apply(channel_function f, const channels& of, void* out, stream where) {
  channel::check(f, of, out);
  (void)gpu::the_driver();
  if (of.size() == 0) return;
  gpu::run(gpu::plan_channels(f, of, out, gpu::facts_of_current_device()), {}, where);
}

std::size_t gradient_sums_workspace_bytes(const channels& of, const channel_sums& to) {
  channel::check(of, to);
  return gpu::plan_gradient_sums(of, to, *gpu::facts_of_current_device().numbers).workspace;
}

void gradient_sums(const channels& of, const channel_sums& to, void* workspace,
                   std::size_t workspace_size, stream where) {
  channel::check(of, to);
  (void)gpu::the_driver();
  const gpu::plan p = gpu::plan_gradient_sums(of, to, *gpu::facts_of_current_device().numbers);
  check_workspace(workspace, workspace_size, p.workspace);
  gpu::run(p, {.workspace = workspace}, where);
}

}  // namespace bitfold::cuda
