// Row functions on the CPU: reductions of each row, then its elements one by one.
#include <algorithm>
#include <string>
#include <vector>

#include "../row_functions.hpp"
#include "task.hpp"

namespace bitfold {

void row::check(row_function f, const rows& of, const void* out) {
  const auto refuse = [](const char* argument, const std::string& what) { throw error(errc::usage, std::string(argument) + ": " + what); };
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

namespace cpu {
namespace {

// What is computed with, of a row: x and y as they are stored, or widened.
template <class A>
struct widened_row {
  const A *x, *y, *w, *b;
  BITFOLD_HD row::element<A> operator[](std::size_t i) const { return {x[i], y ? y[i] : A(0), w ? w[i] : A(1), b ? b[i] : -A(0)}; }
};

template <class F, class A>
[[gnu::always_inline]] inline void map_elements(const widened_row<A>& from, const row::statistics<A>& s, std::size_t n, A* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = F::template value<A>(from[i], s);
}
// The same instructions but wider, and an FMA that is no call.
template <class F, class A>
void map_anywhere(const widened_row<A>& from, const row::statistics<A>& s, std::size_t n, A* out) {
  map_elements<F>(from, s, n, out);
}
#if defined(__x86_64__) || defined(_M_X64)
template <class F, class A>
[[gnu::target("avx2,fma")]] void map_with_avx2(const widened_row<A>& from, const row::statistics<A>& s, std::size_t n, A* out) {
  map_elements<F>(from, s, n, out);
}
#endif

template <class F, class T>
void apply_to(const rows& of, void* out, const options& how) {
  using A = row::accumulator<T>;
  constexpr bool narrow = !std::is_same_v<A, T>;
  auto* map = map_anywhere<F, A>;
#if defined(__x86_64__) || defined(_M_X64)
  if (chosen(how) != target::scalar) map = map_with_avx2<F, A>;
#endif
    std::vector<reduction> all;
  for (const op_id op : F::ops) {
    all.push_back(make_reduction(op, info(op).takes_method ? std::optional(method_id::tree) : std::nullopt, dtype_of<A>));
  }
  const std::size_t n = of.n;
  const auto widen = [n](const void* from, A* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = arith::widen<A>(static_cast<const T*>(from)[i]);
  };
  const options alone{.threads = 1, .target = how.target};
  const int threads = threads_for(how, of.count * n * size_of(of.type));
  const std::size_t parts = std::min<std::size_t>(of.count, threads == 1 ? 1 : 4 * static_cast<std::size_t>(threads));
  for_each_part(parts, threads, [&](std::size_t part) {
    std::vector<A> room((narrow ? 5 : 1) * n + 2 * n);  // x, y, w, b and the result; the elements as the reductions take them
    A *const result = room.data(), *const first = result + n, *const second = first + n;
    const auto parameters = [&](const void* from, A* to) -> const A* {
      if (!narrow || !from) return static_cast<const A*>(from);
      widen(from, to);
      return to;
    };
    A* const more = second + n;
    const A *const w = F::affine || F::weighted ? parameters(of.w, more) : nullptr;
    const A *const b = F::affine && F::centred ? parameters(of.b, more + n) : nullptr;
    for (std::size_t k = of.count * part / parts; k < of.count * (part + 1) / parts; ++k) {
      const auto row_of = [&](const void* from, A* to) {
        return from ? parameters(static_cast<const T*>(from) + k * n, to) : nullptr;
      };
      const widened_row<A> elements{row_of(of.x, more + 2 * n), F::two ? row_of(of.y, more + 3 * n) : nullptr, w, b};
      row::saved<A> saved;
      if constexpr (F::reads) {
        saved.rstd = static_cast<const A*>(of.rstd)[k];
        if (F::centred) saved.mean = static_cast<const A*>(of.mean)[k];
      }
      const row::statistics<A> before{saved.mean, saved.rstd};
      const A *x = elements.x, *y = nullptr;
      using taken = decltype(F::template of<A>(elements[0], before));
      if constexpr (!std::is_same_v<taken, A>) {
        for (std::size_t i = 0; i < n; ++i) {
          const auto pair = F::template of<A>(elements[i], before);
          first[i] = pair.x, second[i] = pair.y;
        }
        x = first, y = second;
      }
      row::results<A> results{};
      for (std::size_t j = 0; j < all.size(); ++j) {
        const scalar one = info(all[j].op()).inputs == 2 ? cpu::reduce(all[j], x, y, n, alone) : cpu::reduce(all[j], x, n, alone);
        store_scalar(one, j ? &results.b : &results.a);
      }
      const row::statistics<A> s = F::template finish<A>(results, n, of.eps, saved);
      if constexpr (F::writes) {
        static_cast<A*>(of.rstd)[k] = row::stored<A>(s.b);
        if (F::centred) static_cast<A*>(of.mean)[k] = row::stored<A>(s.a);
      }
      map(elements, s, n, result);
      for (std::size_t i = 0; i < n; ++i) static_cast<T*>(out)[k * n + i] = row::stored<T>(result[i]);
    }
  });
}

}  // namespace

void apply(row_function f, const rows& of, void* out, const options& how) {
  row::check(f, of, out);
  if (of.count == 0 || of.n == 0) return;
  row::visit(f, [&]<class F>(std::type_identity<F>) {
    switch (of.type) {
      case dtype::f16: return apply_to<F, float16>(of, out, how);
      case dtype::bf16: return apply_to<F, bfloat16>(of, out, how);
      case dtype::f64: return apply_to<F, double>(of, out, how);
      default: return apply_to<F, float>(of, out, how);
    }
  });
}

}  // namespace cpu
}  // namespace bitfold
