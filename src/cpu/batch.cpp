// Many outputs on the CPU: each is a run of its own through the kernels, and threads take
// neighbouring outputs.
#include "../batch.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "../binned.hpp"
#include "../dispatch.hpp"
#include "../fp_environment.hpp"
#include "columns.hpp"
#include "exact.hpp"
#include "task.hpp"

namespace bitfold::cpu {
namespace {

using detail::batch;

// What is done of each output.
struct work {
  const batch& from;
  std::span<const reduction> all;
  std::span<void* const> out;
  target by;
  std::vector<task> tasks;         // by kernels,
  std::vector<std::size_t> whose;  // of which reductions;
  std::vector<std::size_t> whole;  // reductions that have none, and want all elements at once
  detail::exact_sums sums;         // of exact ones, empty
  bool settled = false;            // settled states are wanted, not results

  void* place(std::size_t k, std::uint64_t output) const {
    return static_cast<std::byte*>(out[k]) + output * size_of(all[k].out());
  }
  void put(std::size_t k, std::uint64_t output, scalar v) const {
    store_scalar(v, place(k, output));
  }
  // Of `count` outputs from `first` on, of n elements each.
  void put_states(std::size_t t, std::uint64_t first, std::size_t count, const void* states,
                  std::uint64_t n) const {
    const std::size_t k = whose[t], size = tasks[t].states.size;
    if (settled)
      std::memcpy(static_cast<std::byte*>(out[k]) + first * size, states, count * size);
    else
      tasks[t].states.finish(all[k], states, count, n, place(k, first));
  }
};

inputs as_inputs(detail::pointers p) { return {p.x, p.y}; }

// Some neighbouring outputs of as many elements, on one thread; and the memory that it takes.
class worker {
 public:
  explicit worker(const work& w)
      : w_(w),
        size_(size_of(w.from.type)),
        alone_(w.tasks.size() == 1 && w.whole.empty() && w.sums.empty()) {}

  // Outputs whose elements lie one behind the other.
  target run_in_place(std::uint64_t first, std::uint64_t end) {
    target by = w_.by;
    for (std::uint64_t o = first; o < end; ++o) {
      const std::uint64_t n = w_.from.count(o);
      const inputs data = as_inputs(w_.from.place(o));
      if (n == 0) {
        for (std::size_t k = 0; k < w_.all.size(); ++k)
          w_.put(k, o, detail::empty_result(w_.all[k]));
      } else if (alone_ && !w_.tasks[0].run.convert && n / order::leaf < most_leaves) {
        folded s;
        fold_whole(w_.tasks[0], data, n, 0, s, by);
        w_.put_states(0, o, 1, s.bytes, n);
      } else {
        by = run_by_runs(o, 1, n, [&](std::uint64_t at, std::uint64_t) {
          return offset(data, static_cast<std::ptrdiff_t>(at * size_));
        });
      }
    }
    return by;
  }

  // Outputs whose elements have to be brought together.
  target run_gathered(std::uint64_t first, std::uint64_t end) {
    target by = w_.by;
    const std::uint64_t most = std::min(w_.from.together(), end - first);
    for (std::uint64_t o = first; o < end; o += most) {
      const std::uint64_t outputs = std::min(most, end - o), n = w_.from.count(o);
      if (n == 0) {
        run_in_place(o, o + outputs);
        continue;
      }
      const std::size_t pitch = std::min<std::uint64_t>(run, n) * size_, second = outputs * pitch;
      if (const std::size_t room = most * pitch * (w_.from.data.y ? 2 : 1); gathered_.size() < room)
        gathered_.resize(room);
      std::uint64_t have = n;  // the run that is there
      by = run_by_runs(o, outputs, n, [&](std::uint64_t at, std::uint64_t b) {
        if (const auto p = w_.from.place(o + b, at, std::min<std::uint64_t>(run, n - at)); p.x)
          return as_inputs(p);
        if (at != have)
          w_.from.gather(o, outputs, at, std::min<std::uint64_t>(run, n - at), gathered_.data(),
                         pitch, second);
        have = at;
        std::byte* const x = gathered_.data() + b * pitch;
        return inputs{x, w_.from.data.y ? x + second : nullptr};
      });
    }
    return by;
  }

 private:
  static constexpr std::size_t run = run_elements;

