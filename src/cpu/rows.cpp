// Row functions on the CPU: reductions of each row, then its elements one by one.
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../row_functions.hpp"
#include "task.hpp"

namespace bitfold {

namespace row {
namespace {
[[noreturn]] void refuse(const char* argument, const std::string& what) {
  throw error(errc::usage, std::string(argument) + ": " + what);
}
}  // namespace

void check(row_function f, const rows& of, const void* out) {
  if (!is_float(of.type)) refuse("type", std::string(name(of.type)) + ", which is no float type");
  visit(f, [&]<class F>(std::type_identity<F>) {
    if (!F::alone && of.n > most_elements) refuse("n", std::to_string(of.n) + ", above 2^24");
    if (of.count == 0 || of.n == 0) return;
    if (!of.x) refuse("x", "null");
    if (F::two && !of.y) refuse("y", "null");
    if ((F::reads || F::writes) && !of.rstd) refuse("rstd", "null");
    if (F::centred && !of.mean) refuse("mean", "null");
    if (!out) refuse("out", "null");
  });
}

void check_parameters(row_function f, const rows& of, const void* dw, const void* db) {
  if (f != row_function::layer_norm_backward && f != row_function::rms_norm_backward)
    refuse("f", "no gradient of a norm");
  if (db && f == row_function::rms_norm_backward) refuse("db", "of rms_norm, which has no bias");
  if (of.count > most_elements) refuse("count", std::to_string(of.count) + ", above 2^24");
  if (of.count > 0 && of.n > 0 && !dw && !db) refuse("dw", "null, as db is");
  check(f, of, dw ? dw : db);
}

void check_segments(const rows& of, const row_segments& by, const void* out) {
  if (!is_float(of.type)) refuse("type", std::string(name(of.type)) + ", which is no float type");
  if (of.n > most_elements) refuse("n", std::to_string(of.n) + ", above 2^24");
  if (by.outputs == 0 || of.n == 0) return;
  if (!by.offsets) refuse("offsets", "null");
  if (!out) refuse("out", "null");
  if (of.count > 0 && !of.x) refuse("x", "null");
  if (of.count > 0 && !by.places) refuse("places", "null");
}

}  // namespace row

namespace cpu {
namespace {

// What is computed with, of a row: all as they are stored, or widened.
template <class F, class A>
struct widened_row {
  const A *x, *y, *w, *b;  // those that F has
  row::element<A> operator[](std::size_t i) const {
    return {x[i], F::two ? y[i] : A(0), F::affine || F::weighted ? w[i] : A(1),
            F::affine && F::centred ? b[i] : -A(0)};
  }
};

// Loops over the elements of a row.
template <class T, class A>
struct widen_elements {
  [[gnu::always_inline]] static void run(const T* from, std::size_t n, A* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = arith::widen<A>(from[i]);
  }
};
template <class F, class A>
struct pair_elements {
  [[gnu::always_inline]] static void run(const widened_row<F, A>& from,
                                         const row::statistics<A>& saved, std::size_t n,
                                         A* __restrict first, A* __restrict second) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto pair = F::template of<A>(from[i], saved);
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
      const auto pair = F::template of<A>(from[i], saved);
      products[i] = arith::mul(pair.x, pair.y);
    }
  }
};
template <class F, class T, class A>
struct map_elements {
  [[gnu::always_inline]] static void run(const widened_row<F, A>& from, const row::statistics<A>& s,
                                         std::size_t n, A* __restrict result, T* out) {
    for (std::size_t i = 0; i < n; ++i) result[i] = F::template value<A>(from[i], s);
    for (std::size_t i = 0; i < n; ++i) out[i] = arith::round_to<T>(result[i]);
  }
};
// The same for each target: instructions that are wider, and an FMA that is no call.
template <class Loop, class... Arguments>
void anywhere(Arguments... of) {
  Loop::run(of...);
}
#if defined(__x86_64__) || defined(_M_X64)
template <class Loop, class... Arguments>
[[gnu::target("avx2,fma")]] void with_avx2(Arguments... of) {
  Loop::run(of...);
}
template <class Loop, class... Arguments>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")]] void with_avx512(
    Arguments... of) {
  Loop::run(of...);
}
#endif
template <class Loop, class... Arguments>
auto compiled_for(target by, void (*)(Arguments...)) -> void (*)(Arguments...) {
#if defined(__x86_64__) || defined(_M_X64)
  if (by == target::avx512) return with_avx512<Loop, Arguments...>;
  if (by == target::avx2) return with_avx2<Loop, Arguments...>;
#endif
  return anywhere<Loop, Arguments...>;
}
template <class Loop>
auto loop_for(target by) {
  return compiled_for<Loop>(by, &Loop::run);
}

