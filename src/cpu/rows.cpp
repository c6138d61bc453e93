// Row functions on the CPU: reductions of each row, then its elements one by one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../arguments.hpp"
#include "../row_functions.hpp"
#include "float_loops.hpp"

namespace bitfold {

namespace row {
namespace {
using detail::check_aligned;
using detail::check_float;
using detail::refuse_argument;

void check_channels(const rows& input) {
  if (input.inner == 0 || input.n % input.inner)
    refuse_argument("inner", std::to_string(input.inner) + ", which does not divide rows of " +
                                 std::to_string(input.n));
  if (const std::size_t of_row = input.n / input.inner;
      input.channels % of_row || input.channels == 0)
    refuse_argument("channels", std::to_string(input.channels) + ", of which rows have " +
                                    std::to_string(of_row));
}
}  // namespace

void check(row_function f, const rows& input, const void* out) {
  check_float(input.type);
  visit(f, [&]<class F>(std::type_identity<F>) {
    if (!F::elementwise && input.n > max_elements)
      refuse_argument("n", std::to_string(input.n) + ", above 2^24");
    if (input.count == 0 || input.n == 0) return;
    if (!input.x) refuse_argument("x", "null");
    if (F::takes_y && !input.y) refuse_argument("y", "null");
    if ((F::reads || F::writes) && !input.rstd) refuse_argument("rstd", "null");
    if (F::centred && !input.mean) refuse_argument("mean", "null");
    if (!out) refuse_argument("out", "null");
    if (F::by_channel) check_channels(input);
    const std::size_t size = size_of(input.type), wide = std::max<std::size_t>(size, 4);
    for (const auto& [argument, p] :
         {std::pair{"x", input.x}, {"y", input.y}, {"w", input.w}, {"b", input.b}, {"out", out}})
      check_aligned(argument, p, size);
    check_aligned("mean", input.mean, wide);
    check_aligned("rstd", input.rstd, wide);
  });
}

void check(row_function f, const rows_across& input, const void* out) {
  check_float(input.type);
  const std::size_t size = detail::size_of_x({input.outer, input.n, input.inner});
  visit(f, [&]<class F>(std::type_identity<F>) {
    if (F::results == 0)
      refuse_argument("f", std::string(name(f)) + ", which is not of rows that lie across");
    if (size == 0) return;
    const std::size_t element = size_of(input.type);
    detail::check_arrays({{"x", input.x, true}, {"y", input.y, F::takes_y}, {"out", out, true}},
                         element);
    detail::check_arrays({{"first", input.first, true}, {"second", input.second, F::results > 1}},
                         std::max<std::size_t>(element, 4));
  });
}

void check_parameters(row_function f, const rows& input, const void* dw, const void* db) {
  if (f != row_function::layer_norm_backward && f != row_function::rms_norm_backward)
    refuse_argument("f", "no gradient of a norm");
  if (db && f == row_function::rms_norm_backward)
    refuse_argument("db", "of rms_norm, which has no bias");
  if (input.count > max_elements)
    refuse_argument("count", std::to_string(input.count) + ", above 2^24");
  if (input.count > 0 && input.n > 0 && !dw && !db) refuse_argument("dw", "null, as db is");
  check(f, input, dw ? dw : db);
  check_aligned("db", db, size_of(input.type));
}

}  // namespace row

namespace cpu {
namespace {

// What is computed with, of a row: all as they are stored, or widened.
template <class F, class A>
struct widened_row {
  const A *x, *y, *w, *b;  // those that F has
  row::element<A> operator[](std::size_t i) const {
    return {x[i], F::takes_y ? y[i] : A(0), F::affine || F::weighted ? w[i] : A(1),
            F::affine && F::centred ? b[i] : -A(0)};
  }
  widened_row from(std::size_t i) const {
    const auto at = [i](const A* p) { return p ? p + i : p; };
    return {x + i, at(y), at(w), at(b)};
  }
};

// Loops over the elements of a row.
template <class F, class A>
struct pair_elements {
  [[gnu::always_inline]] static void run(const widened_row<F, A>& from,
                                         const row::statistics<A>& saved, std::size_t n,
                                         A* __restrict first, A* __restrict second) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto pair = F::template operand<A>(from[i], saved);
      first[i] = pair.x, second[i] = pair.y;
    }
  }
};
// Of the pairs their products, rounded, as dot adds them up.
template <class F, class A>
struct product_elements {
  [[gnu::always_inline]] static void run(const widened_row<F, A>& from,
                                         const row::statistics<A>& saved, std::size_t n,
                                         A* __restrict products) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto pair = F::template operand<A>(from[i], saved);
      products[i] = arith::mul(pair.x, pair.y);
    }
  }
};
template <class F, class A>
struct map_elements {
  [[gnu::always_inline]] static void run(const widened_row<F, A>& from, const row::statistics<A>& s,
                                         std::size_t n, A* __restrict result) {
    for (std::size_t i = 0; i < n; ++i) result[i] = F::template value<A>(from[i], s);
  }
};
// Writes a row, rounded. `map` is a target's map_elements.
template <class F, class T, class A, class Map>
void map_row(const conversions<T>& by, Map map, const widened_row<F, A>& from,
             const row::statistics<A>& s, std::size_t n, T* out) {
  alignas(64) A result[map_block];
  for (std::size_t first = 0; first < n; first += map_block) {
    const std::size_t here = std::min(map_block, n - first);
    map(from.from(first), s, here, result);
    by.round(result, here, out + first);
  }
}
// A matrix of `count` rows of n elements along one of its axes, or two such matrices.
template <class A>
void reduce_matrix(const reduction& r, const A* x, const A* y, std::size_t count, std::size_t n,
                   int axis, A* out, const options& opts) {
  const auto matrix = [&](const A* v) {
    return row_major(dtype_of<A>, v,
                     {static_cast<std::int64_t>(count), static_cast<std::int64_t>(n)});
  };
  const view x_view = matrix(x), y_view = matrix(y);
  void* const results = out;
  reduce({&r, 1}, x_view, info(r.op()).inputs == 2 ? &y_view : nullptr, {&axis, 1}, {&results, 1},
         opts);
}

