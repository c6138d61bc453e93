// Rows, columns and planes on the GPU, beside a load-only kernel and CUB's segmented sums, in one
// run. The name of a case says who, what, of which type and shape, and which axes are reduced;
// times as in gpu.cu.
//
//   bitfold_bench_shapes --benchmark_out=result.jsonl
#include <benchmark/benchmark.h>

#include <cub/device/device_segmented_reduce.cuh>
#include <cub/version.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "load_only.cuh"
#include "measure.cuh"
#include "shapes.hpp"

namespace {

using bitfold::op_id;

template <class T, class Enqueue>
void add(const std::string& who, const shape& s, Enqueue enqueue) {
  benchmark::RegisterBenchmark(
      (who + "/" + type_name<T> + "/" + s.text()).c_str(),
      [=](benchmark::State& state) { measure<T>(state, s.elements(), 1, enqueue); })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(20);
}

// Once, where several loops have the shape.
template <class T>
void add_ceiling(const shape& s) {
  static std::set<std::string> added;
  if (!added.insert(s.text()).second) return;
  add<T>("load_only", s,
         [=](const buffers& b, std::size_t n) { load_only(b.in, n * sizeof(T), b.out, b.stream); });
}

// Of every `step`-th element of the last axis.
template <class T>
void add_ops(const std::vector<op_id>& ops, const shape& s,
             std::optional<bitfold::method_id> method = {}, int step = 1) {
  std::string name = "bitfold";
  std::vector<bitfold::reduction> all;
  for (const op_id op : ops) {
    name += (all.empty() ? ":" : "+") + std::string(bitfold::name(op));
    all.push_back(bitfold::make_reduction(op, method, stored<T>));
  }
  if (method) name += "_" + std::string(bitfold::name(*method));
  if (step > 1) name += "_step" + std::to_string(step);
  const std::size_t outputs = s.outputs();
  add<T>(name, s, [=](const buffers& b, std::size_t) {
    auto x = bitfold::row_major(stored<T>, b.in, s.extents);
    if (step > 1) x = bitfold::sliced(x, x.rank - 1, 0, s.extents.back() / step, step);
    std::vector<void*> out;
    for (std::size_t k = 0; k < all.size(); ++k)
      out.push_back(static_cast<char*>(b.out) + 256 + 8 * k * outputs);
    auto* const work = static_cast<char*>(b.temp) + (std::size_t{3} << 30);
    bitfold::cuda::reduce(all, x, nullptr, s.axes, out, work, b.temp_size - (std::size_t{3} << 30),
                          b.stream);
  });
}

// CUB's sum of each segment, of 16-bit floats widened to f32 as bitfold's are. Offsets: iterators.
struct to_float {
  template <class T>
  __host__ __device__ float operator()(T x) const {
    return static_cast<float>(x);
  }
};
struct times {
  std::int64_t n;
  __host__ __device__ std::int64_t operator()(std::int64_t k) const { return k * n; }
};
template <class T, class Begins, class Ends>
void cub_segments(const buffers& b, std::int64_t segments, Begins begins, Ends ends) {
  const auto x = thrust::make_transform_iterator(static_cast<const T*>(b.in), to_float{});
  std::size_t bytes = 0;
  const auto sum = [&](void* temp) {
    check(cub::DeviceSegmentedReduce::Sum(temp, bytes, x, static_cast<float*>(b.out), segments,
                                          begins, ends, b.stream));
  };
  sum(nullptr);
  sum(static_cast<char*>(b.temp) + (std::size_t{3} << 30));
}
template <class T>
void add_cub_rows(const shape& s) {
  const std::int64_t n = s.extents.back(), rows = static_cast<std::int64_t>(s.outputs());
  add<T>("cub:sum", s, [=](const buffers& b, std::size_t) {
    const auto begins =
        thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}), times{n});
    cub_segments<T>(b, rows, begins, begins + 1);
  });
}

// Sums of segments and by key: `make` writes the offsets, or the keys, once.
template <class T, class Make, class Enqueue>
void add_lists(const std::string& who, const std::string& shape, std::int64_t n, Make make,
               Enqueue enqueue) {
  benchmark::RegisterBenchmark(
      (who + ":sum/" + type_name<T> + "/" + shape).c_str(),
      [=](benchmark::State& state) {
        auto* const list =
            static_cast<std::int64_t*>(scratch) + (std::size_t{1} << 27);  // 1 GiB on
        make(list);
        check(cudaDeviceSynchronize());
        const auto sum = bitfold::make_reduction(op_id::sum, {}, stored<T>);
        measure<T>(state, static_cast<std::size_t>(n), 1, [&](const buffers& b, std::size_t) {
          void* const out[] = {static_cast<char*>(b.out) + 256};
          enqueue(sum, b, list, out, static_cast<char*>(b.temp) + (std::size_t{3} << 30),
                  b.temp_size - (std::size_t{3} << 30));
        });
      })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(20);
}

__global__ void fill_keys(std::int64_t* keys, std::int64_t n, std::uint64_t outputs) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    std::uint64_t z = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    keys[i] = static_cast<std::int64_t>((z ^ (z >> 31)) % outputs);
  }
}

