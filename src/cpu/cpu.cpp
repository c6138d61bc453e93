#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "../dispatch.hpp"
#include "../fp_environment.hpp"
#include "backend.hpp"

namespace bitfold::cpu {
namespace {

constexpr std::string_view target_names[] = {"scalar", "avx2", "avx512"};

thread_local target reported = target::scalar;

// Below this many bytes for each thread, a second thread costs more than it brings.
constexpr std::size_t bytes_worth_a_thread = std::size_t{1} << 19;

// How n elements are shared out: `chunks` complete subtrees of `leaves` leaves; the last may be less.
struct plan {
  order::index leaves;
  order::index chunks;
};

plan make_plan(std::size_t bytes, std::size_t n, int threads) {
  const order::index total = order::leaf_count(n);
  const auto workers = std::min<std::size_t>(static_cast<std::size_t>(threads), bytes / bytes_worth_a_thread);
  if (workers < 2 && total <= most_leaves) return {total, 1};
  order::index leaves = total;
  // About eight chunks for each thread, so that a thread that starts late delays nobody.
  if (workers >= 2) leaves = std::bit_ceil(total / (8 * workers) + 1);
  leaves = std::min(leaves, most_leaves);
  return {leaves, (total + leaves - 1) / leaves};
}

// Room for any fold's settled state.
struct alignas(16) state_storage {
  std::byte bytes[48];
};

// A settled state and the number of elements that it is of.
struct folded {
  state_storage state;
  order::index n = 0;
};

// What is done with settled states, whatever they are.
struct state_functions {
  folded (*merge)(const folded& a, const folded& b);
  scalar (*finish)(const reduction& r, const folded& s);
};

template <class Chosen>
struct functions_of {
  using F = typename Chosen::fold;
  using A = typename Chosen::accumulator;
  using state = fold::settled<F, A>;
  static_assert(sizeof(state) <= sizeof(state_storage) && std::is_trivially_copyable_v<state>);

  static state load(const folded& s) {
    state v;
    std::memcpy(&v, &s.state, sizeof v);
    return v;
  }
  BITFOLD_OPAQUE static folded merge(const folded& a, const folded& b) {
    folded out;
    const state v = F::merge(load(a), load(b), fold::counts{a.n, b.n});
    std::memcpy(&out.state, &v, sizeof v);
    out.n = a.n + b.n;
    return out;
  }
  BITFOLD_OPAQUE static scalar finish(const reduction& r, const folded& s) {
    return detail::finished<Chosen>(r, load(s), s.n);
  }
};

state_functions functions_for(const reduction& r) {
  return detail::dispatch<algebra>(r, []<class Chosen>(Chosen) -> state_functions {
    if constexpr (Chosen::fold::ordering == ordering::canonical)
      return {functions_of<Chosen>::merge, functions_of<Chosen>::finish};
    else
      return {};
  });
}

// One reduction of those that are done in one pass.
struct task {
  kernels run;
  state_functions states;
};

kernels find_kernels(target t, const reduction& r) {
  switch (t) {
    case target::scalar: break;
    case target::avx2: return find_kernels_of<target::avx2>(r);
    case target::avx512: return find_kernels_of<target::avx512>(r);
  }
  return find_kernels_of<target::scalar>(r);
}

// What has no kernels: a sort, or an order without parallel parts, where there is nothing to make fast.
scalar reduce_without_kernels(const reduction& r, inputs data, std::size_t n, int threads) {
  if (detail::ordering_of(r) == ordering::sorted)
    return {r.out(), count_distinct(r.in(), data.x, n, threads)};
  return reference(r, data.x, data.y, n);
}

// The same call often comes again, and looking it up takes longer than a short array.
const task& task_for(target t, const reduction& r) {
  struct found {
    target by;
    reduction what;
    task how;
  };
  thread_local std::optional<found> last;
  if (!last || last->by != t || last->what != r)
    last = found{t, r, {find_kernels(t, r), functions_for(r)}};
  return last->how;
}

// A binary counter of the states of equal runs, the last of which may be shorter.
class run_counter {
 public:
  void push(const state_functions& f, folded s) {
    for (order::index carries = runs_++; carries & 1; carries >>= 1) {
      s = f.merge(pending_.back(), s);
      pending_.pop_back();
    }
    pending_.push_back(s);
  }
  folded total(const state_functions& f) const {
    folded s = pending_.back();
    for (auto left = pending_.rbegin() + 1; left != pending_.rend(); ++left) s = f.merge(*left, s);
    return s;
  }