// The same of row k of channels, each with a w and a b of its own.
template <class F, class T, class A, class Map>
void map_channels(const conversions<T>& by, Map map, const A* x, const row::statistics<A>& s,
                  const rows& input, std::size_t k, T* out) {
  alignas(64) A w[map_block], b[map_block];
  const std::size_t of_row = input.n / input.inner, first = k * of_row % input.channels,
                    most = std::min(map_block, input.inner);
  constexpr std::size_t few_places = 16;
  const auto parameter = [](const void* from, std::size_t channel, A neutral) {
    return from ? arith::widen<A>(static_cast<const T*>(from)[channel]) : neutral;
  };
  const auto fill = [&](const void* from, std::size_t channel, A neutral, A* to) {
    std::fill_n(to, most, parameter(from, channel, neutral));
  };
  if (input.inner < few_places) {  // of several channels at once, element by element
    for (std::size_t at = 0, c = first, place = 0; at < input.n; at += map_block) {
      const std::size_t here = std::min(map_block, input.n - at);
      for (std::size_t i = 0; i < here; ++i) {
        w[i] = parameter(input.w, c, A(1));
        b[i] = parameter(input.b, c, -A(0));
        if (++place == input.inner) place = 0, ++c;
      }
      map_row(by, map, widened_row<F, A>{x + at, nullptr, w, b}, s, here, out + at);
    }
    return;
  }
  for (std::size_t c = 0; c < of_row; ++c) {
    fill(input.w, first + c, A(1), w);
    fill(input.b, first + c, -A(0), b);
    const std::size_t end = (c + 1) * input.inner;
    for (std::size_t at = c * input.inner; at < end; at += most)
      map_row(by, map, widened_row<F, A>{x + at, nullptr, w, b}, s, std::min(most, end - at),
              out + at);
  }
}