template <class T>
void add_segments() {
  constexpr std::int64_t all = std::int64_t{1} << 28;
  constexpr int segments = 1 << 20;
  const std::string shape = std::to_string(all) + "_over_2^20_segments_of_power-law_lengths";
  const auto make = [](std::int64_t* to) {
    // Lengths as 1 / rank^0.8, the ranks in any order.
    std::vector<double> weight(segments);
    double total = 0;
    for (int k = 0; k < segments; ++k)
      total += weight[static_cast<std::size_t>(k * 1'000'003LL % segments)] = std::pow(k + 1, -0.8);
    std::vector<std::int64_t> offsets(segments + 1);
    double sum = 0;
    for (int k = 0; k < segments; ++k)
      offsets[static_cast<std::size_t>(k + 1)] =
          static_cast<std::int64_t>((sum += weight[static_cast<std::size_t>(k)]) / total * all);
    offsets[segments] = all;
    check(cudaMemcpy(to, offsets.data(), offsets.size() * 8, cudaMemcpyHostToDevice));
  };
  add_lists<T>("bitfold", shape, all, make,
               [](const auto& r, const buffers& b, const std::int64_t* offsets, auto& out,
                  void* work, std::size_t size) {
                 bitfold::cuda::reduce_segments({&r, 1}, b.in, nullptr, all, offsets, segments, out,
                                                work, size, b.stream);
               });
  add_lists<T>("cub", shape, all, make,
               [](const auto&, const buffers& b, const std::int64_t* offsets, auto&, void*,
                  std::size_t) { cub_segments<T>(b, segments, offsets, offsets + 1); });
}

void add_keys() {
  constexpr std::int64_t some = std::int64_t{1} << 26;
  for (const int power : {10, 16, 20, 24}) {
    const std::size_t outputs = std::size_t{1} << power;
    add_lists<float>(
        "bitfold", std::to_string(some) + "_over_2^" + std::to_string(power) + "_keys", some,
        [=](std::int64_t* to) { fill_keys<<<1056, 256>>>(to, some, outputs); },
        [=](const auto& r, const buffers& b, const std::int64_t* keys, auto& out, void* work,
            std::size_t size) {
          bitfold::cuda::reduce_by_key({&r, 1}, b.in, nullptr, some, keys, outputs, out, work, size,
                                       b.stream);
        });
  }
}

template <class T>
void add_all() {
  using enum op_id;
  constexpr std::int64_t elements = std::int64_t{1} << 28;
  for (const std::int64_t n : {16, 64, 256, 1000, 4096, 32768, 1 << 24, 1 << 27}) {
    const shape rows{{elements / n, n}, {1}};
    add_ceiling<T>(rows);
    add_cub_rows<T>(rows);
    add_ops<T>({sum}, rows);
    add_ops<T>({sum}, rows, bitfold::method_id::exact);
    if (n == 4096) add_ops<T>({var}, rows, bitfold::method_id::exact);
  }
  add_ops<T>({sum}, {{65536, 4096}, {1}}, {}, 2);
  add_ops<T>({sum}, {{65536, 4096}, {0}}, {}, 2);
  for (const shape& s : {shape{{65536, 4096}, {0}},
                         {{4194304, 64}, {0}},
                         {{256, 64, 128, 128}, {0, 2, 3}},
                         {{256, 64, 128, 128}, {1, 3}},
                         {{4096, 65536}, {0}}}) {
    add_ceiling<T>(s);
    add_ops<T>({sum}, s);
    add_ops<T>({sum}, s, bitfold::method_id::exact);
  }
  for (const shape& s : {shape{{65536, 4096}, {1}}, {{256, 64, 128, 128}, {0, 2, 3}}}) {
    add_ops<T>({var}, s);
    add_ops<T>({argmax}, s);
    add_ops<T>({max}, s);
    if (s.axes.size() == 1) add_ops<T>({max, argmax}, s);
    add_ops<T>({sum, min, max, mean, std}, s);
  }
  for (const shape& s : {shape{{65536, 4096}, {1}}, {{2093, 128256}, {1}}}) {
    add_ceiling<T>(s);
    add_ops<T>({logsumexp}, s);
    add_ops<T>({max, softmax_denominator}, s);
  }
  // Those that Composable Kernel's example of several reductions in one pass is published with.
  for (const shape& s : {shape{{600, 28, 28, 256}, {1, 2, 3}}, {{8000, 4, 4, 4}, {1, 2, 3}}}) {
    add_ceiling<T>(s);
    add_ops<T>({mean, sum_squares}, s);
  }
  for (const shape& s : {shape{{1, 4096}, {1}},
                         {{8, 4096}, {1}},
                         {{64, 4096}, {1}},
                         {{256, 16384}, {1}},
                         {{1, 1 << 20}, {1}},
                         {{1, 1 << 24}, {1}}})
    for (const op_id op : {sum, var}) add_ops<T>({op}, s);
}

}  // namespace

int main(int argc, char** argv) try {
  bitfold::bench::session session("shapes", bitfold::bench::kept::fastest, argc, argv);
  if (const auto status = begin(session, argv[0])) return *status;
  session.header["cub_version"] = std::to_string(CUB_VERSION);
  add_all<float>();
  add_segments<float>();
  add_keys();
  add_all<__half>();
  add_segments<__half>();
  return session.run();
} catch (const bitfold::error& e) {
  std::fprintf(stderr, "bench: %s\n", e.what());
  return 1;
}
