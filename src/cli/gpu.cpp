#include "cli/gpu.hpp"

#include <algorithm>
#include <string>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

#include "gpu/devices.hpp"

namespace bitfold::cli {
namespace {

class parts_of_output final : public output_in_parts {
 public:
  parts_of_output(std::span<const reduction> all, std::size_t n, std::size_t memory)
      : of_(all, n, memory) {}
  std::size_t elements() const override { return of_.elements(); }
  std::size_t workspace_bytes() const override { return of_.workspace_bytes(); }
  void add(const void* x, const void* y, std::span<void* const> out, void* workspace,
           std::size_t workspace_size) override {
    of_.add(x, y, out, workspace, workspace_size);
  }

 private:
  cuda::in_parts of_;
};

class first_device final : public device {
 public:
  explicit first_device(std::optional<std::size_t> most) {
    std::size_t free = 0, all = 0;
    (void)gpu::current_device();
    gpu::check(gpu::the_driver().cuMemGetInfo_v2(&free, &all), "cuMemGetInfo");
    memory_ = std::min(free - free / 16, most.value_or(free));  // kernels want some too
  }

  std::size_t memory() const override { return memory_; }
  std::byte* room(std::size_t bytes) override {
    if (bytes > size_ || !room_) {
      room_.reset();
      room_ = std::make_unique<gpu::device_memory>(std::max<std::size_t>(bytes, 1));
      size_ = bytes;
    }
    return room_->begin();
  }
  void put(std::byte* to, const void* from, std::size_t bytes) override {
    gpu::copy_to_device(to, from, bytes);
  }
  void get(void* to, const std::byte* from, std::size_t bytes) override {
    gpu::copy_to_host(to, from, bytes);
  }

  std::unique_ptr<output_in_parts> in_parts(std::span<const reduction> all, std::size_t n,
                                            std::size_t memory) override {
    return std::make_unique<parts_of_output>(all, n, memory);
  }
  std::size_t workspace_bytes(std::span<const reduction> all, const view& x, const view* y,
                              std::span<const int> axes) override {
    return cuda::workspace_bytes(all, x, y, axes);
  }
  void reduce(std::span<const reduction> all, const view& x, const view* y,
              std::span<const int> axes, std::span<void* const> out, void* workspace,
              std::size_t workspace_size) override {
    cuda::reduce(all, x, y, axes, out, workspace, workspace_size);
  }
  void reduce_segments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                       const std::int64_t* offsets, std::size_t segments,
                       std::span<void* const> out, void* workspace,
                       std::size_t workspace_size) override {
    cuda::reduce_segments(all, x, y, n, offsets, segments, out, workspace, workspace_size);
  }
  std::size_t segments_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                       std::size_t segments) override {
    return cuda::segments_workspace_bytes(all, n, segments);
  }
  std::size_t by_key_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                     std::size_t outputs) override {
    return cuda::by_key_workspace_bytes(all, n, outputs);
  }
  void reduce_by_key(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     const std::int64_t* keys, std::size_t outputs, std::span<void* const> out,
                     void* workspace, std::size_t workspace_size) override {
    cuda::reduce_by_key(all, x, y, n, keys, outputs, out, workspace, workspace_size);
  }

 private:
  std::unique_ptr<gpu::device_memory> room_;
  std::size_t memory_ = 0, size_ = 0;
};

}  // namespace

std::unique_ptr<device> first_gpu(std::optional<std::size_t> most) {
  return std::make_unique<first_device>(most);
}

}  // namespace bitfold::cli
