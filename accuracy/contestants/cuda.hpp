// The contestants on the GPU, each from its own file; add_cuda_peers() is all of them.
#pragma once

#include <functional>

#include <cuda_runtime_api.h>

#include "bench/gpu_time.hpp"
#include "device.hpp"

namespace bitfold::accuracy {

void add_cub(contestants&);
void add_cublas(contestants&);
void add_ladder(contestants&);

using speed::check;

/// One that enqueues its work on a stream.
class on_stream : public contestant {
 public:
  using contestant::contestant;
  using enqueue = std::function<void(cudaStream_t)>;
  scalar run(const array_view& x, std::size_t) override {
    const job j = prepare(on_device(x));
    j.work(nullptr);
    check(cudaGetLastError(), info.id.c_str());
    return fetch(info.out, j.result);
  }
  std::vector<double> seconds(const array_view& x, std::size_t, int times) override {
    return time_on_device(prepare(on_device(x)).work, times);
  }

 protected:
  struct job {
    void* result;
    enqueue work;
  };
  /// What is to be timed, of arrays on the device; what goes ahead of it may be enqueued on the
  /// default stream.
  virtual job prepare(const array_view& x) = 0;
};

/// Where results go, at the start of scratch(); behind it is room for the contestant.
constexpr std::size_t for_result = 256;

}  // namespace bitfold::accuracy
