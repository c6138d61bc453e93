// Enqueues the passes of a plan, by kernels that nvcc compiles.
#pragma once

#include <bitfold/cuda/engine.cuh>
#include <bitfold/cuda/launch.hpp>
#include <bitfold/cuda/plan.hpp>

namespace bitfold::cuda {

template <class... P>
cudaError_t enqueue(void (*kernel)(P...), int blocks, int threads, std::size_t shared, stream where,
                    bool overlap, std::type_identity_t<P>... values) {
  void* arguments[] = {&values...};
  return enqueue(reinterpret_cast<const void*>(kernel), blocks, threads, shared, where, overlap,
                 arguments);
}

/// The passes of a plan; `overlap` lets the second start on the first's tail.
template <class F, class Source, class A, alignment How, class Result>
cudaError_t launch_passes(const plan& p, const typename Source::parameters& data, std::size_t n,
                          const Result& how, void* workspace, stream where, bool overlap) {
  using E = engine<F, Source, A>;
  void* const nodes = p.nodes > 1 ? workspace : nullptr;
  const auto first = [&](auto kernel, auto... values) {
    return enqueue(kernel, p.blocks, p.threads, p.shared, where, false, data, values...);
  };
  const auto leaves = [&]<bool Alone>() {
    return first(fold_leaves<F, Source, A, Alone, Result>, static_cast<int>(n), 0, nodes, how);
  };
  cudaError_t err = !p.by_leaves   ? first(fold_elements<F, Source, A, How, Result>, index{n},
                                           p.tiles, p.nodes, index{0}, nodes, how)
                    : p.nodes == 1 ? leaves.template operator()<true>()
                                   : leaves.template operator()<false>();
  if (err == cudaSuccess && p.nodes > 1)
    err = enqueue(fold_nodes<F, A, Result>, 1, p.second_threads, p.second_shared, where, overlap,
                  workspace, static_cast<int>(p.nodes), p.node, n, how);
  return err;
}

}  // namespace bitfold::cuda
