// CUB's DeviceReduce: sums at the levels of determinism that this CUB has, and what else it has, or
// is one TransformReduce.
#include "cuda.hpp"

#include <thrust/iterator/counting_iterator.h>

#include "bench/cub_sums.cuh"
#include "bench/gpu_types.hpp"

namespace bitfold::accuracy {
namespace {

using speed::stored;

template <class T>
contestant_info describe(const std::string& level, const std::string& about,
                         const std::string& acc) {
  return {.id = "cub/" + level + "/" + std::string(name(stored<T>)),
          .name = "CUB " + level,
          .family = "CUB",
          .device = "cuda",
          .about = about,
          .in = stored<T>,
          .acc = acc,
          .out = stored<T>};
}

// The default of every CUB. Elements of 16 bits are widened by a transform, so that it accumulates
// in f32 here too.
template <class T, class A>
class run_to_run final : public on_stream {
 public:
  run_to_run()
      : on_stream(describe<T>("run_to_run",
                              sizeof(T) == 2 ? "cub::DeviceReduce::TransformReduce, widening to f32"
                                             : "cub::DeviceReduce::Sum",
                              std::string(name(stored<A>)))) {}

 protected:
  job prepare(const array_view& x) override {
    const void* const data = x.data;
    const std::size_t n = x.n;
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
      return speed::cub_widened_sum<A>(temp, bytes, x, sum, n, s);
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
  job prepare(const array_view& x) override {
    const void* const data = x.data;
    const std::size_t n = x.n;
    T* const result = static_cast<T*>(scratch(for_result));
    return {result, [=](cudaStream_t s) {
              check(speed::cub_sum_at_level<Level>(static_cast<const T*>(data), result, n, s),
                    "cub::DeviceReduce");
            }};
  }
};

template <class T>
void add_levels(contestants& out) {
  using namespace ::cuda::execution::determinism;
  const std::string acc(name(stored<T>));
  out.list.push_back(std::make_unique<at_level<T, not_guaranteed_t>>("not_guaranteed", acc));
  out.list.push_back(std::make_unique<at_level<T, gpu_to_gpu_t>>("gpu_to_gpu", "binned " + acc));
}
#endif

// ---- Other operations

// What is reduced for each element.
template <class A>
struct magnitude {
  template <class T>
  __host__ __device__ A operator()(T x) const {
    const A a = static_cast<A>(x);
    return a < 0 ? -a : a;
  }
};
template <class A>
struct square {
  template <class T>
  __host__ __device__ A operator()(T x) const {
    return static_cast<A>(x) * static_cast<A>(x);
  }
};
template <class A>
struct is_nonzero {
  template <class T>
  __host__ __device__ std::int64_t operator()(T x) const {
    return static_cast<A>(x) != 0;
  }
};
template <class A, class T>
struct product {
  const T *x, *y;
  __host__ __device__ A operator()(std::int64_t i) const {
    return static_cast<A>(x[i]) * static_cast<A>(y[i]);
  }
};

template <class T>
struct arguments {
  void* temp;  // null to ask for `bytes`
  std::size_t& bytes;
  const T *x, *y;
  void* result;
  std::int64_t n;
  cudaStream_t stream;
};

template <class T>
class operation final : public on_stream {
 public:
  using call = cudaError_t (*)(const arguments<T>&);
  operation(contestant_info i, call f) : on_stream(std::move(i)), f_(f) {}

 protected:
  job prepare(const array_view& x) override {
    std::size_t bytes = 0;
    const auto call = [f = f_, data = static_cast<const T*>(x.data),
                       second = static_cast<const T*>(x.second(info.op)),
                       n = static_cast<std::int64_t>(x.n)](void* temp, std::size_t& size,
                                                           void* result, cudaStream_t s) {
      check(f({temp, size, data, second, result, n, s}), "cub::DeviceReduce");
    };
    call(nullptr, bytes, nullptr, nullptr);
    auto* const result = static_cast<std::byte*>(scratch(2 * for_result + bytes));
    return {result,
            [=](cudaStream_t s) mutable { call(result + 2 * for_result, bytes, result, s); }};
  }

