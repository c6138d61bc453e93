// Functions of rows that lie across: what is known of a row is given, and each element is by
// itself.
#pragma once

#include <bitfold/cuda/packets.cuh>
#include <bitfold/cuda/rows.hpp>
#include <bitfold/row_functions.hpp>
#include <bitfold/row_inputs.hpp>

namespace bitfold::cuda {

// A thread takes Owned neighbouring rows, `chunk` places of them.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(threads_across)
    map_rows_across(const __grid_constant__ rows_across of, std::size_t chunk, T* out) {
  using A = row::accumulator<T>;
  using some = packet<T, Owned>;
  const std::size_t groups = of.inner / Owned, chunks = (of.n + chunk - 1) / chunk,
                    items = of.outer * chunks * groups,
                    threads = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < items;
       i += threads) {
    const std::size_t group = i % groups, outer = i / groups / chunks,
                      begin = i / groups % chunks * chunk,
                      end = of.n - begin < chunk ? of.n : begin + chunk;
    row::statistics<A> s[Owned];
#pragma unroll
    for (int k = 0; k < Owned; ++k) {
      const std::size_t row = outer * of.inner + group * Owned + static_cast<std::size_t>(k);
      s[k] =
          F::template of_results<A>(static_cast<const A*>(of.first)[row],
                                    F::results > 1 ? static_cast<const A*>(of.second)[row] : A(0));
    }
    const std::size_t first = (outer * of.n + begin) * of.inner + group * Owned;
    const auto *x = static_cast<const T*>(of.x) + first, *y = x;
    if (F::takes_y) y = static_cast<const T*>(of.y) + first;
    T* to = out + first;
#pragma unroll 4
    for (std::size_t at = begin; at < end; ++at) {
      const some e = some::load(x), f = F::takes_y ? some::load(y) : e;
      A results[Owned];
#pragma unroll
      for (int k = 0; k < Owned; ++k)
        results[k] = F::template value<A>(
            row::element<A>{arith::widen<A>(e[k]), arith::widen<A>(f[k]), A(1), -A(0)}, s[k]);
      some::template narrowed<true>(results).store(to);
      x += of.inner, y += of.inner, to += of.inner;
    }
  }
}

}  // namespace bitfold::cuda
