// Functions of channels on the CPU: lines of one channel each, or rows of channels side by side.
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "../channel_functions.hpp"
#include "../fp_environment.hpp"
#include "column_sums.hpp"

namespace bitfold::cpu {
namespace {

using channel::parameters;

// ---- Parameters ---------------------------------------------------------------------------------

// Line (outer, channel): its parameters, as F takes them.
template <class F, class A>
parameters<A> parameters_of(const channels& of, std::size_t outer, std::size_t channel) {
  const std::size_t ahead = of.of_each_outer ? outer * (of.count / of.sharing) : 0;
  return channel::parameters_of<F, A>(of, channel, ahead + channel / of.sharing);
}
// The same for all elements of a run; and of channels side by side, one array for each parameter.
// (Always inlined: a call for each element leaves loops without vectors, and g++ makes one where a
// file has much code.)
template <class A>
struct of_one_channel {
  parameters<A> all;
  [[gnu::always_inline]] const parameters<A>& operator[](std::size_t) const { return all; }
};
template <class A>
struct of_channels_beside {
  const A* each;
  std::size_t count;
  [[gnu::always_inline]] parameters<A> operator[](std::size_t i) const {
    return {each[i],
            each[count + i],
            each[2 * count + i],
            each[3 * count + i],
            each[4 * count + i],
            each[5 * count + i],
            each[6 * count + i]};
  }
};
template <class F, class A>
void set_beside(const channels& of, std::size_t outer, std::size_t first, std::size_t count,
                A* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const parameters<A> p = parameters_of<F, A>(of, outer, first + i);
    const A all[] = {p.mean, p.rstd, p.w, p.b, p.low, p.mean_g, p.slope};
    for (std::size_t k = 0; k < std::size(all); ++k) to[k * count + i] = all[k];
  }
}
constexpr std::size_t parameter_count = 7;

// ---- Maps ---------------------------------------------------------------------------------------

template <class F, class T, class Of>
struct map_run {
  using A = row::accumulator<T>;
  [[gnu::always_inline]] static void run(const conversions<T>& by, const T* x, const T* y, Of of,
                                         std::size_t n, T* out) {
    map_widened<F::takes_y>(by, x, y, n, out, [=](A a, A b, std::size_t i) {
      return F::template value<A>({a, b}, of[i]);
    });
  }
};

template <class F, class T>
void apply_to(const channels& of, void* out, const options& opts) {
  using A = row::accumulator<T>;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto *const x = static_cast<const T*>(of.x), *const y = static_cast<const T*>(of.y);
  const auto at = [](const T* p, std::size_t i) { return p ? p + i : p; };
  auto* const to = static_cast<T*>(out);
  const std::size_t bytes = of.size() * sizeof(T);
  if (of.inner > 1) {
    const auto map = loop_for<map_run<F, T, of_one_channel<A>>>(used);
    for_each_range(of.outer * of.count, bytes, 4, opts, [&](std::size_t begin, std::size_t end) {
      for (std::size_t line = begin; line < end; ++line) {
        const std::size_t i = line * of.inner;
        map(by, x + i, at(y, i), {parameters_of<F, A>(of, line / of.count, line % of.count)},
            of.inner, to + i);
      }
    });
    return;
  }
  const auto map = loop_for<map_run<F, T, of_channels_beside<A>>>(used);
  for_each_range(of.outer, bytes, 4, opts, [&](std::size_t begin, std::size_t end) {
    const auto all = uninitialized<A>(parameter_count * of.count);
    for (std::size_t row = begin; row < end; ++row) {
      if (row == begin || of.of_each_outer) set_beside<F, A>(of, row, 0, of.count, all.get());
      const std::size_t i = row * of.count;
      map(by, x + i, at(y, i), {all.get(), of.count}, of.count, to + i);
    }
  });
}

// ---- What gradients sum -------------------------------------------------------------------------

// Of a run: g, g w and z.
template <class T, class Of>
struct gradient_run {
  using A = row::accumulator<T>;
  [[gnu::always_inline]] static void run(const conversions<T>& by, const T* x, const T* y, Of of,
                                         std::size_t n, A* g, A* weighted, A* z) {
    const A *const wide_x = widened(by, x, n, g), *const wide_y = widened(by, y, n, z);
    BITFOLD_EACH_IN_PLACE
    for (std::size_t i = 0; i < n; ++i) {
      const channel::gradient<A> e = channel::gradient_of<A>({wide_x[i], wide_y[i]}, of[i]);
      g[i] = e.g;
      weighted[i] = e.x;
      z[i] = e.y;
    }
  }
};

template <class A>
using sums_state = fold::partial<channel::sums<true>, A>;

// What the sums of output `output`, of n elements, become. Of those that are not wanted there is
// no state.
template <class A>
void write_sums(const channel::sums_pass& p, const sums_state<A>& weighted,
                const sums_state<A>& plain, std::size_t n, std::size_t output) {
  const auto set = [&](void* to, A value) {
    if (to) static_cast<A*>(to)[output] = arith::round_to<A>(value);
  };
  if (p.weighted) {
    set(p.to.slope, channel::slope_of<A>(weighted, n));
    set(p.to.mean_g, channel::mean_of<A>(weighted, n));
  }
  if (p.plain) {
    set(p.to.dw, plain.a.sum);
    set(p.to.db, plain.b.sum);
  }
}

// The lines of an output: channels first to end of outers first to end.
struct output_lines {
  std::size_t outer, outer_end, channel, channel_end;
};
output_lines lines_of(const channels& of, const channel::sums_pass& p, std::size_t output) {
  if (p.of_channels) return {0, of.outer, output, output + 1};
  const std::size_t in_a_row = of.count / of.sharing, first = output % in_a_row * of.sharing;
  if (of.of_each_outer)
    return {output / in_a_row, output / in_a_row + 1, first, first + of.sharing};
  return {0, of.outer, first, first + of.sharing};
}

// What lines are summed by.
template <class T>
struct line_loops {
  using A = row::accumulator<T>;
  explicit line_loops(target used)
      : by(conversions_for<T>(used)),
        run(loop_for<gradient_run<T, of_one_channel<A>>>(used)),
        dot(task_of(op_id::dot, used)),
        sum(task_of(op_id::sum, used)) {}