// Numbers that begin with a line of the cache.
struct freed {
  void operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }
};
template <class A>
std::unique_ptr<A[], freed> uninitialized(std::size_t n) {
  return std::unique_ptr<A[], freed>(
      static_cast<A*>(::operator new(n * sizeof(A), std::align_val_t{64})));
}

// Calls f(begin, end) for runs of `count` rows or outputs, some for each thread that so many bytes
// are worth.
template <class F>
void for_each_run(std::size_t count, std::size_t bytes, int of_each_thread, const options& how,
                  F f) {
  const int threads = threads_for(how, bytes);
  const std::size_t runs = std::min<std::size_t>(count, parts_for(threads, of_each_thread));
  for_each_part(runs, threads, [&](std::size_t k) { f(count * k / runs, count * (k + 1) / runs); });
}

// A matrix of `count` rows of n elements along one of its axes, or two such matrices.
template <class A>
void reduce_matrix(const reduction& r, const A* x, const A* y, std::size_t count, std::size_t n,
                   int axis, A* out, const options& how) {
  const auto matrix = [&](const A* v) {
    return row_major(dtype_of<A>, v,
                     {static_cast<std::int64_t>(count), static_cast<std::int64_t>(n)});
  };
  const view of_x = matrix(x), of_y = matrix(y);
  void* const to = out;
  reduce({&r, 1}, of_x, info(r.op()).inputs == 2 ? &of_y : nullptr, {&axis, 1}, {&to, 1}, how);
}

template <class F, class T>
void apply_to(const rows& of, void* out, const options& how) {
  using A = row::accumulator<T>;
  using taken = decltype(F::template of<A>(row::element<A>{}, row::statistics<A>{}));
  static constexpr bool narrow = !std::is_same_v<A, T>,
                        makes_pairs = !std::is_same_v<taken, A> && !F::takes_as_stored;
  const target by = chosen(how);
  const auto widen = loop_for<widen_elements<T, A>>(by);
  const auto map = loop_for<map_elements<F, T, A>>(by);
  // What is folded: the states of these, one behind the other.
  using state = fold::settled<typename F::folded, A>;
  struct part {
    reduction what;
    std::size_t size;
  };
  std::vector<part> parts;
  for (const op_id op : F::ops) {
    const auto method = info(op).takes_method ? std::optional(method_id::tree) : std::nullopt;
    const reduction r = make_reduction(op, method, dtype_of<A>);
    parts.push_back({r, functions_for(r).size});
  }
  const std::size_t n = of.n, at_once = n < 512 ? std::min<std::size_t>(4096 / n, 256)
                                                : 1;  // rows that are reduced by one call
  const options alone{.threads = 1, .target = how.target};
  for_each_run(of.count, of.count * n * sizeof(T), 4, how, [&](std::size_t begin, std::size_t end) {
    // The result of a row; w and b; x and y as the reductions take them; x and y widened; the
    // reductions' results.
    const std::size_t most = std::min(at_once, end - begin),
                      some = makes_pairs || narrow ? most * n : 0;
    const auto room =
        uninitialized<A>(3 * n + (makes_pairs ? 2 * some : 0) + (narrow ? 2 * some : 0));
    A *const result = room.get(), *const first = result + 3 * n, *const second = first + some,
             *const wide = makes_pairs ? second + some : first;
    std::vector<std::byte> states(most * sizeof(state));
    const auto widened = [&](const T* from, std::size_t count, A* to) -> const A* {
      if constexpr (narrow)
        return widen(from, count, to), to;
      else
        return from;
    };
    const auto parameters = [&](const void* from, A neutral, A* to) -> const A* {
      return from ? widened(static_cast<const T*>(from), n, to) : (std::fill_n(to, n, neutral), to);
    };
    const A *const w = F::affine || F::weighted ? parameters(of.w, A(1), result + n) : nullptr,
                   *const b =
                       F::affine && F::centred ? parameters(of.b, -A(0), result + 2 * n) : nullptr;
    for (std::size_t k = begin; k < end; k += at_once) {
      const std::size_t here = std::min(at_once, end - k);
      const auto rows_from = [&](const void* from, A* to) {
        return widened(static_cast<const T*>(from) + k * n, here * n, to);
      };
      const A *const stored_x = rows_from(of.x, wide), *const stored_y =
                                                           F::two ? rows_from(of.y, wide + some)
                                                                  : nullptr;
      const auto row_of = [&](std::size_t i) {
        return widened_row<F, A>{stored_x + i * n, F::two ? stored_y + i * n : nullptr, w, b};
      };
      const auto saved_of = [&](std::size_t i) {
        row::statistics<A> saved;
        if constexpr (F::reads) {
          saved.b = static_cast<const A*>(of.rstd)[k + i];
          if (F::centred) saved.a = static_cast<const A*>(of.mean)[k + i];
        }
        return saved;
      };
      const A *x = stored_x, *y = stored_y;
      if constexpr (makes_pairs) {
        const auto pairs_of = loop_for<pair_elements<F, A>>(by);
        for (std::size_t i = 0; i < here; ++i)
          pairs_of(row_of(i), saved_of(i), n, first + i * n, second + i * n);
        x = first, y = second;
      }
      std::byte* to = states.data();
      for (const part& p : parts) {
        fold_rows(p.what, {x, info(p.what.op()).inputs == 2 ? y : nullptr}, here, n, to, alone);
        to += most * p.size;
      }
      const auto state_of = [&](std::size_t i) {
        state s;
        auto* into = reinterpret_cast<std::byte*>(&s);
        const std::byte* from = states.data();
        for (const part& p : parts) {
          std::memcpy(into, from + i * p.size, p.size);
          into += p.size, from += most * p.size;
        }
        return s;
      };
      for (std::size_t i = 0; i < here; ++i) {
        const row::statistics<A> s = F::template finish<A>(state_of(i), n, of.eps, saved_of(i));
        if constexpr (F::writes) {
          static_cast<A*>(of.rstd)[k + i] = arith::round_to<A>(s.b);
          if (F::centred) static_cast<A*>(of.mean)[k + i] = arith::round_to<A>(s.a);
        }
        map(row_of(i), s, n, result, static_cast<T*>(out) + (k + i) * n);
      }
    }
  });
}

