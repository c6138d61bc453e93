// launch_plan, and the list of element and accumulator types to compile it for.
#pragma once

#include "engine.cuh"
#include "kernels.hpp"

namespace bitfold::cuda {
namespace {

template <class... P, class... Q>
cudaError_t enqueue(void (*kernel)(P...), int blocks, int threads, std::size_t shared, stream where,
                    bool overlap, Q... values) {
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
  return cudaLaunchKernelEx(&config, kernel, P(values)...);
}

}  // namespace

template <class M, class T, class A>
const char* launch_plan(const plan& p, const arguments& a) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
  cudaError_t err = enqueue(aligned ? fold_elements<M, T, A, true> : fold_elements<M, T, A, false>,
                            p.blocks, p.threads, p.shared, a.where, false,
                            static_cast<const T*>(a.data), a.n, p.tiles, p.nodes, a.workspace, a.out,
                            a.out_type);
  if (err == cudaSuccess && p.nodes > 1)
    err = enqueue(fold_nodes<M, A>, 1, p.second_threads, p.second_shared, a.where, a.overlap,
                  a.workspace, static_cast<int>(p.nodes), a.out, a.out_type);
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

#define BITFOLD_KERNEL(M, T, A) \
  template const char* launch_plan<M, T, A>(const plan&, const arguments&);
#define BITFOLD_FLOAT_KERNELS(M)     \
  BITFOLD_KERNEL(M, float16, float)  \
  BITFOLD_KERNEL(M, float16, double) \
  BITFOLD_KERNEL(M, bfloat16, float)  \
  BITFOLD_KERNEL(M, bfloat16, double) \
  BITFOLD_KERNEL(M, float, float)    \
  BITFOLD_KERNEL(M, float, double)   \
  BITFOLD_KERNEL(M, double, double)
#define BITFOLD_INTEGER_KERNELS(M)               \
  BITFOLD_KERNEL(M, std::int8_t, std::int64_t)   \
  BITFOLD_KERNEL(M, std::int16_t, std::int64_t)  \
  BITFOLD_KERNEL(M, std::int32_t, std::int64_t)  \
  BITFOLD_KERNEL(M, std::int64_t, std::int64_t)  \
  BITFOLD_KERNEL(M, std::uint8_t, std::uint64_t)  \
  BITFOLD_KERNEL(M, std::uint16_t, std::uint64_t) \
  BITFOLD_KERNEL(M, std::uint32_t, std::uint64_t) \
  BITFOLD_KERNEL(M, std::uint64_t, std::uint64_t)

}  // namespace bitfold::cuda
