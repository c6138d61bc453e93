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
                                         std::size_t n, A* __restrict g, A* __restrict weighted,
                                         A* __restrict z) {
    by.widen(x, n, g);
    by.widen(y, n, z);
    for (std::size_t i = 0; i < n; ++i) {
      const channel::gradient<A> e = channel::gradient_of<A>({g[i], z[i]}, of[i]);
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

// Outputs one by one: their lines are put one behind the other.
template <class T>
void sum_lines(const channels& of, const channel::sums_pass& p, const options& opts) {
  using A = row::accumulator<T>;
  using F = channel::gradient_sums;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto run = loop_for<gradient_run<T, of_one_channel<A>>>(used);
  const std::size_t outputs = p.of_channels ? of.count : of.statistics(), n = of.size() / outputs;
  const options one_thread{.threads = 1, .target = opts.target};
  const auto fold_one = [&](op_id op, const A* x, const A* y, method::tree::state<A>* to) {
    fold_rows(make_reduction(op, method_id::tree, dtype_of<A>), {x, y}, 1, n,
              reinterpret_cast<std::byte*>(to), one_thread);
  };
  const auto folded = [&](bool wanted, const A* g, const A* z) {
    sums_state<A> s{};
    if (!wanted) return s;
    fold_one(op_id::dot, g, z, &s.a);
    fold_one(op_id::sum, g, nullptr, &s.b);
    return s;
  };
  for_each_range(outputs, of.size() * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
    const auto room = uninitialized<A>(3 * n);
    A *const g = room.get(), *const weighted = g + n, *const z = weighted + n;
    for (std::size_t output = begin; output < end; ++output) {
      const output_lines l = lines_of(of, p, output);
      std::size_t to = 0;
      for (std::size_t outer = l.outer; outer < l.outer_end; ++outer)
        for (std::size_t c = l.channel; c < l.channel_end; ++c, to += of.inner) {
          const std::size_t from = (outer * of.count + c) * of.inner;
          run(by, static_cast<const T*>(of.x) + from, static_cast<const T*>(of.y) + from,
              {parameters_of<F, A>(of, outer, c)}, of.inner, g + to, weighted + to, z + to);
        }
      write_sums<A>(p, folded(p.weighted, weighted, z), folded(p.plain, g, z), n, output);
    }
  });
}

// Channels side by side, of lines of one element: blocks of a leaf's rows and some channels, whose
// sums are nodes of the canonical tree.
template <class T>
class beside {
 public:
  using A = row::accumulator<T>;
  using F = channel::gradient_sums;

  beside(const channels& of, const channel::sums_pass& p, const options& opts)
      : of_(of),
        p_(p),
        opts_(opts),
        by_(conversions_for<T>(resolve_target(opts))),
        run_(loop_for<gradient_run<T, of_channels_beside<A>>>(resolve_target(opts))),
        leaves_(order::leaf_count(of.outer)),
        nodes_(uninitialized<A>(sums * leaves_ * of.count)) {}

  void run() {
    const std::size_t stripes = (of_.count + channels_at_once - 1) / channels_at_once;
    for_each_range(leaves_ * stripes, of_.size() * sizeof(T), 4, opts_,
                   [&](std::size_t begin, std::size_t end) {
                     const auto room =
                         uninitialized<A>((3 * order::leaf + parameter_count) * channels_at_once);
                     for (std::size_t k = begin; k < end; ++k)
                       sum_block(k / stripes, k % stripes * channels_at_once, room.get());
                   });
    for (std::size_t c = 0; c < of_.count; ++c) {
      const auto state_of = [&](std::size_t first) {
        return sums_state<A>{{joined(first, c)}, {joined(first + 1, c)}};
      };
      write_sums<A>(p_, p_.weighted ? state_of(0) : sums_state<A>{},
                    p_.plain ? state_of(2) : sums_state<A>{}, of_.outer, c);
    }
  }

 private:
  static constexpr std::size_t channels_at_once = 128;
  static constexpr std::size_t sums = 4;  // of g w z, g w, g z and g

  void sum_block(std::size_t leaf, std::size_t first, A* room) {
    const std::size_t here = std::min(channels_at_once, of_.count - first),
                      row = leaf * order::leaf,
                      rows = std::min<std::size_t>(order::leaf, of_.outer - row);
    A *const g = room, *const weighted = g + rows * here, *const z = weighted + rows * here,
             *const known = z + rows * here;
    for (std::size_t i = 0; i < rows; ++i) {
      if (i == 0 || of_.of_each_outer) set_beside<F, A>(of_, row + i, first, here, known);
      const std::size_t from = (row + i) * of_.count + first, to = i * here;
      run_(by_, static_cast<const T*>(of_.x) + from, static_cast<const T*>(of_.y) + from,
           {known, here}, here, g + to, weighted + to, z + to);
    }
    const auto add_up = [&](std::size_t which, op_id op, const A* x, const A* y) {
      const std::int64_t extents[] = {static_cast<std::int64_t>(rows),
                                      static_cast<std::int64_t>(here)};
      const view of_x = row_major(dtype_of<A>, x, extents),
                 of_y = row_major(dtype_of<A>, y, extents);
      const reduction r[] = {make_reduction(op, method_id::tree, dtype_of<A>)};
      const int axis[] = {0};
      void* const to[] = {node(which, leaf) + first};
      reduce(r, of_x, y ? &of_y : nullptr, axis, to, {.threads = 1, .target = opts_.target});
    };
    if (p_.weighted) {
      add_up(0, op_id::dot, weighted, z);
      add_up(1, op_id::sum, weighted, nullptr);
    }
    if (p_.plain) {
      add_up(2, op_id::dot, g, z);
      add_up(3, op_id::sum, g, nullptr);
    }
  }
  A* node(std::size_t which, std::size_t leaf) const {
    return nodes_.get() + (which * leaves_ + leaf) * of_.count;
  }
  A joined(std::size_t which, std::size_t channel) const {
    const auto get = [&](order::index leaf) {
      return method::tree::state<A>{node(which, leaf)[channel]};
    };
    const auto merge = [](auto a, auto b) { return method::tree::merge(a, b); };
    return order::fold(0, leaves_, get, merge).sum;
  }

  const channels& of_;
  const channel::sums_pass& p_;
  const options& opts_;
  const conversions<T> by_;
  const decltype(loop_for<gradient_run<T, of_channels_beside<A>>>(target{})) run_;
  const order::index leaves_;
  const std::unique_ptr<A[], aligned_delete> nodes_;
};

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
        beside<T>(of, p, opts).run();
      else
        sum_lines<T>(of, p, opts);
  });
}

}  // namespace bitfold::cpu
