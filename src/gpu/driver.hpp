// NVIDIA's driver, opened when it is first needed: what bitfold calls of it, declared here, so that
// no CUDA header is needed to build.
#pragma once

#include <cstddef>
#include <string>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace bitfold::gpu {

using context = CUctx_st*;
using loaded_module = CUmod_st*;
using function = CUfunc_st*;
using stream = CUstream_st*;
using event = CUevent_st*;
using graph = CUgraph_st*;
using runnable_graph = CUgraphExec_st*;
using address = unsigned long long;  ///< CUdeviceptr

/// CUlaunchAttribute, of the kind that lets a kernel start before the one ahead of it has ended.
struct alignas(8) launch_attribute {
  int id;
  int pad;
  int allowed;
  char rest[60];
};
inline constexpr int programmatic_stream_serialization = 6;
/// CUipcMemHandle.
struct memory_handle {
  char bytes[64];
};
/// CUlaunchConfig.
struct launch_configuration {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  stream on;
  launch_attribute* attributes;
  unsigned attribute_count;
};

// clang-format off
#define BITFOLD_DRIVER_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(cuInit, (unsigned flags))                                                              \
  FUNCTION(cuDriverGetVersion, (int* version))                                                    \
  FUNCTION(cuGetErrorString, (int result, const char** text))                                     \
  FUNCTION(cuDeviceGetCount, (int* count))                                                        \
  FUNCTION(cuDeviceGet, (int* device, int ordinal))                                               \
  FUNCTION(cuDeviceGetName, (char* name, int size, int device))                                   \
  FUNCTION(cuDeviceGetAttribute, (int* value, int attribute, int device))                         \
  FUNCTION(cuDevicePrimaryCtxRetain, (context* made, int device))                                 \
  FUNCTION(cuCtxGetCurrent, (context* current))                                                   \
  FUNCTION(cuCtxSetCurrent, (context next))                                                       \
  FUNCTION(cuCtxGetDevice, (int* device))                                                         \
  FUNCTION(cuCtxGetId, (context of, unsigned long long* id))                                      \
  FUNCTION(cuThreadExchangeStreamCaptureMode, (int* mode))                                        \
  FUNCTION(cuModuleLoadData, (loaded_module* made, const void* image))                            \
  FUNCTION(cuModuleGetFunction, (function* found, loaded_module in, const char* name))            \
  FUNCTION(cuFuncGetAttribute, (int* value, int attribute, function of))                          \
  FUNCTION(cuFuncSetAttribute, (function of, int attribute, int value))                           \
  FUNCTION(cuMemGetInfo_v2, (std::size_t * free, std::size_t* all))                               \
  FUNCTION(cuStreamCreate, (stream * made, unsigned flags))                                       \
  FUNCTION(cuStreamDestroy_v2, (stream done))                                                     \
  FUNCTION(cuStreamSynchronize, (stream on))                                                      \
  FUNCTION(cuStreamBeginCapture_v2, (stream on, int mode))                                        \
  FUNCTION(cuStreamEndCapture, (stream on, graph * made))                                         \
  FUNCTION(cuGraphInstantiateWithFlags, (runnable_graph * made, graph of, unsigned long long))    \
  FUNCTION(cuGraphLaunch, (runnable_graph what, stream on))                                       \
  FUNCTION(cuGraphDestroy, (graph done))                                                          \
  FUNCTION(cuGraphExecDestroy, (runnable_graph done))                                             \
  FUNCTION(cuEventCreate, (event * made, unsigned flags))                                         \
  FUNCTION(cuEventDestroy_v2, (event done))                                                       \
  FUNCTION(cuEventRecord, (event at, stream on))                                                  \
  FUNCTION(cuEventSynchronize, (event at))                                                        \
  FUNCTION(cuEventElapsedTime, (float* milliseconds, event from, event to))                       \
  FUNCTION(cuMemAllocAsync, (address * made, std::size_t bytes, stream on))                       \
  FUNCTION(cuMemFreeAsync, (address at, stream on))                                               \
  FUNCTION(cuMemAlloc_v2, (address * made, std::size_t bytes))                                    \
  FUNCTION(cuMemAllocManaged, (address * made, std::size_t bytes, unsigned flags))                \
  FUNCTION(cuMemFree_v2, (address at))                                                            \
  FUNCTION(cuMemcpyHtoDAsync_v2, (address to, const void* from, std::size_t bytes, stream on))    \
  FUNCTION(cuMemcpyDtoHAsync_v2, (void* to, address from, std::size_t bytes, stream on))          \
  FUNCTION(cuLaunchKernelEx, (const launch_configuration* how, function what, void** parameters,  \
                              void** extra))                                                      \
  FUNCTION(cuMemsetD8Async, (address to, unsigned char value, std::size_t bytes, stream on))      \
  FUNCTION(cuIpcGetMemHandle, (memory_handle * made, address of))                                 \
  FUNCTION(cuIpcOpenMemHandle_v2, (address * made, memory_handle of, unsigned flags))             \
  FUNCTION(cuIpcCloseMemHandle, (address opened))
// clang-format on

/// The driver's functions, by their names. Each returns 0, or an error for check().
struct driver {
#define BITFOLD_FUNCTION(name, parameters) int(*name) parameters;
  BITFOLD_DRIVER_FUNCTIONS(BITFOLD_FUNCTION)
#undef BITFOLD_FUNCTION
};

/// Errors: errc::no_device, saying what is missing (no driver, one that is too old, no GPU).
const driver& the_driver();

/// What a result that is not 0 means.
std::string text_of(const driver& d, int result);
/// Errors: errc::cuda, naming the call, where `result` is not 0.
void check(int result, const char* call);

/// The current device of this thread, and its context: that of whoever made one current (CUDA's
/// runtime, PyTorch), or else the primary one of device 0, which becomes current.
struct current {
  context in;
  unsigned long long id;  ///< the context's, which no other has while the program runs
  int device;
};
current current_device();

}  // namespace bitfold::gpu
