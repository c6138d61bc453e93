#include "flat.hpp"

#include <algorithm>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/fold.hpp>

#include "../dispatch.hpp"

namespace bitfold::gpu {
namespace {

// ---- What the host knows of a reduction's fold --------------------------------------------------

template <class F, class A>
constexpr char key = 0;

struct fold_facts {
  const void* key;  // of its base and accumulator
  std::size_t size, alignment;
};

fold_facts fold_of(const reduction& r) {
  return detail::dispatch<algebra>(r, []<class Chosen>(Chosen) -> fold_facts {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering == ordering::canonical) {
      using base = typename F::base;
      using state = fold::settled<base, A>;
      return {&key<base, A>, sizeof(state), alignof(state)};
    } else {
      return {};
    }
  });
}

std::size_t up_to(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// The size of states in one, as fold::both has them: the first, and then all others in one.
std::size_t size_of_joint(std::span<const fold_facts> folds) {
  std::size_t size = folds.back().size, alignment = folds.back().alignment;
  for (std::size_t k = folds.size() - 1; k-- > 0;) {
    const std::size_t behind = up_to(folds[k].size, alignment);
    alignment = std::max(alignment, folds[k].alignment);
    size = up_to(behind + size, alignment);
  }
  return size;
}

// ---- Groups, each a kernel's --------------------------------------------------------------------

// What one thread can keep of several folds.
constexpr std::size_t most_folds = 8, most_state = 128;

struct group {
  std::vector<fold_facts> folds;        // different ones
  std::vector<std::size_t> reductions;  // of the problem
};

std::vector<group> groups_of(std::span<const reduction> all) {
  std::vector<group> groups;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const fold_facts f = fold_of(all[k]);
    if (!f.key) throw error(errc::usage, "reductions: only those with a canonical order");
    const auto has = [&](const group& g) {
      return std::any_of(g.folds.begin(), g.folds.end(),
                         [&](const fold_facts& other) { return other.key == f.key; });
    };
    auto g = std::find_if(groups.begin(), groups.end(), has);
    if (g == groups.end() && !groups.empty()) {  // or one that has room
      std::vector<fold_facts> more = groups.back().folds;
      more.push_back(f);
      if (more.size() <= most_folds && size_of_joint(more) <= most_state) {
        g = groups.end() - 1;
        g->folds = std::move(more);
      }
    }
    if (g == groups.end()) g = groups.insert(groups.end(), {{f}, {}});
    g->reductions.push_back(k);
  }
  return groups;
}

// ---- Passes -------------------------------------------------------------------------------------

using enum argument::kind;

void add_passes(plan& to, const problem& p, const group& g, const cuda::launch& shape) {
  const reduction& first = p.reductions[g.reductions[0]];
  const bool two = info(first.op()).inputs == 2;
  kernel k{strategy::tiles, first.in(), two, p.aligned, {}, size_of_joint(g.folds)};
  for (const std::size_t r : g.reductions)
    k.outputs.push_back({p.reductions[r].op(), p.reductions[r].method().value_or(method_id::tree),
                         p.reductions[r].acc(), p.reductions[r].out()});
  const auto tile = static_cast<order::index>(cuda::tile_bytes / size_of(first.in()));
  const cuda::plan of = cuda::make_plan(
      {.state = k.state_bytes, .tile = tile, .by_tiles = cuda::by_tiles_of(tile)}, p.n, shape);
  const bool several = of.nodes > 1;
  const argument nodes = several ? argument{workspace, 0} : argument{number64, 0};

  pass elements{k,
                static_cast<unsigned>(of.blocks),
                static_cast<unsigned>(of.threads),
                of.shared,
                false,
                {},
                g.reductions};
  if (of.by_leaves) {
    elements.what.what = several ? strategy::leaf_nodes : strategy::one_node;
    elements.what.aligned = true;  // it reads one by one
    elements.arguments = {{inputs}, {number32, p.n}, {number32, 0}, nodes, {results}};
  } else {
    elements.arguments = {{inputs},
                          {number64, p.n},
                          {number32, static_cast<std::uint64_t>(of.tiles)},
                          {number64, of.nodes},
                          {number64, 0},
                          nodes,
                          {results}};
  }
  to.passes.push_back(std::move(elements));
  if (several) {
    k.what = strategy::states;
    k.aligned = true;
    to.passes.push_back(
        {k,
         1,
         static_cast<unsigned>(of.second_threads),
         of.second_shared,
         shape.overlap,
         {nodes, {number32, of.nodes}, {number64, of.node}, {number64, p.n}, {results}},
         g.reductions});
  }
  to.workspace = std::max(to.workspace, of.workspace);
}

}  // namespace

plan make_plan(const problem& p, const cuda::launch& shape) {
  plan made{};
  for (const group& g : groups_of(p.reductions)) add_passes(made, p, g, shape);
  return made;
}

namespace {

// As the kernels have it (fused.cuh).
struct result_place {
  void* to;
  std::int64_t ddof;
};

void launch(const pass& step, const problem& what, const cuda::elements& inputs, void* const* out,
            void* workspace, const current& where, stream on) {
  const function f = load(step.what, where, on);
  std::vector<result_place> results;
  for (const std::size_t r : step.reductions)
    results.push_back({out[r], what.reductions[r].ddof()});
  std::vector<std::uint64_t> numbers;
  numbers.reserve(step.arguments.size());  // they stay where they are
  std::vector<void*> parameters;
  for (const argument& a : step.arguments) {
    const auto number = [&](std::uint64_t value) { return &numbers.emplace_back(value); };
    switch (a.what) {
      case argument::kind::number32:  // its low half comes first
      case argument::kind::number64: parameters.push_back(number(a.value)); break;
      case argument::kind::inputs:
        parameters.push_back(const_cast<cuda::elements*>(&inputs));
        break;
      case argument::kind::workspace:
        parameters.push_back(number(reinterpret_cast<std::uintptr_t>(workspace) + a.value));
        break;
      case argument::kind::results: parameters.push_back(results.data()); break;
    }
  }
  launch_attribute early{programmatic_stream_serialization, 0, 1, {}};
  const bool overlaps = step.overlaps && facts_of_device(where.device).major >= 9;
  const launch_configuration how{{step.blocks, 1, 1},
                                 {step.threads, 1, 1},
                                 static_cast<unsigned>(step.shared_bytes),
                                 on,
                                 &early,
                                 overlaps ? 1u : 0u};
  check(the_driver().cuLaunchKernelEx(&how, f, parameters.data(), nullptr), "cuLaunchKernelEx");
}

}  // namespace

void run(const plan& p, const problem& what, const void* x, const void* y, void* const* out,
         void* workspace, stream on) {
  const current where = current_device();
  const cuda::elements inputs{x, y, what.reductions[0].in(), what.aligned};
  for (const pass& step : p.passes) launch(step, what, inputs, out, workspace, where, on);
}

}  // namespace bitfold::gpu
