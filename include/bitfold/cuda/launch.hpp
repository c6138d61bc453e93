// Launches kernels that nvcc compiles (reduce.cuh), by CUDA's runtime. All others are launched by
// src/gpu/launcher.cpp.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace bitfold::cuda {

/// Enqueues a kernel with the addresses of its arguments; `overlap` lets it start before the one
/// ahead of it has ended.
inline cudaError_t enqueue(const void* kernel, int blocks, int threads, std::size_t shared,
                           cudaStream_t where, bool overlap, void** arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = where;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace bitfold::cuda