  // Outputs of n elements each, a run of all of them at a time: get(first, which) says where one's
  // run lies, and those of the same `first` are asked for together.
  template <class Get>
  target run_by_runs(std::uint64_t first, std::uint64_t outputs, std::uint64_t n, Get get) {
    target by = w_.by;
    const std::size_t tasks = w_.tasks.size();
    std::vector<run_counter> counters(n > run ? outputs * tasks : 0);
    std::vector<detail::exact_sums> sums(w_.sums.empty() ? 0 : outputs, w_.sums);
    for (std::uint64_t at = 0; at < n; at += run) {
      const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(run, n - at));
      for (std::uint64_t b = 0; b < outputs; ++b) {
        const inputs stored = get(at, b);
        folder_.fold(w_.tasks, stored, here, at, by, [&](std::size_t k, const folded& s) {
          if (n > run)
            counters[b * tasks + k].push(w_.tasks[k], s);
          else
            w_.put_states(k, first + b, 1, s.bytes, n);
        });
        if (!sums.empty()) by = deposit(sums[b], w_.by, stored, here);
      }
    }
    for (std::uint64_t b = 0; b < outputs; ++b) {
      for (std::size_t k = 0; k < tasks && n > run; ++k)
        w_.put_states(k, first + b, 1, counters[b * tasks + k].total(w_.tasks[k]).bytes, n);
      for (std::size_t k = 0; k < w_.all.size() && !sums.empty(); ++k)
        if (detail::is_exact(w_.all[k])) w_.put(k, first + b, sums[b].result(w_.all[k], n));
      run_whole(first + b, n);
    }
    return by;
  }

  void run_whole(std::uint64_t output, std::uint64_t n) {
    if (w_.whole.empty()) return;
    inputs data = as_inputs(w_.from.place(output));
    if (!data.x) {
      whole_.resize(2 * n * size_);
      w_.from.gather(output, 1, 0, n, whole_.data(), 0, n * size_);
      data = {whole_.data(), w_.from.data.y ? whole_.data() + n * size_ : nullptr};
    }
    for (const std::size_t k : w_.whole)
      w_.put(k, output, reduce_without_kernels(w_.all[k], data, n, 1));
  }

