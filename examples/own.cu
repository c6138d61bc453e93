#include <bitfold/cuda/reduce.cuh>

#include <iostream>
#include <vector>

#include "own_ops.hpp"

// An array on the GPU.
template <class T>
struct on_gpu {
  T* p = nullptr;
  std::size_t n;
  explicit on_gpu(const std::vector<T>& v) : n(v.size()) {
    cudaMalloc(&p, n * sizeof(T));
    cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~on_gpu() { cudaFree(p); }
  on_gpu(const on_gpu&) = delete;
  std::span<const T> span() const { return {p, n}; }
};

int main() {
  using namespace bitfold;
  if (cuda::devices().empty()) {
    std::cout << "no GPU here\n";
    return 77;  // skipped
  }
  const std::size_t n = 1'000'000;
  std::vector<float> x(n), w(n);
  std::vector<std::uint8_t> mask(n);
  std::vector<complex> z(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = 1.0f / static_cast<float>(i + 1);
    w[i] = static_cast<float>(i % 7);
    mask[i] = i % 3 != 0;
    z[i] = {x[i], -w[i]};
  }
  const on_gpu gx(x), gw(w);
  const on_gpu gmask(mask);
  const on_gpu gz(z);
  bool same = true;
  const auto show = [&](const char* what, auto gpu, auto cpu) {
    same = same && gpu == cpu;
    std::cout << what << " " << gpu << " " << cpu << "\n";
  };
  const auto [total, average, top] =
      cuda::reduce(gx.span(), ops::sum, ops::mean, ops::max);  // one pass
  const auto [cpu_total, cpu_average, cpu_top] = reduce(x, ops::sum, ops::mean, ops::max);
  show("sum", total, cpu_total);
  show("mean", average, cpu_average);
  show("max", top, cpu_top);
  show("complex sum", cuda::reduce(gz.span(), complex_sum{}).im, reduce(z, complex_sum{}).im);
  show("masked weighted mean",
       cuda::reduce(transform(keep_masked{}, gx.span(), gw.span(), gmask.span()), weighted_mean{}),
       reduce(transform(keep_masked{}, x, w, mask), weighted_mean{}));
  show("log-likelihood",
       cuda::reduce(transform(log_likelihood{}, gx.span(), gw.span()),
                    ops::sum.by<method_id::kahan>()),
       reduce(transform(log_likelihood{}, x, w), ops::sum.by<method_id::kahan>()));
  const auto [label, product] = cuda::reduce(pairs(gx.span(), gw.span()), top_label{}, ops::dot);
  const auto [cpu_label, cpu_product] = reduce(pairs(x, w), top_label{}, ops::dot);
  show("top label", label.label, cpu_label.label);
  show("dot", product, cpu_product);
  std::cout << (same ? "the same bits\n" : "the bits differ\n");
  return same ? 0 : 1;
}
