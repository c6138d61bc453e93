// Measures every rung of the ladder beside a load-only kernel, in one run, and writes a file of
// results (bench/results/README.md):
//
//   bitfold_bench_ladder RESULT.jsonl
//
// Time: one sum inside a CUDA graph that holds as many as fill a millisecond (at most 200), so that
// the host's launch gaps don't count; the median over replays. The array is the same each time, so
// lengths that fit in L2 are read from there, for everyone. The copy that a rung in place works on
// is made before; it is not made again between replays, which changes its values and not its time.
// Error and sameness of bits: 100 runs at 2^24 against the exact sum by MPFR.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "bench/gpu_time.hpp"
#include "bench/load_only.cuh"
#include "bench/result_lines.hpp"
#include "ladder.hpp"

namespace {

using namespace bitfold;
using bench::json;

constexpr int lengths[] = {10, 14, 18, 20, 22, 24, 26, 28, 30};  // log2
constexpr std::size_t longest = std::size_t{1} << 30;
constexpr std::size_t error_length = std::size_t{1} << 24;
constexpr int error_runs = 100;

using speed::check;

// Every word of an i32 array; as f32, its upper 24 bits as a fraction of 1.
__host__ __device__ std::uint32_t word(std::size_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>(z >> 32);
}
__global__ void fill(void* p, std::size_t n, bool floats) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += stride)
    if (floats)
      static_cast<float*>(p)[i] = static_cast<float>(word(i) >> 8) * 0x1p-24f;
    else
      static_cast<std::uint32_t*>(p)[i] = word(i);
}

struct measurements {
  speed::stopwatch watch;
  cudaStream_t stream = watch.stream;
  char *data, *workspace, *out;

  measurements() {
    check(cudaMalloc(&data, 4 * longest));
    check(cudaMalloc(&workspace, 5 * longest));
    check(cudaMalloc(&out, 256));
  }

  // Seconds of one sum.
  template <class F>
  double seconds(F enqueue) {
    enqueue();  // warm
    const double first = watch.milliseconds(enqueue);
    const int copies = static_cast<int>(std::clamp(1 / first, 1.0, 200.0));
    const int replays = static_cast<int>(std::clamp(30 / (first * copies), 3.0, 25.0));
    const speed::graph graph(stream, copies, [&](cudaStream_t) { enqueue(); });
    graph.launch();
    std::vector<double> ms;
    for (int i = 0; i < replays; ++i) ms.push_back(watch.milliseconds([&] { graph.launch(); }));
    std::nth_element(ms.begin(), ms.begin() + replays / 2, ms.end());
    return ms[replays / 2] * 1e-3 / copies;
  }

  std::uint32_t sum(const ladder::rung& r, dtype t, std::size_t n) {
    ladder::prepare(r, t, data, n, workspace, stream);
    ladder::launch(r, t, data, n, out, workspace, stream);
    std::uint32_t result;
    check(cudaMemcpyAsync(&result, out, 4, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    return result;
  }

  void times(dtype t, bench::cases& all) {
    fill<<<1056, 256, 0, stream>>>(data, longest, t == dtype::f32);
    check(cudaGetLastError());
    std::uint32_t want = 0;
    std::size_t counted = 0;
    for (int k : lengths) {
      const std::size_t n = std::size_t{1} << k;
      for (; t == dtype::i32 && counted < n; ++counted) want += word(counted);
      const double ceiling = seconds([&] { load_only(data, 4 * n, out, stream); });
      const auto add = [&](std::string_view who, double s, json more) {
        json fields{{"us", s * 1e6}, {"gbps", 4e-9 * static_cast<double>(n) / s}};
        fields.update(more);
        all.add(std::string(who) + '/' + std::string(name(t)), static_cast<std::int64_t>(n),
                fields);
      };
      add("load-only", ceiling, json::object());
      for (const ladder::rung& r : ladder::all_rungs()) {
        const std::uint32_t got = sum(r, t, n);
        const auto enqueue = [&] { ladder::launch(r, t, data, n, out, workspace, stream); };
        add(r.name, seconds(enqueue),
            t == dtype::i32 ? json{{"right", got == want}} : json::object());
      }
      std::fprintf(stderr, "%s 2^%d\n", std::string(name(t)).c_str(), k);
    }
  }

  // Of each rung, into its line.
  void errors(std::string_view input, std::vector<json>& rungs) {
    std::vector<std::byte> x;
    for (const accuracy::input& in : accuracy::all_inputs())
      if (in.name == input) x = accuracy::pack(in.make(error_length, 1, dtype::f32), dtype::f32);
    const accuracy::exact_sum exact = accuracy::sum_exactly(dtype::f32, x.data(), error_length);
    check(cudaMemcpy(data, x.data(), x.size(), cudaMemcpyHostToDevice));
    std::size_t line = 0;
    for (const ladder::rung& r : ladder::all_rungs()) {
      std::set<std::uint32_t> distinct;
      double least = HUGE_VAL, most = 0;
      for (int i = 0; i < error_runs; ++i) {
        const std::uint32_t bits = sum(r, dtype::f32, error_length);
        if (!distinct.insert(bits).second) continue;
        const double ulps = accuracy::error_in_ulps({dtype::f32, bits}, exact.sum);
        least = std::min(least, ulps);
        most = std::max(most, ulps);
      }
      rungs[line++]["errors"].push_back(
          {{"input", input},
           {"n", error_length},
           {"runs", error_runs},
           {"condition", bench::rounded(static_cast<double>(exact.condition()))},
           {"least_ulps", bench::rounded(least)},
           {"most_ulps", bench::rounded(most)},
           {"distinct", distinct.size()}});
    }
    std::fprintf(stderr, "errors, %s\n", std::string(input).c_str());
  }
};

json described(const ladder::rung& r) {
  return {{"rung", r.name},
          {"title", r.title},
          {"change", r.change},
          {"source", r.source},
          {"limits", r.limits},
          {"their_figure", r.theirs.figure},
          {"theirs_where", r.theirs.where}};
}

std::string cuda_version(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

json header(int argc, char** argv) {
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  json all = bench::header("ladder", argc, argv);
  all["gpu"] = cuda::devices().at(0);
  all["cuda_driver"] = cuda_version(driver);
  all["cuda_runtime"] = cuda_version(runtime);
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: bitfold_bench_ladder RESULT.jsonl\n");
    return 2;
  }
  if (cuda::devices().empty()) {
    std::fprintf(stderr, "bitfold_bench_ladder: no usable GPU\n");
    return 4;
  }
  const json first = header(argc, argv);
  bench::cases times;
  std::vector<json> rungs;
  for (const ladder::rung& r : ladder::all_rungs()) rungs.push_back(described(r));
  measurements m;
  for (dtype t : {dtype::f32, dtype::i32}) m.times(t, times);
  for (std::string_view input : {"uniform", "normal"}) m.errors(input, rungs);
  std::ofstream out(argv[1]);
  times.write(out, first);
  for (const json& line : rungs) out << line << '\n';
  if (!out.flush()) {
    std::fprintf(stderr, "bitfold_bench_ladder: %s: cannot be written\n", argv[1]);
    return 1;
  }
} catch (const error& e) {
  std::fprintf(stderr, "bitfold_bench_ladder: %s\n", e.what());
  return static_cast<int>(e.code());
}
