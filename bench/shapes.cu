// Rows, columns and planes on the GPU, beside a load-only kernel, in one run; shapes_torch.py has PyTorch on the same ones.
// The name of a case says who, what, of which type and shape, and which axes are reduced; times as in gpu.cu.
//
//   bitfold_bench_shapes --benchmark_out=result.json --benchmark_out_format=json
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "load_only.cuh"
#include "measure.cuh"
#include "shapes.hpp"

namespace {

using bitfold::op_id;

template <class T, class Enqueue>
void add(const std::string& who, const shape& s, Enqueue enqueue) {
  benchmark::RegisterBenchmark((who + "/" + type_name<T> + "/" + s.text()).c_str(),
                               [=](benchmark::State& state) { measure<T>(state, s.elements(), 1, enqueue); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(20);
}

template <class T>
void add_ceiling(const shape& s) {
  add<T>("load_only", s, [=](const buffers& b, std::size_t n) { load_only(b.in, n * sizeof(T), b.out, b.stream); });
}

// `transposed`: the axes lie in memory the other way round.
template <class T>
void add_ops(const std::vector<op_id>& ops, const shape& s, std::optional<bitfold::method_id> method = {}) {
  std::string name = "bitfold";
  std::vector<bitfold::reduction> all;
  for (const op_id op : ops) {
    name += (all.empty() ? ":" : "+") + std::string(bitfold::name(op));
    all.push_back(bitfold::make_reduction(op, method, stored<T>));
  }
  if (method) name += "_" + std::string(bitfold::name(*method));
  const std::size_t outputs = s.outputs();
  add<T>(name, s, [=](const buffers& b, std::size_t) {
    const auto x = bitfold::row_major(stored<T>, b.in, s.extents);
    std::vector<void*> out;
    for (std::size_t k = 0; k < all.size(); ++k) out.push_back(static_cast<char*>(b.out) + 256 + 8 * k * outputs);
    auto* const work = static_cast<char*>(b.temp) + (std::size_t{3} << 30);
    bitfold::cuda::reduce(all, x, nullptr, s.axes, out, work, b.temp_size - (std::size_t{3} << 30), b.stream);
  });
}

template <class T>
void add_all() {
  using enum op_id;
  constexpr std::int64_t elements = std::int64_t{1} << 28;
  for (const std::int64_t n : {16, 64, 256, 1000, 4096, 32768, 1 << 24, 1 << 27}) {
    const shape rows{{elements / n, n}, {1}};
    add_ceiling<T>(rows);
    add_ops<T>({sum}, rows);
  }
  for (const shape& s : {shape{{65536, 4096}, {0}}, {{4194304, 64}, {0}}, {{256, 64, 128, 128}, {0, 2, 3}}, {{256, 64, 128, 128}, {1, 3}},
                         {{4096, 65536}, {0}}}) {
    add_ceiling<T>(s);
    add_ops<T>({sum}, s);
  }
  for (const shape& s : {shape{{65536, 4096}, {1}}, {{256, 64, 128, 128}, {0, 2, 3}}}) {
    add_ops<T>({var}, s);
    add_ops<T>({argmax}, s);
    add_ops<T>({max}, s);
    add_ops<T>({sum, min, max, mean, std}, s);
  }
  for (const shape& s : {shape{{65536, 4096}, {1}}, {{2093, 128256}, {1}}}) {
    add_ceiling<T>(s);
    add_ops<T>({logsumexp}, s);
  }
  for (const shape& s : {shape{{1, 4096}, {1}}, {{8, 4096}, {1}}, {{64, 4096}, {1}}, {{256, 16384}, {1}}, {{1, 1 << 20}, {1}}, {{1, 1 << 24}, {1}}})
    for (const op_id op : {sum, var}) add_ops<T>({op}, s);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (bitfold::cuda::devices().empty()) {
    std::fprintf(stderr, "bitfold_bench_shapes: no usable GPU\n");
    return 4;
  }
  begin();
  add_all<float>();
  add_all<__half>();
  benchmark::RunSpecifiedBenchmarks();
}
