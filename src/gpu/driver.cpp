#include "driver.hpp"

#include <bitfold/error.hpp>

#include "shared_library.hpp"

namespace bitfold::gpu {
namespace {

driver open_driver() {
  const shared_library library({"libcuda.so.1", "libcuda.so"});
  if (!library)
    throw error(errc::no_device,
                "cuda: no usable GPU on this machine: NVIDIA's driver (libcuda) "
                "is not installed");
  driver d{};
#define BITFOLD_FUNCTION(name, parameters)                                            \
  if (!library.find(#name, d.name))                                                   \
    throw error(errc::no_device, "cuda: NVIDIA's driver is too old: it has no " #name \
                                 "; bitfold wants 12.0 or newer");
  BITFOLD_DRIVER_FUNCTIONS(BITFOLD_FUNCTION)
#undef BITFOLD_FUNCTION
  int count = 0;
  for (const int result : {d.cuInit(0), d.cuDeviceGetCount(&count)})
    if (result != 0)
      throw error(errc::no_device, "cuda: no usable GPU on this machine: " + text_of(d, result));
  if (count == 0) throw error(errc::no_device, "cuda: no usable GPU on this machine");
  return d;
}

}  // namespace

const driver& the_driver() {
  static const driver opened = open_driver();  // tried again where it failed
  return opened;
}

std::string text_of(const driver& d, int result) {
  const char* text = nullptr;
  d.cuGetErrorString(result, &text);
  return text ? text : "error " + std::to_string(result);
}

void check(int result, const char* call) {
  if (result != 0)
    throw error(errc::cuda, std::string(call) + ": " + text_of(the_driver(), result));
}

current current_device() {
  const driver& d = the_driver();
  current now{};
  check(d.cuCtxGetCurrent(&now.in), "cuCtxGetCurrent");
  if (!now.in) {
    check(d.cuDeviceGet(&now.device, 0), "cuDeviceGet");
    check(d.cuDevicePrimaryCtxRetain(&now.in, now.device), "cuDevicePrimaryCtxRetain");
    check(d.cuCtxSetCurrent(now.in), "cuCtxSetCurrent");
  }
  check(d.cuCtxGetId(now.in, &now.id), "cuCtxGetId");
  check(d.cuCtxGetDevice(&now.device), "cuCtxGetDevice");
  return now;
}

}  // namespace bitfold::gpu
