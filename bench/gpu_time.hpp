// The time of work on a GPU, for the benches and the suite alike: events around a CUDA graph that
// holds the work several times, so that launch gaps of the host don't count. How many times, and
// which of the times, is the caller's. By the driver alone.
#pragma once

#include "../src/gpu/driver.hpp"

namespace bitfold::speed {

/// Of the driver's calls and, for those that nvcc compiles, the runtime's, whose numbers are the
/// same. Errors: errc::cuda, naming the call.
inline void check(int result, const char* call = "CUDA") { gpu::check(result, call); }

class stream {
 public:
  stream() {
    (void)gpu::current_device();
    check(gpu::the_driver().cuStreamCreate(&s_, 0), "cuStreamCreate");
  }
  ~stream() { gpu::the_driver().cuStreamDestroy_v2(s_); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  operator gpu::stream() const { return s_; }

 private:
  gpu::stream s_ = nullptr;
};

class event {
 public:
  event() { check(gpu::the_driver().cuEventCreate(&e_, 0), "cuEventCreate"); }
  ~event() { gpu::the_driver().cuEventDestroy_v2(e_); }
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  operator gpu::event() const { return e_; }

 private:
  gpu::event e_ = nullptr;
};

/// What `enqueue(stream)` puts there, `copies` times.
class graph {
 public:
  template <class Enqueue>
  graph(gpu::stream s, int copies, const Enqueue& enqueue) : stream_(s) {
    constexpr int of_this_thread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    const gpu::driver& d = gpu::the_driver();
    check(d.cuStreamBeginCapture_v2(s, of_this_thread), "cuStreamBeginCapture");
    gpu::graph g = nullptr;
    try {
      for (int i = 0; i < copies; ++i) enqueue(s);
    } catch (...) {
      d.cuStreamEndCapture(s, &g);
      if (g != nullptr) d.cuGraphDestroy(g);
      throw;
    }
    check(d.cuStreamEndCapture(s, &g), "cuStreamEndCapture");
    const int failed = d.cuGraphInstantiateWithFlags(&exec_, g, 0);
    d.cuGraphDestroy(g);
    check(failed, "cuGraphInstantiate");
  }
  ~graph() { gpu::the_driver().cuGraphExecDestroy(exec_); }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;
  void launch() const { check(gpu::the_driver().cuGraphLaunch(exec_, stream_), "cuGraphLaunch"); }

 private:
  gpu::stream stream_;
  gpu::runnable_graph exec_ = nullptr;
};

/// A stream, and how long what `work()` puts there takes.
struct stopwatch {
  speed::stream stream;
  event begin, end;

  template <class Work>
  double milliseconds(const Work& work) const {
    const gpu::driver& d = gpu::the_driver();
    check(d.cuEventRecord(begin, stream), "cuEventRecord");
    work();
    check(d.cuEventRecord(end, stream), "cuEventRecord");
    check(d.cuEventSynchronize(end), "cuEventSynchronize");
    float ms = 0;
    check(d.cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
    return ms;
  }
};

}  // namespace bitfold::speed
