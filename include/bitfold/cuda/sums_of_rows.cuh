// Sums along the rows' other direction: the gradients of parameters.
#pragma once

#include <bitfold/cuda/rows.cuh>

namespace bitfold::cuda {

// Lanes `first` to `end` of a leaf of `size` rows, of Many neighbouring columns, by one thread:
// load(i) reads row i of the leaf, element(row, p) is what the fold takes of it.
template <class fold, int Many, class Load, class Element>
__device__ auto fold_lanes_by_thread(int size, int first, int end, Load load, Element element) {
  using state =
      decltype(method::fold_lane<fold, order::rows>(1, [&](int) { return element(load(0), 0); }));
  using of_many = states_of_many<state, Many>;
  thread_counter<fold_of_many<fold, Many>, of_many, 6> lanes;
#pragma unroll 1
  for (int l = first; l < end; ++l) {
    const int rows = order::lane_size(size, l);
    decltype(load(0)) v[order::rows];
#pragma unroll
    for (int r = 0; r < order::rows; ++r)
      if (r < rows) v[r] = load(r * order::lanes + l);
    of_many s;
#pragma unroll
    for (int p = 0; p < Many; ++p)
      s.each[p] =
          method::fold_lane<fold, order::rows>(rows, [&](int r) { return element(v[r], p); });
    lanes.push(s, static_cast<index>(rows));
  }
  return lanes.total();
}
template <class F, class T, class S>
__device__ void write_parameters(const S& s, index column, T* dw, T* db) {
  if constexpr (F::centred) {
    if (dw) dw[column] = arith::round_to<T>(s.a.sum);
    if (db) db[column] = arith::round_to<T>(s.b.sum);
  } else {
    dw[column] = arith::round_to<T>(s.sum);
  }
}

// A block takes Owned neighbouring columns for each thread of a warp, and a part of the rows,
// `part` of them, leaf by leaf: its warps share out the lanes. A single part is the result.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(warps_on_columns* warp)
    fold_parameters(const __grid_constant__ rows of, int part, int parts, void* states, T* dw,
                    T* db) {
  using A = row::accumulator<T>;
  using fold = typename F::folded;
  using S = typename row_kernel<F, T, Owned>::S;
  using of_many = states_of_many<S, Owned>;
  using of_columns = fold_of_many<fold, Owned>;
  struct one_row {
    packet<T, Owned> g, y;
    row::statistics<A> known;
  };
  __shared__ of_many of_lanes[warps_on_columns][warp];
  const int t = threadIdx.x % warp, w = static_cast<int>(threadIdx.x) / warp;
  const index column = (index{blockIdx.x} * warp + static_cast<index>(t)) * Owned;
  const bool is_there = column < of.n;
  const int k = static_cast<int>(blockIdx.y);
  const index first = static_cast<index>(k) * static_cast<index>(part);
  const int here = static_cast<int>(
      of.count - first < static_cast<index>(part) ? of.count - first : static_cast<index>(part));
  const auto element = [](const one_row& v, int p) {
    return F::template operand<A>({arith::widen<A>(v.g[p]), arith::widen<A>(v.y[p]), A(1), A(0)},
                                  v.known);
  };
  thread_counter<of_columns, of_many, 17> leaves;
#pragma unroll 1
  for (int begin = 0; begin < here; begin += order::leaf) {
    const auto load = [&](int i) {
      const index row = first + static_cast<index>(begin + i), at = row * of.n + column;
      one_row v{packet<T, Owned>::load(static_cast<const T*>(of.x) + at),
                packet<T, Owned>::load(static_cast<const T*>(of.y) + at),
                {}};
      v.known.b = static_cast<const A*>(of.rstd)[row];
      if (F::centred) v.known.a = static_cast<const A*>(of.mean)[row];
      return v;
    };
    constexpr int each = order::lanes / warps_on_columns;
    const int size = min(order::leaf, here - begin), lanes = order::lane_count(size),
              end = min(lanes, (w + 1) * each);
    if (is_there && w * each < end)
      of_lanes[w][t] = fold_lanes_by_thread<fold, Owned>(size, w * each, end, load, element);
    wait_for_the_block();
    if (w == 0 && is_there) {
      thread_counter<of_columns, of_many, 4> shares;
#pragma unroll
      for (int j = 0; j < warps_on_columns; ++j)
        if (j * each < lanes)
          shares.push(of_lanes[j][t], leaf_lanes{size}(j * each, min(each, lanes - j * each)));
      leaves.push(shares.total(), static_cast<index>(size));
    }
    wait_for_the_block();
  }
  if (w > 0 || !is_there) return;
  const of_many s = leaves.total();
#pragma unroll
  for (int p = 0; p < Owned; ++p) {
    const index to = column + static_cast<index>(p);
    if (parts == 1)
      write_parameters<F>(s.each[p], to, dw, db);
    else
      static_cast<S*>(states)[static_cast<index>(k) * of.n + to] = s.each[p];
  }
}
// The parts of a column: warps take runs of them, and one the runs. A thread takes a column.
template <class F, class T>
__global__ void __launch_bounds__(warps_on_parts* warp)
    fold_parts_of_parameters(const __grid_constant__ rows of, int part, int parts, int run,
                             const void* states, T* dw, T* db) {
  using S = typename row_kernel<F, T, 1>::S;
  using fold = typename F::folded;
  __shared__ S of_runs[warps_on_parts][warp];
  const int t = threadIdx.x % warp, w = static_cast<int>(threadIdx.x) / warp;
  const index column = index{blockIdx.x} * warp + static_cast<index>(t);
  const bool is_there = column < of.n;
  const equal_runs elements{static_cast<index>(part), of.count};
  const int first = w * run, end = min(first + run, parts);
  if (is_there && first < end) {
    thread_counter<fold, S, 13> of_run;
    constexpr int beside = 8;
#pragma unroll 1
    for (int k = first; k < end; k += beside) {
      S s[beside];
#pragma unroll
      for (int j = 0; j < beside; ++j)
        if (k + j < end)
          s[j] = static_cast<const S*>(states)[static_cast<index>(k + j) * of.n + column];
#pragma unroll 1
      for (int j = 0; j < beside && k + j < end; ++j) of_run.push(s[j], elements(k + j, 1));
    }
    of_runs[w][t] = of_run.total();
  }
  wait_for_the_block();
  if (w > 0 || !is_there) return;
  thread_counter<fold, S, 5> runs;
  for (int j = 0; j * run < parts; ++j) runs.push(of_runs[j][t], elements(j * run, run));
  write_parameters<F>(runs.total(), column, dw, db);
}

}  // namespace bitfold::cuda
