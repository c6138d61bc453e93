// CUB's DeviceReduce, at the levels of determinism that this CUB has.
#include "cuda.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/device/device_reduce.cuh>
#include <cub/version.cuh>
#if __has_include(<cuda/execution.determinism.h>)
#include <cuda/__execution/determinism.h>
#include <cuda/execution.determinism.h>
#define CUB_HAS_LEVELS 1
#endif

namespace bitfold::accuracy {
namespace {

template <class T>
constexpr dtype type_of = std::is_same_v<T, __half>          ? dtype::f16
                          : std::is_same_v<T, __nv_bfloat16> ? dtype::bf16
                          : std::is_same_v<T, float>         ? dtype::f32
                                                             : dtype::f64;

template <class T>
contestant_info describe(const std::string& level, const std::string& about,
                         const std::string& acc) {
  return {.id = "cub/" + level + "/" + std::string(name(type_of<T>)),
          .name = "CUB " + level,
          .family = "CUB",
          .device = "cuda",
          .about = about,
          .in = type_of<T>,
          .acc = acc,
          .out = type_of<T>};
}

template <class A>
struct to {
  template <class T>
  __host__ __device__ A operator()(T x) const {
    return static_cast<A>(x);
  }
};

// The default of every CUB. Elements of 16 bits are widened by a transform, so that it accumulates
// in f32 here too.
template <class T, class A>
class run_to_run final : public on_stream {
 public:
  run_to_run()
      : on_stream(describe<T>("run_to_run",
                              sizeof(T) == 2 ? "cub::DeviceReduce::TransformReduce, widening to f32"
                                             : "cub::DeviceReduce::Sum",
                              std::string(name(type_of<A>)))) {}

 protected:
  job prepare(const void* data, std::size_t n) override {
    std::size_t bytes = 0;
    check(reduce(nullptr, bytes, data, nullptr, n, nullptr), "cub::DeviceReduce");
    auto* const result = static_cast<std::byte*>(scratch(for_result + bytes));
    return {result, [=](cudaStream_t s) mutable {
              check(reduce(result + for_result, bytes, data, result, n, s), "cub::DeviceReduce");
            }};
  }

 private:
  static cudaError_t reduce(void* temp, std::size_t& bytes, const void* data, void* result,
                            std::size_t n, cudaStream_t s) {
    const T* x = static_cast<const T*>(data);
    T* sum = static_cast<T*>(result);
    if constexpr (sizeof(T) == 2)
      return cub::DeviceReduce::TransformReduce(temp, bytes, x, sum, n, ::cuda::std::plus<>{},
                                                to<A>{}, A{0}, s);
    else
      return cub::DeviceReduce::Sum(temp, bytes, x, sum, n, s);
  }
};

#ifdef CUB_HAS_LEVELS
template <class T, class Level>
class at_level final : public on_stream {
 public:
  at_level(const std::string& level, const std::string& acc)
      : on_stream(
            describe<T>(level, "cub::DeviceReduce::Reduce, which is to require " + level, acc)) {}

 protected:
  job prepare(const void* data, std::size_t n) override {
    T* const result = static_cast<T*>(scratch(for_result));
    return {result, [=](cudaStream_t s) {  // it takes its memory from the stream's pool
              check(cub::DeviceReduce::Reduce(
                        static_cast<const T*>(data), result, n, ::cuda::std::plus<>{}, T{0},
                        ::cuda::std::execution::env{::cuda::stream_ref{s},
                                                    ::cuda::execution::require(Level{})}),
                    "cub::DeviceReduce");
            }};
  }
};

template <class T>
void add_levels(contestants& out) {
  using namespace ::cuda::execution::determinism;
  const std::string acc(name(type_of<T>));
  out.list.push_back(std::make_unique<at_level<T, not_guaranteed_t>>("not_guaranteed", acc));
  out.list.push_back(std::make_unique<at_level<T, gpu_to_gpu_t>>("gpu_to_gpu", "binned " + acc));
}
#endif

}  // namespace

void add_cub(contestants& out) {
  out.found.push_back({"CUB", std::to_string(CUB_MAJOR_VERSION) + "." +
                                  std::to_string(CUB_MINOR_VERSION) + "." +
                                  std::to_string(CUB_SUBMINOR_VERSION)});
  out.list.push_back(std::make_unique<run_to_run<float, float>>());
  out.list.push_back(std::make_unique<run_to_run<double, double>>());
  out.list.push_back(std::make_unique<run_to_run<__half, float>>());
  out.list.push_back(std::make_unique<run_to_run<__nv_bfloat16, float>>());
#ifdef CUB_HAS_LEVELS
  add_levels<float>(out);
  add_levels<double>(out);
#else
  out.missing.push_back({"CUB not_guaranteed and gpu_to_gpu",
                         "this CUB has no levels: configure with -DBITFOLD_CCCL_DIR=, a checkout of "
                         "CCCL 3.1 or later"});
#endif
}

}  // namespace bitfold::accuracy
