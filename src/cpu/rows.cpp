// Row functions on the CPU: reductions of each row, then its elements one by one.
#include <algorithm>
#include <string>
#include <vector>

#include "../row_functions.hpp"
#include "task.hpp"

namespace bitfold {

namespace row {
namespace {
[[noreturn]] void refuse(const char* argument, const std::string& what) { throw error(errc::usage, std::string(argument) + ": " + what); }
}  // namespace

void check(row_function f, const rows& of, const void* out) {
  if (!is_float(of.type)) refuse("type", std::string(name(of.type)) + ", which is no float type");
  if (of.n > most_elements) refuse("n", std::to_string(of.n) + ", above 2^24");
  if (of.count == 0 || of.n == 0) return;
  visit(f, [&]<class F>(std::type_identity<F>) {
    if (!of.x) refuse("x", "null");
    if (F::two && !of.y) refuse("y", "null");
    if ((F::reads || F::writes) && !of.rstd) refuse("rstd", "null");
    if (F::centred && !of.mean) refuse("mean", "null");
    if (!out) refuse("out", "null");
  });
}

void check_parameters(row_function f, const rows& of, const void* dw, const void* db) {
  if (f != row_function::layer_norm_backward && f != row_function::rms_norm_backward) refuse("f", "no gradient of a norm");
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

// What is computed with, of a row: x and y as they are stored, or widened.
template <class F, class A>
struct widened_row {
  const A *x, *y, *w, *b;
  row::element<A> operator[](std::size_t i) const { return {x[i], F::two ? y[i] : A(0), w ? w[i] : A(1), b ? b[i] : -A(0)}; }
};

template <class F, class T, class A>
[[gnu::always_inline]] inline void map_elements(const widened_row<F, A>& from, const row::statistics<A>& s, std::size_t n, A* result, T* out) {
  for (std::size_t i = 0; i < n; ++i) result[i] = F::template value<A>(from[i], s);
  for (std::size_t i = 0; i < n; ++i) out[i] = arith::round_to<T>(result[i]);
}
// The same instructions but wider, and an FMA that is no call.
template <class F, class T, class A>
void map_anywhere(const widened_row<F, A>& from, const row::statistics<A>& s, std::size_t n, A* result, T* out) {
  map_elements(from, s, n, result, out);
}
#if defined(__x86_64__) || defined(_M_X64)
template <class F, class T, class A>
[[gnu::target("avx2,fma")]] void map_with_avx2(const widened_row<F, A>& from, const row::statistics<A>& s, std::size_t n, A* result, T* out) {
  map_elements(from, s, n, result, out);
}
#endif

// Calls f(begin, end) for runs of `count` rows or outputs, some for each thread that so many bytes are worth.
template <class F>
void for_each_run(std::size_t count, std::size_t bytes, int of_each_thread, const options& how, F f) {
  const int threads = threads_for(how, bytes);
  const std::size_t runs = std::min<std::size_t>(count, parts_for(threads, of_each_thread));
  for_each_part(runs, threads, [&](std::size_t k) { f(count * k / runs, count * (k + 1) / runs); });
}

// A matrix of `count` rows of n elements along one of its axes, or two such matrices.
template <class A>
void reduce_matrix(const reduction& r, const A* x, const A* y, std::size_t count, std::size_t n, int axis, A* out, const options& how) {
  const auto matrix = [&](const A* v) { return row_major(dtype_of<A>, v, {static_cast<std::int64_t>(count), static_cast<std::int64_t>(n)}); };
  const view of_x = matrix(x), of_y = matrix(y);
  void* const to = out;
  reduce({&r, 1}, of_x, info(r.op()).inputs == 2 ? &of_y : nullptr, {&axis, 1}, {&to, 1}, how);
}

template <class F, class T>
void apply_to(const rows& of, void* out, const options& how) {
  using A = row::accumulator<T>;
  static constexpr bool narrow = !std::is_same_v<A, T>;
  auto* map = map_anywhere<F, T, A>;
#if defined(__x86_64__) || defined(_M_X64)
  if (chosen(how) != target::scalar) map = map_with_avx2<F, T, A>;
#endif
  std::vector<reduction> all;
  for (const op_id op : F::ops) {
    all.push_back(make_reduction(op, info(op).takes_method ? std::optional(method_id::tree) : std::nullopt, dtype_of<A>));
  }
  const std::size_t n = of.n, at_once = n < 512 ? std::min<std::size_t>(4096 / n, 256) : 1;  // rows that are reduced by one call
  const options alone{.threads = 1, .target = how.target};
  for_each_run(of.count, of.count * n * sizeof(T), 4, how, [&](std::size_t begin, std::size_t end) {
    // The result of a row; x and y as the reductions take them; w, b, x and y widened; the reductions' results.
    const std::size_t most = std::min(at_once, end - begin), some = most * n;
    std::vector<A> room(n + 2 * some + (narrow ? 2 * n + 2 * some : 0)), found(2 * most);
    A *const result = room.data(), *const first = result + n, *const second = first + some, *const more = second + some;
    const auto widened = [](const void* from, std::size_t count, A* to) -> const A* {
      if (!narrow || !from) return static_cast<const A*>(from);
      for (std::size_t i = 0; i < count; ++i) to[i] = arith::widen<A>(static_cast<const T*>(from)[i]);
      return to;
    };
    const A *const w = F::affine || F::weighted ? widened(of.w, n, more) : nullptr,
            *const b = F::affine && F::centred ? widened(of.b, n, more + n) : nullptr;
    for (std::size_t k = begin; k < end; k += at_once) {
      const std::size_t here = std::min(at_once, end - k);
      const auto rows_from = [&](const void* from, A* to) { return from ? widened(static_cast<const T*>(from) + k * n, here * n, to) : nullptr; };
      const A *const stored_x = rows_from(of.x, more + 2 * n), *const stored_y = F::two ? rows_from(of.y, more + 2 * n + some) : nullptr;
      const auto row_of = [&](std::size_t i) { return widened_row<F, A>{stored_x + i * n, F::two ? stored_y + i * n : nullptr, w, b}; };
      const auto saved_of = [&](std::size_t i) {
        row::statistics<A> saved;
        if constexpr (F::reads) {
          saved.b = static_cast<const A*>(of.rstd)[k + i];
          if (F::centred) saved.a = static_cast<const A*>(of.mean)[k + i];
        }
        return saved;
      };
      const A *x = stored_x, *y = nullptr;
      using taken = decltype(F::template of<A>(row_of(0)[0], saved_of(0)));
      if constexpr (!std::is_same_v<taken, A>) {
        for (std::size_t i = 0; i < here; ++i) {
          const widened_row<F, A> elements = row_of(i);
          const row::statistics<A> saved = saved_of(i);
          for (std::size_t e = 0; e < n; ++e) {
            const auto pair = F::template of<A>(elements[e], saved);
            first[i * n + e] = pair.x, second[i * n + e] = pair.y;
          }
        }
        x = first, y = second;
      }
      for (std::size_t j = 0; j < all.size(); ++j) {
        A* const to = found.data() + j * most;
        if (here > 1) reduce_matrix(all[j], x, y, here, n, 1, to, alone);
        else store_scalar(info(all[j].op()).inputs == 2 ? cpu::reduce(all[j], x, y, n, alone) : cpu::reduce(all[j], x, n, alone), to);  // a shorter call
      }
      for (std::size_t i = 0; i < here; ++i) {
        const row::statistics<A> s = F::template finish<A>({found[i], found[most + i]}, n, of.eps, saved_of(i));
        if constexpr (F::writes) {
          static_cast<A*>(of.rstd)[k + i] = arith::round_to<A>(s.b);
          if (F::centred) static_cast<A*>(of.mean)[k + i] = arith::round_to<A>(s.a);
        }
        map(row_of(i), s, n, result, static_cast<T*>(out) + (k + i) * n);
      }
    }
  });
}

// Elements A of rows, summed along the rows' direction, or their products with z.
template <class A>
std::vector<A> sums_of_columns(const reduction& r, const std::vector<A>& x, const std::vector<A>* y, std::size_t count, std::size_t n, const options& how) {
  std::vector<A> sums(n);
  reduce_matrix(r, x.data(), y ? y->data() : nullptr, count, n, 0, sums.data(), how);
  return sums;
}

template <class F, class T>
void parameter_gradients_of(const rows& of, void* dw, void* db, const options& how) {
  using A = row::accumulator<T>;
  const std::size_t n = of.n, all = of.count * n;
  std::vector<A> g(all), z(all);
  for_each_run(of.count, all * sizeof(T), 4, how, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const row::statistics<A> s{F::centred ? static_cast<const A*>(of.mean)[k] : A(0), static_cast<const A*>(of.rstd)[k]};
      for (std::size_t i = k * n; i < (k + 1) * n; ++i) {
        const auto pair = F::template of<A>({arith::widen<A>(static_cast<const T*>(of.x)[i]), arith::widen<A>(static_cast<const T*>(of.y)[i]), A(1), A(0)}, s);
        g[i] = pair.x, z[i] = pair.y;
      }
    }
  });
  const auto write = [&](void* to, const std::vector<A>& sums) {
    for (std::size_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = arith::round_to<T>(sums[i]);
  };
  const auto by_tree = [](op_id op) { return make_reduction(op, method_id::tree, dtype_of<A>); };
  if (dw) write(dw, sums_of_columns(by_tree(op_id::dot), g, &z, of.count, n, how));
  if (db) write(db, sums_of_columns<A>(by_tree(op_id::sum), g, nullptr, of.count, n, how));
}

template <class T>
void sum_rows_of(const rows& of, const row_segments& by, const void* base, void* out, const options& how) {
  using A = row::accumulator<T>;
  const std::size_t n = of.n;
  const options alone{.threads = 1, .target = how.target};
  const reduction sum = make_reduction(op_id::sum, method_id::tree, dtype_of<A>);
  for_each_run(by.outputs, of.count * n * sizeof(T), 16, how, [&](std::size_t begin, std::size_t end) {
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
        const T* const x = static_cast<const T*>(of.x) + static_cast<std::size_t>(by.places[static_cast<std::size_t>(by.offsets[k]) + j]) * n;
        for (std::size_t i = 0; i < n; ++i) gathered[j * n + i] = arith::widen<A>(x[i]);
      }
      const std::vector<A> sums = sums_of_columns<A>(sum, gathered, nullptr, count, n, alone);
      for (std::size_t i = 0; i < n; ++i) to[i] = arith::round_to<T>(from ? arith::add(arith::widen<A>(from[i]), sums[i]) : sums[i]);
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
    with_float(of.type, [&]<class T>(std::type_identity<T>) { apply_to<F, T>(of, out, how); });
  });
}

void parameter_gradients(row_function f, const rows& of, void* dw, void* db, const options& how) {
  row::check_parameters(f, of, dw, db);
  with_float(of.type, [&]<class T>(std::type_identity<T>) {
    if (f == row_function::layer_norm_backward) parameter_gradients_of<row::layer_norm_backward, T>(of, dw, db, how);
    else parameter_gradients_of<row::rms_norm_backward, T>(of, dw, db, how);
  });
}

void sum_rows(const rows& of, const row_segments& by, const void* base, void* out, const options& how) {
  row::check_segments(of, by, out);
  if (by.outputs == 0 || of.n == 0) return;
  for (std::size_t k = 0; k < by.outputs; ++k) {
    const auto size = by.offsets[k + 1] - by.offsets[k];
    if (size < 0 || size > static_cast<std::int64_t>(row::most_elements)) row::refuse("offsets", "number " + std::to_string(k + 1) + " falls, or is too far");
  }
  if (by.offsets[0] < 0) row::refuse("offsets", "the first is " + std::to_string(by.offsets[0]));
  if (by.offsets[by.outputs] > by.offsets[0] && !by.places) row::refuse("places", "null");
  for (auto i = by.offsets[0]; i < by.offsets[by.outputs]; ++i)
    if (const auto place = by.places[i]; place < 0 || place >= static_cast<std::int64_t>(of.count))
      row::refuse("places", std::to_string(place) + ", where there are " + std::to_string(of.count) + " rows");
  with_float(of.type, [&]<class T>(std::type_identity<T>) { sum_rows_of<T>(of, by, base, out, how); });
}

}  // namespace cpu
}  // namespace bitfold
