// The GPUs there are, and memory of theirs.
#include "devices.hpp"

#include <bitfold/cuda.hpp>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/error.hpp>
#include <map>
#include <mutex>

#include "compiler.hpp"
#include "facts.hpp"

namespace bitfold {
namespace gpu {

context primary_context(int ordinal) {
  static std::mutex guard;
  // Never destroyed: a static's destructor may ask.
  static auto& known = *new std::map<int, context>;
  const std::lock_guard lock(guard);
  context& of = known[ordinal];
  if (!of) {
    const driver& d = the_driver();
    int device = 0;
    check(d.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    check(d.cuDevicePrimaryCtxRetain(&of, device), "cuDevicePrimaryCtxRetain");
  }
  return of;
}

device_memory::device_memory(std::size_t bytes) {
  address made = 0;
  check(the_driver().cuMemAlloc_v2(&made, bytes), "cuMemAlloc");
  p_ = reinterpret_cast<void*>(made);
}
device_memory::~device_memory() {
  if (p_) the_driver().cuMemFree_v2(reinterpret_cast<address>(p_));
}

void copy_to_device(void* to, const void* from, std::size_t bytes, stream on) {
  if (bytes > 0)
    check(the_driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<address>(to), from, bytes, on),
          "cuMemcpyHtoDAsync");
}
void copy_to_host(void* to, const void* from, std::size_t bytes, stream on) {
  if (bytes > 0)
    check(the_driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<address>(from), bytes, on),
          "cuMemcpyDtoHAsync");
  check(the_driver().cuStreamSynchronize(on), "cuStreamSynchronize");
}

}  // namespace gpu

namespace cuda {

std::vector<std::string> devices() {
  // Never destroyed: a static's destructor may ask.
  static const auto& found = *new const std::vector<std::string>([] {
    std::vector<std::string> names;
    try {
      const gpu::driver& d = gpu::the_driver();
      int count = 0, device = 0;
      gpu::check(d.cuDeviceGetCount(&count), "cuDeviceGetCount");
      for (int k = 0; k < count; ++k) {
        gpu::check(d.cuDeviceGet(&device, k), "cuDeviceGet");
        names.push_back(gpu::facts_of_device(device).name);
      }
    } catch (const error&) {  // no driver or no GPU
    }
    return names;
  }());
  return found;
}

std::string compiler() {
  try {
    return "NVRTC " + gpu::compiler_version();
  } catch (const error&) {  // there is none
    return {};
  }
}

void look_for_compiler_at(const std::string& path) { gpu::look_for_compiler_at(path); }

bool overlaps() { return gpu::facts_of_current_device().major >= 9; }

current_device::current_device(int ordinal) : before_(nullptr) {
  const gpu::driver& d = gpu::the_driver();
  const gpu::context next = gpu::primary_context(ordinal);
  gpu::context now = nullptr;
  gpu::check(d.cuCtxGetCurrent(&now), "cuCtxGetCurrent");
  if (now == next) return;
  // Where none was current, that is the first GPU's.
  before_ = now ? now : gpu::primary_context(0);
  gpu::check(d.cuCtxSetCurrent(next), "cuCtxSetCurrent");
}
current_device::~current_device() {
  if (before_) gpu::the_driver().cuCtxSetCurrent(before_);
}

void synchronize(stream where) {
  (void)gpu::current_device();
  gpu::check(gpu::the_driver().cuStreamSynchronize(where), "cuStreamSynchronize");
}

}  // namespace cuda
}  // namespace bitfold
