// The kernels of one part.
#pragma once

#include "engine.cuh"

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

template <class F, class Source, class A>
const char* launch_kernels(const plan& p, const arguments& a) {
  using E = engine<F, Source, A>;
  cudaError_t err;
  const auto first = [&](auto kernel) {
    err = enqueue(kernel, p.blocks, p.threads, p.shared, a.where, false, a.data, a.n, p.tiles, p.nodes,
                  a.workspace, a.how);
  };
  if constexpr (is_plain_sum<F>)
    first(a.data.aligned ? fold_elements<F, Source, A, alignment::known>
                         : fold_elements<F, Source, A, alignment::missing>);
  else
    first(fold_elements<F, Source, A, alignment::asked>);
  if (err == cudaSuccess && p.nodes > 1)
    err = enqueue(fold_nodes<F, A>, 1, p.second_threads, p.second_shared, a.where, a.overlap,
                  a.workspace, static_cast<int>(p.nodes), static_cast<index>(p.tiles) * E::tile, a.n, a.how);
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace

template <>
const char* launch_part<part::BITFOLD_PART>(const reduction& r, const plan& p, const arguments& a) {
  return with_kernel<const char*>(r, [&]<class F, class T, class A>() -> const char* {
    using choice = kernel_choice<F, T, A>;
    if constexpr (choice::in != part::BITFOLD_PART)
      return "not of this part";  // not reached
    else if constexpr (choice::stored)
      return launch_kernels<F, stored_elements<T, A>, A>(p, a);
    else
      return launch_kernels<F, widened_elements<A>, A>(p, a);
  });
}

}  // namespace bitfold::cuda
