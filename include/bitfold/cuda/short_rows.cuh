// Row functions of rows of up to a leaf: a team of threads has a row in its registers.
#pragma once

#include <bitfold/cuda/rows.cuh>

namespace bitfold::cuda {

// A warp takes Sets rows for each of its teams at a time. Most: rows of a leaf that a row fills.
template <class F, class T, int Owned, int Most, int Sets>
__global__ void __launch_bounds__(threads_on_short_rows)
    map_short_rows(const __grid_constant__ rows of, int team, T* out) {
  using K = row_kernel<F, T, Owned>;
  using E = typename K::E;
  using fold = typename K::fold;
  using A = typename K::A;
  const int t = threadIdx.x % warp, n = static_cast<int>(of.n), lane = t % team * Owned,
            owners = (min(n, order::lanes) + Owned - 1) / Owned,  // of a team
      own_rows = lane < n ? order::lane_size(n, lane) : 0;
  const auto elements = [=](int from, int width) {
    return leaf_lanes{n}(lane + from * Owned, width * Owned);
  };
  const auto of_warp = static_cast<index>(warp / team * Sets);
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * of_warp;
       first < of.count; first += index{gridDim.x} * blockDim.x / warp * of_warp) {
    const auto row = [&](int set) {
      return first + static_cast<index>(set * (warp / team) + t / team);
    };
    const auto source = [&](int set) {  // where there is none, the last one
      return K::row_at(of, row(set) < of.count ? row(set) : of.count - 1)
          .ahead(static_cast<index>(own_rows > 0 ? lane : 0));
    };
    typename E::raw x[Sets];
#pragma unroll
    for (int set = 0; set < Sets; ++set) x[set] = source(set).template load_some<Most>(own_rows);
#pragma unroll
    for (int set = 0; set < Sets; ++set) {
      typename E::local s[Owned];
      if (own_rows > 0) {
#pragma unroll
        for (int i = 0; i < Owned; ++i)
          s[i] = method::fold_lane<fold, Most>(order::lane_size(n, lane + i), [&](int r) {
            return K::source::get(x[set], r, i, lane + r * order::lanes + i);
          });
        fold_owned<fold>(s, Owned,
                         [=](int i, int width) { return leaf_lanes{n}(lane + i, width); });
      }
#pragma unroll 1
      for (int d = 1; d < owners; d *= 2) {
        const auto right = from_right(s[0], d);
        const int j = t % team;
        if (j + d < owners)
          s[0] = fold::merge(
              s[0], right,
              bitfold::fold::counts{elements(0, d),
                                    elements(d, j + 2 * d < owners ? d : owners - j - d)});
      }
      const bool is_there = row(set) < of.count;
      const auto from = source(set);
      row::statistics<A> made;
      if (lane == 0)
        made = K::finish(of, is_there ? row(set) : 0, from, fold::template rebase<A>(s[0], 0),
                         is_there);
      const int whose = t / team * team;
      made = {shuffle(made.a, whose), shuffle(made.b, whose), shuffle(made.c, whose),
              shuffle(made.d, whose)};
      if (is_there)
        K::template map_lanes<Most>(from, x[set], made, out + row(set) * of.n + lane, own_rows);
    }
  }
}

}  // namespace bitfold::cuda