  const conversions<T> by;
  decltype(loop_for<gradient_run<T, of_one_channel<A>>>(target{})) run;
  const task dot, sum;

 private:
  static task task_of(op_id op, target used) {
    const reduction r = make_reduction(op, method_id::tree, dtype_of<A>);
    return {find_kernels(used, r), functions_for(r)};
  }
};

// The sums of an output's lines, which are put one behind the other: a tile at a time is summed.
template <class T>
class line_sums {
  using A = row::accumulator<T>;
  static constexpr std::size_t tile = 8 * order::leaf;

 public:
  static constexpr std::size_t bytes = 3 * tile * sizeof(A);  ///< that it works in

  line_sums(const line_loops<T>& loops, const channels& of, const channel::sums_pass& p)
      : loops_(loops),
        of_(of),
        p_(p),
        weighted_(p.weighted && of.w),
        plain_(p.plain || !weighted_),
        room_(uninitialized<A>(3 * tile)) {}

  void add(std::size_t outer, std::size_t channel) {
    const of_one_channel<A> known{parameters_of<channel::gradient_sums, A>(of_, outer, channel)};
    const std::size_t from = (outer * of_.count + channel) * of_.inner;
    const T *const x = static_cast<const T*>(of_.x) + from, *const y =
                                                                static_cast<const T*>(of_.y) + from;
    for (std::size_t i = 0, taken; i < of_.inner; i += taken) {
      taken = std::min(of_.inner - i, tile - filled_);
      A* const g = room_.get() + filled_;
      loops_.run(loops_.by, x + i, y + i, known, taken, g, g + tile, g + 2 * tile);
      if ((filled_ += taken) == tile) fold_tile();
    }
  }
  /// Those of all n elements become an output's; the next line is another output's first.
  void write(std::size_t n, std::size_t output) {
    if (filled_ > 0) fold_tile();
    const sums_state<A> of_g = plain_ ? take_state(2) : sums_state<A>{};
    write_sums<A>(p_, weighted_ ? take_state(0) : of_g, of_g, n, output);
  }

