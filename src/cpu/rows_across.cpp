// Functions of rows that lie across on the CPU: places of all rows, one behind the other.
#include "../row_functions.hpp"
#include "float_loops.hpp"

namespace bitfold::cpu {
namespace {

// A place of neighbouring rows, whose statistics are a and b.
template <class F, class T>
struct map_place {
  using A = row::accumulator<T>;
  [[gnu::always_inline]] static void run(const conversions<T>& by, const T* x, const T* y,
                                         const A* a, const A* b, std::size_t n, T* out) {
    map_widened<F::takes_y>(by, x, y, n, out, [=](A g, A from, std::size_t i) {
      return F::template value<A>(row::element<A>{g, from, A(1), -A(0)},
                                  row::statistics<A>{a[i], b[i]});
    });
  }
};

// What rows' results say of them, for each.
template <class F, class A>
struct statistics_of_rows {
  [[gnu::always_inline]] static void run(const A* first, const A* second, std::size_t n, A* a,
                                         A* b) {
    for (std::size_t i = 0; i < n; ++i) {
      const row::statistics<A> s =
          F::template of_results<A>(first[i], F::results > 1 ? second[i] : A(0));
      a[i] = s.a, b[i] = s.b;
    }
  }
};

template <class F, class T>
void apply_to(const rows_across& of, void* out, const options& opts) {
  using A = row::accumulator<T>;
  const target used = resolve_target(opts);
  const auto by = conversions_for<T>(used);
  const auto map = loop_for<map_place<F, T>>(used);
  const auto statistics = loop_for<statistics_of_rows<F, A>>(used);
  const auto *const x = static_cast<const T*>(of.x), *const y = static_cast<const T*>(of.y);
  for_each_range(
      of.outer * of.n, of.size() * sizeof(T), 4, opts, [&](std::size_t begin, std::size_t end) {
        const auto room = uninitialized<A>(2 * of.inner);
        A *const a = room.get(), *const b = a + of.inner;
        for (std::size_t place = begin; place < end; ++place) {
          const std::size_t outer = place / of.n;
          if (place == begin || place % of.n == 0)
            statistics(
                static_cast<const A*>(of.first) + outer * of.inner,
                F::results > 1 ? static_cast<const A*>(of.second) + outer * of.inner : nullptr,
                of.inner, a, b);
          const std::size_t i = place * of.inner;
          map(by, x + i, F::takes_y ? y + i : nullptr, a, b, of.inner, static_cast<T*>(out) + i);
        }
      });
}

}  // namespace

void apply(row_function f, const rows_across& of, void* out, const options& opts) {
  row::check(f, of, out);
  if (of.size() == 0) return;
  row::visit(f, [&]<class F>(std::type_identity<F>) {
    if constexpr (F::results > 0)
      with_float(of.type, [&]<class T>(std::type_identity<T>) { apply_to<F, T>(of, out, opts); });
  });
}

}  // namespace bitfold::cpu
