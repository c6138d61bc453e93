// Memory that a GPU and the host both see, as long as a test needs it; by the driver alone.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "catch.hpp"

#include "gpu/driver.hpp"

namespace bitfold::test {

struct device_memory {
  void* p = nullptr;
  explicit device_memory(std::size_t bytes) {
    constexpr unsigned to_all = 1;  // CU_MEM_ATTACH_GLOBAL
    (void)gpu::current_device();
    gpu::address made = 0;
    REQUIRE(gpu::the_driver().cuMemAllocManaged(&made, bytes + 1, to_all) == 0);
    p = reinterpret_cast<void*>(made);
  }
  /// A copy of these.
  template <class T>
  explicit device_memory(const std::vector<T>& from) : device_memory(from.size() * sizeof(T)) {
    if (!from.empty()) std::memcpy(p, from.data(), from.size() * sizeof(T));
  }
  ~device_memory() { gpu::the_driver().cuMemFree_v2(reinterpret_cast<gpu::address>(p)); }
  template <class T>
  T* as() const {
    return static_cast<T*>(p);
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
};

/// Waits until all that was enqueued on a stream is done, and the host sees it.
inline void wait_for(gpu::stream on = nullptr) {
  REQUIRE(gpu::the_driver().cuStreamSynchronize(on) == 0);
}

/// Copies from the host, and to it when all that was enqueued is done.
inline void put(void* to, const void* from, std::size_t bytes) {
  REQUIRE(gpu::the_driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<gpu::address>(to), from, bytes,
                                                 nullptr) == 0);
  wait_for();
}
inline void get(void* to, const void* from, std::size_t bytes, gpu::stream on = nullptr) {
  REQUIRE(gpu::the_driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<gpu::address>(from), bytes,
                                                 on) == 0);
  wait_for(on);
}
/// Sets each byte.
inline void set(void* to, unsigned char value, std::size_t bytes, gpu::stream on = nullptr) {
  REQUIRE(gpu::the_driver().cuMemsetD8Async(reinterpret_cast<gpu::address>(to), value, bytes, on) ==
          0);
}

}  // namespace bitfold::test
