// Kernels of many outputs, each folded by a thread, or in nodes by some.
#pragma once

#include <bitfold/cuda/elements.cuh>

namespace bitfold::cuda {

// A leaf of `rows` full rows by one thread, of elements at equal distances: four lanes at a time,
// so that many loads are on their way.
template <class F, class Source, class A, bool Full, class Line>
__device__ auto fold_leaf_by_thread(const Line& line, int begin, int rows) {
  if constexpr (Full) rows = order::rows;
  using local = typename engine<F, Source, A>::local;
  constexpr int beside = 4;
  thread_counter<F, local, 4> lanes;
#pragma unroll 1
  for (int l = 0; l < order::lanes; l += beside) {
    typename Source::single x[order::rows][beside];
#pragma unroll
    for (int r = 0; r < order::rows; ++r)
#pragma unroll
      for (int k = 0; k < beside; ++k)
        if (Full || r < rows) x[r][k] = line.one(begin + r * order::lanes + l + k);
    local s[beside];
#pragma unroll
    for (int k = 0; k < beside; ++k)
      s[k] = method::fold_lane<F, order::rows>(
          rows, [&](int r) { return Source::made(x[r][k], begin + r * order::lanes + l + k); });
    fold_owned<F>(s, beside, [=](int, int width) { return static_cast<index>(width * rows); });
    lanes.push(s[0], static_cast<index>(beside * rows));
  }
  return lanes.pending[3];
}

// A leaf of up to so many rows, the last of which may be short; likewise. Whole: all are full.
template <class F, class Source, class A, int Rows, bool Whole = false, class Line>
__device__ auto fold_short_by_thread(const Line& line, int begin, int size) {
  if constexpr (Whole) size = Rows * order::lanes;
  using local = typename engine<F, Source, A>::local;
  constexpr int beside = Rows <= 2 ? 8 : 4;
  thread_counter<F, local, Rows <= 2 ? 3 : 4> lanes;
#pragma unroll 1
  for (int l = 0; l < order::lane_count(size); l += beside) {
    typename Source::single x[Rows][beside];
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int k = 0; k < beside; ++k)
        if (Whole || r * order::lanes + l + k < size)
          x[r][k] = line.one(begin + r * order::lanes + l + k);
    local s[beside];
#pragma unroll
    for (int k = 0; k < beside; ++k)
      s[k] = method::fold_lane<F, Rows>(
          Whole       ? Rows
          : Rows == 1 ? 1
                      : order::lane_size(size, l + k),
          [&](int r) { return Source::made(x[r][k], begin + r * order::lanes + l + k); });
    const int count = Whole ? beside : min(beside, order::lane_count(size) - l);
    const auto elements = [=](int first, int width) {
      return Whole || Rows == 1 ? static_cast<index>(width * Rows)
                                : leaf_lanes{size}(l + first, width);
    };
    fold_owned<F>(s, count, elements);
    if (order::lane_count(size) <= beside) return s[0];
    lanes.push(s[0], elements(0, count));
  }
  return lanes.total();
}

// `n` elements from `first` on, up to most_leaves_of_thread leaves, by one thread.
template <class F, class Source, class A>
__device__ auto fold_by_thread(const Source& from, index first, index n) {
  using local = typename engine<F, Source, A>::local;
  thread_counter<F, local, 7> leaves;
#pragma unroll 1
  for (int begin = 0; begin < static_cast<int>(n); begin += order::leaf) {
    const int size = min(order::leaf, static_cast<int>(n) - begin), lanes = order::lane_count(size);
    if constexpr (Source::has_lines)
      if (const bool of_whole_rows = size % order::lanes == 0;
          from.find.linear && (of_whole_rows || size <= 2 * order::lanes)) {
        leaves.push(
            size == order::leaf ? fold_leaf_by_thread<F, Source, A, true>(line_of(from), begin, 0)
            : of_whole_rows     ? fold_leaf_by_thread<F, Source, A, false>(line_of(from), begin,
                                                                           size / order::lanes)
                                : fold_short_by_thread<F, Source, A, 2>(line_of(from), begin, size),
            static_cast<index>(size));
        continue;
      }
    thread_counter<F, local, 6> of_leaf;
#pragma unroll 1
    for (int l = 0; l < lanes; ++l) {
      const int rows = order::lane_size(size, l);
      typename Source::single x[order::rows];
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
        if (r < rows) x[r] = from.one(begin + r * order::lanes + l);
      of_leaf.push(
          method::fold_lane<F, order::rows>(
              rows, [&](int r) { return Source::made(x[r], begin + r * order::lanes + l); }),
          static_cast<index>(rows));
    }
    leaves.push(of_leaf.total(), static_cast<index>(size));
  }
  return F::template rebase<A>(leaves.total(), first);
}

