// Functions of channels on the CPU: lines of one channel each, or rows of channels side by side.
#include <iterator>

#include "../channel_functions.hpp"
#include "float_loops.hpp"

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
template <class A>
struct of_one_channel {
  parameters<A> all;
  const parameters<A>& operator[](std::size_t) const { return all; }
};
template <class A>
struct of_channels_beside {
  const A* each;
  std::size_t count;
  parameters<A> operator[](std::size_t i) const {
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
  [[gnu::always_inline]] static void run(const T* x, const T* y, Of of, std::size_t n, T* out) {
    map_widened<F::takes_y, A>(
        x, y, n, out, [=](A a, A b, std::size_t i) { return F::template value<A>({a, b}, of[i]); });
  }
};

template <class F, class T>
void apply_to(const channels& of, void* out, const options& opts) {
  using A = row::accumulator<T>;
  const target used = resolve_target(opts);
  const auto *const x = static_cast<const T*>(of.x), *const y = static_cast<const T*>(of.y);
  const auto at = [](const T* p, std::size_t i) { return p ? p + i : p; };
  auto* const to = static_cast<T*>(out);
  const std::size_t bytes = of.size() * sizeof(T);
  if (of.inner > 1) {
    const auto map = loop_for<map_run<F, T, of_one_channel<A>>>(used);
    for_each_range(of.outer * of.count, bytes, 4, opts, [&](std::size_t begin, std::size_t end) {
      for (std::size_t line = begin; line < end; ++line) {
        const std::size_t i = line * of.inner;
        map(x + i, at(y, i), {parameters_of<F, A>(of, line / of.count, line % of.count)}, of.inner,
            to + i);
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
      map(x + i, at(y, i), {all.get(), of.count}, of.count, to + i);
    }
  });
}

// ---- What gradients sum -------------------------------------------------------------------------

// Of a run: g, g w and z.
template <class T, class Of>
struct gradient_run {
  using A = row::accumulator<T>;
  [[gnu::always_inline]] static void run(const T* x, const T* y, Of of, std::size_t n,
                                         A* __restrict g, A* __restrict weighted, A* __restrict z) {
    for (std::size_t i = 0; i < n; ++i) g[i] = arith::widen<A>(x[i]);
    for (std::size_t i = 0; i < n; ++i) z[i] = arith::widen<A>(y[i]);
    for (std::size_t i = 0; i < n; ++i) {
      const channel::gradient<A> e = channel::gradient_of<A>({g[i], z[i]}, of[i]);
      weighted[i] = e.x;
      z[i] = e.y;
    }
  }
};

// Arrays of a pass's elements: g, g w and z; and what becomes of their sums.
template <class A>
struct gradient_arrays {
  A *g, *weighted, *z;
};
template <class A>
class sums_of_outputs {
 public:
  sums_of_outputs(const channel::sums_pass& p, std::size_t n, const options& opts)
      : p_(p), n_(n), one_thread_{.threads = 1, .target = opts.target} {}

  /// Of one output, whose n elements lie one behind the other.
  void write(const gradient_arrays<A>& of, std::size_t output) const {
    if (p_.weighted) write_statistics(folded(of.weighted, of.z), output);
    if (p_.plain) write_parameters(folded(of.g, of.z), output);
  }

 private:
  using state = fold::partial<channel::sums<true>, A>;
  state folded(const A* g, const A* z) const {
    state s;
    fold_one(op_id::dot, g, z, &s.a);
    fold_one(op_id::sum, g, nullptr, &s.b);
    return s;
  }
  void fold_one(op_id op, const A* x, const A* y, method::tree::state<A>* to) const {
    fold_rows(make_reduction(op, method_id::tree, dtype_of<A>), {x, y}, 1, n_,
              reinterpret_cast<std::byte*>(to), one_thread_);
  }
  void write_statistics(const state& s, std::size_t output) const {
    set(p_.to.slope, output, channel::slope_of<A>(s, n_));
    set(p_.to.mean_g, output, channel::mean_of<A>(s, n_));
  }
  void write_parameters(const state& s, std::size_t output) const {
    set(p_.to.dw, output, s.a.sum);
    set(p_.to.db, output, s.b.sum);
  }
  static void set(void* to, std::size_t output, A value) {
    if (to) static_cast<A*>(to)[output] = arith::round_to<A>(value);
  }

  const channel::sums_pass& p_;
  std::size_t n_;
  options one_thread_;
};

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

// Outputs one by one: their lines are put one behind the other.
template <class T>
void sum_lines(const channels& of, const channel::sums_pass& p, const options& opts) {
  using A = row::accumulator<T>;
  using F = channel::gradient_sums;
  const auto run = loop_for<gradient_run<T, of_one_channel<A>>>(resolve_target(opts));
  const std::size_t outputs = p.of_channels ? of.count : of.statistics(), n = of.size() / outputs;
  const sums_of_outputs<A> sums(p, n, opts);
  for_each_range(outputs, of.size() * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
    const auto room = uninitialized<A>(3 * n);
    const gradient_arrays<A> all{room.get(), room.get() + n, room.get() + 2 * n};
    for (std::size_t output = begin; output < end; ++output) {
      const output_lines l = lines_of(of, p, output);
      std::size_t to = 0;
      for (std::size_t outer = l.outer; outer < l.outer_end; ++outer)
        for (std::size_t c = l.channel; c < l.channel_end; ++c, to += of.inner) {
          const std::size_t from = (outer * of.count + c) * of.inner;
          run(static_cast<const T*>(of.x) + from, static_cast<const T*>(of.y) + from,
              {parameters_of<F, A>(of, outer, c)}, of.inner, all.g + to, all.weighted + to,
              all.z + to);
        }
      sums.write(all, output);
    }
  });
}

// Channels side by side, of lines of one element: some columns at a time.
template <class T>
void sum_columns(const channels& of, const channel::sums_pass& p, const options& opts) {
  using A = row::accumulator<T>;
  using F = channel::gradient_sums;
  constexpr std::size_t beside = 32;
  const auto run = loop_for<gradient_run<T, of_channels_beside<A>>>(resolve_target(opts));
  const std::size_t n = of.outer, stripes = (of.count + beside - 1) / beside;
  const sums_of_outputs<A> sums(p, n, opts);
  for_each_range(stripes, of.size() * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
    const auto room = uninitialized<A>(3 * n * beside + (3 + parameter_count) * beside);
    A *const columns = room.get(), *const rows = columns + 3 * n * beside,
             *const known = rows + 3 * beside;
    for (std::size_t k = begin; k < end; ++k) {
      const std::size_t first = k * beside, here = std::min(beside, of.count - first);
      for (std::size_t i = 0; i < n; ++i) {
        if (i == 0 || of.of_each_outer) set_beside<F, A>(of, i, first, here, known);
        const std::size_t from = i * of.count + first;
        run(static_cast<const T*>(of.x) + from, static_cast<const T*>(of.y) + from, {known, here},
            here, rows, rows + beside, rows + 2 * beside);
        for (std::size_t j = 0; j < here; ++j)
          for (std::size_t a = 0; a < 3; ++a) columns[(3 * j + a) * n + i] = rows[a * beside + j];
      }
      for (std::size_t j = 0; j < here; ++j) {
        A* const column = columns + 3 * j * n;
        sums.write({column, column + n, column + 2 * n}, first + j);
      }
    }
  });
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
  with_float(of.type, [&]<class T>(std::type_identity<T>) {
    for (const channel::sums_pass& p : channel::passes_of(of, to))
      if (p.of_channels && of.inner == 1)
        sum_columns<T>(of, p, opts);
      else
        sum_lines<T>(of, p, opts);
  });
}

}  // namespace bitfold::cpu
