// The GPUs there are, and memory of theirs.
#pragma once

#include <cstddef>

#include "driver.hpp"

namespace bitfold::gpu {

/// The one that CUDA's runtime uses. Kept until the program ends. Errors: errc::cuda, of a number
/// that no GPU has.
context primary_context(int ordinal);

/// Memory of the current device. Errors: errc::cuda.
class device_memory {
 public:
  explicit device_memory(std::size_t bytes);
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  std::byte* begin() const { return static_cast<std::byte*>(p_); }

 private:
  void* p_;
};

void copy_to_device(void* to, const void* from, std::size_t bytes, stream on = nullptr);
/// Waits for the stream.
void copy_to_host(void* to, const void* from, std::size_t bytes, stream on = nullptr);

}  // namespace bitfold::gpu
