// Rows, columns and planes on the CPU, beside a load-only loop, in one run. The name of a case says
// who, what, on how many threads, of which type and shape, and which axes are reduced. It takes the
// best of the repetitions.
//
//   bitfold_bench_cpu_shapes --benchmark_repetitions=5 --benchmark_out=result.jsonl
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <bitfold/cpu.hpp>

#include "load_only.hpp"
#include "machine.hpp"
#include "shapes.hpp"

namespace {

using namespace bitfold;

constexpr std::int64_t elements = std::int64_t{1} << 24;

// Of magnitude in [1, 2), both signs; in huge pages, as NumPy asks for them too.
template <class T>
const T* data() {
  static const T* const p = [] {
    using bits =
        std::conditional_t<sizeof(T) == 2, std::uint16_t,
                           std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
    constexpr int mantissa = sizeof(T) == 2 ? 10 : sizeof(T) == 4 ? 23 : 52;
    constexpr bits sign = bits{1} << (8 * sizeof(T) - 1), low = (bits{1} << mantissa) - 1,
                   one = ((sign - 1) & ~low) >> 1 & ~low;
    auto* const out =
        static_cast<bits*>(std::aligned_alloc(std::size_t{1} << 21, elements * sizeof(T)));
    madvise(out, elements * sizeof(T), MADV_HUGEPAGE);
    std::uint64_t s = 1;
    for (std::int64_t i = 0; i < elements; ++i) {
      s = s * 6364136223846793005u + 1442695040888963407u;
      out[i] = (static_cast<bits>(s >> (64 - 8 * sizeof(T))) & (sign | low)) | one;
    }
    return reinterpret_cast<const T*>(out);
  }();
  return p;
}

template <class T, class Run>
void add(const std::string& who, int threads, const shape& s, Run run) {
  const std::string name = who + "@" + std::to_string(threads) + "/" +
                           std::string(bitfold::name(dtype_of<T>)) + "/" + s.text();
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) {
        const T* const p = data<T>();
        for (auto _ : state) run(p);
        state.SetBytesProcessed(state.iterations() *
                                static_cast<std::int64_t>(s.elements() * sizeof(T)));
      })
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(3);
}

template <class T>
void add_ops(const std::vector<op_id>& ops, int threads, const shape& s) {
  std::string who = "bitfold";
  std::vector<reduction> all;
  for (const op_id op : ops) {
    who += (all.empty() ? ":" : "+") + std::string(name(op));
    all.push_back(make_reduction(op, {}, dtype_of<T>));
  }
  add<T>(who, threads, s, [=](const T* p) {
    static std::vector<std::uint64_t> room(elements / 2);
    std::vector<void*> out;
    for (std::size_t k = 0; k < all.size(); ++k) out.push_back(&room[k * s.outputs()]);
    cpu::reduce(all, row_major(dtype_of<T>, p, s.extents), nullptr, s.axes, out,
                {.threads = threads});
    benchmark::ClobberMemory();
  });
}

template <class T>
void add_all(int threads) {
  using enum op_id;
  const shape whole{{1, elements}, {1}};
  add<T>("load_only", threads, whole,
         [=](const T* p) { load_only::run(p, elements * sizeof(T), threads); });
  std::vector<shape> shapes;
  for (const std::int64_t n : {16, 64, 256, 1000, 4096, 32768, 1 << 20})
    shapes.push_back({{elements / n, n}, {1}});
  for (const shape& s : {whole,
                         shape{{4096, 4096}, {0}},
                         {{262144, 64}, {0}},
                         {{16, 64, 128, 128}, {0, 2, 3}},
                         {{16, 64, 128, 128}, {1, 3}},
                         {{256, 65536}, {0}}})
    shapes.push_back(s);
  for (const shape& s : shapes)
    for (const op_id op : {sum, mean, var, max, argmax}) add_ops<T>({op}, threads, s);
  for (const shape& s :
       {shape{{4096, 4096}, {1}}, {{4096, 4096}, {0}}, {{16, 64, 128, 128}, {0, 2, 3}}})
    add_ops<T>({sum, min, max, mean, std}, threads, s);
}

}  // namespace

int main(int argc, char** argv) {
  bench::session session = cpu_session("cpu_shapes", bench::kept::fastest, argc, argv);
  for (const int threads : std::set{1, cpu::threads_for({}, ~std::size_t{0})}) {
    add_all<float>(threads);
    add_all<double>(threads);
    add_all<float16>(threads);
  }
  return session.run();
}