template <class F, class T>
void apply_to(const rows& input, void* out, const options& opts) {
  using A = row::accumulator<T>;
  using operand = decltype(F::template operand<A>(row::element<A>{}, row::statistics<A>{}));
  static constexpr bool narrow = !std::is_same_v<A, T>,
                        makes_pairs = !std::is_same_v<operand, A> && !F::takes_as_stored;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto map = loop_for<map_elements<F, A>>(used);
  // What is folded: the states of these, one behind the other.
  using state = fold::partial<typename F::folded, A>;
  struct part {
    reduction r;
    std::size_t size;
  };
  std::vector<part> parts;
  for (const op_id op : F::ops) {
    const auto method = info(op).takes_method ? std::optional(method_id::tree) : std::nullopt;
    const reduction r = make_reduction(op, method, dtype_of<A>);
    parts.push_back({r, functions_for(r).size});
  }
  const std::size_t n = input.n, block_size = n < 512 ? std::min<std::size_t>(4096 / n, 256)
                                                      : 1;  // rows that are reduced by one call
  const options single_thread{.threads = 1, .target = opts.target};
  for_each_range(
      input.count, input.count * n * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
        // w and b; x and y as the reductions take them; x and y widened.
        const std::size_t max_rows = std::min(block_size, end - begin),
                          widened_size = makes_pairs || narrow ? max_rows * n : 0;
        const auto room = uninitialized<A>(2 * n + (makes_pairs ? 2 * widened_size : 0) +
                                           (narrow ? 2 * widened_size : 0));
        A *const of_w = room.get(), *const of_b = of_w + n, *const first = of_b + n,
                 *const second = first + widened_size,
                 *const wide = makes_pairs ? second + widened_size : first;
        std::vector<std::byte> states(max_rows * sizeof(state));
        const auto widened = [&](const T* from, std::size_t count, A* to) -> const A* {
          if constexpr (narrow)
            return by.widen(from, count, to), to;
          else
            return from;
        };
        const auto parameters = [&](const void* from, A neutral, A* to) -> const A* {
          if (from) return widened(static_cast<const T*>(from), n, to);
          std::fill_n(to, n, neutral);
          return to;
        };
        constexpr bool of_places = !F::by_channel,
                       takes_w = of_places && (F::affine || F::weighted),
                       takes_b = of_places && F::affine && F::centred;
        const A *const w = takes_w ? parameters(input.w, A(1), of_w) : nullptr,
                       *const b = takes_b ? parameters(input.b, -A(0), of_b) : nullptr;
        for (std::size_t k = begin; k < end; k += block_size) {
          const std::size_t taken = std::min(block_size, end - k);
          const auto rows_from = [&](const void* from, A* to) {
            return widened(static_cast<const T*>(from) + k * n, taken * n, to);
          };
          const A *const stored_x = rows_from(input.x, wide), *const stored_y =
                                                                  F::takes_y
                                                                      ? rows_from(
                                                                            input.y,
                                                                            wide + widened_size)
                                                                      : nullptr;
          const auto row_of = [&](std::size_t i) {
            return widened_row<F, A>{stored_x + i * n, F::takes_y ? stored_y + i * n : nullptr, w,
                                     b};
          };
          const auto saved_of = [&](std::size_t i) {
            row::statistics<A> saved;
            if constexpr (F::reads) {
              saved.b = static_cast<const A*>(input.rstd)[k + i];
              if (F::centred) saved.a = static_cast<const A*>(input.mean)[k + i];
            }
            return saved;
          };
          const A *x = stored_x, *y = stored_y;
          if constexpr (makes_pairs) {
            const auto pairs_of = loop_for<pair_elements<F, A>>(used);
            for (std::size_t i = 0; i < taken; ++i)
              pairs_of(row_of(i), saved_of(i), n, first + i * n, second + i * n);
            x = first, y = second;
          }
          std::byte* to = states.data();
          for (const part& p : parts) {
            fold_rows(p.r, {x, info(p.r.op()).inputs == 2 ? y : nullptr}, taken, n, to,
                      single_thread);
            to += max_rows * p.size;
          }
          const auto state_of = [&](std::size_t i) {
            state s;
            auto* into = reinterpret_cast<std::byte*>(&s);
            const std::byte* from = states.data();
            for (const part& p : parts) {
              std::memcpy(into, from + i * p.size, p.size);
              into += p.size, from += max_rows * p.size;
            }
            return s;
          };
          for (std::size_t i = 0; i < taken; ++i) {
            const row::statistics<A> s =
                F::template finish<A>(state_of(i), n, input.eps, saved_of(i));
            if constexpr (F::writes) {
              static_cast<A*>(input.rstd)[k + i] = arith::round_to<A>(s.b);
              if (F::centred) static_cast<A*>(input.mean)[k + i] = arith::round_to<A>(s.a);
            }
            T* const to = static_cast<T*>(out) + (k + i) * n;
            if constexpr (F::by_channel)
              map_channels<F>(by, map, stored_x + i * n, s, input, k + i, to);
            else
              map_row(by, map, row_of(i), s, n, to);
          }
        }
      });
}

