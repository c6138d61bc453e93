// Many outputs on the CPU. The kernels fold each output by itself, and each thread takes
// neighbouring outputs.
#include "../batch.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>

#include <bitfold/scatter.hpp>

#include "../binned.hpp"
#include "../dispatch.hpp"
#include "../fp_environment.hpp"
#include "blocks.hpp"
#include "columns.hpp"
#include "exact_outputs.hpp"
#include "short_rows.hpp"
#include "work.hpp"

namespace bitfold::cpu {
namespace {

using detail::batch;

// Reduces neighbouring outputs on one thread, and keeps the memory that this takes.
class worker {
 public:
  explicit worker(const work& w)
      : w_(w),
        size_(size_of(w.source.type)),
        single_task_(w.tasks.size() == 1 && w.whole_reductions.empty() && w.sums.empty()),
        several_(w),
        exact_rows_(w) {}

  // Outputs whose elements are contiguous.
  target run_in_place(std::uint64_t first, std::uint64_t end) {
    target used = w_.used;
    for (std::uint64_t o = first; o < end; ++o) {
      const std::uint64_t n = w_.source.count(o);
      if (const std::uint64_t alike = alike_from(o, end, n); alike > 3) {
        inputs rows[short_rows::max];
        for (std::uint64_t i = 0; i < alike; ++i) rows[i] = as_inputs(w_.source.address(o + i));
        several_.run(o, alike, n, rows);
        o += alike - 1;
        continue;
      }
      const inputs data = as_inputs(w_.source.address(o));
      if (n == 0) {
        for (std::size_t k = 0; k < w_.reductions.size(); ++k)
          w_.put(k, o, detail::empty_result(w_.reductions[k]));
      } else if (single_task_ && !w_.tasks[0].kernels.convert && n / order::leaf < max_leaves) {
        partial s;
        fold_whole(w_.tasks[0], data, n, 0, s, used);
        w_.put_states(0, o, 1, s.bytes, n);
      } else {
        used = run_by_tiles(o, 1, n, [&](std::uint64_t begin, std::uint64_t) {
          return offset(data, static_cast<std::ptrdiff_t>(begin * size_));
        });
      }
    }
    exact_rows_.flush();
    return used;
  }

  // Outputs whose elements are gathered first.
  target run_gathered(std::uint64_t first, std::uint64_t end) {
    target used = w_.used;
    const std::uint64_t max = std::min(w_.source.gathered_outputs(), end - first);
    for (std::uint64_t o = first; o < end; o += max) {
      const std::uint64_t outputs = std::min(max, end - o), n = w_.source.count(o);
      if (n == 0) {
        run_in_place(o, o + outputs);
        continue;
      }
      const std::size_t pitch = std::min<std::uint64_t>(tile, n) * size_, second = outputs * pitch;
      if (const std::size_t room = max * pitch * (w_.source.data.y ? 2 : 1);
          gathered_.size() < room)
        gathered_.resize(room);
      std::uint64_t gathered_begin = n;  // the tile that is gathered
      used = run_by_tiles(o, outputs, n, [&](std::uint64_t begin, std::uint64_t b) {
        if (const auto p =
                w_.source.address(o + b, begin, std::min<std::uint64_t>(tile, n - begin));
            p.x)
          return as_inputs(p);
        if (begin != gathered_begin)
          w_.source.gather(o, outputs, begin, std::min<std::uint64_t>(tile, n - begin),
                           gathered_.data(), pitch, second);
        gathered_begin = begin;
        std::byte* const x = gathered_.data() + b * pitch;
        return inputs{x, w_.source.data.y ? x + second : nullptr};
      });
      exact_rows_.flush();
    }
    return used;
  }

 private:
  static constexpr std::size_t tile = tile_elements;

  // How many outputs from o on, which has n elements, are as short and are folded together.
  std::uint64_t alike_from(std::uint64_t o, std::uint64_t end, std::uint64_t n) const {
    if (n == 0 || n >= 2 * order::leaf || !w_.only_tasks() || !are_short(w_.tasks, n)) return 1;
    const std::uint64_t most = std::min<std::uint64_t>(short_rows::max, end - o);
    std::uint64_t count = 1;
    while (count < most && w_.source.count(o + count) == n) ++count;
    return count;
  }

