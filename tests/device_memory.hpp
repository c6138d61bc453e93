// Memory of a GPU, as long as a test needs it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "catch.hpp"

namespace bitfold::test {

struct device_memory {
  void* p = nullptr;
  explicit device_memory(std::size_t bytes) { REQUIRE(cudaMalloc(&p, bytes) == cudaSuccess); }
  /// A copy of these.
  template <class T>
  explicit device_memory(const std::vector<T>& from) : device_memory(from.size() * sizeof(T)) {
    REQUIRE(cudaMemcpy(p, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  ~device_memory() { cudaFree(p); }
  template <class T>
  T* as() const {
    return static_cast<T*>(p);
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
};

}  // namespace bitfold::test
