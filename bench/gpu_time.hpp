// The time of work on a GPU, for the benches and the suite alike: CUDA events around a CUDA graph
// that holds the work several times, so that launch gaps of the host don't count. How many times,
// and which of the times, is the caller's.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include <bitfold/error.hpp>

namespace bitfold::speed {

/// Throws errc::cuda.
inline void check(cudaError_t err, std::string_view call = {}) {
  if (err == cudaSuccess) return;
  cudaGetLastError();  // leave nothing for the next call
  throw error(errc::cuda, (call.empty() ? "" : std::string(call) + ": ") + cudaGetErrorString(err));
}

class stream {
 public:
  stream() { check(cudaStreamCreate(&s_), "cudaStreamCreate"); }
  ~stream() { cudaStreamDestroy(s_); }
  stream(const stream&) = delete;
  operator cudaStream_t() const { return s_; }

 private:
  cudaStream_t s_;
};

class event {
 public:
  event() { check(cudaEventCreate(&e_), "cudaEventCreate"); }
  ~event() { cudaEventDestroy(e_); }
  event(const event&) = delete;
  operator cudaEvent_t() const { return e_; }

 private:
  cudaEvent_t e_;
};

/// What `enqueue(stream)` puts there, `copies` times.
class graph {
 public:
  template <class Enqueue>
  graph(cudaStream_t s, int copies, const Enqueue& enqueue) : stream_(s) {
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
    const cudaError_t err = cudaGraphInstantiate(&exec_, g, 0);
    cudaGraphDestroy(g);
    check(err, "cudaGraphInstantiate");
  }
  ~graph() { cudaGraphExecDestroy(exec_); }
  graph(const graph&) = delete;
  void launch() const { check(cudaGraphLaunch(exec_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_;
};

/// A stream, and how long what `work()` puts there takes.
struct stopwatch {
  speed::stream stream;
  event begin, end;

  template <class Work>
  double milliseconds(const Work& work) const {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    work();
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    return ms;
  }
};

}  // namespace bitfold::speed