  // Outputs of n elements each, tile by tile. get(begin, b) gives the tile of output b from `begin`
  // on; it is called for all outputs before the next tile, so that they can be gathered together.
  template <class Get>
  target run_by_tiles(std::uint64_t first, std::uint64_t outputs, std::uint64_t n, Get get) {
    if (w_.in_doubles.of_rows && n <= tile) {
      for (std::uint64_t b = 0; b < outputs; ++b) exact_rows_.add(first + b, {get(0, b).x, n});
      return w_.used;
    }
    target used = w_.used;
    const std::size_t tasks = w_.tasks.size();
    std::vector<tile_counter> counters(n > tile ? outputs * tasks : 0);
    std::vector<detail::exact_sums> sums(w_.sums.empty() ? 0 : outputs, w_.sums);
    for (std::uint64_t begin = 0; begin < n; begin += tile) {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(tile, n - begin));
      for (std::uint64_t b = 0; b < outputs; ++b) {
        const inputs stored = get(begin, b);
        folder_.fold(w_.tasks, stored, taken, begin, used, [&](std::size_t k, const partial& s) {
          if (n > tile)
            counters[b * tasks + k].push(w_.tasks[k], s);
          else
            w_.put_states(k, first + b, 1, s.bytes, n);
        });
        if (!sums.empty()) used = deposit(sums[b], w_.used, stored, taken);
      }
    }
    for (std::uint64_t b = 0; b < outputs; ++b) {
      for (std::size_t k = 0; k < tasks && n > tile; ++k)
        w_.put_states(k, first + b, 1, counters[b * tasks + k].total(w_.tasks[k]).bytes, n);
      for (std::size_t k = 0; k < w_.reductions.size() && !sums.empty(); ++k)
        if (detail::is_exact(w_.reductions[k]))
          w_.put(k, first + b, sums[b].result(w_.reductions[k], n));
      run_whole(first + b, n);
    }
    return used;
  }

  void run_whole(std::uint64_t output, std::uint64_t n) {
    if (w_.whole_reductions.empty()) return;
    inputs data = as_inputs(w_.source.address(output));
    if (!data.x) {
      whole_output_.resize(2 * n * size_);
      w_.source.gather(output, 1, 0, n, whole_output_.data(), 0, n * size_);
      data = {whole_output_.data(), w_.source.data.y ? whole_output_.data() + n * size_ : nullptr};
    }
    for (const std::size_t k : w_.whole_reductions)
      w_.put(k, output, reduce_without_kernels(w_.reductions[k], data, n, 1));
  }

