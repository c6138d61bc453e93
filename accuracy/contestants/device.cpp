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

struct stream {
  cudaStream_t s;
  stream() { check(cudaStreamCreate(&s), "cudaStreamCreate"); }
  ~stream() { cudaStreamDestroy(s); }
};

struct event {
  cudaEvent_t e;
  event() { check(cudaEventCreate(&e), "cudaEventCreate"); }
  ~event() { cudaEventDestroy(e); }
};

struct graph {
  cudaGraphExec_t exec;
  graph(const std::function<void(CUstream_st*)>& enqueue, int copies, cudaStream_t s) {
    check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t g = nullptr;
    try {
      for (int i = 0; i < copies; ++i) enqueue(s);
    } catch (...) {
      cudaStreamEndCapture(s, &g);
      if (g != nullptr) cudaGraphDestroy(g);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(s, &g), "cudaStreamEndCapture");
    const cudaError_t err = cudaGraphInstantiate(&exec, g, 0);
    cudaGraphDestroy(g);
    check(err, "cudaGraphInstantiate");
  }
  ~graph() { cudaGraphExecDestroy(exec); }
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
  const stream s;
  const event begin, end;
  const auto sample = [&](const graph& g) {
    check(cudaEventRecord(begin.e, s.s), "cudaEventRecord");
    check(cudaGraphLaunch(g.exec, s.s), "cudaGraphLaunch");
    check(cudaEventRecord(end.e, s.s), "cudaEventRecord");
    check(cudaEventSynchronize(end.e), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.e, end.e), "cudaEventElapsedTime");
    return ms * 1e-3;
  };
  for (int copies = 1;;) {
    const graph g(enqueue, copies, s.s);
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