 private:
  void fold_tile() {
    const A *const g = room_.get(), *const g_w = g + tile, *const z = g_w + tile;
    if (weighted_) fold(sums_[0], loops_.dot, g_w, z), fold(sums_[1], loops_.sum, g_w, nullptr);
    if (plain_) fold(sums_[2], loops_.dot, g, z), fold(sums_[3], loops_.sum, g, nullptr);
    filled_ = 0;
  }
  void fold(tile_counter& to, const task& t, const A* x, const A* y) const {
    partial s;
    target used;
    fold_whole(t, {x, y}, filled_, 0, s, used);
    to.push(t, s);
  }
  sums_state<A> take_state(std::size_t first) {
    sums_state<A> s;
    std::memcpy(&s.a, std::exchange(sums_[first], {}).total(loops_.dot).bytes, sizeof s.a);
    std::memcpy(&s.b, std::exchange(sums_[first + 1], {}).total(loops_.sum).bytes, sizeof s.b);
    return s;
  }

  const line_loops<T>& loops_;
  const channels& of_;
  const channel::sums_pass& p_;
  const bool weighted_, plain_;
  std::unique_ptr<A[], aligned_delete> room_;  // g, g w and z
  std::size_t filled_ = 0;
  tile_counter sums_[4];  // of g w z, g w, g z and g
};

// Outputs one by one.
template <class T>
void sum_lines(const channels& of, const channel::sums_pass& p, const options& opts) {
  const line_loops<T> loops(resolve_target(opts));
  const std::size_t outputs = p.of_channels ? of.count : of.statistics(), n = of.size() / outputs;
  for_each_range(outputs, of.size() * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
    line_sums<T> sums(loops, of, p);
    for (std::size_t output = begin; output < end; ++output) {
      const output_lines l = lines_of(of, p, output);
      for (std::size_t outer = l.outer; outer < l.outer_end; ++outer)
        for (std::size_t c = l.channel; c < l.channel_end; ++c) sums.add(outer, c);
      sums.write(n, output);
    }
  });
}

// Whether there are two passes, which can be one: threads have enough of the channels that share
// statistics, and what the lines of these are summed in stays in the second-level cache.
template <class T>
bool sums_together(const channels& of, std::span<const channel::sums_pass> passes,
                   const options& opts) {
  constexpr std::size_t cache = std::size_t{1} << 19;
  const int threads = threads_for(opts, of.size() * sizeof(T));
  return passes.size() == 2 && of.inner > 1 && (1 + of.sharing) * line_sums<T>::bytes <= cache &&
         of.count / of.sharing >= chunk_count(threads, 4);
}
// Statistics and channels: each line is summed for both while it is in the cache.
template <class T>
void sum_lines_together(const channels& of, const channel::sums_pass& of_statistics,
                        const channel::sums_pass& of_channels, const options& opts) {
  const line_loops<T> loops(resolve_target(opts));
  const std::size_t in_a_row = of.count / of.sharing, n = of.size() / of.statistics();
  for_each_range(in_a_row, of.size() * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
    line_sums<T> of_statistic(loops, of, of_statistics);
    std::vector<line_sums<T>> of_channel;
    for (std::size_t k = 0; k < of.sharing; ++k) of_channel.emplace_back(loops, of, of_channels);
    for (std::size_t s = begin; s < end; ++s) {
      for (std::size_t outer = 0; outer < of.outer; ++outer) {
        for (std::size_t k = 0; k < of.sharing; ++k) {
          of_statistic.add(outer, s * of.sharing + k);
          of_channel[k].add(outer, s * of.sharing + k);
        }
        if (of.of_each_outer) of_statistic.write(n, outer * in_a_row + s);
      }
      if (!of.of_each_outer) of_statistic.write(n, s);
      for (std::size_t k = 0; k < of.sharing; ++k)
        of_channel[k].write(of.size() / of.count, s * of.sharing + k);
    }
  });
}