  const work& w_;
  const std::size_t size_;
  const bool single_task_;
  short_rows several_;
  tile_folder folder_;
  exact_rows exact_rows_;
  std::vector<std::byte> gathered_, whole_output_;
};

// One long output, by all threads.
void run_long(const work& w, std::uint64_t output, const options& opts) {
  struct one_output {
    const batch& source;
    std::uint64_t output;
  };
  const one_output source{w.source, output};
  pass p;
  p.n = w.source.count(output);
  p.reductions = w.reductions;
  p.element_bytes = size_of(w.source.type) * (w.source.data.y ? 2 : 1);
  if (const auto data = w.source.address(output); data.x) {
    p.x = data.x;
    p.y = data.y;
  } else {
    p.source = &source;
    p.generates_pairs = w.source.data.y != nullptr;
    p.generate = [](const void* s, order::index first, std::size_t n, void* x, void* y) {
      const one_output& m = *static_cast<const one_output*>(s);
      m.source.gather(
          m.output, 1, first, n, static_cast<std::byte*>(x), 0,
          y ? static_cast<std::size_t>(static_cast<std::byte*>(y) - static_cast<std::byte*>(x))
            : 0);
    };
  }
  std::vector<scalar> results(w.reductions.size());
  reduce(p, results, opts);
  for (std::size_t k = 0; k < results.size(); ++k) w.put(k, output, results[k]);
}

// Each output by itself: ranges of neighbouring outputs of about equal work, several for each
// thread. Longer outputs get all threads.
void run_each(const work& w, const detail::layout* axes, int threads, const options& opts) {
  const batch& source = w.source;
  const std::size_t element = size_of(source.type) * (source.data.y ? 2 : 1);
  const std::uint64_t share = source.elements / chunk_count(threads) + 1;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // first, end
  std::vector<std::uint64_t> long_outputs;
  std::uint64_t begin = 0, range_work = 0;
  const auto end_range = [&](std::uint64_t end) {
    if (begin < end) ranges.push_back({begin, end});
    begin = end;
    range_work = 0;
  };
  const std::uint64_t worth =
      std::max<std::uint64_t>(2 * share, 2 * bytes_worth_a_thread / element);
  const bool scattered = axes && axes->n > 0 && !axes->contiguous(),
             in_blocks = scattered && are_blocks(*axes);
  const std::uint64_t step = in_blocks ? 1 : source.gathered_outputs();
  for (std::uint64_t o = 0; o < source.outputs; o += step) {
    const std::uint64_t n = source.count(o), end = std::min(o + step, source.outputs);
    if (threads > 1 && n >= worth) {
      end_range(o);
      for (; begin < end; ++begin) long_outputs.push_back(begin);
    } else if ((range_work += n * (end - o) + 1) >= share) {
      end_range(end);
    }
  }
  end_range(source.outputs);
  std::vector<target> ran(ranges.size(), w.used);
  parallel_for(ranges.size(), threads, [&](std::size_t k) {
    worker mine(w);
    const auto [first, end] = ranges[k];  // either all outputs are contiguous, or none
    if (in_blocks) {
      ran[k] = run_blocks(w, *axes, plan_blocks(*axes, 1), first, end, 1);
    } else {
      ran[k] =
          source.address(first).x ? mine.run_in_place(first, end) : mine.run_gathered(first, end);
    }
  });
  report(ran.empty() ? w.used : ran[0]);
  for (const std::uint64_t o : long_outputs)
    if (scattered)
      report(run_blocks(w, *axes, plan_blocks(*axes, threads), o, o + 1, threads));
    else
      run_long(w, o, opts);
}

void run(const batch& source, std::span<const reduction> reductions, std::span<void* const> out,
         const options& opts, const detail::layout* axes = nullptr, bool wants_partials = false) {
  const target best = resolve_target(opts);
  detail::check_batch(source, reductions, out);
  const detail::fp_environment guard;  // the chunks of an output are merged on this thread
  work w{source, reductions, out, best, {}, {}, {}, detail::exact_sums(reductions), wants_partials};
  for (std::size_t k = 0; k < reductions.size(); ++k) {
    if (detail::is_exact(reductions[k])) continue;
    const task t{find_kernels(best, reductions[k]), functions_for(reductions[k])};
    if (t.kernels.fold)
      w.add_task(k, t);
    else
      w.whole_reductions.push_back(k);
  }
  if (reductions.empty() || source.outputs == 0) return;
  if (const reduction& r = reductions[0]; reductions.size() == 1 && detail::is_exact(r) &&
                                          r.op() == op_id::sum && is_float(r.out()) &&
                                          detail::inexact_flag::works())
    w.in_doubles = find_exact_kernels(best, {exact::term::element, r.in()}).in_doubles;

  const std::size_t element = size_of(source.type) * (source.data.y ? 2 : 1);
  const int threads = threads_for(opts, source.elements * element);
  if (axes && w.in_doubles.of_rows && axes->n > 0 && axes->n <= tile_elements) {
    report(best);
    if (axes->contiguous()) return run_exact_rows(w, *axes, threads);
    if (are_exact_columns(*axes)) return run_exact_columns(w, *axes, threads);
  }
  if (axes && w.only_tasks()) {
    report(best);
    if (const auto p = plan_columns(w.tasks, *axes, threads))
      return run_columns(w, *axes, *p, threads);
    const bool in_place = axes->contiguous(), few = in_place || axes->n < 2 * order::leaf;
    if (axes->n > 0 && axes->outputs > 1 &&
        ((few && are_short(w.tasks, axes->n)) ||
         (in_place && are_long_rows(w.tasks, axes->n, axes->outputs, threads))))
      return run_rows(w, *axes, threads);
  }
  run_each(w, axes, threads, opts);
}

// Along axes.
void run(const detail::layout& l, std::span<const reduction> reductions, std::span<void* const> out,
         const options& opts) {
  run(detail::strided_batch(l), reductions, out, opts, &l);
}

// Whether it is one sum that a scatter has the bits of, which moves the elements themselves, on all
// threads: to the elements' type, by tree or pairwise, whose sums are rounded once more alike. (By
// kahan a sum is more than one number until it is rounded.) A long output is for one thread there.
bool are_scattered_sums(std::span<const reduction> reductions, const void* x,
                        std::span<void* const> out, std::size_t n, std::size_t outputs) {
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max() - 1, most_of_output = 4096;
  if (reductions.size() != 1 || out.size() != 1 || !x || !out[0]) return false;
  const reduction& r = reductions[0];
  const auto is_aligned = [&](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % size_of(r.in()) == 0;
  };
  const bool by_pairs = r.method() == method_id::tree || r.method() == method_id::pairwise;
  return r.op() == op_id::sum && by_pairs && r.out() == r.in() &&
         r == make_reduction(op_id::sum, r.method(), r.in()) && n > 0 && n <= most &&
         outputs <= most && n / most_of_output < outputs && is_aligned(x) && is_aligned(out[0]);
}

}  // namespace