// Of a function that is of each element alone.
template <class F, class T>
struct map_each {
  [[gnu::always_inline]] static void run(const conversions<T>& by, const T* x, std::size_t n,
                                         T* out) {
    using A = row::accumulator<T>;
    map_widened<false>(by, x, static_cast<const T*>(nullptr), n, out, [](A v, A, std::size_t) {
      return F::template value<A>(row::element<A>{v, A(0), A(1), -A(0)}, row::statistics<A>{});
    });
  }
};
template <class F, class T>
void apply_to_each(const rows& input, void* out, const options& opts) {
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto map = loop_for<map_each<F, T>>(used);
  const std::size_t n = input.count * input.n;
  for_each_range((n + map_block - 1) / map_block, n * sizeof(T), 4, opts,
                 [&](std::size_t begin, std::size_t end) {
                   const std::size_t i = begin * map_block;
                   map(by, static_cast<const T*>(input.x) + i, std::min(n, end * map_block) - i,
                       static_cast<T*>(out) + i);
                 });
}

// `count` rows of n elements A, summed along the rows' direction.
template <class A>
std::vector<A> sums_of_columns(const A* x, std::size_t count, std::size_t n, const options& opts) {
  std::vector<A> sums(n);
  reduce_matrix<A>(make_reduction(op_id::sum, method_id::tree, dtype_of<A>), x, nullptr, count, n,
                   0, sums.data(), opts);
  return sums;
}

template <class F, class T>
void parameter_gradients_of(const rows& input, void* dw, void* db, const options& opts) {
  using A = row::accumulator<T>;
  static constexpr bool narrow = !std::is_same_v<A, T>;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto products_of = loop_for<product_elements<F, A>>(used);
  const std::size_t n = input.n, all = input.count * n;
  // g times z, whose sums are the dot products of both; and g, where it is not as it is stored.
  const auto room = uninitialized<A>((dw ? all : 0) + (narrow ? all : 0));
  A *const products = room.get(), *const g = products + (dw ? all : 0);
  if (dw || narrow)
    for_each_range(input.count, all * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
      std::vector<A> ones(n, A(1)), wide(narrow ? n : 0);
      for (std::size_t k = begin; k < end; ++k) {
        const auto row_from = [&](const void* from, A* to) -> const A* {
          const T* const stored = static_cast<const T*>(from) + k * n;
          if constexpr (narrow)
            return by.widen(stored, n, to), to;
          else
            return stored;
        };
        const A* const x = row_from(input.x, narrow ? g + k * n : nullptr);
        if (!dw) continue;
        const row::statistics<A> s{F::centred ? static_cast<const A*>(input.mean)[k] : A(0),
                                   static_cast<const A*>(input.rstd)[k]};
        products_of({x, row_from(input.y, wide.data()), ones.data(), nullptr}, s, n,
                    products + k * n);
      }
    });
  const auto write = [&](void* to, const A* x) {
    const std::vector<A> sums = sums_of_columns(x, input.count, n, opts);
    for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = arith::round_to<T>(sums[i]);
  };
  if (dw) write(dw, products);
  if (db) {
    if constexpr (narrow)
      write(db, g);
    else
      write(db, static_cast<const T*>(input.x));
  }
}

}  // namespace

void apply(row_function f, const rows& input, void* out, const options& opts) {
  row::check(f, input, out);
  if (input.count == 0 || input.n == 0) return;
  row::visit(f, [&]<class F>(std::type_identity<F>) {
    with_float(input.type, [&]<class T>(std::type_identity<T>) {
      if constexpr (F::elementwise)
        apply_to_each<F, T>(input, out, opts);
      else
        apply_to<F, T>(input, out, opts);
    });
  });
}

void parameter_gradients(row_function f, const rows& input, void* dw, void* db,
                         const options& opts) {
  row::check_parameters(f, input, dw, db);
  with_float(input.type, [&]<class T>(std::type_identity<T>) {
    if (f == row_function::layer_norm_backward)
      parameter_gradients_of<row::layer_norm_backward, T>(input, dw, db, opts);
    else
      parameter_gradients_of<row::rms_norm_backward, T>(input, dw, db, opts);
  });
}

}  // namespace cpu
}  // namespace bitfold
