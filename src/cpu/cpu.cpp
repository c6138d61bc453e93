#include <bitfold/cpu/pass.hpp>
#include <bitfold/reference.hpp>

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../binned.hpp"
#include "../dispatch.hpp"
#include "../fp_environment.hpp"
#include "exact.hpp"
#include "task.hpp"

namespace bitfold::cpu {
namespace {

constexpr std::string_view target_names[] = {"scalar", "avx2", "avx512", "neon"};

thread_local target reported = target::scalar;

// n elements as `chunks` complete subtrees of `leaves` leaves each; the last may be smaller.
struct plan {
  order::index leaves;
  order::index chunks;
};

plan make_plan(std::size_t bytes, std::size_t n, int threads) {
  const order::index total = order::leaf_count(n);
  const auto workers =
      std::min<std::size_t>(static_cast<std::size_t>(threads), bytes / bytes_worth_a_thread);
  if (workers < 2 && total <= max_leaves) return {total, 1};
  order::index leaves = total;
  if (workers >= 2) leaves = std::bit_ceil(total / chunk_count(static_cast<int>(workers)) + 1);
  leaves = std::min(leaves, max_leaves);
  return {leaves, (total + leaves - 1) / leaves};
}

template <class Chosen>
struct functions_of {
  using F = typename Chosen::fold;
  using state = fold::partial<F, typename Chosen::accumulator>;
  static_assert(sizeof(state) <= fold::max_state_bytes && std::is_trivially_copyable_v<state>);

