// Row functions on the CPU: reductions of each row, then its elements one by one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../arguments.hpp"
#include "../row_functions.hpp"
#include "../fp_environment.hpp"
#include "column_sums.hpp"

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
  [[gnu::always_inline]] row::element<A> operator[](std::size_t i) const {
    return {x[i], F::takes_y ? y[i] : A(0), F::affine || F::weighted ? w[i] : A(1),
            F::affine && F::centred ? b[i] : -A(0)};
  }
  widened_row from(std::size_t i) const {
    const auto at = [i](const A* p) { return p ? p + i : p; };
    return {x + i, at(y), at(w), at(b)};
  }
  /// The same place of a row so many elements further on.
  widened_row ahead(std::size_t i) const { return {x + i, F::takes_y ? y + i : y, w, b}; }
};
// The pairs that F made of a row's elements.
template <class A>
struct row_pairs {
  const A *x, *y;
  [[gnu::always_inline]] fold::pair_of<A> operator[](std::size_t i) const { return {x[i], y[i]}; }
  row_pairs from(std::size_t i) const { return {x + i, y + i}; }
  row_pairs ahead(std::size_t i) const { return from(i); }
};

// Loops over the elements of some rows, one behind the other.
template <class F, class A>
struct pair_elements {
  [[gnu::always_inline]] static void run(const widened_row<F, A>& from,
                                         const row::statistics<A>* saved, std::size_t rows,
                                         std::size_t n, A* __restrict first, A* __restrict second) {
    for (std::size_t k = 0; k < rows; ++k, first += n, second += n) {
      const widened_row<F, A> row = from.ahead(k * n);
      const row::statistics<A> s = saved[k];
      for (std::size_t i = 0; i < n; ++i) {
        const auto pair = F::template operand<A>(row[i], s);
        first[i] = pair.x, second[i] = pair.y;
      }
    }
  }
};
// What rows' states say of them: of two operations those of the first lie before those of the
// second, `apart` of each.
template <class F, class A>
struct finish_rows {
  [[gnu::always_inline]] static void run(const std::byte* states, std::size_t apart,
                                         std::size_t rows, std::size_t n, double eps,
                                         row::statistics<A>* statistics) {
    for (std::size_t k = 0; k < rows; ++k) {
      fold::partial<typename F::folded, A> s;
      if constexpr (F::ops.size() == 1) {
        std::memcpy(&s, states + k * sizeof s, sizeof s);
      } else {
        std::memcpy(&s.a, states + k * sizeof s.a, sizeof s.a);
        std::memcpy(&s.b, states + apart * sizeof s.a + k * sizeof s.b, sizeof s.b);
      }
      statistics[k] = F::template finish<A>(s, n, eps, statistics[k]);
    }
  }
};
// Of results that are stored as they are computed with, NaNs are the canonical one.
template <class F, class T, class From>
struct map_elements {
  using A = row::accumulator<T>;
  [[gnu::always_inline]] static void run(const From& from, const row::statistics<A>* statistics,
                                         std::size_t rows, std::size_t n, A* result) {
    for (std::size_t k = 0; k < rows; ++k, result += n) {
      const From row = from.ahead(k * n);
      const row::statistics<A> s = statistics[k];
      BITFOLD_EACH_IN_PLACE
      for (std::size_t i = 0; i < n; ++i) {
        const A value = F::template value<A>(row[i], s);
        result[i] = std::is_same_v<A, T> ? arith::round_to<A>(value) : value;
      }
    }
  }
};
// Writes some rows, rounded. `map` is a target's map_elements.
template <class T, class A, class Map, class From>
void map_rows(const conversions<T>& by, Map map, const From& from,
              const row::statistics<A>* statistics, std::size_t rows, std::size_t n, T* out) {
  if constexpr (std::is_same_v<A, T>) {
    map(from, statistics, rows, n, out);
  } else {
    alignas(64) A result[map_block];
    const std::size_t at_once = std::max<std::size_t>(map_block / n, 1);
    for (std::size_t k = 0; k < rows; k += at_once)
      for (std::size_t first = 0; first < n; first += map_block) {
        const std::size_t taken = std::min(at_once, rows - k),
                          here = std::min(map_block, n - first);
        map(from.ahead(k * n).from(first), statistics + k, taken, here, result);
        by.round(result, taken * here, out + k * n + first, far_ahead);
      }
  }
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
      map_rows(by, map, widened_row<F, A>{x + at, nullptr, w, b}, &s, 1, here, out + at);
    }
    return;
  }
  for (std::size_t c = 0; c < of_row; ++c) {
    fill(input.w, first + c, A(1), w);
    fill(input.b, first + c, -A(0), b);
    const std::size_t end = (c + 1) * input.inner;
    for (std::size_t at = c * input.inner; at < end; at += most)
      map_rows(by, map, widened_row<F, A>{x + at, nullptr, w, b}, &s, 1, std::min(most, end - at),
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
  using from = std::conditional_t<makes_pairs, row_pairs<A>, widened_row<F, A>>;
  const auto map = loop_for<map_elements<F, T, from>>(used);
  const auto finish = loop_for<finish_rows<F, A>>(used);
  // What is folded: the states of these, one behind the other.
  struct part {
    reduction r;
    std::size_t size;
  };
  std::vector<part> parts;
  const std::size_t n = input.n;
  std::size_t block_size =
      n < 512 ? std::min<std::size_t>(4096 / n, 256) : 1;  // rows that are reduced by one call
  for (const op_id op : F::ops) {
    const auto method = info(op).takes_method ? std::optional(method_id::tree) : std::nullopt;
    const reduction r = make_reduction(op, method, dtype_of<A>);
    parts.push_back({r, functions_for(r).size});
    if (const kernels k = find_kernels(used, r); k.slow_tail && n < max_tailed_row)
      block_size = std::max(block_size, static_cast<std::size_t>(k.batch.width));
  }
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
        std::vector<std::byte> states(max_rows * sizeof(fold::partial<typename F::folded, A>));
        std::vector<row::statistics<A>> of_rows(max_rows);
        const auto parameters = [&](const void* from, A neutral, A* to) -> const A* {
          if (from) return widened(by, static_cast<const T*>(from), n, to);
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
            return widened(by, static_cast<const T*>(from) + k * n, taken * n, to);
          };
          const A *const stored_x = rows_from(input.x, wide), *const stored_y =
                                                                  F::takes_y
                                                                      ? rows_from(
                                                                            input.y,
                                                                            wide + widened_size)
                                                                      : nullptr;
          const widened_row<F, A> stored{stored_x, stored_y, w, b};
          if constexpr (F::reads)
            for (std::size_t i = 0; i < taken; ++i) {
              of_rows[i].b = static_cast<const A*>(input.rstd)[k + i];
              if (F::centred) of_rows[i].a = static_cast<const A*>(input.mean)[k + i];
            }
          const A *x = stored_x, *y = stored_y;
          if constexpr (makes_pairs) {
            loop_for<pair_elements<F, A>>(used)(stored, of_rows.data(), taken, n, first, second);
            x = first, y = second;
          }
          std::byte* to = states.data();
          for (const part& p : parts) {
            fold_rows(p.r, {x, info(p.r.op()).inputs == 2 ? y : nullptr}, taken, n, to,
                      single_thread);
            to += max_rows * p.size;
          }
          finish(states.data(), max_rows, taken, n, input.eps, of_rows.data());
          if constexpr (F::writes)
            for (std::size_t i = 0; i < taken; ++i) {
              static_cast<A*>(input.rstd)[k + i] = arith::round_to<A>(of_rows[i].b);
              if (F::centred) static_cast<A*>(input.mean)[k + i] = arith::round_to<A>(of_rows[i].a);
            }
          T* const results = static_cast<T*>(out) + k * n;
          if constexpr (F::by_channel)
            for (std::size_t i = 0; i < taken; ++i)
              map_channels<F>(by, map, stored_x + i * n, of_rows[i], input, k + i, results + i * n);
          else if constexpr (makes_pairs)
            map_rows(by, map, from{first, second}, of_rows.data(), taken, n, results);
          else
            map_rows(by, map, stored, of_rows.data(), taken, n, results);
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

// Of the parameters' gradients a row's terms: of the pairs their products, rounded, as dot adds
// them up; and the elements.
template <class F, class A>
struct add_products {
  [[gnu::always_inline]] static void run(const A* x, const A* y, const row::statistics<A>& saved,
                                         std::size_t n, A* __restrict to) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto pair = F::template operand<A>({x[i], y[i], A(1), -A(0)}, saved);
      to[i] = arith::add(to[i], arith::mul(pair.x, pair.y));
    }
  }
};
template <class A>
struct add_elements {
  [[gnu::always_inline]] static void run(const A* x, std::size_t n, A* __restrict to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = arith::add(to[i], x[i]);
  }
};

