// bitfold on the CPU beside a load-only loop, a plain -ffast-math loop and std::reduce, in one run.
// A case is its element type, who computes it and on how many threads; every case runs at every
// length.
//
//   bitfold_bench_cpu --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
//       --benchmark_display_aggregates_only=true --benchmark_out=result.jsonl
#include <benchmark/benchmark.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>

#include <bitfold/cpu.hpp>

#include "fast_math.hpp"
#include "load_only.hpp"
#include "machine.hpp"

namespace {

using namespace bitfold;

constexpr std::size_t longest = std::size_t{1} << 28;  // bytes

// Values of magnitude in [1, 2), both signs.
template <class T>
const T* data() {
  static T* p = [] {
    void* memory = std::aligned_alloc(4096, longest);
    using bits =
        std::conditional_t<sizeof(T) == 2, std::uint16_t,
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

// run(values, n, threads)
template <class T, class Run>
void add_case(const std::string& who, int threads, Run run) {
  const std::string name =
      who + "@" + std::to_string(threads) + "/" + std::string(bitfold::name(dtype_of<T>));
  auto* b = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const auto n = static_cast<std::size_t>(state.range(0));
    const T* p = data<T>();
    for (auto _ : state) run(p, n, threads);
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(n * sizeof(T)));
  });
  for (std::int64_t n : {1'000, 10'000, 100'000, 1'000'000, 10'000'000, 30'000'000})
    if (threads == 1 || n >= 10'000) b->Arg(n);
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}

template <class T>
void add_cases(int threads) {
  add_case<T>("load_only", threads,
              [](const T* p, std::size_t n, int k) { load_only::run(p, n * sizeof(T), k); });
  for (const auto& m : all_methods) {
    if (threads > 1 && m.ordering == ordering::sequential) continue;
    add_case<T>(
        "bitfold_" + std::string(m.name), threads,
        [r = make_reduction(op_id::sum, m.id, dtype_of<T>)](const T* p, std::size_t n, int k) {
          benchmark::DoNotOptimize(cpu::reduce(r, p, n, {.threads = k}));
        });
  }
  if constexpr (std::is_floating_point_v<T>)
    if (threads == 1) {
      add_case<T>("fast_math", 1, [](const T* p, std::size_t n, int) {
        benchmark::DoNotOptimize(fast_math::sum(p, n));
      });
      add_case<T>("std_reduce", 1, [](const T* p, std::size_t n, int) {
        benchmark::DoNotOptimize(std::reduce(p, p + n));
      });
    }
}

}  // namespace

int main(int argc, char** argv) {
  bench::session session = cpu_session("cpu", bench::kept::median, argc, argv);
  for (int threads : std::set{1, 2, cpu::threads_for({}, ~std::size_t{0})}) {
    add_cases<float>(threads);
    add_cases<double>(threads);
    add_cases<float16>(threads);
    add_cases<bfloat16>(threads);
  }
  return session.run();
}