  const work& w_;
  const std::size_t size_;
  const bool alone_;
  run_folder folder_;
  std::vector<std::byte> gathered_, whole_;
};

// One output of many elements, all threads on it.
void run_long(const work& w, std::uint64_t output, const options& how) {
  struct made {
    const batch& from;
    std::uint64_t output;
  };
  const made source{w.from, output};
  pass p;
  p.n = w.from.count(output);
  p.all = w.all;
  p.element = size_of(w.from.type) * (w.from.data.y ? 2 : 1);
  if (const auto data = w.from.place(output); data.x) {
    p.x = data.x;
    p.y = data.y;
  } else {
    p.source = &source;
    p.makes_two = w.from.data.y != nullptr;
    p.make = [](const void* s, order::index first, std::size_t n, void* x, void* y) {
      const made& m = *static_cast<const made*>(s);
      m.from.gather(
          m.output, 1, first, n, static_cast<std::byte*>(x), 0,
          y ? static_cast<std::size_t>(static_cast<std::byte*>(y) - static_cast<std::byte*>(x))
            : 0);
    };
  }
  std::vector<scalar> results(w.all.size());
  reduce(p, results, how);
  for (std::size_t k = 0; k < results.size(); ++k) w.put(k, output, results[k]);
}

// All outputs side by side, by threads that take some strips of them each, or chunks of their
// elements.
void run_columns(const work& w, const detail::layout& l, const column_plan& p, int threads) {
  const order::index outputs = l.outputs, n = l.n;
  const order::index at_once = (p.strips - 1) / parts_for(threads) + 1;
  const order::index parts = (p.strips - 1) / at_once + 1;
  // Of each task the states of all chunks of output 0, of output 1, ...
  std::vector<std::vector<std::byte>> states(p.chunks > 1 ? w.tasks.size() : 0);
  for (std::size_t k = 0; k < states.size(); ++k)
    states[k].resize(outputs * p.chunks * w.tasks[k].states.size);
  for_each_part(parts * p.chunks, threads, [&](std::size_t item) {
    column_worker mine(w.tasks, l, p);
    const order::index part = item % parts, chunk = item / parts, begin = chunk * p.chunk,
                       here = std::min(p.chunk, n - begin);
    for (order::index s = part * at_once; s < std::min(p.strips, (part + 1) * at_once); ++s) {
      const order::index first = s * static_cast<order::index>(p.outputs);
      const auto count = static_cast<int>(
          std::min<order::index>(static_cast<order::index>(p.outputs), outputs - first));
      mine.run(first, count, begin, here, [&](std::size_t k, const std::byte* from) {
        if (p.chunks == 1) return w.put_states(k, first, static_cast<std::size_t>(count), from, n);
        const std::size_t size = w.tasks[k].states.size;
        for (order::index o = 0; o < static_cast<order::index>(count); ++o)
          std::memcpy(&states[k][((first + o) * p.chunks + chunk) * size], from + o * size, size);
      });
    }
  });
  for (std::size_t k = 0; k < states.size(); ++k) {
    const task& t = w.tasks[k];
    for (order::index o = 0; o < outputs; ++o) {
      const auto get = [&](order::index chunk) {
        folded s;
        s.n = std::min(p.chunk, n - chunk * p.chunk);
        s.size = t.states.size;
        std::memcpy(s.bytes, &states[k][(o * p.chunks + chunk) * s.size], s.size);
        return s;
      };
      const auto merge = [&](const folded& a, const folded& b) { return t.merge(a, b); };
      w.put_states(k, o, 1, order::fold(0, p.chunks, get, merge).bytes, n);
    }
  }
}

// All outputs, which are short and lie in a row each, some at a time.
void run_rows(const work& w, const detail::layout& l, int threads) {
  constexpr order::index most = 64;
  const order::index n = l.n, groups = (l.outputs - 1) / most + 1;
  const order::index parts = std::min(groups, parts_for(threads));
  const auto size = static_cast<std::ptrdiff_t>(size_of(l.type));
  for_each_part(parts, threads, [&](std::size_t part) {
    std::ptrdiff_t places[2][most];
    inputs rows[most];
    std::vector<std::byte> states, widened;
    for (order::index g = part * groups / parts; g < (part + 1) * groups / parts; ++g) {
      const order::index first = g * most, end = std::min(first + most, l.outputs);
      detail::places_of(l.kept, first, end - first, places[0], l.y ? places[1] : nullptr);
      for (std::size_t k = 0; k < w.tasks.size(); ++k) {
        const task& t = w.tasks[k];
        const batch_kernels& kernels = t.run.batch;
        // What is widened is to stay in the first-level cache.
        const std::size_t pitch = n * kernels.element;
        const auto width = static_cast<order::index>(kernels.width),
                   fit = 16384 / (pitch * width) * width;
        const order::index at_once = kernels.widen ? std::clamp(fit, width, most) : most;
        states.resize(at_once * t.states.size);
        if (kernels.widen) widened.resize(2 * at_once * pitch);
        for (order::index o = first; o < end; o += at_once) {
          const order::index here = std::min(at_once, end - o);
          for (order::index i = 0; i < here; ++i)
            rows[i] = {l.x + places[0][o - first + i] * size,
                       l.y ? l.y + places[1][o - first + i] * size : nullptr};
          if (kernels.widen)
            for (order::index i = 0; i < here; ++i) {
              std::byte *const x = widened.data() + i * pitch, *const y = x + at_once * pitch;
              kernels.widen(rows[i].x, n, x);
              if (l.y) kernels.widen(rows[i].y, n, y);
              rows[i] = {x, l.y ? y : nullptr};
            }
          kernels.rows(rows, static_cast<int>(here), static_cast<int>(n), states.data());
          w.put_states(k, o, here, states.data(), n);
        }
      }
    }
  });
}

void run(const batch& from, std::span<const reduction> all, std::span<void* const> out,
         const options& how, const detail::layout* axes = nullptr, bool settled = false) {
  const target best = chosen(how);
  detail::check_batch(from, all, out);
  const detail::fp_environment guard;  // the parts of an output are put together here
  work w{from, all, out, best, {}, {}, {}, detail::exact_sums(all), settled};
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (detail::is_exact(all[k])) continue;
    const task t{find_kernels(best, all[k]), functions_for(all[k])};
    if (t.run.fold) {
      w.tasks.push_back(t);
      w.whose.push_back(k);
    } else {
      w.whole.push_back(k);
    }
  }
  if (all.empty() || from.outputs == 0) return;

  const std::size_t element = size_of(from.type) * (from.data.y ? 2 : 1);
  const int threads = threads_for(how, from.elements * element);
  if (axes && w.tasks.size() == all.size()) {
    report(best);
    if (const auto p = plan_columns(w.tasks, *axes, threads))
      return run_columns(w, *axes, *p, threads);
    if (axes->n > 0 && axes->outputs > 1 && axes->in_a_row() && are_short(w.tasks, axes->n))
      return run_rows(w, *axes, threads);
  }
  // Neighbouring outputs of about as many elements, some parts for each thread; or longer ones by
  // all threads.
  const std::uint64_t share = from.elements / parts_for(threads) + 1;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // first, end
  std::vector<std::uint64_t> alone;
  std::uint64_t begin = 0, have = 0;
  const auto end_range = [&](std::uint64_t end) {
    if (begin < end) ranges.push_back({begin, end});
    begin = end;
    have = 0;
  };
  const std::uint64_t worth =
      std::max<std::uint64_t>(2 * share, 2 * bytes_worth_a_thread / element);
  const std::uint64_t step = from.together();
  for (std::uint64_t o = 0; o < from.outputs; o += step) {
    const std::uint64_t n = from.count(o), end = std::min(o + step, from.outputs);
    if (threads > 1 && n >= worth) {
      end_range(o);
      for (; begin < end; ++begin) alone.push_back(begin);
    } else if ((have += n * (end - o) + 1) >= share) {
      end_range(end);
    }
  }
  end_range(from.outputs);
  std::vector<target> ran(ranges.size(), best);
  for_each_part(ranges.size(), threads, [&](std::size_t k) {
    worker mine(w);
    const auto [first, end] = ranges[k];  // what lies in a row does so in all outputs
    ran[k] = from.place(first).x ? mine.run_in_place(first, end) : mine.run_gathered(first, end);
  });
  report(ran.empty() ? best : ran[0]);
  for (const std::uint64_t o : alone) run_long(w, o, how);
}

}  // namespace