// Of a function that is of each element alone.
template <class F, class T>
void apply_to_each(const rows& of, void* out, const options& how) {
  using A = row::accumulator<T>;
  static constexpr std::size_t at_once = 4096;
  const target by = chosen(how);
  const auto widen = loop_for<widen_elements<T, A>>(by);
  const auto map = loop_for<map_elements<F, T, A>>(by);
  const std::size_t n = of.count * of.n;
  for_each_run(
      (n + at_once - 1) / at_once, n * sizeof(T), 4, how, [&](std::size_t begin, std::size_t end) {
        const auto room = uninitialized<A>(2 * at_once);
        for (std::size_t i = begin * at_once; i < std::min(n, end * at_once); i += at_once) {
          const T* const stored = static_cast<const T*>(of.x) + i;
          const std::size_t here = std::min(at_once, n - i);
          const A* x = room.get() + at_once;
          if constexpr (std::is_same_v<A, T>)
            x = stored;
          else
            widen(stored, here, room.get() + at_once);
          map({x, nullptr, nullptr, nullptr}, {}, here, room.get(), static_cast<T*>(out) + i);
        }
      });
}

// `count` rows of n elements A, summed along the rows' direction.
template <class A>
std::vector<A> sums_of_columns(const A* x, std::size_t count, std::size_t n, const options& how) {
  std::vector<A> sums(n);
  reduce_matrix<A>(make_reduction(op_id::sum, method_id::tree, dtype_of<A>), x, nullptr, count, n,
                   0, sums.data(), how);
  return sums;
}

template <class F, class T>
void parameter_gradients_of(const rows& of, void* dw, void* db, const options& how) {
  using A = row::accumulator<T>;
  static constexpr bool narrow = !std::is_same_v<A, T>;
  const target by = chosen(how);
  const auto widen = loop_for<widen_elements<T, A>>(by);
  const auto products_of = loop_for<product_elements<F, A>>(by);
  const std::size_t n = of.n, all = of.count * n;
  // g times z, whose sums are the dot products of both; and g, where it is not as it is stored.
  const auto room = uninitialized<A>((dw ? all : 0) + (narrow ? all : 0));
  A *const products = room.get(), *const g = products + (dw ? all : 0);
  if (dw || narrow)
    for_each_run(of.count, all * sizeof(T), 4, how, [&](std::size_t begin, std::size_t end) {
      std::vector<A> ones(n, A(1)), wide(narrow ? n : 0);
      for (std::size_t k = begin; k < end; ++k) {
        const auto row_from = [&](const void* from, A* to) -> const A* {
          const T* const stored = static_cast<const T*>(from) + k * n;
          if constexpr (narrow)
            return widen(stored, n, to), to;
          else
            return stored;
        };
        const A* const x = row_from(of.x, narrow ? g + k * n : nullptr);
        if (!dw) continue;
        const row::statistics<A> s{F::centred ? static_cast<const A*>(of.mean)[k] : A(0),
                                   static_cast<const A*>(of.rstd)[k]};
        products_of({x, row_from(of.y, wide.data()), ones.data(), nullptr}, s, n, products + k * n);
      }
    });
  const auto write = [&](void* to, const A* x) {
    const std::vector<A> sums = sums_of_columns(x, of.count, n, how);
    for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = arith::round_to<T>(sums[i]);
  };
  if (dw) write(dw, products);
  if (db) {
    if constexpr (narrow)
      write(db, g);
    else
      write(db, static_cast<const T*>(of.x));
  }
}

