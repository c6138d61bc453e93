// A scatter's loops over elements, for each type and target.
#include <bitfold/arith.hpp>

#include <algorithm>
#include <bit>

#include "loops.hpp"
#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

// ---- Numbers of elements T ----------------------------------------------------------------------

template <class T>
using sum_of = std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                  std::conditional_t<std::is_same_v<T, double>, double, float>>;
template <class T>
struct as_number {
  using stored = T;
  using number = sum_of<T>;
  static number of(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<number>(x);
    else
      return arith::widen<number>(x);
  }
  static T back(number x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(x);
    else
      return arith::round_to<T>(x);
  }
};
// The bits of a float whose sign is clear are in its order, and those of others in the opposite
// one. A NaN is more extreme than any number.
template <class T, bool Largest>
struct as_rank {
  using stored = T;
  static constexpr bool is_integer = std::is_integral_v<T>;
  using float_type = std::conditional_t<std::is_same_v<T, double>, double, float>;
  using number =
      std::conditional_t<is_integer || std::is_same_v<T, double>, std::int64_t, std::int32_t>;
  static constexpr number max = std::numeric_limits<number>::max();
  static constexpr std::uint64_t sign =
      std::is_same_v<T, std::uint64_t> ? std::uint64_t{1} << 63 : 0;

  static number swapped(number x) { return Largest ? x : ~x; }
  static number folded(number x) { return x ^ ((x >> (8 * sizeof x - 1)) & max); }
  static number of(T x) {
    if constexpr (is_integer) {
      return swapped(static_cast<number>(static_cast<std::uint64_t>(x) ^ sign));
    } else {
      const auto a = arith::widen<float_type>(x);
      const number rank = swapped(folded(arith::bit_cast<number>(a)));
      return a != a ? max : rank;
    }
  }
  static T back(number x) {
    if constexpr (is_integer)
      return static_cast<T>(static_cast<std::uint64_t>(swapped(x)) ^ sign);
    else
      return arith::round_to<T>(arith::bit_cast<float_type>(folded(swapped(x))));
  }
};

// A half type by its bits, of which g++ makes vectors.
template <class T>
auto plain(T x) {
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
    return x.bits;
  else
    return x;
}

// ---- Loops --------------------------------------------------------------------------------------

template <class As>
struct load_loop {
  [[gnu::always_inline]] static void run(const void* stored, std::size_t n, void* numbers) {
    const auto* const from = static_cast<const typename As::stored*>(stored);
    auto* const to = static_cast<typename As::number*>(numbers);
    for (std::size_t i = 0; i < n; ++i) to[i] = As::of(from[i]);
  }
};
template <class As>
struct store_loop {
  [[gnu::always_inline]] static void run(const void* numbers, const void* base,
                                         const std::uint32_t* counts, std::size_t n, void* stored) {
    using T = typename As::stored;
    const auto* const from = static_cast<const typename As::number*>(numbers);
    const auto* const before = static_cast<const T*>(base);
    auto* const to = static_cast<T*>(stored);
    if (!counts) {
      for (std::size_t i = 0; i < n; ++i) to[i] = T{plain(As::back(from[i]))};
    } else if (!before) {
      for (std::size_t i = 0; i < n; ++i) {
        const auto result = plain(As::back(from[i]));
        to[i] = T{counts[i] ? result : decltype(result){}};
      }
    } else {
      BITFOLD_EACH_IN_PLACE
      for (std::size_t i = 0; i < n; ++i) {
        const auto result = plain(As::back(from[i])), kept = plain(before[i]);
        to[i] = T{counts[i] ? result : kept};
      }
    }
  }
};
template <class E, class Join>
struct join_loop {
  [[gnu::always_inline]] static void run(void* to, const void* with, std::size_t n) {
    auto* const a = static_cast<E*>(to);
    const auto* const b = static_cast<const E*>(with);
    for (std::size_t i = 0; i < n; ++i) a[i] = Join::apply(a[i], b[i]);
  }
};
// From number to element: what is joined with what was there.
template <class As, class Join>
struct join_and_store_loop {
  [[gnu::always_inline]] static void run(const void* numbers, const void* with, std::size_t n,
                                         void* stored) {
    using T = typename As::stored;
    using E = typename As::number;
    const auto* const a = static_cast<const E*>(numbers);
    const auto* const b = static_cast<const E*>(with);
    auto* const to = static_cast<T*>(stored);
    BITFOLD_EACH_IN_PLACE
    for (std::size_t i = 0; i < n; ++i) to[i] = T{plain(As::back(Join::apply(b[i], a[i])))};
  }
};
// Of E, in A: integers as signed ones, or not; rounded down.
template <class E, class A>
struct divide_loop {
  static E by(E x, std::uint32_t count) {
    const A a = static_cast<A>(x), n = static_cast<A>(count);
    if constexpr (std::is_floating_point_v<A>)
      return arith::div(a, n);
    else
      return static_cast<E>(a / n - (a % n < 0));
  }
  [[gnu::always_inline]] static void run(void* numbers, const std::uint32_t* counts,
                                         std::uint32_t more, std::size_t n) {
    auto* const x = static_cast<E*>(numbers);
    if (!counts)
      for (std::size_t i = 0; i < n; ++i) x[i] = by(x[i], more);
    else
      for (std::size_t i = 0; i < n; ++i) x[i] = by(x[i], std::max(1u, counts[i] + more));
  }
};

