// cuBLAS, opened while the program runs: its dot with ones, and its asum where no value is
// negative.
#include "cuda.hpp"
#include "library.hpp"

#include <algorithm>

namespace bitfold::accuracy {
namespace {

// As cublas_v2.h declares them, without needing it.
using handle = struct cublasContext*;
constexpr int on_the_device = 1;  // CUBLAS_POINTER_MODE_DEVICE
template <class T>
using dot_function = int(handle, std::int64_t, const T*, std::int64_t, const T*, std::int64_t, T*);
template <class T>
using asum_function = int(handle, std::int64_t, const T*, std::int64_t, T*);

void check_blas(int status, const char* call) {
  if (status != 0)
    throw error(errc::cuda, std::string(call) + ": cuBLAS status " + std::to_string(status));
}

struct cublas {
  handle h = nullptr;
  int (*set_stream)(handle, cudaStream_t);
};

template <class T>
__global__ void fill_with_ones(T* p, std::size_t n) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += stride)
    p[i] = 1;
}

contestant_info describe(const char* what, const std::string& function, dtype t,
                         const char* about) {
  return {.id = std::string("cublas/") + what + "/" + std::string(name(t)),
          .name = std::string("cuBLAS ") + what,
          .family = "cuBLAS",
          .device = "cuda",
          .about = function + ": " + about,
          .in = t,
          .acc = "",
          .out = t};
}

template <class T>
class blas_dot final : public on_stream {
 public:
  blas_dot(contestant_info i, dot_function<T>* f, cublas b)
      : on_stream(std::move(i)), f_(f), blas_(b) {}

 protected:
  job prepare(const void* data, std::size_t n) override {
    auto* const result = static_cast<std::byte*>(scratch(for_result + n * sizeof(T)));
    T* const ones = reinterpret_cast<T*>(result + for_result);
    fill_with_ones<<<1024, 256>>>(ones, n);
    check(cudaGetLastError(), "fill_with_ones");
    return {result, [=, f = f_, blas = blas_](cudaStream_t s) {
              check_blas(blas.set_stream(blas.h, s), "cublasSetStream");
              check_blas(f(blas.h, static_cast<std::int64_t>(n), static_cast<const T*>(data), 1,
                           ones, 1, reinterpret_cast<T*>(result)),
                         "cublas dot");
            }};
  }

 private:
  dot_function<T>* f_;
  cublas blas_;
};

// asum adds magnitudes.
template <class T>
class blas_asum final : public on_stream {
 public:
  blas_asum(contestant_info i, asum_function<T>* f, cublas b)
      : on_stream(std::move(i)), f_(f), blas_(b) {}
  bool suits(const array_view& x) const override {
    const T* v = static_cast<const T*>(x.data);
    return std::all_of(v, v + x.n, [](T e) { return e >= 0; });
  }

 protected:
  job prepare(const void* data, std::size_t n) override {
    void* const result = scratch(for_result);
    return {result, [=, f = f_, blas = blas_](cudaStream_t s) {
              check_blas(blas.set_stream(blas.h, s), "cublasSetStream");
              check_blas(f(blas.h, static_cast<std::int64_t>(n), static_cast<const T*>(data), 1,
                           static_cast<T*>(result)),
                         "cublas asum");
            }};
  }

 private:
  asum_function<T>* f_;
  cublas blas_;
};

template <class T>
void add(contestants& out, const library& lib, const cublas& blas, const std::string& prefix) {
  constexpr dtype t = dtype_of<T>;
  const std::string dot = prefix + "dot_64", asum = prefix + "asum_64";
  const std::string dot_symbol = prefix + "dot_v2_64", asum_symbol = prefix + "asum_v2_64";
  if (auto* f = lib.find<dot_function<T>>(dot_symbol.c_str()))
    out.list.push_back(std::make_unique<blas_dot<T>>(
        describe("dot", dot, t, "the dot product with an array of ones, so it reads twice as much"),
        f, blas));
  if (auto* f = lib.find<asum_function<T>>(asum_symbol.c_str()))
    out.list.push_back(std::make_unique<blas_asum<T>>(
        describe("asum", asum, t, "the sum of magnitudes, for arrays without negative values"), f,
        blas));
}

}  // namespace

void add_cublas(contestants& out) {
  const library lib{"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.13",
                    "/usr/local/cuda/lib64/libcublas.so.12"};
  const auto create = lib.find<int(handle*)>("cublasCreate_v2");
  const auto version = lib.find<int(handle, int*)>("cublasGetVersion_v2");
  const auto set_mode = lib.find<int(handle, int)>("cublasSetPointerMode_v2");
  cublas blas{nullptr, lib.find<int(handle, cudaStream_t)>("cublasSetStream_v2")};
  if (!create || !version || !set_mode || !blas.set_stream) {
    out.missing.push_back(
        {"cuBLAS", "no libcublas.so.13 or .12 was found; LD_LIBRARY_PATH may name where it is"});
    return;
  }
  int number = 0;
  if (const int status = create(&blas.h); status != 0) {  // destroyed by the end of the process
    out.missing.push_back(
        {"cuBLAS", lib.name() + ": cublasCreate gave status " + std::to_string(status)});
    return;
  }
  check_blas(version(blas.h, &number), "cublasGetVersion");
  check_blas(set_mode(blas.h, on_the_device), "cublasSetPointerMode");
  out.found.push_back({"cuBLAS", std::to_string(number / 10000) + "." +
                                     std::to_string(number / 100 % 100) + "." +
                                     std::to_string(number % 100)});
  add<float>(out, lib, blas, "cublasS");
  add<double>(out, lib, blas, "cublasD");
}

}  // namespace bitfold::accuracy
