// Exact sums on one thread of the CPU beside the tree method, a load-only loop and, where the build
// has it, xsum; with the rounding. A case is its element type, its data and who computes it.
//
//   bitfold_bench_exact --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
//       --benchmark_display_aggregates_only=true --benchmark_out=result.jsonl
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include <bitfold/accumulator.hpp>
#include <bitfold/cpu.hpp>

#include "load_only.hpp"
#include "machine.hpp"

#ifdef BITFOLD_WITH_XSUM
#include <stdint.h>
#define restrict __restrict__  // its header is C
extern "C" {
#include <xsum.h>
}
#undef restrict
#endif

namespace {

using namespace bitfold;

constexpr std::size_t longest = std::size_t{1} << 28;  // bytes

enum class kind { normal, wide, any };
constexpr const char* kind_names[] = {"normal", "93_binades", "any_finite"};

struct random_bits {  // splitmix64 (Steele, Lea and Flood, OOPSLA 2014)
  std::uint64_t state = 1;
  std::uint64_t operator()() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
};

template <class T>
const T* data(kind k) {
  static T* arrays[3] = {};
  T*& p = arrays[static_cast<int>(k)];
  if (p) return p;
  p = static_cast<T*>(std::aligned_alloc(4096, longest));
  using R = exact::range<T>;
  using bits = typename R::bits;
  random_bits next;
  for (std::size_t i = 0; i < longest / sizeof(T); ++i) {
    const std::uint64_t r = next();
    bits b = static_cast<bits>(r >> (64 - R::width));
    const bits low = static_cast<bits>((bits{1} << R::mantissa) - 1);
    const auto exponent = [&](int biased) {
      b = static_cast<bits>((b & (low | bits{1} << (R::width - 1))) |
                            static_cast<bits>(static_cast<bits>(biased) << R::mantissa));
    };
    switch (k) {
      case kind::normal: {  // the sum of four uniform values less its mean
        double sum = -2;
        for (int j = 0; j < 4; ++j) sum += static_cast<double>(next() >> 11) * 0x1p-53;
        p[i] = arith::round_to<T>(sum * 1.7);
        continue;
      }
      case kind::wide:
        exponent(std::min(std::max(1, R::bias + static_cast<int>(r % 94) - 47), 2 * R::bias));
        break;
      case kind::any:
        if ((b >> R::mantissa & (2 * R::bias + 1)) == 2 * R::bias + 1) exponent(R::bias);
        break;
    }
    std::memcpy(p + i, &b, sizeof b);
  }
  return p;
}

// ---- Who computes -------------------------------------------------------------------------------

struct ceiling {
  static constexpr const char* name = "load_only";
  static constexpr int inputs = 1;
  template <class T>
  static void run(const T* p, std::size_t n) {
    load_only::run(p, n * sizeof(T));
  }
};
template <op_id Op>
struct tree {
  static constexpr int inputs = info(Op).inputs;
  static inline const std::string text = "tree_" + std::string(bitfold::name(Op));
  static inline const char* name = text.c_str();
  template <class T>
  static void run(const T* p, std::size_t n) {
    static const reduction r = make_reduction(Op, method_id::tree, dtype_of<T>);
    benchmark::DoNotOptimize(cpu::reduce(r, p, inputs == 2 ? p + 64 : nullptr, n, {.threads = 1}));
  }
};
struct exact_sum {
  static constexpr const char* name = "exact_sum";
  static constexpr int inputs = 1;
  template <class T>
  static void run(const T* p, std::size_t n) {
    accumulator<T> a;
    a.add({p, n});
    benchmark::DoNotOptimize(a.round());
  }
};
struct exact_squares {
  static constexpr const char* name = "exact_sum_squares";
  static constexpr int inputs = 1;
  template <class T>
  static void run(const T* p, std::size_t n) {
    product_accumulator<T> a;
    a.add_squares({p, n});
    benchmark::DoNotOptimize(a.round());
  }
};
struct exact_dot {
  static constexpr const char* name = "exact_dot";
  static constexpr int inputs = 2;
  template <class T>
  static void run(const T* p, std::size_t n) {
    product_accumulator<T> a;
    a.add_products({p, n}, {p + 64, n});
    benchmark::DoNotOptimize(a.round());
  }
};
#ifdef BITFOLD_WITH_XSUM
// f32 is widened by blocks.
template <class A, void Init(A*), void Add(A*, const xsum_flt*, xsum_length), xsum_flt Round(A*)>
struct xsum_by {
  static constexpr int inputs = 1;
  template <class T>
  static void run(const T* p, std::size_t n) {
    static A a;
    Init(&a);
    if constexpr (std::is_same_v<T, double>) {
      Add(&a, p, static_cast<xsum_length>(n));
    } else {
      double wide[1024];
      for (std::size_t i = 0; i < n; i += 1024) {
        const std::size_t k = std::min<std::size_t>(n - i, 1024);
        std::copy_n(p + i, k, wide);
        Add(&a, wide, static_cast<xsum_length>(k));
      }
    }
    benchmark::DoNotOptimize(static_cast<T>(Round(&a)));
  }
};
struct xsum_small
    : xsum_by<xsum_small_accumulator, xsum_small_init, xsum_small_addv, xsum_small_round> {
  static constexpr const char* name = "xsum_small";
};
struct xsum_large
    : xsum_by<xsum_large_accumulator, xsum_large_init, xsum_large_addv, xsum_large_round> {
  static constexpr const char* name = "xsum_large";
};
#endif

template <class T, class... Who>
void add_cases(kind k) {
  const auto add = [&]<class W>(std::type_identity<W>) {
    const std::string name = std::string(W::name) + "/" + std::string(bitfold::name(dtype_of<T>)) +
                             "/" + kind_names[static_cast<int>(k)];
    auto* b = benchmark::RegisterBenchmark(name.c_str(), [k](benchmark::State& state) {
      const auto n = static_cast<std::size_t>(state.range(0));
      const T* p = data<T>(k);
      for (auto _ : state) W::run(p, n);
      state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(n * sizeof(T)) *
                              W::inputs);
    });
    for (std::int64_t n : {10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 30'000'000})
      b->Arg(n);
    b->UseRealTime();
  };
  (add(std::type_identity<Who>{}), ...);
}

}  // namespace

int main(int argc, char** argv) {
  bench::session session = cpu_session("exact", bench::kept::median, argc, argv);
  for (const kind k : {kind::normal, kind::wide, kind::any}) {
#ifdef BITFOLD_WITH_XSUM
    add_cases<double, xsum_small, xsum_large>(k);
    add_cases<float, xsum_small, xsum_large>(k);
#endif
    add_cases<double, ceiling, tree<op_id::sum>, exact_sum, tree<op_id::dot>, exact_dot,
              exact_squares>(k);
    add_cases<float, ceiling, tree<op_id::sum>, exact_sum, tree<op_id::dot>, exact_dot,
              exact_squares>(k);
    add_cases<float16, ceiling, tree<op_id::sum>, exact_sum, exact_dot>(k);
    add_cases<bfloat16, ceiling, tree<op_id::sum>, exact_sum, exact_dot>(k);
  }
  return session.run();
}