 private:
  order::index runs_ = 0;
  std::vector<folded> pending_;
};

struct job {
  std::span<const task> tasks;
  inputs data;
  std::size_t n, element;  // bytes of one
  plan parts;
};

inputs offset(inputs data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data.x) + bytes,
          data.y ? static_cast<const std::byte*>(data.y) + bytes : nullptr};
}

folded run_whole(const task& t, inputs data, std::size_t n, order::index first, target& by) {
  folded s;
  s.n = n;
  by = t.run.fold(data, n / order::leaf, static_cast<int>(n % order::leaf), first, &s.state);
  return s;
}

// One chunk of all tasks; out has a state for each.
target run_chunk(const job& j, order::index chunk, folded* out) {
  const std::size_t first = chunk * j.parts.leaves * order::leaf;
  const std::size_t n = std::min<std::size_t>(j.parts.leaves * order::leaf, j.n - first);
  const inputs data = offset(j.data, first * j.element);
  target by = target::scalar;
  if (j.tasks.size() == 1 && !j.tasks[0].run.convert) {
    out[0] = run_whole(j.tasks[0], data, n, first, by);
    return by;
  }
  // Run by run, each small enough to stay in the first-level cache for every task.
  constexpr std::size_t run = 16 * order::leaf;
  std::vector<run_counter> counters(j.tasks.size());
  std::vector<std::byte> converted(2 * run * sizeof(double));
  for (std::size_t at = 0; at < n; at += run) {
    const std::size_t here = std::min(run, n - at);
    const inputs stored = offset(data, at * j.element);
    converter last = nullptr;
    for (std::size_t k = 0; k < j.tasks.size(); ++k) {
      const task& t = j.tasks[k];
      inputs from = stored;
      if (t.run.convert) {
        from = {converted.data(), stored.y ? converted.data() + run * sizeof(double) : nullptr};
        if (t.run.convert != last) {
          t.run.convert(stored.x, here, converted.data());
          if (stored.y) t.run.convert(stored.y, here, converted.data() + run * sizeof(double));
          last = t.run.convert;
        }
      }
      counters[k].push(t.states, run_whole(t, from, here, first + at, by));
    }
  }
  for (std::size_t k = 0; k < j.tasks.size(); ++k) out[k] = counters[k].total(j.tasks[k].states);
  return by;
}

// All chunks, on up to `threads` threads; states has all tasks of chunk 0, then of chunk 1, ...
target run_chunks(const job& j, int threads, folded* states) {
  const order::index chunks = j.parts.chunks;
  const std::size_t tasks = j.tasks.size();
  target by = target::scalar;
  if (threads == 1) {
    for (order::index c = 0; c < chunks; ++c) by = run_chunk(j, c, states + c * tasks);
    return by;
  }
  // A caller's tasks may be cancelled, which ours must not be; and while this thread waits for others
  // to end, it must not start its caller's next task, which may want a lock that it holds.
  std::vector<std::optional<target>> ran(chunks);
  tbb::task_group_context context(tbb::task_group_context::isolated);
  const auto all_chunks = [&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(
          order::index{0}, chunks,
          [&](order::index c) {
            const detail::fp_environment guard;  // this may be any thread
            ran[c] = run_chunk(j, c, states + c * tasks);
          },
          tbb::static_partitioner(), context);
    });
  };
  if (threads >= tbb::info::default_concurrency()) {
    all_chunks();  // in whatever arena the caller is in
  } else {
    // Making an arena and calling its threads in costs more than many a reduction: keep the last one.
    thread_local std::unique_ptr<tbb::task_arena> arena;
    if (!arena || arena->max_concurrency() != threads)
      arena = std::make_unique<tbb::task_arena>(threads);
    arena->execute(all_chunks);
  }
  for (const auto& r : ran)
    if (!r) throw std::logic_error("bitfold: the threading runtime left out a part of the array");
  return *ran[0];
}

}  // namespace

