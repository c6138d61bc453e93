// Kernels of many outputs, whose leaves teams of threads fold.
#pragma once

#include <bitfold/cuda/elements.cuh>

namespace bitfold::cuda {

// A leaf of `size` elements on a line by a team of threads, `owned` lanes each, of which this one's
// first is `lane`; the state is that of the thread with the first. at: the leaf's place in the
// output.
template <class F, class Source, class A, bool Full, class Line>
__device__ auto fold_leaf_by_team(const Line& line, int at, int lane, int size) {
  constexpr int owned = 4;
  if constexpr (Full) size = order::leaf;
  const auto elements = [=](int from, int width) {
    return Full ? static_cast<index>(width * order::rows) : leaf_lanes{size}(lane + from, width);
  };
  typename Source::single x[order::rows][owned];
#pragma unroll
  for (int r = 0; r < order::rows; ++r)
#pragma unroll
    for (int i = 0; i < owned; ++i)
      if (Full || lane + r * order::lanes + i < size)
        x[r][i] = line.one(at + lane + r * order::lanes + i);
  typename engine<F, Source, A>::local s[owned];
#pragma unroll
  for (int i = 0; i < owned; ++i)
    if (Full || lane + i < size)
      s[i] = method::fold_lane<F, order::rows>(
          Full ? order::rows : order::lane_size(size, lane + i),
          [&](int r) { return Source::made(x[r][i], at + lane + r * order::lanes + i); });
  fold_owned<F>(s, Full ? owned : min(owned, size - lane), elements);
#pragma unroll
  for (int d = owned; d < order::lanes; d *= 2) {
    const auto right = from_right(s[0], d / owned);
    if (Full || lane + d < size)
      s[0] = F::merge(s[0], right, fold::counts{elements(0, d), elements(d, d)});
  }
  return s[0];
}

// Of a processor: what registers are shared out for, in which a thread has its elements of a leaf.
template <class F, class Source, class A>
inline constexpr int blocks_of_leaf_teams =
    sizeof(fold::partial<F, A>) <= 8 && sizeof(A) <= 4 ? (Source::two ? 4 : 6)
    : Source::two && sizeof(A) > 4                     ? 2
                                                       : 3;

// Outputs of up to most_by_leaf_teams elements, which are neighbours, at any address. A warp takes
// at_once neighbouring outputs; or of as many segments those that are neither for threads nor for
// blocks. Teams of its threads take their leaves, first those that are full; a thread folds those
// of an output and writes it.
template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(128, blocks_of_leaf_teams<F, Source, A>)
    fold_leaves_by_teams(const __grid_constant__ output_elements data, int at_once,
                         const __grid_constant__ Results how) {
  using S = typename engine<F, Source, A>::state;
  constexpr int team = order::lanes / 4, teams = warp / team;
  constexpr int room = sizeof(S) <= 16 ? 128 : 32;  // leaves of a warp at a time
  static_assert(most_by_warp <= most_by_leaf_teams && most_by_leaf_teams <= room * order::leaf);
  __shared__ __align__(16) std::byte states[4 * room * sizeof(S)];
  __shared__ std::uint8_t outputs[4 * room];
  const int t = threadIdx.x % warp, w = threadIdx.x / warp, lane = t % team * 4;
  S* const of_leaf = reinterpret_cast<S*>(states) + w * room;
  std::uint8_t* const output_of = outputs + w * room;
  const index each = static_cast<index>(at_once),
              stride = index{gridDim.x} * blockDim.x / warp * each;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * each;
       first < data.outputs; first += stride) {
    const index output = first + static_cast<index>(t);
    index length = 0;
    offset begin;
    if (t < at_once && output < data.outputs)
      length = elements_of(data, output), begin = finder::of(data, output).begin;
    const bool is_mine =
        data.offsets ? length > most_by_thread && length <= most_by_warp : length > 0;
    const int n = is_mine ? static_cast<int>(length) : 0, full = n / order::leaf,
              rest = n % order::leaf, leaves = full + (rest > 0);
    int end = leaves, full_end = full;  // of its leaves, and of the full ones, among all
#pragma unroll
    for (int d = 1; d < warp; d *= 2) {
      const int before = shuffle_up(end, d), full_before = shuffle_up(full_end, d);
      if (t >= d) end += before, full_end += full_before;
    }
    const int all = shuffle(end, warp - 1);
    S result;
#pragma unroll 1
    for (int done = 0, full_done = 0; done < all;) {
      // Those of the outputs that there is room for.
      const bool now = leaves > 0 && end - leaves >= done && end - done <= room;
      const int last = last_bit(ballot(now));
      const int here = shuffle(end, last) - done, full_here = shuffle(full_end, last) - full_done;
      const int before = end - leaves - done, full_before = full_end - full - full_done;
      if (now) {
        for (int l = 0; l < full; ++l) output_of[full_before + l] = static_cast<std::uint8_t>(t);
        if (rest > 0) output_of[full_here + before - full_before] = static_cast<std::uint8_t>(t);
      }
      wait_for_the_warp();
#pragma unroll 1
      for (int l = t / team; l - t / team < here; l += teams) {
        const int j = l < here ? output_of[l] : 0;
        const int first_full = shuffle(full_before, j), its_full = shuffle(full, j),
                  its_rest = shuffle(rest, j);
        const int number = l < full_here ? l - first_full : its_full, at = number * order::leaf;
        const int to = shuffle(before, j) + number;
        offset its_begin{shuffle(begin.x, j), 0};
        if constexpr (Source::two) its_begin.y = shuffle(begin.y, j);
        const auto line = neighbours_of<Source>(data, its_begin);
        const int size = l < full_here ? order::leaf : l < here ? its_rest : 0;
        const auto s = all_of_the_warp(l < full_here)
                           ? fold_leaf_by_team<F, Source, A, true>(line, at, lane, size)
                           : fold_leaf_by_team<F, Source, A, false>(line, at, lane, size);
        if (lane == 0 && size > 0) of_leaf[to] = F::template rebase<A>(s, 0);
      }
      wait_for_the_warp();
      if (now) {
        thread_counter<F, S, levels_of_leaf_teams> folded;
#pragma unroll 1
        for (int l = 0; l < leaves; ++l)
          folded.push(of_leaf[before + l], static_cast<index>(l < full ? order::leaf : rest));
        result = folded.total();
      }
      wait_for_the_warp();
      done += here;
      full_done += full_here;
    }
    if (is_mine) how.template write<F, Source, A>(result, length, output);
  }
}