// Adds a run's terms of `sums`: of the products and of g, each by itself.
template <class A, bool Weighted>
struct add_terms {
  [[gnu::always_inline]] static void run(const A* g, const A* y, of_channels_beside<A> of,
                                         std::size_t n, A* __restrict products,
                                         A* __restrict alone) {
    using product = channel::product_with_z<Weighted>;
    using itself = channel::by_itself<Weighted>;
    for (std::size_t i = 0; i < n; ++i) {
      const channel::gradient<A> e = channel::gradient_of<A>({g[i], y[i]}, of[i]);
      products[i] = arith::add(products[i], product::template apply<method::tree>(e));
      alone[i] = arith::add(alone[i], itself::template apply<method::tree>(e));
    }
  }
};

// Channels side by side, of lines of one element.
template <class T>
void sum_beside(const channels& of, const channel::sums_pass& p, const options& opts) {
  using A = row::accumulator<T>;
  using F = channel::gradient_sums;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto add_weighted = loop_for<add_terms<A, true>>(used),
             add_plain = loop_for<add_terms<A, false>>(used);
  const bool weighted = p.weighted && of.w, plain = p.plain || !weighted;
  const std::size_t sums = weighted && plain ? 4 : 2, most = most_columns<A>(sums);
  const auto all = sums_of_columns<A>(sums, of.outer, of.count, of.size() * sizeof(T), opts, [&] {
    return [&, room = uninitialized<A>((2 + parameter_count) * most), known_from = of.count](
               std::size_t row, std::size_t first, std::size_t here, A* to,
               std::size_t apart) mutable {
      A *const wide = room.get(), *const known = wide + 2 * most;
      if (first != known_from || of.of_each_outer) set_beside<F, A>(of, row, first, here, known);
      known_from = first;
      const auto part_of = [&](const void* from, A* to) {
        return part_of_row(by, from, row, of.count, first, here, to);
      };
      const A *const g = part_of(of.x, wide), *const y = part_of(of.y, wide + most);
      if (weighted) add_weighted(g, y, {known, here}, here, to, to + apart);
      to += (sums - 2) * apart;
      if (plain) add_plain(g, y, {known, here}, here, to, to + apart);
    };
  });
  const auto state_of = [&](std::size_t first, std::size_t channel) {
    const A* const sum = all.get() + first * of.count + channel;
    return sums_state<A>{{sum[0]}, {sum[of.count]}};
  };
  for (std::size_t c = 0; c < of.count; ++c)
    write_sums<A>(p, state_of(0, c), state_of(sums - 2, c), of.outer, c);
}

}  // namespace

void apply(channel_function f, const channels& of, void* out, const options& opts) {
  channel::check(f, of, out);
  if (of.size() == 0) return;
  channel::visit(f, [&]<class F>(std::type_identity<F>) {
    with_float(of.type, [&]<class T>(std::type_identity<T>) { apply_to<F, T>(of, out, opts); });
  });
}

void gradient_sums(const channels& of, const channel_sums& to, const options& opts) {
  channel::check(of, to);
  const detail::fp_environment guard;  // sums meet, and are rounded, on this thread
  with_float(of.type, [&]<class T>(std::type_identity<T>) {
    const std::vector<channel::sums_pass> passes = channel::passes_of(of, to);
    if (sums_together<T>(of, passes, opts))
      return sum_lines_together<T>(of, passes[0], passes[1], opts);
    for (const channel::sums_pass& p : passes)
      if (p.of_channels && of.inner == 1)
        sum_beside<T>(of, p, opts);
      else
        sum_lines<T>(of, p, opts);
  });
}

}  // namespace bitfold::cpu