void reduce(std::span<const reduction> all, const view& x, const view* y, std::span<const int> axes,
            std::span<void* const> out, const options& how) {
  const detail::layout l = detail::layout_of(x, y, axes);
  run(detail::strided_batch(l), all, out, how, &l);
}
void reduce(const reduction& r, const view& x, std::span<const int> axes, void* out,
            const options& how) {
  reduce({&r, 1}, x, nullptr, axes, {&out, 1}, how);
}

void fold_rows(const reduction& r, inputs data, std::size_t count, std::size_t n, void* states,
               const options& how) {
  if (count == 1) {  // a shorter call
    const task t{find_kernels(chosen(how), r), functions_for(r)};
    folded s;
    target by;
    fold_whole(t, data, n, 0, s, by);
    std::memcpy(states, s.bytes, s.size);
    return;
  }
  const auto rows = [&](const void* v) {
    return row_major(r.in(), v, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(n)});
  };
  const view x = rows(data.x), y = rows(data.y);
  const int axis = 1;
  const detail::layout l = detail::layout_of(x, data.y ? &y : nullptr, {&axis, 1});
  run(detail::strided_batch(l), {&r, 1}, {&states, 1}, how, &l, true);
}

void reduce_windows(std::span<const reduction> all, const view& x, std::span<const window> of,
                    std::span<void* const> out, const options& how) {
  const detail::window_boxes boxes = detail::boxes_of(x, of);
  for (const auto& b : boxes.each)
    detail::check_batch(detail::strided_batch(detail::layout_of(b.x, nullptr, boxes.reduced)), all,
                        out, b.first);
  if (boxes.each.size() == 1) return reduce(all, boxes.each[0].x, nullptr, boxes.reduced, out, how);
  // Each box's results one behind the other, before they are moved to their places.
  std::uint64_t most = 0;
  for (const auto& b : boxes.each) most = std::max(most, b.places.size());
  std::vector<std::vector<std::byte>> results;
  std::vector<void*> to;
  for (const reduction& r : all) to.push_back(results.emplace_back(most * size_of(r.out())).data());
  for (const auto& b : boxes.each) {
    reduce(all, b.x, nullptr, boxes.reduced, to, how);
    std::array<std::ptrdiff_t, 1024> places;
    for (std::uint64_t first = 0; first < b.places.size(); first += places.size()) {
      const std::uint64_t here = std::min<std::uint64_t>(places.size(), b.places.size() - first);
      detail::places_of(b.places, first, here, places.data(), nullptr);
      for (std::size_t k = 0; k < all.size(); ++k) {
        const std::size_t size = size_of(all[k].out());
        for (std::uint64_t o = 0; o < here; ++o)
          std::memcpy(static_cast<std::byte*>(out[k]) +
                          (b.first + static_cast<std::uint64_t>(places[o])) * size,
                      &results[k][(first + o) * size], size);
      }
    }
  }
}

void reduce_segments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     std::span<const std::int64_t> offsets, std::span<void* const> out,
                     const options& how) {
  if (all.empty()) return;
  const detail::pointers data{static_cast<const std::byte*>(x), static_cast<const std::byte*>(y)};
  run(detail::segments_of(all[0].in(), data, n, offsets), all, out, how);
}

void reduce_by_key(std::span<const reduction> all, const void* x, const void* y,
                   std::span<const std::int64_t> keys, std::size_t outputs,
                   std::span<void* const> out, const options& how) {
  if (all.empty()) return;
  const detail::pointers data{static_cast<const std::byte*>(x), static_cast<const std::byte*>(y)};
  run(detail::keys_of(all[0].in(), data, keys, outputs), all, out, how);
}

}  // namespace bitfold::cpu
