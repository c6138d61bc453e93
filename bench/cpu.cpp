// bitfold on the CPU beside a load-only loop, a plain -ffast-math loop and std::reduce, in one run. A
// case is its element type, who computes it and on how many threads; every case runs at every length.
//
//   bitfold_bench_cpu --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
//       --benchmark_report_aggregates_only=true --benchmark_out=result.json
#include <benchmark/benchmark.h>
#include <tbb/info.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <type_traits>

#include <bitfold/cpu.hpp>

#include "fast_math.hpp"
#include "load_only.hpp"

namespace {

using namespace bitfold;

constexpr std::size_t longest = std::size_t{1} << 28;  // bytes

// Values of magnitude in [1, 2), both signs.
template <class T>
const T* data() {
  static T* p = [] {
    void* memory = std::aligned_alloc(4096, longest);
    using bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
    constexpr int mantissa = dtype_of<T> == dtype::f16    ? 10
                             : dtype_of<T> == dtype::bf16 ? 7
                             : dtype_of<T> == dtype::f32  ? 23
                                                          : 52;
    const bits sign = bits{1} << (8 * sizeof(T) - 1);
    const bits low = (bits{1} << mantissa) - 1;
    const bits one = ((sign - 1) & ~low) >> 1 & ~low;
    std::uint64_t s = 1;
    auto* out = static_cast<bits*>(memory);
    for (std::size_t i = 0; i < longest / sizeof(T); ++i) {
      s = s * 6364136223846793005u + 1442695040888963407u;
      const auto r = static_cast<bits>(s >> (64 - 8 * sizeof(T)));
      out[i] = (r & (sign | low)) | one;
    }
    return static_cast<T*>(memory);
  }();
  return p;
}

// ---- Who computes ----------------------------------------------------------------------------------

struct ceiling {
  static constexpr const char* name = "load_only";
  template <class T>
  static void run(const T* p, std::size_t n, int threads) {
    load_only::run(p, n * sizeof(T), threads);
  }
};
template <method_id M>
struct fold {
  static inline const std::string text = "bitfold_" + std::string(bitfold::name(M));
  static inline const char* name = text.c_str();
  template <class T>
  static void run(const T* p, std::size_t n, int threads) {
    static const reduction r = make_reduction(op_id::sum, M, dtype_of<T>);
    benchmark::DoNotOptimize(cpu::reduce(r, p, n, {.threads = threads}));
  }
};
struct plain_fast_math {
  static constexpr const char* name = "fast_math";
  template <class T>
  static void run(const T* p, std::size_t n, int) {
    benchmark::DoNotOptimize(fast_math::sum(p, n));
  }
};
struct std_reduce {
  static constexpr const char* name = "std_reduce";
  template <class T>
  static void run(const T* p, std::size_t n, int) {
    benchmark::DoNotOptimize(std::reduce(p, p + n));
  }
};

template <class Who, class T>
void measure(benchmark::State& state, int threads) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const T* p = data<T>();
  for (auto _ : state) Who::run(p, n, threads);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(n * sizeof(T)));
}

template <class T, class... Who>
void add_cases(int threads) {
  const auto add = [&]<class W>(std::type_identity<W>) {
    const std::string name = std::string(W::name) + "@" + std::to_string(threads) + "/" + std::string(bitfold::name(dtype_of<T>));
    auto* b = benchmark::RegisterBenchmark(name.c_str(), [threads](benchmark::State& s) { measure<W, T>(s, threads); });
    for (std::int64_t n : {1'000, 10'000, 100'000, 1'000'000, 10'000'000, 30'000'000})
      if (threads == 1 || n >= 10'000) b->Arg(n);
    b->UseRealTime()->Unit(benchmark::kMicrosecond);
  };
  (add(std::type_identity<Who>{}), ...);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::string line, model = "unknown";
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  benchmark::AddCustomContext("cpu", model);
  benchmark::AddCustomContext("target", std::string(cpu::name(cpu::available_targets().back())));
#ifdef BITFOLD_COMMIT
  benchmark::AddCustomContext("commit", BITFOLD_COMMIT);
#endif
  using tree = fold<method_id::tree>;
  using pairwise = fold<method_id::pairwise>;
  using kahan = fold<method_id::kahan>;
  using sequential = fold<method_id::sequential>;
  const int all = tbb::info::default_concurrency();
  add_cases<float, ceiling, tree, pairwise, kahan, sequential, plain_fast_math, std_reduce>(1);
  add_cases<double, ceiling, tree, pairwise, kahan, sequential, plain_fast_math, std_reduce>(1);
  add_cases<float16, ceiling, tree, kahan>(1);
  add_cases<bfloat16, ceiling, tree, kahan>(1);
  for (int threads : {2, all}) {
    add_cases<float, ceiling, tree, pairwise, kahan>(threads);
    add_cases<double, ceiling, tree, pairwise, kahan>(threads);
    add_cases<float16, ceiling, tree, kahan>(threads);
    add_cases<bfloat16, ceiling, tree, kahan>(threads);
    if (all == 2) break;
  }
  benchmark::RunSpecifiedBenchmarks();
}
