// bitfold on the GPU beside CUB's DeviceReduce and a load-only kernel, in one run. A case is its
// element type, its accumulator and who computes it; every case runs at every length.
//
//   bitfold_bench_gpu --benchmark_out=result.json --benchmark_out_format=json
//   bitfold_bench_gpu --benchmark_filter='^(load_only|bitfold:)' ...     the operations
//   bitfold_bench_gpu --benchmark_filter='^(load_only|bitfold_(tree|exact)|cub|exact:)' ... exact
//   sums
//
// Times are of one reduction inside a CUDA graph that holds enough of them to fill a millisecond,
// so launch gaps of the host don't count; the array is the same each time, so lengths that fit in
// L2 are read from there, for everyone.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <bitfold/cuda.hpp>

#include "cub_sums.cuh"
#include "load_only.cuh"
#include "measure.cuh"

namespace {

// ---- Who computes -------------------------------------------------------------------------------

struct ceiling {
  static constexpr const char* name = "load_only";
  template <class T, class A>
  static void enqueue(const buffers& b, std::size_t n) {
    load_only(b.in, n * sizeof(T), b.out, b.stream);
  }
};

struct cub_run_to_run {
  static constexpr const char* name = "cub_run_to_run";
  template <class T, class A>
  static void enqueue(const buffers& b, std::size_t n) {
    std::size_t bytes = 0;
    const auto call = [&](void* temp) {
      check(bitfold::speed::cub_widened_sum<A>(temp, bytes, static_cast<const T*>(b.in),
                                               static_cast<A*>(b.out), n, b.stream));
    };
    call(nullptr);
    if (bytes > b.temp_size) std::abort();
    call(b.temp);
  }
};

#ifdef CUB_HAS_LEVELS
template <class Level>
struct cub_level {
  template <class T, class A>
  static void enqueue(const buffers& b, std::size_t n) {
    check(bitfold::speed::cub_sum_at_level<Level>(static_cast<const T*>(b.in),
                                                  static_cast<A*>(b.out), n, b.stream));
  }
};
struct cub_gpu_to_gpu : cub_level<::cuda::execution::determinism::gpu_to_gpu_t> {
  static constexpr const char* name = "cub_gpu_to_gpu";
};
struct cub_not_guaranteed : cub_level<::cuda::execution::determinism::not_guaranteed_t> {
  static constexpr const char* name = "cub_not_guaranteed";
};
#endif

template <class T, class Enqueue>
void add_sum(std::string_view who, Enqueue enqueue) {
  auto* b = benchmark::RegisterBenchmark(
      (std::string(who) + "/" + type_name<T>).c_str(), [=](benchmark::State& s) {
        measure<T>(s, static_cast<std::size_t>(s.range(0)), 1, enqueue);
      });
  for (int k : {8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}) b->Arg(std::int64_t{1} << k);
  b->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(30);
}

/// Sums by every method, and whoever else.
template <class T, class A, class... Others>
void add_sums() {
  using namespace bitfold;
  add_sum<T>(ceiling::name, ceiling::enqueue<T, A>);
  for (const auto& m : all_methods) {
    if (!m.on_gpu()) continue;
    const auto acc =
        m.ordering == ordering::independent ? std::nullopt : std::optional(dtype_of<A>);
    const auto r = make_reduction(op_id::sum, m.id, stored<T>, acc, dtype_of<A>);
    add_sum<T>("bitfold_" + std::string(m.name), [r](const buffers& b, std::size_t n) {
      bitfold::cuda::reduce(r, b.in, n, b.out, b.temp, b.temp_size, b.stream);
    });
  }
  (add_sum<T>(Others::name, Others::template enqueue<T, A>), ...);
}

/// Every operation as it is by default, and some together.
template <class T>
void add_operations() {
  using bitfold::op_id;
  const auto add = [](std::vector<op_id> ops) {
    std::string name;
    std::vector<bitfold::reduction> all;
    for (op_id op : ops) {
      name += (name.empty() ? "" : "+") + std::string(bitfold::name(op));
      all.push_back(bitfold::make_reduction(op, {}, stored<T>));
    }
    const int inputs = bitfold::info(ops[0]).inputs;
    const auto enqueue = [=](const buffers& b, std::size_t n) {
      const void* second = static_cast<const T*>(b.in) + n;
      std::vector<void*> out;
      for (std::size_t k = 0; k < all.size(); ++k) out.push_back(static_cast<char*>(b.out) + 8 * k);
      bitfold::cuda::reduce(all, b.in, inputs == 2 ? second : nullptr, n, out, b.temp, b.temp_size,
                            b.stream);
    };
    auto* bench = benchmark::RegisterBenchmark(
        ("bitfold:" + name + "/" + type_name<T>).c_str(), [=](benchmark::State& s) {
          measure<T>(s, static_cast<std::size_t>(s.range(0)), inputs, enqueue);
        });
    for (int k : {10, 16, 20, 24, 28}) bench->Arg(std::int64_t{1} << k);
    bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(30);
  };
  for (op_id op : bitfold::all_ops) add({op});
  add({op_id::mean, op_id::var});
  add({op_id::min, op_id::max});
  add({op_id::sum, op_id::min, op_id::max, op_id::mean, op_id::std});
  add({op_id::sum, op_id::norm_l1, op_id::norm_l2, op_id::min, op_id::max});
  add({op_id::nansum, op_id::nanmin, op_id::nanmax, op_id::count_nonzero});
  add({op_id::dot, op_id::mse, op_id::cosine});
  std::vector<op_id> all;
  for (const op_id op : bitfold::all_ops)
    if (bitfold::info(op).inputs == 1 && op != op_id::count_distinct) all.push_back(op);
  add(all);
}

/// What is exact, of all kinds of values: their sum; of one binade and of any bits more, and
/// shorter.
template <class T, values Of>
void add_exact(const std::string& kind) {
  using bitfold::op_id;
  const auto add = [&](const std::vector<op_id>& ops, const std::vector<int>& powers) {
    std::string name;
    std::vector<bitfold::reduction> all;
    for (const op_id op : ops) {
      name += (name.empty() ? "" : "+") + std::string(bitfold::name(op));
      all.push_back(bitfold::make_reduction(op, bitfold::method_id::exact, stored<T>));
    }
    const int inputs = bitfold::info(ops[0]).inputs;
    const auto enqueue = [=](const buffers& b, std::size_t n) {
      const void* second = static_cast<const T*>(b.in) + n;
      std::vector<void*> out;
      for (std::size_t k = 0; k < all.size(); ++k) out.push_back(static_cast<char*>(b.out) + 8 * k);
      bitfold::cuda::reduce(all, b.in, inputs == 2 ? second : nullptr, n, out, b.temp, b.temp_size,
                            b.stream);
    };
    auto* bench = benchmark::RegisterBenchmark(
        ("exact:" + name + kind + "/" + type_name<T>).c_str(), [=](benchmark::State& s) {
          measure<T, Of>(s, static_cast<std::size_t>(s.range(0)), inputs, enqueue);
        });
    for (const int k : powers) bench->Arg(std::int64_t{1} << k);
    bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(30);
  };
  if (Of != values::one_binade && Of != values::any_bits) return add({op_id::sum}, {30});
  add({op_id::sum}, {10, 20, 28, 30});
  for (const std::vector<op_id>& ops : {std::vector{op_id::sum, op_id::sum_squares},
                                        {op_id::norm_l1},
                                        {op_id::sum, op_id::norm_l1, op_id::sum_squares},
                                        {op_id::nansum},
                                        {op_id::nanmean},
                                        {op_id::squared_distance},
                                        {op_id::dot, op_id::squared_distance}})
    add(ops, {28});
  for (const op_id op : {op_id::sum_squares, op_id::dot, op_id::var}) add({op}, {10, 20, 28});
}

}  // namespace