void reduce(std::span<const reduction> reductions, const view& x, const view* y,
            std::span<const int> axes, std::span<void* const> out, const options& opts) {
  const detail::layout l = detail::layout_of(x, y, axes);
  // Exact sums do not show the order of their elements.
  const bool any_order = l.n > 0 && l.outputs > 0 &&
                         std::all_of(reductions.begin(), reductions.end(), detail::is_exact);
  run(any_order ? detail::in_memory_order(l) : l, reductions, out, opts);
}
void reduce(const reduction& r, const view& x, std::span<const int> axes, void* out,
            const options& opts) {
  reduce({&r, 1}, x, nullptr, axes, {&out, 1}, opts);
}

void fold_rows(const reduction& r, inputs data, std::size_t count, std::size_t n, void* states,
               const options& opts) {
  if (count == 1) {  // a shorter call
    const task t{find_kernels(resolve_target(opts), r), functions_for(r)};
    partial s;
    target used;
    fold_whole(t, data, n, 0, s, used);
    std::memcpy(states, s.bytes, s.size);
    return;
  }
  const auto rows = [&](const void* v) {
    return row_major(r.in(), v, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(n)});
  };
  const view x = rows(data.x), y = rows(data.y);
  const int axis = 1;
  const detail::layout l = detail::layout_of(x, data.y ? &y : nullptr, {&axis, 1});
  run(detail::strided_batch(l), {&r, 1}, {&states, 1}, opts, &l, true);
}

void reduce_windows(std::span<const reduction> reductions, const view& x,
                    std::span<const window> per_axis, std::span<void* const> out,
                    const options& opts) {
  const detail::window_boxes boxes = detail::boxes_of(x, per_axis);
  for (const auto& b : boxes.boxes)
    detail::check_batch(detail::strided_batch(detail::layout_of(b.x, nullptr, boxes.reduced)),
                        reductions, out, b.first);
  if (boxes.boxes.size() == 1)
    return reduce(reductions, boxes.boxes[0].x, nullptr, boxes.reduced, out, opts);
  // The results of a box are contiguous until they are scattered.
  std::uint64_t max = 0;
  for (const auto& b : boxes.boxes) max = std::max(max, b.results.size());
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> box_results;
  for (const reduction& r : reductions)
    box_results.push_back(results.emplace_back(max * size_of(r.out())).data());
  for (const auto& b : boxes.boxes) {
    reduce(reductions, b.x, nullptr, boxes.reduced, box_results, opts);
    std::array<std::ptrdiff_t, 1024> offsets;
    for (std::uint64_t first = 0; first < b.results.size(); first += offsets.size()) {
      const std::uint64_t taken = std::min<std::uint64_t>(offsets.size(), b.results.size() - first);
      detail::offsets_of(b.results, first, taken, offsets.data(), nullptr);
      for (std::size_t k = 0; k < reductions.size(); ++k) {
        const std::size_t size = size_of(reductions[k].out());
        for (std::uint64_t o = 0; o < taken; ++o)
          std::memcpy(static_cast<std::byte*>(out[k]) +
                          (b.first + static_cast<std::uint64_t>(offsets[o])) * size,
                      &results[k][(first + o) * size], size);
      }
    }
  }
}

void reduce_segments(std::span<const reduction> reductions, const void* x, const void* y,
                     std::size_t n, std::span<const std::int64_t> offsets,
                     std::span<void* const> out, const options& opts) {
  if (reductions.empty()) return;
  const detail::pointers data{static_cast<const std::byte*>(x), static_cast<const std::byte*>(y)};
  run(detail::segments_of(reductions[0].in(), data, n, offsets), reductions, out, opts);
}

void reduce_by_key(std::span<const reduction> reductions, const void* x, const void* y,
                   std::span<const std::int64_t> keys, std::size_t outputs,
                   std::span<void* const> out, const options& opts) {
  if (reductions.empty()) return;
  if (!y && outputs > 0 && are_scattered_sums(reductions, x, out, keys.size(), outputs)) {
    detail::check_keys(keys, outputs);
    const reduction& r = reductions[0];
    const std::int64_t n[] = {static_cast<std::int64_t>(keys.size())},
                       places[] = {static_cast<std::int64_t>(outputs)};
    return scatter({.method = *r.method(), .with_base = false}, row_major(r.in(), x, n),
                   row_major(dtype::i64, keys.data(), n), 0, row_major(r.in(), nullptr, places),
                   out[0], opts);
  }
  const detail::pointers data{static_cast<const std::byte*>(x), static_cast<const std::byte*>(y)};
  run(detail::keys_of(reductions[0].in(), data, keys, outputs), reductions, out, opts);
}

}  // namespace bitfold::cpu
