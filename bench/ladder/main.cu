// Measures every rung of the ladder beside a load-only kernel, in one run, and writes one JSON
// file:
//
//   bitfold_bench_ladder RESULT.json
//
// Time: one sum inside a CUDA graph that holds as many as fill a millisecond (at most 200), so that
// the host's launch gaps don't count; the median over replays. The array is the same each time, so
// lengths that fit in L2 are read from there, for everyone. The copy that a rung in place works on
// is made before; it is not made again between replays, which changes its values and not its time.
// Error and sameness of bits: 100 runs at 2^24 against the exact sum by MPFR.
#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "bench/gpu_time.hpp"
#include "bench/load_only.cuh"
#include "ladder.hpp"

namespace {

using namespace bitfold;
using nlohmann::ordered_json;

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

struct bench {
  speed::stopwatch watch;
  cudaStream_t stream = watch.stream;
  char *data, *workspace, *out;

  bench() {
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

  void times(dtype t, ordered_json& rows) {
    fill<<<1056, 256, 0, stream>>>(data, longest, t == dtype::f32);
    check(cudaGetLastError());
    std::uint32_t want = 0;
    std::size_t counted = 0;
    for (int k : lengths) {
      const std::size_t n = std::size_t{1} << k;
      for (; t == dtype::i32 && counted < n; ++counted) want += word(counted);
      const double ceiling = seconds([&] { load_only(data, 4 * n, out, stream); });
      const auto row = [&](std::string_view who, double s) {
        return ordered_json{{"rung", who},
                            {"dtype", name(t)},
                            {"n", n},
                            {"microseconds", s * 1e6},
                            {"gbps", 4e-9 * static_cast<double>(n) / s},
                            {"of_ceiling", ceiling / s}};
      };
      rows.push_back(row("load-only", ceiling));
      for (const ladder::rung& r : ladder::all_rungs()) {
        const std::uint32_t got = sum(r, t, n);
        const auto enqueue = [&] { ladder::launch(r, t, data, n, out, workspace, stream); };
        rows.push_back(row(r.name, seconds(enqueue)));
        if (t == dtype::i32) rows.back()["right"] = got == want;
      }
      std::fprintf(stderr, "%s 2^%d\n", std::string(name(t)).c_str(), k);
    }
  }

  void errors(std::string_view input, ordered_json& rows) {
    std::vector<std::byte> x;
    for (const accuracy::input& in : accuracy::all_inputs())
      if (in.name == input) x = accuracy::pack(in.make(error_length, 1, dtype::f32), dtype::f32);
    const accuracy::exact_sum exact = accuracy::sum_exactly(dtype::f32, x.data(), error_length);
    check(cudaMemcpy(data, x.data(), x.size(), cudaMemcpyHostToDevice));
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
      rows.push_back({{"rung", r.name},
                      {"input", input},
                      {"n", error_length},
                      {"runs", error_runs},
                      {"condition", static_cast<double>(exact.condition())},
                      {"least_ulps", least},
                      {"most_ulps", most},
                      {"distinct", distinct.size()}});
    }
    std::fprintf(stderr, "errors, %s\n", std::string(input).c_str());
  }
};

ordered_json described(const ladder::rung& r) {
  return {{"name", r.name},
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

ordered_json context() {
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  char date[32];
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return {{"gpu", cuda::devices().at(0)},
          {"cuda_driver", cuda_version(driver)},
          {"cuda_runtime", cuda_version(runtime)},
          {"commit", BITFOLD_COMMIT},
          {"date", date},
          {"command", "bitfold_bench_ladder RESULT.json"}};
}

// One row on each line, so that a diff of two results can be read.
void write(std::ostream& out, const ordered_json& all) {
  const char* comma = "{\n";
  for (const auto& [key, value] : all.items()) {
    out << comma << ordered_json(key) << ": ";
    comma = ",\n";
    if (!value.is_array()) {
      out << value;
      continue;
    }
    const char* before = "[\n";
    for (const auto& row : value) {
      out << before << row;
      before = ",\n";
    }
    out << "]";
  }
  out << "}\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: bitfold_bench_ladder RESULT.json\n");
    return 2;
  }
  if (cuda::devices().empty()) {
    std::fprintf(stderr, "bitfold_bench_ladder: no usable GPU\n");
    return 4;
  }
  ordered_json all{{"format", "bitfold-ladder"}, {"version", 1}, {"context", context()}};
  for (const char* key : {"rungs", "times", "errors"}) all[key] = ordered_json::array();
  for (const ladder::rung& r : ladder::all_rungs()) all["rungs"].push_back(described(r));
  bench b;
  for (dtype t : {dtype::f32, dtype::i32}) b.times(t, all["times"]);
  for (std::string_view input : {"uniform", "normal"}) b.errors(input, all["errors"]);
  std::ofstream out(argv[1]);
  write(out, all);
  if (!out.flush()) {
    std::fprintf(stderr, "bitfold_bench_ladder: %s: cannot be written\n", argv[1]);
    return 1;
  }
} catch (const error& e) {
  std::fprintf(stderr, "bitfold_bench_ladder: %s\n", e.what());
  return static_cast<int>(e.code());
}