std::string_view name(target t) { return target_names[static_cast<int>(t)]; }

std::optional<target> parse_target(std::string_view text) {
  for (target t : {target::scalar, target::avx2, target::avx512})
    if (name(t) == text) return t;
  return std::nullopt;
}

std::vector<target> available_targets() {
  const reduction r = make_reduction(op_id::sum, {}, dtype::f32);
  std::vector<target> all;
  for (target t : {target::scalar, target::avx2, target::avx512})
    if (find_kernels(t, r).fold) all.push_back(t);
  return all;
}

target last_target() { return reported; }

void reduce(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
            std::span<scalar> out, const options& how) {
  static const std::vector<target> available = available_targets();
  const target chosen = how.target.value_or(available.back());
  if (std::find(available.begin(), available.end(), chosen) == available.end())
    throw error(errc::usage, "target: " + std::string(name(chosen)) +
                                 " is not available on this machine or in this build");
  if (how.threads < 0)
    throw error(errc::usage, "threads: " + std::to_string(how.threads) + " is negative");
  if (out.size() != all.size())
    throw error(errc::usage, "out: room for " + std::to_string(out.size()) + " results of " +
                                 std::to_string(all.size()) + " reductions");
  if (all.empty()) return;
  const dtype in = all[0].in();
  for (const reduction& r : all) {
    detail::check_inputs(r, x, y, n);
    if (r.in() != in)
      throw error(errc::usage, "reductions: of " + std::string(name(in)) + " and of " +
                                   std::string(name(r.in())) + " in one pass");
  }
  if (n == 0) {
    std::vector<scalar> results;  // all of them, or an error and none
    for (const reduction& r : all) results.push_back(detail::empty_result(r));
    std::copy(results.begin(), results.end(), out.begin());
    return;
  }

  // For the arithmetic on this thread, and because the threading runtime's own raises flags.
  const detail::fp_environment guard;
  job j{{}, {x, y}, n, size_of(in), {}};
  const std::size_t bytes = n * j.element * (y ? 2 : 1);
  const bool may_share = how.threads != 1 && bytes >= 2 * bytes_worth_a_thread;
  const int threads = !may_share         ? 1
                      : how.threads == 0 ? tbb::info::default_concurrency()
                                         : std::min(how.threads, most_threads);
  j.parts = make_plan(bytes, n, threads);

  // The usual case needs no memory.
  if (all.size() == 1 && j.parts.chunks == 1) {
    const task& t = task_for(chosen, all[0]);
    reported = target::scalar;
    if (t.run.fold) {
      folded s;
      j.tasks = {&t, 1};
      reported = run_chunk(j, 0, &s);
      out[0] = t.states.finish(all[0], s);
    } else {
      out[0] = reduce_without_kernels(all[0], j.data, n, threads);
    }
    return;
  }
  std::vector<task> tasks;
  std::vector<std::size_t> whose;
  reported = target::scalar;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const task t{find_kernels(chosen, all[k]), functions_for(all[k])};
    if (t.run.fold) {
      tasks.push_back(t);
      whose.push_back(k);
    } else {
      out[k] = reduce_without_kernels(all[k], j.data, n, threads);
    }
  }
  if (tasks.empty()) return;
  j.tasks = tasks;
  std::vector<folded> states(j.parts.chunks * tasks.size());
  reported = run_chunks(j, j.parts.chunks == 1 ? 1 : threads, states.data());
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const auto get = [&](order::index c) { return states[c * tasks.size() + k]; };
    out[whose[k]] = tasks[k].states.finish(
        all[whose[k]], order::fold(0, j.parts.chunks, get, tasks[k].states.merge));
  }
}

scalar reduce(const reduction& r, const void* data, std::size_t n, const options& how) {
  scalar out{};
  reduce({&r, 1}, data, nullptr, n, {&out, 1}, how);
  return out;
}

scalar reduce(const reduction& r, const void* x, const void* y, std::size_t n, const options& how) {
  scalar out{};
  reduce({&r, 1}, x, y, n, {&out, 1}, how);
  return out;
}

}  // namespace bitfold::cpu
