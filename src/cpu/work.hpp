// The reductions of many outputs, and the ways to run them.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "../batch.hpp"
#include "exact.hpp"
#include "task.hpp"

namespace bitfold::cpu {

/// What is done for each output, and where its results go.
struct work {
  const detail::batch& source;
  std::span<const reduction> reductions;
  std::span<void* const> out;
  target used;
  std::vector<task> tasks;  ///< by kernels, one for all reductions that fold alike
  struct task_result {
    std::size_t task, reduction;
    state_functions states;
  };
  std::vector<task_result> task_results;
  std::vector<std::size_t>
      whole_reductions;         ///< reductions that have none, and want all elements at once
  detail::exact_sums sums;      ///< of exact ones, empty
  bool wants_partials = false;  ///< partials are wanted, not results
  double_sums in_doubles{};     ///< where an exact sum of floats is all that is wanted

  /// Whether all have kernels.
  bool only_tasks() const { return task_results.size() == reductions.size(); }
  /// Reduction k by kernels.
  void add_task(std::size_t k, const task& t) {
    const auto alike = std::find_if(tasks.begin(), tasks.end(), [&](const task& other) {
      return other.kernels.fold == t.kernels.fold && other.kernels.convert == t.kernels.convert;
    });
    task_results.push_back({static_cast<std::size_t>(alike - tasks.begin()), k, t.states});
    if (alike == tasks.end()) tasks.push_back(t);
  }
  void* result_address(std::size_t k, std::uint64_t output) const {
    return static_cast<std::byte*>(out[k]) + output * size_of(reductions[k].out());
  }
  void put(std::size_t k, std::uint64_t output, scalar v) const {
    store_scalar(v, result_address(k, output));
  }
  /// Of `count` outputs from `first` on, of n elements each.
  void put_states(std::size_t t, std::uint64_t first, std::size_t count, const void* states,
                  std::uint64_t n) const {
    for (const task_result& r : task_results) {
      if (r.task != t) continue;
      if (wants_partials)
        std::memcpy(static_cast<std::byte*>(out[r.reduction]) + first * r.states.size, states,
                    count * r.states.size);
      else
        r.states.finish(reductions[r.reduction], states, count, n,
                        result_address(r.reduction, first));
    }
  }
};

inline inputs as_inputs(detail::pointers p) { return {p.x, p.y}; }

struct column_plan;
struct block_plan;

/// All outputs side by side.
void run_columns(const work& w, const detail::layout& l, const column_plan& p, int threads);
/// Columns that are one output together.
void run_joined_columns(const work& w, const detail::layout& l, const column_plan& p,
                        std::uint64_t output, int threads);
/// Outputs that lie in a row each, or are short, several at a time.
void run_rows(const work& w, const detail::layout& l, int threads);
/// Outputs whose elements do not lie in a row, one by one, block by block. Says which target folded
/// them.
target run_blocks(const work& w, const detail::layout& l, const block_plan& p, std::uint64_t first,
                  std::uint64_t end, int threads);

}  // namespace bitfold::cpu