template <class T>
void sum_rows_of(const rows& of, const row_segments& by, const void* base, void* out,
                 const options& how) {
  using A = row::accumulator<T>;
  const std::size_t n = of.n;
  const options alone{.threads = 1, .target = how.target};
  for_each_run(
      by.outputs, of.count * n * sizeof(T), 16, how, [&](std::size_t begin, std::size_t end) {
        std::vector<A> gathered;
        for (std::size_t k = begin; k < end; ++k) {
          T* const to = static_cast<T*>(out) + k * n;
          const T* const from = base ? static_cast<const T*>(base) + k * n : nullptr;
          const auto count = static_cast<std::size_t>(by.offsets[k + 1] - by.offsets[k]);
          if (count == 0) {
            for (std::size_t i = 0; i < n; ++i) to[i] = from ? from[i] : T{};
            continue;
          }
          gathered.resize(count * n);
          for (std::size_t j = 0; j < count; ++j) {
            const T* const x =
                static_cast<const T*>(of.x) +
                static_cast<std::size_t>(by.places[static_cast<std::size_t>(by.offsets[k]) + j]) *
                    n;
            for (std::size_t i = 0; i < n; ++i) gathered[j * n + i] = arith::widen<A>(x[i]);
          }
          const std::vector<A> sums = sums_of_columns(gathered.data(), count, n, alone);
          for (std::size_t i = 0; i < n; ++i)
            to[i] =
                arith::round_to<T>(from ? arith::add(arith::widen<A>(from[i]), sums[i]) : sums[i]);
        }
      });
}

// Calls f(std::type_identity<T>{}) of a float type.
template <class F>
void with_float(dtype type, F f) {
  switch (type) {
    case dtype::f16: return f(std::type_identity<float16>{});
    case dtype::bf16: return f(std::type_identity<bfloat16>{});
    case dtype::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<float>{});
  }
}

}  // namespace

void apply(row_function f, const rows& of, void* out, const options& how) {
  row::check(f, of, out);
  if (of.count == 0 || of.n == 0) return;
  row::visit(f, [&]<class F>(std::type_identity<F>) {
    with_float(of.type, [&]<class T>(std::type_identity<T>) {
      if constexpr (F::alone)
        apply_to_each<F, T>(of, out, how);
      else
        apply_to<F, T>(of, out, how);
    });
  });
}

void parameter_gradients(row_function f, const rows& of, void* dw, void* db, const options& how) {
  row::check_parameters(f, of, dw, db);
  with_float(of.type, [&]<class T>(std::type_identity<T>) {
    if (f == row_function::layer_norm_backward)
      parameter_gradients_of<row::layer_norm_backward, T>(of, dw, db, how);
    else
      parameter_gradients_of<row::rms_norm_backward, T>(of, dw, db, how);
  });
}

void sum_rows(const rows& of, const row_segments& by, const void* base, void* out,
              const options& how) {
  row::check_segments(of, by, out);
  if (by.outputs == 0 || of.n == 0) return;
  for (std::size_t k = 0; k < by.outputs; ++k) {
    const auto size = by.offsets[k + 1] - by.offsets[k];
    if (size < 0 || size > static_cast<std::int64_t>(row::most_elements))
      row::refuse("offsets", "number " + std::to_string(k + 1) + " falls, or is too far");
  }
  if (by.offsets[0] < 0) row::refuse("offsets", "the first is " + std::to_string(by.offsets[0]));
  if (by.offsets[by.outputs] > by.offsets[0] && !by.places) row::refuse("places", "null");
  for (auto i = by.offsets[0]; i < by.offsets[by.outputs]; ++i)
    if (const auto place = by.places[i]; place < 0 || place >= static_cast<std::int64_t>(of.count))
      row::refuse("places", std::to_string(place) + ", where there are " +
                                std::to_string(of.count) + " rows");
  with_float(of.type,
             [&]<class T>(std::type_identity<T>) { sum_rows_of<T>(of, by, base, out, how); });
}

}  // namespace cpu
}  // namespace bitfold
