// Kernels of outputs whose elements lie across their order, as in a transposed array: in columns
// that are too short for patches (patches.cuh), or of two inputs.
#pragma once

#include <bitfold/cuda/elements.cuh>

namespace bitfold::cuda {

// A warp folds leaves, and leaves their states. Its threads read a row each, of Many columns that
// are neighbours: OfLeaf columns make a leaf, or of each column it is a part.
// inner: elements of a column; stride: from one to the next; beside: columns that are neighbours.
template <class F, class Source, class A, int Many, int OfLeaf>
__global__ void __launch_bounds__(256)
    fold_leaves_across(const __grid_constant__ typename Source::parameters data, index inner,
                       std::int64_t stride, index beside, void* states) {
  using E = engine<F, Source, A>;
  using S = typename E::state;
  constexpr int leaf = order::leaf, rows = order::rows / OfLeaf,
                columns = Many > OfLeaf ? Many : OfLeaf, reads = columns / Many,
                leaves = columns / OfLeaf;
  static_assert(rows * OfLeaf == order::rows && reads * Many == columns);
  const int t = threadIdx.x % warp;
  const index groups = beside / columns, planes = data.n / inner / beside,
              parts = OfLeaf > 1 ? 1 : inner / leaf, nodes = data.n / leaf,
              items = data.outputs * planes * parts * groups, warps = index{gridDim.x} * 256 / warp;
#pragma unroll 1
  for (index item = (index{blockIdx.x} * 256 + threadIdx.x) / warp; item < items; item += warps) {
    const index above = quotient(item, groups), plane_of_all = quotient(above, parts),
                output = quotient(plane_of_all, planes),
                column =
                    (plane_of_all - output * planes) * beside + (item - above * groups) * columns,
                place = column * inner + (above - plane_of_all * parts) * leaf;
    const auto from =
        Source::at(data, finder::of(data, output), place).template columns_from<Many>();
    typename std::remove_cv_t<decltype(from)>::some x[reads][rows];
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int q = 0; q < reads; ++q)
        x[q][r] = from.load((r * order::lanes + t) * stride + q * Many);
#pragma unroll
    for (int k = 0; k < leaves; ++k) {
      const auto lane = E::lane(order::rows, [&](int r) {
        const int own = k * OfLeaf + r / rows;
        return from.get(x[own / Many][r % rows], own % Many, r * order::lanes + t);
      });
      const auto s = fold_whole_warp<F>(lane, span_of{order::rows});
      // Leaves of one column each are a column apart.
      const index at = place + static_cast<index>(k) * (OfLeaf > 1 ? index{leaf} : inner);
      if (t == 0)
        static_cast<S*>(states)[output * nodes + quotient(at, leaf)] = F::template rebase<A>(s, at);
    }
  }
}

}  // namespace bitfold::cuda
