#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <stdexcept>

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

plan make_plan(const reduction& r, std::size_t n, int threads) {
  const order::index total = order::leaf_count(n);
  const std::size_t useful = n * size_of(r.in) / bytes_worth_a_thread;
  const auto workers = std::min<std::size_t>(static_cast<std::size_t>(threads), useful);
  if (workers < 2) return {total, 1};
  // About eight chunks for each thread, so that a thread that starts late delays nobody.
  const order::index leaves = std::bit_ceil(total / (8 * workers) + 1);
  return {leaves, (total + leaves - 1) / leaves};
}

target run_chunk(kernel k, const reduction& r, const void* data, std::size_t n, const plan& p,
                 order::index chunk, void* state) {
  const std::size_t first = chunk * p.leaves * order::leaf;
  const std::size_t size = std::min<std::size_t>(p.leaves * order::leaf, n - first);
  return k(static_cast<const std::byte*>(data) + first * size_of(r.in), size / order::leaf,
           static_cast<int>(size % order::leaf), state);
}

struct chunk_result {
  state_storage state;
  std::optional<target> folded_by;  // by nobody so far
};

// All chunks, on up to `threads` threads.
void run_parallel(kernel k, const reduction& r, const void* data, std::size_t n, const plan& p,
                  int threads, chunk_result* results) {
  // A caller's tasks may be cancelled, which ours must not be; and while this thread waits for others
  // to end, it must not start its caller's next task, which may want a lock that it holds.
  tbb::task_group_context context(tbb::task_group_context::isolated);
  const auto all_chunks = [&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(
          order::index{0}, p.chunks,
          [&](order::index c) {
            const detail::fp_environment guard;  // this may be any thread
            results[c].folded_by = run_chunk(k, r, data, n, p, c, &results[c].state);
          },
          tbb::static_partitioner(), context);
    });
  };
  const int cores = tbb::info::default_concurrency();
  if (threads >= cores) {
    all_chunks();  // in whatever arena the caller is in
  } else {
    // Making an arena and calling its threads in costs more than many a reduction: keep the last one.
    thread_local std::unique_ptr<tbb::task_arena> arena;
    if (!arena || arena->max_concurrency() != threads)
      arena = std::make_unique<tbb::task_arena>(threads);
    arena->execute(all_chunks);
  }
  for (order::index c = 0; c < p.chunks; ++c)
    if (!results[c].folded_by)
      throw std::logic_error("bitfold: the threading runtime left out a part of the array");
}

template <class M, class A>
BITFOLD_OPAQUE scalar fold_chunks(const reduction& r, const chunk_result* results,
                                  order::index count) {
  using state = typename M::template state<A>;
  const auto get = [&](order::index i) {
    state s;
    std::memcpy(&s, &results[i].state, sizeof s);
    return s;
  };
  const auto merge = [](state a, state b) { return M::merge(a, b); };
  return detail::rounded<M, A>(r, order::fold(0, count, get, merge));
}

}  // namespace

std::string_view name(target t) { return target_names[static_cast<int>(t)]; }

std::optional<target> parse_target(std::string_view text) {
  for (target t : {target::scalar, target::avx2, target::avx512})
    if (name(t) == text) return t;
  return std::nullopt;
}

std::vector<target> available_targets() {
  std::vector<target> all{target::scalar};
  for (target t : simd_targets()) all.push_back(t);
  return all;
}

target last_target() { return reported; }

kernel find_kernel(target t, const reduction& r) {
  return t == target::scalar ? find_scalar_kernel(r) : find_simd_kernel(t, r);
}

scalar reduce(const reduction& r, const void* data, std::size_t n, const options& how) {
  static const std::vector<target> available = available_targets();
  const target chosen = how.target.value_or(available.back());
  if (std::find(available.begin(), available.end(), chosen) == available.end())
    throw error(errc::usage, "target: " + std::string(name(chosen)) +
                                 " is not available on this machine or in this build");
  if (how.threads < 0)
    throw error(errc::usage, "threads: " + std::to_string(how.threads) + " is negative");
  detail::check(r);
  if (n == 0) return detail::empty_result(r);
  if (data == nullptr) throw error(errc::usage, "data: null pointer with n > 0");

  // For the arithmetic on this thread, and because the threading runtime's own raises flags.
  const detail::fp_environment guard;
  if (r.method == method_id::sequential && is_float(r.in)) {
    reported = target::scalar;  // there is nothing to make fast in an order without parallel parts
    return reference(r, data, n);
  }
  const kernel k = find_kernel(chosen, r);
  const auto result = [&](const chunk_result* results, order::index count) {
    return detail::dispatch(r, [&]<class K>(K) {
      return fold_chunks<typename K::method, typename K::accumulator>(r, results, count);
    });
  };
  const bool may_share = how.threads != 1 && n * size_of(r.in) >= 2 * bytes_worth_a_thread;
  const int threads = !may_share         ? 1
                      : how.threads == 0 ? tbb::info::default_concurrency()
                                         : std::min(how.threads, most_threads);
  const plan p = make_plan(r, n, threads);
  if (p.chunks == 1) {
    chunk_result all;
    reported = run_chunk(k, r, data, n, p, 0, &all.state);
    return result(&all, 1);
  }
  std::vector<chunk_result> results(p.chunks);
  run_parallel(k, r, data, n, p, threads, results.data());
  reported = *results[0].folded_by;
  return result(results.data(), p.chunks);
}

}  // namespace bitfold::cpu
