// What the contestants on the GPU share: the array there, memory for their own use, and the clock.
// The first GPU is meant throughout. Where no GPU is usable, every call throws errc::no_device;
// errc::cuda for whatever the driver reports.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "../contestant.hpp"

struct CUstream_st;

namespace bitfold::accuracy {

/// x in device memory, 256-byte aligned. One copy is kept: that of the last id.
array_view on_device(const array_view& x);

/// Device memory for results and workspaces, 256-byte aligned, the same at every call until more
/// bytes are asked for than ever before; then what it held is lost.
void* scratch(std::size_t bytes);

/// The element of type t at a device address, when the work enqueued before is done.
scalar fetch(dtype t, const void* device);

/// Seconds of what `enqueue` puts on a stream, by CUDA events, `times` times. A sample is a CUDA
/// graph of as many copies as fill 200 microseconds, so that the host's gaps between launches don't
/// count; so `enqueue` must be capturable, and is called often. One graph goes ahead to warm up.
std::vector<double> time_on_device(const std::function<void(CUstream_st*)>& enqueue, int times);

}  // namespace bitfold::accuracy