template <class F, class T>
void parameter_gradients_of(const rows& input, void* dw, void* db, const options& opts) {
  using A = row::accumulator<T>;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto products = loop_for<add_products<F, A>>(used);
  const auto elements = loop_for<add_elements<A>>(used);
  const std::size_t n = input.n, sums = dw && db ? 2 : 1;
  if (n == 0) return;
  const auto all = sums_of_columns<A>(sums, input.count, n, input.count * n * sizeof(T), opts, [&] {
    return [&, room = uninitialized<A>(2 * most_columns<A>(sums))](
               std::size_t k, std::size_t first, std::size_t here, A* to, std::size_t apart) {
      const auto part_of = [&](const void* from, A* wide) {
        return part_of_row(by, from, k, n, first, here, wide);
      };
      const A* const x = part_of(input.x, room.get());
      if (db) elements(x, here, to + (dw ? apart : 0));
      if (!dw) return;
      const row::statistics<A> s{F::centred ? static_cast<const A*>(input.mean)[k] : A(0),
                                 static_cast<const A*>(input.rstd)[k]};
      products(x, part_of(input.y, room.get() + here), s, here, to);
    };
  });
  const auto write = [&](void* to, const A* from) {
    if (to) by.round(from, n, static_cast<T*>(to), far_ahead);
  };
  write(dw, all.get());
  write(db, all.get() + (dw ? n : 0));
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
  const detail::fp_environment guard;  // sums meet, and are rounded, on this thread
  with_float(input.type, [&]<class T>(std::type_identity<T>) {
    if (f == row_function::layer_norm_backward)
      parameter_gradients_of<row::layer_norm_backward, T>(input, dw, db, opts);
    else
      parameter_gradients_of<row::rms_norm_backward, T>(input, dw, db, opts);
  });
}

}  // namespace cpu
}  // namespace bitfold