// Rows of up to a tile: a team of threads takes one, as many as its leaves ask for, and a warp
// `at_once` neighbours, Sets times as many at a time as it has teams. Its threads write the results
// together.
template <class F, class Rows, class A, int Most, int Sets, class Results>
__global__ void __launch_bounds__(128)
    fold_rows_by_teams(const __grid_constant__ typename Rows::parameters data, int team,
                       int at_once, const __grid_constant__ Results how) {
  using E = engine<F, Rows, A>;
  using S = typename E::state;
  const int t = threadIdx.x % warp, teams = warp / team, n = static_cast<int>(data.n);
  const int j = t % team, leaf = E::leaf_of(j) * order::leaf, lane = E::lane_of(j),
            size = min(n - leaf, order::leaf);
  const int rows =
      lane < size ? order::lane_size(size, lane) : 0;  // in packs: of all lanes of the thread
  // Elements of `width` threads of a team, from `from` after this one on.
  const auto elements_of = [&](int from, int width) {
    if (width < E::group) return leaf_lanes{size}(lane + from * E::owned, width * E::owned);
    const int begin = leaf + from / E::group * order::leaf;
    return static_cast<index>(min(n - begin, width / E::group * order::leaf));
  };
  const index stride = index{gridDim.x} * blockDim.x / warp * at_once;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * at_once;
       first < data.outputs; first += stride) {
    const int here =
        data.outputs - first < at_once ? static_cast<int>(data.outputs - first) : at_once;
    const finder mine =
        finder::of(data, first + static_cast<index>(t < here ? t : 0));  // that of output first + t
    S result;
#pragma unroll 1
    for (int k = 0; k < here; k += Sets * teams) {
      typename Rows::template some_rows<Most> v[Sets];
#pragma unroll
      for (int u = 0; u < Sets; ++u) {
        const int row = k + u * teams + t / team;
        finder of{};
        of.begin = {shuffle(mine.begin.x, row), 0};
        v[u] = Rows::at(data, of, static_cast<index>(leaf + lane))
                   .template load_some<Most>(row < here ? rows : 0);
      }
#pragma unroll
      for (int u = 0; u < Sets; ++u) {
        typename E::local s[E::owned];
        if (rows > 0) {
#pragma unroll
          for (int i = 0; i < E::owned; ++i)
            s[i] = method::fold_lane<F, Most>(
                rows, [&](int r) { return v[u].get(r, i, leaf + lane + r * order::lanes + i); });
          fold_owned<F>(s, E::owned,
                        [=](int, int width) { return static_cast<index>(width * rows); });
        }
#pragma unroll
        for (int d = 1; d < warp; d *= 2) {
          if (d >= team) break;
          const auto right = from_right(s[0], d);
          const bool there =
              d < E::group ? lane + d * E::owned < size : leaf + d / E::group * order::leaf < n;
          if (there)
            s[0] = F::merge(s[0], right, fold::counts{elements_of(0, d), elements_of(d, d)});
        }
        // To the thread that writes it.
        const S got = F::template rebase<A>(s[0], 0).map(
            [=](auto w) { return shuffle(w, t % teams * team); });
        if (t / teams == k / teams + u) result = got;
      }
    }
    if (t < here) how.template write<F, Rows, A>(result, data.n, first + static_cast<index>(t));
  }
}

}  // namespace bitfold::cuda