// A binary counter of rows, four at a time and then one by one.
template <class E, class Join>
struct fold_pairs_loop {
  static constexpr std::size_t width = scatter_loops::row_width;
  [[gnu::always_inline]] static void run(const void* const* rows, const void* weights,
                                         std::size_t n, std::size_t columns,
                                         const void* const* soon, void* to) {
    // Neighbours in a row are read together, which memory is faster at.
    constexpr std::size_t wide = 4 * width;
    std::size_t c = 0;
    for (; c + wide <= columns; c += wide) fold_some<wide>(rows, weights, n, c, soon, to);
    for (; c < columns; c += width) fold_some<width>(rows, weights, n, c, soon, to);
  }

 private:
  template <std::size_t Width>
  [[gnu::always_inline]] static void fold_some(const void* const* rows, const void* weights,
                                               std::size_t n, std::size_t c,
                                               const void* const* soon, void* to) {
    const E* const w = static_cast<const E*>(weights);
    // Memory is asked for as many lines as are read: of many at once most would wait. They come
    // into the second-level cache, as the first one has fewer that it can wait for.
    const auto row = [&](std::size_t k) {
      constexpr int second_level = 2;
      if (soon)
        for (std::size_t i = 0; i < Width; i += 64 / sizeof(E))
          __builtin_prefetch(static_cast<const E*>(soon[k]) + c + i, 0, second_level);
      return static_cast<const E*>(rows[k]) + c;
    };
    E* const result = static_cast<E*>(to) + c;
    if constexpr (std::is_floating_point_v<E>)
      if (w) return fold<Width>([&](std::size_t k) { return weighted{row(k), w[k]}; }, n, result);
    fold<Width>(row, n, result);
  }
  struct weighted {
    const E* x;
    E w;
    [[gnu::always_inline]] E operator[](std::size_t i) const { return arith::mul(x[i], w); }
  };
  template <std::size_t Width, class Row>
  [[gnu::always_inline]] static void fold(Row row, std::size_t n, E* result) {
    E pending[std::bit_width(unsigned{order::lanes})][Width], x[Width]{};
    std::size_t depth = 0;
    const auto put_aside = [&] {
      for (std::size_t i = 0; i < Width; ++i) pending[depth][i] = x[i];
      ++depth;
    };
    const auto join_last = [&] {
      --depth;
      for (std::size_t i = 0; i < Width; ++i) x[i] = Join::apply(pending[depth][i], x[i]);
    };
    std::size_t k = 0;
    for (; k + 4 <= n; k += 4) {
      if (k > 0) put_aside();
      const auto r0 = row(k), r1 = row(k + 1), r2 = row(k + 2), r3 = row(k + 3);
      for (std::size_t i = 0; i < Width; ++i)
        x[i] = Join::apply(Join::apply(r0[i], r1[i]), Join::apply(r2[i], r3[i]));
      for (std::size_t carries = k / 4; carries & 1; carries >>= 1) join_last();
    }
    for (; k < n; ++k) {
      if (k > 0) put_aside();
      const auto r = row(k);
      for (std::size_t i = 0; i < Width; ++i) x[i] = r[i];
      if (k % 4 == 1) join_last();
    }
    while (depth > 0) join_last();
    for (std::size_t i = 0; i < Width; ++i) result[i] = x[i];
  }
};
struct sum_counts_loop {
  [[gnu::always_inline]] static std::size_t run(const std::uint32_t* counts, std::uint32_t few,
                                                std::size_t n) {
    std::uint32_t sum = 0;  // of fewer than 2^32 elements
    for (std::size_t i = 0; i < n; ++i) sum += counts[i] > few ? counts[i] : 0;
    return sum;
  }
};
struct max_count_loop {
  [[gnu::always_inline]] static std::uint32_t run(const std::uint32_t* counts, std::size_t n) {
    std::uint32_t max = 0;
    for (std::size_t i = 0; i < n; ++i) max = std::max(max, counts[i]);
    return max;
  }
};

