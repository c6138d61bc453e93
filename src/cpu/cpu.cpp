#include <bitfold/cpu/pass.hpp>
#include <bitfold/reference.hpp>

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

constexpr std::string_view target_names[] = {"scalar", "avx2", "avx512"};

thread_local target reported = target::scalar;

// How n elements are shared out: `chunks` complete subtrees of `leaves` leaves; the last may be
// less.
struct plan {
  order::index leaves;
  order::index chunks;
};

plan make_plan(std::size_t bytes, std::size_t n, int threads) {
  const order::index total = order::leaf_count(n);
  const auto workers =
      std::min<std::size_t>(static_cast<std::size_t>(threads), bytes / bytes_worth_a_thread);
  if (workers < 2 && total <= most_leaves) return {total, 1};
  order::index leaves = total;
  if (workers >= 2) leaves = std::bit_ceil(total / parts_for(static_cast<int>(workers)) + 1);
  leaves = std::min(leaves, most_leaves);
  return {leaves, (total + leaves - 1) / leaves};
}

template <class Chosen>
struct functions_of {
  using F = typename Chosen::fold;
  using state = fold::settled<F, typename Chosen::accumulator>;
  static_assert(sizeof(state) <= fold::most_state_bytes && std::is_trivially_copyable_v<state>);

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
    const auto* from = static_cast<const std::byte*>(states);
    auto* to = static_cast<std::byte*>(out);
    visit(r.out(), [&]<class Out>(std::type_identity<Out>) {
      if constexpr (detail::gives<Chosen::types, typename Chosen::accumulator, Out>())
        for (std::size_t k = 0; k < count; ++k) {
          const Out one =
              F::template finish<Out>(load(from + k * sizeof(state)), fold::finishing{n, r.ddof()});
          std::memcpy(to + k * sizeof one, &one, sizeof one);
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

kernels find_kernels(target t, const reduction& r) {
  switch (t) {
    case target::scalar: break;
    case target::avx2: return find_kernels_of<target::avx2>(r);
    case target::avx512: return find_kernels_of<target::avx512>(r);
  }
  return find_kernels_of<target::scalar>(r);
}

scalar reduce_without_kernels(const reduction& r, inputs data, std::size_t n, int threads) {
  if (detail::ordering_of(r) == ordering::sorted)
    return {r.out(), count_distinct(r.in(), data.x, n, threads)};
  return reference(r, data.x, data.y, n);
}

namespace {

// What an exact reduction sums, and how.
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

// The same call often comes again, and looking it up takes longer than a short array.
struct short_task {
  target by;
  reduction what;
  task ordered;
  exact_task binned;
};
const short_task& task_for(target t, const reduction& r) {
  // (Without a destructor: it is used until the thread's and the program's end, by others'
  // destructors, too.)
  static_assert(std::is_trivially_destructible_v<short_task>);
  thread_local std::optional<short_task> last;
  if (!last || last->by != t || last->what != r)
    last = short_task{t, r, {find_kernels(t, r), functions_for(r), nullptr}, exact_task_for(t, r)};
  return *last;
}

struct job {
  const pass& what;
  target best;
  std::span<const task> tasks;
  std::size_t element = 0;  // bytes of one, of one input
  plan parts{};
};

// One chunk of all tasks; out has a state for each, sums those of the exact reductions.
target run_chunk(const job& j, order::index chunk, folded* out, detail::exact_sums& sums) {
  const std::size_t first = chunk * j.parts.leaves * order::leaf;
  const std::size_t n = std::min<std::size_t>(j.parts.leaves * order::leaf, j.what.n - first);
  target by = target::scalar;
  const inputs data =
      j.what.make ? inputs{}
                  : offset({j.what.x, j.what.y}, static_cast<std::ptrdiff_t>(first * j.element));
  if (j.tasks.empty() && sums.each().size() == 1 && !j.what.make)
    return deposit(sums, j.best, data, n);
  if (j.tasks.size() == 1 && sums.empty() &&
      (j.tasks[0].own || (!j.tasks[0].run.convert && !j.what.make))) {
    fold_whole(j.tasks[0], data, n, first, out[0], by);
    return by;
  }
  // Run by run. Exact sums look anew what to sum by with each call, and take several at once.
  constexpr std::size_t run = run_elements, exact_run = 16 * run;
  std::vector<run_counter> counters(j.tasks.size());
  std::vector<std::byte> made(j.what.make ? (j.what.makes_two ? 2 : 1) * run * j.element : 0);
  run_folder folder;
  for (std::size_t at = 0; at < n; at += run) {
    const std::size_t here = std::min(run, n - at);
    inputs stored{made.data(), j.what.makes_two ? made.data() + run * j.element : nullptr};
    if (j.what.make)
      j.what.make(j.what.source, first + at, here, made.data(), made.data() + run * j.element);
    else
      stored = offset(data, static_cast<std::ptrdiff_t>(at * j.element));
    folder.fold(j.tasks, stored, here, first + at, by,
                [&](std::size_t k, const folded& state) { counters[k].push(j.tasks[k], state); });
    const std::size_t end = at + here, waiting = (end - 1) % exact_run + 1;
    if (j.what.make)
      deposit(sums, j.best, stored, here);
    else if (end == n || waiting == exact_run)
      deposit(sums, j.best, offset(data, static_cast<std::ptrdiff_t>((end - waiting) * j.element)),
              waiting);
  }
  for (std::size_t k = 0; k < j.tasks.size(); ++k) out[k] = counters[k].total(j.tasks[k]);
  return by;
}

// All chunks, on up to `threads` threads; states has all tasks of chunk 0, then of chunk 1, ...,
// and sums one for each.
target run_chunks(const job& j, int threads, folded* states, detail::exact_sums* sums) {
  std::vector<target> ran(j.parts.chunks);
  for_each_part(j.parts.chunks, threads, [&](std::size_t c) {
    ran[c] = run_chunk(j, c, states + c * j.tasks.size(), sums[c]);
  });
  return ran[0];
}

}  // namespace

void report(target t) { reported = t; }

std::string_view name(target t) { return target_names[static_cast<int>(t)]; }

std::optional<target> parse_target(std::string_view text) {
  for (target t : {target::scalar, target::avx2, target::avx512})
    if (name(t) == text) return t;
  return std::nullopt;
}

namespace {
bool is_available(target t) {
  return find_kernels(t, make_reduction(op_id::sum, {}, dtype::f32)).fold;
}
}  // namespace

std::vector<target> available_targets() {
  std::vector<target> all;
  for (target t : {target::scalar, target::avx2, target::avx512})
    if (is_available(t)) all.push_back(t);
  return all;
}

target last_target() { return reported; }

target chosen(const options& how) {
  static const target best = available_targets().back();
  if (how.threads < 0)
    throw error(errc::usage, "threads: " + std::to_string(how.threads) + " is negative");
  if (!how.target) return best;
  if (!is_available(*how.target))
    throw error(errc::usage, "target: " + std::string(name(*how.target)) +
                                 " is not available on this machine or in this build");
  return *how.target;
}

namespace {

// One reduction of an array that is not worth a second thread.
scalar reduce_short(const short_task& s, const reduction& r, inputs data, std::size_t n) {
  // For the arithmetic on this thread.
  const detail::fp_environment guard;
  if (!s.binned.terms.empty()) {
    alignas(16) std::byte sums[2][detail::most_sum_bytes];
    for (std::size_t k = 0; k < s.binned.terms.size(); ++k) {
      detail::clear_sum(s.binned.terms[k], r.in(), sums[k]);
      reported = s.binned.add[k](data, n, sums[k]);
    }
    const void* const all[] = {sums[0], sums[1]};
    return detail::finish_exact(r, all, n);
  }
  scalar out{};
  run_folder().fold({&s.ordered, 1}, data, n, 0, reported, [&](std::size_t, const folded& state) {
    out = s.ordered.states.result(r, state.bytes, n);
  });
  return out;
}

void check(const pass& p) {
  for (const reduction& r : p.all) {
    if (!p.make) detail::check_inputs(r, p.x, p.y, p.n);
    detail::check_together(p.all[0], r);
  }
}

// All of p, which has elements. Writes results but those of exact reductions, and returns the sums
// of these.
detail::exact_sums run(const pass& p, target best, std::span<scalar> out, const options& how) {
  const detail::fp_environment guard;  // states are merged here
  const std::size_t bytes = p.n * p.element;
  const int threads = threads_for(how, bytes);
  std::vector<task> tasks;
  std::vector<std::size_t> whose;
  reported = target::scalar;
  detail::exact_sums total(p.all);
  for (std::size_t k = 0; k < p.all.size(); ++k) {
    if (detail::is_exact(p.all[k])) continue;
    const task t{find_kernels(best, p.all[k]), functions_for(p.all[k])};
    if (t.run.fold) {
      tasks.push_back(t);
      whose.push_back(k);
    } else if (!p.make) {
      out[k] = reduce_without_kernels(p.all[k], {p.x, p.y}, p.n, threads);
    } else {
      const std::size_t one = p.n * size_of(p.all[k].in());
      std::vector<std::byte> whole(p.makes_two ? 2 * one : one);
      std::byte* const second = p.makes_two ? whole.data() + one : nullptr;
      p.make(p.source, 0, p.n, whole.data(), second);
      out[k] = reduce_without_kernels(p.all[k], {whole.data(), second}, p.n, threads);
    }
  }
  for (const own_fold& f : p.own) tasks.push_back({{}, {}, &f});
  if (tasks.empty() && total.empty()) return total;

  job j{p, best, tasks, p.all.empty() ? 0 : size_of(p.all[0].in()), make_plan(bytes, p.n, threads)};
  std::vector<folded> states(j.parts.chunks * tasks.size());
  std::vector<detail::exact_sums> sums(j.parts.chunks, total);
  reported = run_chunks(j, j.parts.chunks == 1 ? 1 : threads, states.data(), sums.data());
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const auto get = [&](order::index c) { return states[c * tasks.size() + k]; };
    const auto merge = [&](const folded& a, const folded& b) { return tasks[k].merge(a, b); };
    const folded s = order::fold(0, j.parts.chunks, get, merge);
    if (const own_fold* f = tasks[k].own)
      f->finish(s.bytes, s.n, f->out);
    else
      out[whose[k]] = tasks[k].states.result(p.all[whose[k]], s.bytes, s.n);
  }
  for (const detail::exact_sums& s : sums) total.merge(s);
  return total;
}

// Of arrays, as they are stored.
pass pass_over(std::span<const reduction> all, inputs data, std::size_t n) {
  pass p;
  p.n = n;
  p.all = all;
  p.x = data.x;
  p.y = data.y;
  if (!all.empty()) p.element = size_of(all[0].in()) * (data.y ? 2 : 1);
  return p;
}

}  // namespace

void reduce(const pass& p, std::span<scalar> out, const options& how) {
  const target best = chosen(how);
  if (out.size() != p.all.size())
    throw error(errc::usage, "out: room for " + std::to_string(out.size()) + " results of " +
                                 std::to_string(p.all.size()) + " reductions");
  if (p.all.empty() && p.own.empty()) return;
  check(p);
  if (p.n == 0) {
    if (!p.own.empty()) throw error(errc::usage, "n: a fold of no elements is not defined");
    std::vector<scalar> results;  // all of them, or an error and none
    for (const reduction& r : p.all) results.push_back(detail::empty_result(r));
    std::copy(results.begin(), results.end(), out.begin());
    return;
  }
  const detail::exact_sums sums = run(p, best, out, how);
  for (std::size_t k = 0; k < p.all.size(); ++k)
    if (detail::is_exact(p.all[k])) out[k] = sums.result(p.all[k], p.n);
}

detail::exact_sums sums_of(std::span<const reduction> all, inputs data, std::size_t n,
                           const options& how) {
  const pass p = pass_over(all, data, n);
  const target best = chosen(how);
  check(p);
  return n == 0 ? detail::exact_sums(all) : run(p, best, {}, how);
}

void reduce(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
            std::span<scalar> out, const options& how) {
  reduce(pass_over(all, {x, y}, n), out, how);
}

scalar reduce(const reduction& r, const void* x, const void* y, std::size_t n, const options& how) {
  const std::size_t bytes = n * size_of(r.in()) * (y ? 2 : 1);
  if (n > 0 && bytes < 2 * bytes_worth_a_thread) {
    const short_task& t = task_for(chosen(how), r);
    if (!t.binned.terms.empty() ||
        (t.ordered.run.fold && (!t.ordered.run.convert || n <= run_elements))) {
      detail::check_inputs(r, x, y, n);
      return reduce_short(t, r, {x, y}, n);
    }
  }
  scalar out{};
  reduce({&r, 1}, x, y, n, {&out, 1}, how);
  return out;
}
scalar reduce(const reduction& r, const void* data, std::size_t n, const options& how) {
  return reduce(r, data, nullptr, n, how);
}

}  // namespace bitfold::cpu
