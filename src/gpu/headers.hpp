// The headers of device code, which the library carries for the run-time compiler. Their contents
// are put together when the library is built (cmake/device_headers.cmake).
#pragma once

#include <span>

namespace bitfold::gpu {

struct header {
  const char *name, *text;
};
extern const std::span<const header> device_headers;

}  // namespace bitfold::gpu