  static state load(const void* s) {
    state v;
    std::memcpy(&v, s, sizeof v);
    return v;
  }
  BITFOLD_OPAQUE static void merge(void* a, order::index left, const void* b, order::index right) {
    const state v = F::merge(load(a), load(b), fold::counts{left, right});
    std::memcpy(a, &v, sizeof v);
  }
  BITFOLD_OPAQUE static void finish(const reduction& r, const void* states, std::size_t count,
                                    order::index n, void* out) {
    const auto* source = static_cast<const std::byte*>(states);
    auto* target_bytes = static_cast<std::byte*>(out);
    visit(r.out(), [&]<class Out>(std::type_identity<Out>) {
      if constexpr (detail::gives<Chosen::types, typename Chosen::accumulator, Out>())
        for (std::size_t k = 0; k < count; ++k) {
          const Out result = F::template finish<Out>(load(source + k * sizeof(state)),
                                                     fold::finish_parameters{n, r.ddof()});
          std::memcpy(target_bytes + k * sizeof result, &result, sizeof result);
        }
    });
  }
};

}  // namespace

state_functions functions_for(const reduction& r) {
  return detail::dispatch<algebra>(r, []<class Chosen>(Chosen) -> state_functions {
    if constexpr (Chosen::fold::ordering == ordering::canonical) {
      using f = functions_of<Chosen>;
      return {sizeof(typename f::state), f::merge, f::finish};
    } else {
      return {};
    }
  });
}

kernels find_kernels(target t, const reduction& r) { return find_kernels_for(t, r); }

scalar reduce_without_kernels(const reduction& r, inputs data, std::size_t n, int threads) {
  if (detail::ordering_of(r) == ordering::sorted)
    return {r.out(), count_distinct(r.in(), data.x, n, threads)};
  return reference(r, data.x, data.y, n);
}

namespace {

// The terms of an exact reduction, and the kernels that deposit them.
struct exact_task {
  std::span<const exact::term> terms;
  depositor add[2];
};
exact_task exact_task_for(target t, const reduction& r) {
  exact_task e;
  if (!detail::is_exact(r)) return e;
  e.terms = detail::terms_of(r);
  for (std::size_t k = 0; k < e.terms.size(); ++k)
    e.add[k] = find_depositor(t, {e.terms[k], r.in()});
  return e;
}

// The same call often comes again, and finding its kernels takes longer than a short array: so the
// last one is kept.
struct short_task {
  cpu::target target;
  reduction request;
  task ordered;
  exact_task exact;
};
const short_task& task_for(target t, const reduction& r) {
  // (Without a destructor: it is used until the thread's and the program's end, by others'
  // destructors, too.)
  static_assert(std::is_trivially_destructible_v<short_task>);
  thread_local std::optional<short_task> last;
  if (!last || last->target != t || last->request != r)
    last = short_task{t, r, {find_kernels(t, r), functions_for(r), nullptr}, exact_task_for(t, r)};
  return *last;
}

struct job {
  const pass& input;
  target best;
  std::span<const task> tasks;
  std::size_t element = 0;  // bytes of one, of one input
  plan shares{};
};

// One chunk of all tasks; out has a state for each, sums those of the exact reductions.
target run_chunk(const job& j, order::index chunk, partial* out, detail::exact_sums& sums) {
  const std::size_t first = chunk * j.shares.leaves * order::leaf;
  const std::size_t n = std::min<std::size_t>(j.shares.leaves * order::leaf, j.input.n - first);
  target used = target::scalar;
  const inputs data = j.input.generate ? inputs{}
                                       : offset({j.input.x, j.input.y},
                                                static_cast<std::ptrdiff_t>(first * j.element));
  if (j.tasks.empty() && sums.sums().size() == 1 && !j.input.generate)
    return deposit(sums, j.best, data, n);
  if (j.tasks.size() == 1 && sums.empty() &&
      (j.tasks[0].own || (!j.tasks[0].kernels.convert && !j.input.generate))) {
    fold_whole(j.tasks[0], data, n, first, out[0], used);
    return used;
  }
  // Tile by tile. A deposit looks at its elements anew with each call, so it takes several tiles at
  // once.
  constexpr std::size_t tile = tile_elements, exact_tile = 16 * tile;
  std::vector<tile_counter> counters(j.tasks.size());
  std::vector<std::byte> generated(
      j.input.generate ? (j.input.generates_pairs ? 2 : 1) * tile * j.element : 0);
  tile_folder folder;
  for (std::size_t begin = 0; begin < n; begin += tile) {
    const std::size_t taken = std::min(tile, n - begin);
    inputs stored{generated.data(),
                  j.input.generates_pairs ? generated.data() + tile * j.element : nullptr};
    if (j.input.generate)
      j.input.generate(j.input.source, first + begin, taken, generated.data(),
                       generated.data() + tile * j.element);
    else
      stored = offset(data, static_cast<std::ptrdiff_t>(begin * j.element));
    folder.fold(j.tasks, stored, taken, first + begin, used,
                [&](std::size_t k, const partial& state) { counters[k].push(j.tasks[k], state); });
    const std::size_t end = begin + taken, waiting = (end - 1) % exact_tile + 1;
    if (j.input.generate)
      deposit(sums, j.best, stored, taken);
    else if (end == n || waiting == exact_tile)
      deposit(sums, j.best, offset(data, static_cast<std::ptrdiff_t>((end - waiting) * j.element)),
              waiting);
  }
  for (std::size_t k = 0; k < j.tasks.size(); ++k) out[k] = counters[k].total(j.tasks[k]);
  return used;
}

// All chunks, on up to `threads` threads; states has all tasks of chunk 0, then of chunk 1, ...,
// and sums one for each.
target run_chunks(const job& j, int threads, partial* states, detail::exact_sums* sums) {
  std::vector<target> ran(j.shares.chunks);
  parallel_for(j.shares.chunks, threads, [&](std::size_t c) {
    ran[c] = run_chunk(j, c, states + c * j.tasks.size(), sums[c]);
  });
  return ran[0];
}

}  // namespace

void report(target t) { reported = t; }

std::string_view name(target t) { return target_names[static_cast<int>(t)]; }

std::optional<target> parse_target(std::string_view text) {
  for (target t : all_targets)
    if (name(t) == text) return t;
  return std::nullopt;
}

namespace {
bool is_available(target t) {
  return find_kernels(t, make_reduction(op_id::sum, {}, dtype::f32)).fold;
}
}  // namespace

std::vector<target> available_targets() {
  std::vector<target> targets;
  for (target t : all_targets)
    if (is_available(t)) targets.push_back(t);
  return targets;
}

target last_target() { return reported; }

namespace {

// On AMD's Zen 5 (family 26) memory is late by itself: sums and extrema from beyond the first
// caches take 0.6 to 0.85 of the time where it is asked. On Zen 4 they take 1.1 to 1.4 times as
// long, and on an Intel Xeon as long as otherwise.
std::ptrdiff_t bytes_ahead_here() {
#if defined(__x86_64__) || defined(_M_X64)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned authentic_amd = 0x68747541;  // "Auth"
  if (!__get_cpuid(0, &a, &b, &c, &d) || b != authentic_amd) return 0;
  __get_cpuid(1, &a, &b, &c, &d);
  const unsigned family = (a >> 8 & 15) + (a >> 20 & 255);
  return family >= 26 ? 2048 : 0;
#else
  return 0;
#endif
}

}  // namespace

const std::ptrdiff_t bytes_ahead = bytes_ahead_here();

target resolve_target(const options& opts) {
  static const target best = available_targets().back();
  if (opts.threads < 0)
    throw error(errc::usage, "threads: " + std::to_string(opts.threads) + " is negative");
  if (!opts.target) return best;
  if (!is_available(*opts.target))
    throw error(errc::usage, "target: " + std::string(name(*opts.target)) +
                                 " is not available on this machine or in this build");
  return *opts.target;
}

namespace {

// One reduction of an array that is not worth a second thread.
scalar reduce_short(const short_task& s, const reduction& r, inputs data, std::size_t n) {
  // For the arithmetic on this thread.
  const detail::fp_environment guard;
  if (!s.exact.terms.empty()) {
    alignas(16) std::byte sums[2][detail::max_sum_bytes];
    for (std::size_t k = 0; k < s.exact.terms.size(); ++k) {
      detail::clear_sum(s.exact.terms[k], r.in(), sums[k]);
      reported = s.exact.add[k](data, n, sums[k]);
    }
    const void* const list[] = {sums[0], sums[1]};
    return detail::finish_exact(r, list, n);
  }
  scalar out{};
  tile_folder().fold({&s.ordered, 1}, data, n, 0, reported, [&](std::size_t, const partial& state) {
    out = s.ordered.states.result(r, state.bytes, n);
  });
  return out;
}

void check(const pass& p) {
  for (const reduction& r : p.reductions) {
    if (!p.generate) detail::check_inputs(r, p.x, p.y, p.n);
    detail::check_together(p.reductions[0], r);
  }
}

// Runs p, which has elements. Writes all results but those of exact reductions, and returns the
// sums of these.
detail::exact_sums run(const pass& p, target best, std::span<scalar> out, const options& opts) {
  const detail::fp_environment guard;  // states are merged here
  const std::size_t bytes = p.n * p.element_bytes;
  const int threads = threads_for(opts, bytes);
  std::vector<task> tasks;
  std::vector<std::size_t> task_reductions;
  reported = target::scalar;
  detail::exact_sums total(p.reductions);
  for (std::size_t k = 0; k < p.reductions.size(); ++k) {
    if (detail::is_exact(p.reductions[k])) continue;
    const task t{find_kernels(best, p.reductions[k]), functions_for(p.reductions[k])};
    if (t.kernels.fold) {
      tasks.push_back(t);
      task_reductions.push_back(k);
    } else if (!p.generate) {
      out[k] = reduce_without_kernels(p.reductions[k], {p.x, p.y}, p.n, threads);
    } else {
      const std::size_t input_bytes = p.n * size_of(p.reductions[k].in());
      std::vector<std::byte> all_elements(p.generates_pairs ? 2 * input_bytes : input_bytes);
      std::byte* const second = p.generates_pairs ? all_elements.data() + input_bytes : nullptr;
      p.generate(p.source, 0, p.n, all_elements.data(), second);
      out[k] = reduce_without_kernels(p.reductions[k], {all_elements.data(), second}, p.n, threads);
    }
  }
  for (const own_fold& f : p.own_folds) tasks.push_back({{}, {}, &f});
  if (tasks.empty() && total.empty()) return total;

  job j{p, best, tasks, p.reductions.empty() ? 0 : size_of(p.reductions[0].in()),
        make_plan(bytes, p.n, threads)};
  std::vector<partial> states(j.shares.chunks * tasks.size());
  std::vector<detail::exact_sums> sums(j.shares.chunks, total);
  reported = run_chunks(j, j.shares.chunks == 1 ? 1 : threads, states.data(), sums.data());
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const auto get = [&](order::index c) { return states[c * tasks.size() + k]; };
    const auto merge = [&](const partial& a, const partial& b) { return tasks[k].merge(a, b); };
    const partial s = order::fold(0, j.shares.chunks, get, merge);
    if (const own_fold* f = tasks[k].own)
      f->finish(s.bytes, s.n, f->out);
    else
      out[task_reductions[k]] =
          tasks[k].states.result(p.reductions[task_reductions[k]], s.bytes, s.n);
  }
  for (const detail::exact_sums& s : sums) total.merge(s);
  return total;
}

// The pass over arrays as they are stored.
pass pass_over(std::span<const reduction> reductions, inputs data, std::size_t n) {
  pass p;
  p.n = n;
  p.reductions = reductions;
  p.x = data.x;
  p.y = data.y;
  if (!reductions.empty()) p.element_bytes = size_of(reductions[0].in()) * (data.y ? 2 : 1);
  return p;
}

}  // namespace