 private:
  call f_;
};

template <class Out, class A, class T, class In, class Reduce, class Term>
cudaError_t transformed(const arguments<T>& a, In in, Reduce reduce, Term term, A init) {
  return cub::DeviceReduce::TransformReduce(a.temp, a.bytes, in, static_cast<Out*>(a.result), a.n,
                                            reduce, term, init, a.stream);
}

template <class T, class A>
void add_operations(contestants& out) {
  const std::string acc(name(stored<A>));
  const auto add = [&](op_id op, dtype result, const std::string& acc, const char* about,
                       typename operation<T>::call f) {
    contestant_info i = describe<T>(std::string(name(op)), about, acc);
    i.op = op;
    i.out = result;
    out.list.push_back(std::make_unique<operation<T>>(std::move(i), f));
  };
  using a = const arguments<T>&;
  using add_up = ::cuda::std::plus<>;
  constexpr dtype t = stored<T>;
  add(op_id::min, t, "", "cub::DeviceReduce::Min", [](a x) {
    return cub::DeviceReduce::Min(x.temp, x.bytes, x.x, static_cast<T*>(x.result), x.n, x.stream);
  });
  add(op_id::max, t, "", "cub::DeviceReduce::Max", [](a x) {
    return cub::DeviceReduce::Max(x.temp, x.bytes, x.x, static_cast<T*>(x.result), x.n, x.stream);
  });
#if CUB_VERSION >= 300000
  // Behind the index goes the value.
  add(op_id::argmin, dtype::i64, "", "cub::DeviceReduce::ArgMin", [](a x) {
    auto* const index = static_cast<std::int64_t*>(x.result);
    T* const value = reinterpret_cast<T*>(static_cast<std::byte*>(x.result) + for_result);
    return cub::DeviceReduce::ArgMin(x.temp, x.bytes, x.x, value, index, x.n, x.stream);
  });
  add(op_id::argmax, dtype::i64, "", "cub::DeviceReduce::ArgMax", [](a x) {
    auto* const index = static_cast<std::int64_t*>(x.result);
    T* const value = reinterpret_cast<T*>(static_cast<std::byte*>(x.result) + for_result);
    return cub::DeviceReduce::ArgMax(x.temp, x.bytes, x.x, value, index, x.n, x.stream);
  });
#endif
  add(op_id::prod, t, acc, "cub::DeviceReduce::TransformReduce by multiplication", [](a x) {
    return transformed<T>(x, x.x, ::cuda::std::multiplies<>{}, speed::to<A>{}, A{1});
  });
  add(op_id::count_nonzero, dtype::i64, "", "cub::DeviceReduce::TransformReduce of x != 0",
      [](a x) {
        return transformed<std::int64_t>(x, x.x, add_up{}, is_nonzero<A>{}, std::int64_t{0});
      });
  add(op_id::sum_squares, t, acc, "cub::DeviceReduce::TransformReduce of squares",
      [](a x) { return transformed<T>(x, x.x, add_up{}, square<A>{}, A{0}); });
  add(op_id::norm_l1, t, acc, "cub::DeviceReduce::TransformReduce of magnitudes",
      [](a x) { return transformed<T>(x, x.x, add_up{}, magnitude<A>{}, A{0}); });
  add(op_id::dot, t, acc, "cub::DeviceReduce::TransformReduce of products, over indices", [](a x) {
    return transformed<T>(x, thrust::counting_iterator<std::int64_t>(0), add_up{},
                          product<A, T>{x.x, x.y}, A{0});
  });
}

}  // namespace

void add_cub(contestants& out) {
  out.found.push_back({"CUB", std::to_string(CUB_MAJOR_VERSION) + "." +
                                  std::to_string(CUB_MINOR_VERSION) + "." +
                                  std::to_string(CUB_SUBMINOR_VERSION)});
  out.list.push_back(std::make_unique<run_to_run<float, float>>());
  out.list.push_back(std::make_unique<run_to_run<double, double>>());
  out.list.push_back(std::make_unique<run_to_run<__half, float>>());
  out.list.push_back(std::make_unique<run_to_run<__nv_bfloat16, float>>());
  add_operations<float, float>(out);
  add_operations<double, double>(out);
  add_operations<__half, float>(out);
  add_operations<__nv_bfloat16, float>(out);
#ifdef CUB_HAS_LEVELS
  add_levels<float>(out);
  add_levels<double>(out);
#else
  out.missing.push_back(
      {"CUB not_guaranteed and gpu_to_gpu",
       "this CUB has no levels: configure with -DBITFOLD_CCCL_DIR=, a checkout of "
       "CCCL 3.1 or later"});
#endif
}

}  // namespace bitfold::accuracy