template <class As, class Join>
scatter_loops loops_of(target used) {
  using E = typename As::number;
  scatter_loops all{loop_for<load_loop<As>>(used),
                    loop_for<store_loop<As>>(used),
                    loop_for<join_loop<E, Join>>(used),
                    nullptr,
                    loop_for<join_and_store_loop<As, Join>>(used),
                    loop_for<fold_pairs_loop<E, Join>>(used),
                    loop_for<sum_counts_loop>(used),
                    loop_for<max_count_loop>(used)};
  using T = typename As::stored;
  if constexpr (std::is_same_v<As, as_number<T>>) {
    using A = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, std::uint64_t>,
                                 std::int64_t, E>;
    all.divides = loop_for<divide_loop<E, A>>(used);
    if (std::is_same_v<T, E>) all.loads = nullptr;
  }
  return all;
}

}  // namespace

scatter_task scatter_task_for(const scattering& how, dtype type, const options& opts) {
  const target used = resolve_target(opts);
  const bool floats = is_float(type), mean = how.op == op_id::mean;
  const auto refuse = [](const std::string& what) { throw error(errc::usage, what); };
  const auto with = [&](joining j, dtype number, std::size_t direct, std::size_t in_lanes,
                        const scatter_loops& loops) {
    const dtype summed = number == dtype::f64 ? dtype::f64 : dtype::f32;
    const reduction whole = j == joining::sum ? make_reduction(op_id::sum, how.method, summed)
                                              : make_reduction(op_id::prod, {}, summed);
    const bool ordered = floats && j != joining::extremum;
    const task folds = ordered ? task{find_kernels(used, whole), functions_for(whole)} : task{};
    return scatter_task{j,       type,   number,   how.with_base, mean,  how.leaves_out,
                        ordered, direct, in_lanes, whole,         folds, loops,
                        used};
  };
  return visit(type, [&]<class T>(std::type_identity<T>) {
    using E = sum_of<T>;
    const auto extrema = [&]<bool Largest>() {
      using As = as_rank<T, Largest>;
      return with(joining::extremum, dtype_of<typename As::number>, scatter_task::any_number, 0,
                  loops_of<As, takes_larger>(used));
    };
    // The third of three is a lane's, too, and comes last.
    constexpr std::size_t as_pairs = 3;
    switch (how.op) {
      case op_id::max: return extrema.template operator()<true>();
      case op_id::min: return extrema.template operator()<false>();
      case op_id::prod:
        return with(joining::product, dtype_of<E>, floats ? as_pairs : scatter_task::any_number,
                    order::leaf, loops_of<as_number<T>, multiplies>(used));
      case op_id::sum:
      case op_id::mean: break;
      default: refuse("op: " + std::string(name(how.op)) + " is none that scatters");
    }
    std::size_t direct = scatter_task::any_number;
    std::size_t in_lanes = 0;
    if (floats) {
      if (how.method == method_id::tree) in_lanes = order::leaf;
      if (how.method == method_id::pairwise) in_lanes = order::lanes;
      if (in_lanes > 0) direct = as_pairs;
      if (how.method == method_id::kahan) direct = 1;
      if (how.method == method_id::exact) direct = 0;
    } else if (how.method == method_id::exact) {
      refuse("method: exact, of " + std::string(name(type)) + ", which scatters modulo 2^64");
    }
    return with(joining::sum, dtype_of<E>, direct, in_lanes, loops_of<as_number<T>, adds>(used));
  });
}

}  // namespace bitfold::cpu
