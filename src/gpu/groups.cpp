#include "groups.hpp"

#include <algorithm>
#include <bitfold/error.hpp>
#include <bitfold/fold.hpp>

#include "../dispatch.hpp"
#include "plan.hpp"

namespace bitfold::gpu {
namespace {

template <class F, class A>
constexpr char key = 0;

fold_facts fold_of(const reduction& r) {
  return detail::dispatch<algebra>(r, []<class Chosen>(Chosen) -> fold_facts {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering == ordering::canonical) {
      using base = typename F::accumulation;
      using state = fold::partial<base, A>;
      return {&key<base, A>, sizeof(state), alignof(state)};
    } else {
      return {};
    }
  });
}

// As fold::both has them: the first state, and then all others in one.
std::size_t size_of_joint(std::span<const fold_facts> folds) {
  std::size_t size = folds.back().size, alignment = folds.back().alignment;
  for (std::size_t k = folds.size() - 1; k-- > 0;) {
    const std::size_t behind = up_to(folds[k].size, alignment);
    alignment = std::max(alignment, folds[k].alignment);
    size = up_to(behind + size, alignment);
  }
  return size;
}

}  // namespace

std::size_t group::state_bytes() const { return size_of_joint(folds); }

std::vector<group> groups_of(std::span<const reduction> all, std::span<const std::size_t> which,
                             const tuning& by) {
  std::vector<group> groups;
  for (const std::size_t k : which) {
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
      if (more.size() <= by.most_folds && size_of_joint(more) <= by.most_state_bytes) {
        g = groups.end() - 1;
        g->folds = std::move(more);
      }
    }
    if (g == groups.end()) g = groups.insert(groups.end(), {{f}, {}});
    g->reductions.push_back(k);
  }
  return groups;
}

}  // namespace bitfold::gpu