void reduce(const pass& p, std::span<scalar> out, const options& opts) {
  const target best = resolve_target(opts);
  if (out.size() != p.reductions.size())
    throw error(errc::usage, "out: room for " + std::to_string(out.size()) + " results of " +
                                 std::to_string(p.reductions.size()) + " reductions");
  if (p.reductions.empty() && p.own_folds.empty()) return;
  check(p);
  if (p.n == 0) {
    if (!p.own_folds.empty()) throw error(errc::usage, "n: a fold of no elements is not defined");
    std::vector<scalar> results;  // all of them, or an error and none
    for (const reduction& r : p.reductions) results.push_back(detail::empty_result(r));
    std::copy(results.begin(), results.end(), out.begin());
    return;
  }
  const detail::exact_sums sums = run(p, best, out, opts);
  for (std::size_t k = 0; k < p.reductions.size(); ++k)
    if (detail::is_exact(p.reductions[k])) out[k] = sums.result(p.reductions[k], p.n);
}

detail::exact_sums sums_of(std::span<const reduction> reductions, inputs data, std::size_t n,
                           const options& opts) {
  const pass p = pass_over(reductions, data, n);
  const target best = resolve_target(opts);
  check(p);
  return n == 0 ? detail::exact_sums(reductions) : run(p, best, {}, opts);
}

void reduce(std::span<const reduction> reductions, const void* x, const void* y, std::size_t n,
            std::span<scalar> out, const options& opts) {
  reduce(pass_over(reductions, {x, y}, n), out, opts);
}

scalar reduce(const reduction& r, const void* x, const void* y, std::size_t n,
              const options& opts) {
  const std::size_t bytes = n * size_of(r.in()) * (y ? 2 : 1);
  if (n > 0 && bytes < 2 * bytes_worth_a_thread) {
    const short_task& t = task_for(resolve_target(opts), r);
    if (!t.exact.terms.empty() ||
        (t.ordered.kernels.fold && (!t.ordered.kernels.convert || n <= tile_elements))) {
      detail::check_inputs(r, x, y, n);
      return reduce_short(t, r, {x, y}, n);
    }
  }
  scalar out{};
  reduce({&r, 1}, x, y, n, {&out, 1}, opts);
  return out;
}
scalar reduce(const reduction& r, const void* data, std::size_t n, const options& opts) {
  return reduce(r, data, nullptr, n, opts);
}

}  // namespace bitfold::cpu
