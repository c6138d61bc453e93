// cuBLAS, opened while the program runs: its asum, nrm2, dot and amax; and sums by its dot with
// ones, and by its asum where no value is negative.
#include "cuda.hpp"
#include "library.hpp"

#include <algorithm>
#include <cctype>
#include <type_traits>

namespace bitfold::accuracy {
namespace {

// As cublas_v2.h declares them, without needing it.
using handle = struct cublasContext*;
constexpr int on_the_device = 1;  // CUBLAS_POINTER_MODE_DEVICE
template <class T>
using dot_function = int(handle, std::int64_t, const T*, std::int64_t, const T*, std::int64_t, T*);
template <class T>
using of_one_function = int(handle, std::int64_t, const T*, std::int64_t, T*);
template <class T>
using index_function = int(handle, std::int64_t, const T*, std::int64_t, std::int64_t*);

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

// The magnitude of the element at an index that counts from 1.
template <class T>
__global__ void take_magnitude(const T* x, const std::int64_t* index, T* result) {
  const T v = x[*index - 1];
  *result = v < 0 ? -v : v;
}

template <class T>
contestant_info describe(op_id op, const std::string& id, const char* what,
                         const std::string& about) {
  return {.id = "cublas/" + id + "/" + std::string(name(dtype_of<T>)),
          .name = std::string("cuBLAS ") + what,
          .family = "cuBLAS",
          .device = "cuda",
          .about = about,
          .in = dtype_of<T>,
          .acc = "",
          .out = dtype_of<T>,
          .op = op};
}

template <class T>
class blas_call : public on_stream {
 public:
  // Of arrays on the device. Behind the result there is room for another.
  using call = std::function<void(handle, const array_view& x, T* result, cudaStream_t)>;
  blas_call(contestant_info i, call f, cublas b)
      : on_stream(std::move(i)), f_(std::move(f)), blas_(b) {}

 protected:
  job prepare(const array_view& x) override {
    void* const result = scratch(2 * for_result);
    return {result, [=, f = f_, blas = blas_](cudaStream_t s) {
              check_blas(blas.set_stream(blas.h, s), "cublasSetStream");
              f(blas.h, x, static_cast<T*>(result), s);
            }};
  }

 private:
  call f_;
  cublas blas_;
};

// A sum by adding magnitudes.
template <class T>
class sum_of_magnitudes final : public blas_call<T> {
 public:
  using blas_call<T>::blas_call;
  bool suits(const array_view& x) const override {
    const T* v = static_cast<const T*>(x.data);
    return std::all_of(v, v + x.n, [](T e) { return e >= 0; });
  }
};

template <class T>
class dot_with_ones final : public on_stream {
 public:
  dot_with_ones(contestant_info i, dot_function<T>* f, cublas b)
      : on_stream(std::move(i)), f_(f), blas_(b) {}

 protected:
  job prepare(const array_view& x) override {
    auto* const result = static_cast<std::byte*>(scratch(for_result + x.n * sizeof(T)));
    T* const ones = reinterpret_cast<T*>(result + for_result);
    fill_with_ones<<<1024, 256>>>(ones, x.n);
    check(cudaGetLastError(), "fill_with_ones");
    return {result, [=, f = f_, blas = blas_](cudaStream_t s) {
              check_blas(blas.set_stream(blas.h, s), "cublasSetStream");
              check_blas(f(blas.h, static_cast<std::int64_t>(x.n), static_cast<const T*>(x.data), 1,
                           ones, 1, reinterpret_cast<T*>(result)),
                         "cublas dot");
            }};
  }

 private:
  dot_function<T>* f_;
  cublas blas_;
};

template <class T>
void add(contestants& out, const library& lib, const cublas& blas, const std::string& letter) {
  const auto find = [&]<class F>(const std::string& function, std::type_identity<F>) {
    return lib.find<F>(("cublas" + function + "_v2_64").c_str());
  };
  const auto name_of = [](const std::string& function) { return "cublas" + function + "_64"; };
  const auto add = [&](op_id op, const char* what, const std::string& function,
                       typename blas_call<T>::call f) {
    out.list.push_back(std::make_unique<blas_call<T>>(
        describe<T>(op, name_of(function), what, name_of(function)), std::move(f), blas));
  };
  // asum and nrm2
  const auto of_one = [&](const std::string& function) {
    return [f = find(function, std::type_identity<of_one_function<T>>{})](
               handle h, const array_view& x, T* result, cudaStream_t) {
      check_blas(f(h, static_cast<std::int64_t>(x.n), static_cast<const T*>(x.data), 1, result),
                 "cublas");
    };
  };
  const std::string dot = letter + "dot", asum = letter + "asum", nrm2 = letter + "nrm2";
  std::string amax = "I" + letter + "amax";
  amax[1] = static_cast<char>(std::tolower(amax[1]));
  if (auto* f = find(dot, std::type_identity<dot_function<T>>{})) {
    out.list.push_back(std::make_unique<dot_with_ones<T>>(
        describe<T>(
            op_id::sum, "dot", "dot",
            name_of(dot) + ": the dot product with an array of ones, so it reads twice as much"),
        f, blas));
    add(op_id::dot, "dot", dot, [f](handle h, const array_view& x, T* result, cudaStream_t) {
      check_blas(f(h, static_cast<std::int64_t>(x.n), static_cast<const T*>(x.data), 1,
                   static_cast<const T*>(x.second(op_id::dot)), 1, result),
                 "cublas dot");
    });
  }
  if (find(asum, std::type_identity<of_one_function<T>>{})) {
    out.list.push_back(std::make_unique<sum_of_magnitudes<T>>(
        describe<T>(op_id::sum, "asum", "asum",
                    name_of(asum) + ": the sum of magnitudes, for arrays without negative values"),
        of_one(asum), blas));
    add(op_id::norm_l1, "asum", asum, of_one(asum));
  }
  if (find(nrm2, std::type_identity<of_one_function<T>>{}))
    add(op_id::norm_l2, "nrm2", nrm2, of_one(nrm2));
  if (auto* f = find(amax, std::type_identity<index_function<T>>{}))
    add(op_id::norm_inf, "amax", amax,
        [f](handle h, const array_view& x, T* result, cudaStream_t s) {
          auto* const index = reinterpret_cast<std::int64_t*>(result) + 1;
          const T* const data = static_cast<const T*>(x.data);
          check_blas(f(h, static_cast<std::int64_t>(x.n), data, 1, index), "cublas amax");
          take_magnitude<<<1, 1, 0, s>>>(data, index, result);
        });
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
  add<float>(out, lib, blas, "S");
  add<double>(out, lib, blas, "D");
}

}  // namespace bitfold::accuracy