int main(int argc, char** argv) try {
  if (const auto status = begin(argc, argv)) return *status;
  benchmark::AddCustomContext("cub_version", std::to_string(CUB_VERSION));
#ifdef CUB_HAS_LEVELS
  add_sums<float, float, cub_run_to_run, cub_gpu_to_gpu, cub_not_guaranteed>();
  add_sums<double, double, cub_run_to_run, cub_gpu_to_gpu, cub_not_guaranteed>();
#else
  add_sums<float, float, cub_run_to_run>();
  add_sums<double, double, cub_run_to_run>();
#endif
  add_sums<__half, float, cub_run_to_run>();
  add_sums<__nv_bfloat16, float, cub_run_to_run>();
  add_operations<float>();
  add_operations<__half>();
  add_operations<__nv_bfloat16>();
  add_operations<double>();
  const auto exact = [&]<class... T>(std::type_identity<T>...) {
    (add_exact<T, values::one_binade>(""), ...);
    (add_exact<T, values::any_bits>("_of_any_bits"), ...);
    (add_exact<T, values::normal>("_of_normal"), ...);
    (add_exact<T, values::positive>("_of_positive"), ...);
    (add_exact<T, values::relu>("_of_relu"), ...);
  };
  exact(std::type_identity<__half>{}, std::type_identity<__nv_bfloat16>{},
        std::type_identity<float>{}, std::type_identity<double>{});
  benchmark::RunSpecifiedBenchmarks();
} catch (const bitfold::error& e) {
  std::fprintf(stderr, "bench: %s\n", e.what());
  return 1;
}
