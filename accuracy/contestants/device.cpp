#include "cuda.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include <bitfold/cuda.hpp>

namespace bitfold::accuracy {
namespace {

void need_gpu() {
  if (cuda::devices().empty()) throw error(errc::no_device, "cuda: no usable GPU on this machine");
}

// Grows, and never shrinks. Lives until the process ends: freeing it then could come after the
// runtime's own end.
struct buffer {
  void* p = nullptr;
  std::size_t size = 0;
  void reserve(std::size_t bytes) {
    if (p != nullptr && bytes <= size) return;
    if (p != nullptr) check(cudaFree(p), "cudaFree");
    p = nullptr;
    const std::size_t wanted = std::max<std::size_t>(bytes, 4096);
    check(cudaMalloc(&p, wanted), "cudaMalloc");
    size = wanted;
  }
};

}  // namespace

array_view on_device(const array_view& x) {
  static buffer copy;
  static std::optional<std::uint64_t> kept;
  need_gpu();
  if (kept != x.id) {
    kept.reset();
    copy.reserve(x.bytes());
    if (x.bytes() > 0)
      check(cudaMemcpy(copy.p, x.data, x.bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    kept = x.id;
  }
  array_view there = x;
  there.data = copy.p;
  return there;
}

void* scratch(std::size_t bytes) {
  static buffer memory;
  need_gpu();
  memory.reserve(bytes);
  return memory.p;
}

scalar fetch(dtype t, const void* device) {
  need_gpu();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::byte host[8];
  check(cudaMemcpy(host, device, size_of(t), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return load_scalar(t, host);
}

std::vector<double> time_on_device(const std::function<void(CUstream_st*)>& enqueue, int times) {
  constexpr double enough = 200e-6;
  constexpr int most = 4096;
  need_gpu();
  const speed::stopwatch watch;
  const auto sample = [&](const speed::graph& g) {
    return watch.milliseconds([&] { g.launch(); }) * 1e-3;
  };
  for (int copies = 1;;) {
    const speed::graph g(watch.stream, copies, enqueue);
    sample(g);  // warms up
    const double once = sample(g);
    if (once < enough && copies < most) {
      const double more = std::clamp(1.2 * enough / once, 2.0, double{most});
      copies = static_cast<int>(std::min(std::ceil(copies * more), double{most}));
      continue;
    }
    std::vector<double> out;
    for (int i = 0; i < times; ++i) out.push_back(sample(g) / copies);
    return out;
  }
}

}  // namespace bitfold::accuracy
