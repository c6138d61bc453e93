// A reduction as the CPU's engine runs it, with the types of its fold hidden behind functions:
// kernels, merges and results.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <bitfold/cpu/pass.hpp>

#include "backend.hpp"

namespace bitfold::cpu {

// The partial of any fold, and its number of elements. A copy moves only the bytes in use.
struct partial {
  partial() {}
  partial(const partial& o) : n(o.n), size(o.size) { std::memcpy(bytes, o.bytes, size); }
  partial& operator=(const partial& o) {
    n = o.n;
    size = o.size;
    std::memcpy(bytes, o.bytes, size);
    return *this;
  }
  order::index n = 0;
  std::size_t size = 0;
  alignas(16) std::byte bytes[fold::max_state_bytes];
};

// Functions of the partials of one of bitfold's folds.
struct state_functions {
  std::size_t size = 0;
  void (*merge)(void* a, order::index left, const void* b, order::index right) = nullptr;
  /// Writes the results of `count` states, of n elements each, to `out`, one behind the other.
  void (*finish)(const reduction& r, const void* states, std::size_t count, order::index n,
                 void* out) = nullptr;

  scalar result(const reduction& r, const void* state, order::index n) const {
    std::byte out[8];
    finish(r, state, 1, n, out);
    return load_scalar(r.out(), out);
  }
};

state_functions functions_for(const reduction& r);

// One of the reductions of a pass.
struct task {
  cpu::kernels kernels;
  state_functions states;
  const own_fold* own = nullptr;  // the caller's fold, or null

  partial merge(partial a, const partial& b) const {
    (own ? own->merge : states.merge)(a.bytes, a.n, b.bytes, b.n);
    a.n += b.n;
    return a;
  }
};

/// Of the target t.
kernels find_kernels(target t, const reduction& r);
/// Reductions without kernels: count_distinct, which sorts, and sequential orders, which leave
/// nothing to do in parallel.
scalar reduce_without_kernels(const reduction& r, inputs data, std::size_t n, int threads);

// A binary counter of the partials of tiles of one length; the last tile may be shorter.
class tile_counter {
 public:
  void push(const task& t, partial s) {
    for (order::index carries = runs_++; carries & 1; carries >>= 1) {
      s = t.merge(pending_.back(), s);
      pending_.pop_back();
    }
    pending_.push_back(s);
  }
  partial total(const task& t) const {
    partial s = pending_.back();
    for (auto left = pending_.rbegin() + 1; left != pending_.rend(); ++left) s = t.merge(*left, s);
    return s;
  }

 private:
  order::index runs_ = 0;
  std::vector<partial> pending_;
};

// ---- Tiles --------------------------------------------------------------------------------------

/// Folds n elements, of which the first has index `first`, into one partial.
inline void fold_whole(const task& t, std::span<const leaf_run> runs, std::size_t n,
                       order::index first, partial& s, target& by) {
  s.n = n;
  if (t.own) {
    s.size = t.own->state_bytes;
    t.own->fold(t.own->source, first, n, s.bytes);
  } else {
    s.size = t.states.size;
    by = t.kernels.fold(runs, n / order::leaf, static_cast<int>(n % order::leaf), first, s.bytes);
  }
}
inline void fold_whole(const task& t, inputs data, std::size_t n, order::index first, partial& s,
                       target& by) {
  const leaf_run run{data, n / order::leaf};
  fold_whole(t, {&run, 1}, n, first, s, by);
}

/// The elements of a tile: few enough to stay in the first-level cache while every task folds them.
inline constexpr std::size_t tile_elements = 16 * order::leaf;

/// Folds a tile for several tasks. Neighbouring tasks with the same conversion share its result.
class tile_folder {
 public:
  /// Calls f(k, state of tasks[k]) for up to tile_elements elements of some runs.
  template <class F>
  void fold(std::span<const task> tasks, std::span<const leaf_run> runs, std::size_t n,
            order::index first, target& by, F f) {
    converter last = nullptr;
    for (std::size_t k = 0; k < tasks.size(); ++k) {
      partial s;
      if (const converter convert = tasks[k].kernels.convert) {
        if (!converted_)
          converted_ =
              std::make_unique_for_overwrite<std::byte[]>(2 * tile_elements * sizeof(double));
        std::byte *const x = converted_.get(), *const y = x + tile_elements * sizeof(double);
        if (convert != last) {
          std::size_t done = 0;
          for (const leaf_run& run : runs) {
            const std::size_t taken = &run == &runs.back() ? n - done : run.leaves * order::leaf,
                              to = done * tasks[k].kernels.batch.element;
            convert(run.data.x, taken, x + to);
            if (run.data.y) convert(run.data.y, taken, y + to);
            done += taken;
          }
          last = convert;
        }
        fold_whole(tasks[k], inputs{x, runs[0].data.y ? y : nullptr}, n, first, s, by);
      } else {
        fold_whole(tasks[k], runs, n, first, s, by);
      }
      f(k, s);
    }
  }
  template <class F>
  void fold(std::span<const task> tasks, inputs stored, std::size_t n, order::index first,
            target& by, F f) {
    const leaf_run run{stored, n / order::leaf};
    fold(tasks, {&run, 1}, n, first, by, f);
  }

 private:
  std::unique_ptr<std::byte[]> converted_;
};

/// The partials of r of `count` rows of n elements each, one behind the other, which r's
/// kernels take as they are stored; at least one of each.
void fold_rows(const reduction& r, inputs data, std::size_t count, std::size_t n, void* states,
               const options& opts);

// ---- How a call is run --------------------------------------------------------------------------

/// Below this many bytes for each thread, a second thread costs more than it brings.
inline constexpr std::size_t bytes_worth_a_thread = std::size_t{1} << 19;

/// The target to use. Errors (errc::usage): one that is not available.
target resolve_target(const options& opts);
/// How many threads to use for so many bytes.
int threads_for(const options& opts, std::size_t bytes);
/// The target that the last reduce() on the calling thread ran, as the kernel itself reported it;
/// and what that is from now on.
target last_target();
void report(target t);

/// How many chunks the work is cut into: several for each thread, so that a thread that starts late
/// delays nobody.
inline order::index chunk_count(int threads, int per_thread = 8) {
  return threads == 1 ? 1
                      : static_cast<order::index>(per_thread) * static_cast<order::index>(threads);
}
/// From now on at most so many threads work at once, and options::threads of 0 asks for as many; 0:
/// as many as there are cores that this process may use.
void limit_threads(int max);
/// Calls f(i) for each i < count on up to `threads` threads, fewer where no more are allowed or can
/// be made, in the default floating-point environment. f may call this, too. What one f throws is
/// thrown here, when all have returned.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& f);

inline inputs offset(inputs data, std::ptrdiff_t bytes) {
  return {static_cast<const std::byte*>(data.x) + bytes,
          data.y ? static_cast<const std::byte*>(data.y) + bytes : nullptr};
}

}  // namespace bitfold::cpu