// The first n < pack<T>::size elements at p.
template <class T>
__device__ pack<T> part_of(const T* p, int n) {
  pack<T> v{};
#pragma unroll
  for (int i = 0; i < pack<T>::size; ++i)
    if (i < n) v.set(i, arith::bit_cast<typename pack<T>::bits>(p[i]));
  return v;
}

// Rows of n elements that follow each other without gaps: a warp brings a row for each of its
// threads to shared memory, in packs, and each thread folds its own.
template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(64)
    fold_staged_rows(const __grid_constant__ output_elements data, int pitch,
                     const __grid_constant__ Results how) {
  using T = typename Source::element;
  const int t = threadIdx.x % warp, n = static_cast<int>(data.n);
  T* const rows = reinterpret_cast<T*>(shared_bytes) + (threadIdx.x / warp) * warp * pitch;
  const auto bits = [](T* p) { return reinterpret_cast<typename pack<T>::bits*>(p); };
  const index stride = index{gridDim.x} * blockDim.x;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * warp;
       first < data.outputs; first += stride) {
    const int here = data.outputs - first < warp ? static_cast<int>(data.outputs - first) : warp,
              count = here * n;
    const T* const from = static_cast<const T*>(data.x) + first * data.n;
    int row = t * Source::owned / n, column = t * Source::owned % n;
    const int rows_on = warp * Source::owned / n, columns_on = warp * Source::owned % n;
    constexpr int ahead = 8;
    wait_for_the_warp();
    for (int i = t * Source::owned; i < count; i += ahead * warp * Source::owned) {
      pack<T> v[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (const int at = i + k * warp * Source::owned; at < count)
          v[k] = at + Source::owned <= count ? load_pack<true>(from + at)
                                             : part_of(from + at, count - at);
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        int r = row, c = column;
#pragma unroll
        for (int e = 0; e < Source::owned; ++e) {
          if (i + k * warp * Source::owned + e < count)
            bits(rows)[r * pitch + c] = arith::bit_cast<typename pack<T>::bits>(v[k][e]);
          if (++c == n) c = 0, ++r;
        }
        row += rows_on;
        column += columns_on;
        if (column >= n) column -= n, ++row;
      }
    }
    wait_for_the_warp();
    if (t < here) {
      const Source own{{&data, {0, 0}, {1, 1}, true}, 0, rows + t * pitch};
      how.template write<F, Source, A>(fold_by_thread<F, Source, A>(own, 0, data.n), data.n,
                                       first + static_cast<index>(t));
    }
  }
}

// Outputs of up to so many rows of a leaf each, whose elements lie at equal distances.
template <class F, class Source, class A, int Rows, bool Whole, class Results>
__global__ void __launch_bounds__(256)
    fold_lines_by_threads(const __grid_constant__ typename Source::parameters data,
                          const __grid_constant__ Results how) {
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < data.outputs;
       i += index{gridDim.x} * blockDim.x)
    how.template write<F, Source, A>(
        F::template rebase<A>(
            fold_short_by_thread<F, Source, A, Rows, Whole>(
                line_of(Source::at(data, finder::of(data, i), 0)), 0, static_cast<int>(data.n)),
            0),
        data.n, i);
}

template <class F, class Source, class A, class Results>
__global__ void __launch_bounds__(256)
    fold_outputs_by_threads(const __grid_constant__ typename Source::parameters data, index node,
                            index nodes, void* states, const __grid_constant__ Results how) {
  using S = fold::partial<F, A>;
  const index items = data.outputs * nodes;
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < items;
       i += index{gridDim.x} * blockDim.x) {
    index k = i, output = i;
    if (nodes > 1)
      output = i % data.outputs, k = i / data.outputs;
    else
      k = 0;
    const index first = k * node;
    if (data.n == 0) {
      how.write_empty(output);
      continue;
    }
    const S s = fold_by_thread<F, Source, A>(Source::at(data, finder::of(data, output), first),
                                             first, data.n - first < node ? data.n - first : node);
    if (nodes == 1)
      how.template write<F, Source, A>(s, data.n, output);
    else
      static_cast<S*>(states)[output * nodes + k] = s;
  }
}

}  // namespace bitfold::cuda
