// Rows that go to outputs, column by column: a thread takes Many neighbouring columns of an output;
// of one with many rows, of a node of it.
#pragma once

#include <bitfold/cuda/places.cuh>
#include <bitfold/cuda/rows.cuh>
#include <bitfold/cuda/scattered.cuh>

namespace bitfold::cuda {

template <class What, int Many>
struct rows_folder {
  using T = typename What::element;
  using A = typename What::number;
  using S = typename What::state;
  using some = packet<T, Many>;
  using of_many = states_of_many<S, Many>;
  struct weighted_row {
    some x;
    T weight;
  };
  const keyed_rows& of;
  index column;

  __device__ index place(index number) const { return of.order ? index{of.order[number]} : number; }
  __device__ index row_of(index number) const {
    const index at = place(number);
    return of.list ? static_cast<index>(of.list[at]) : at;
  }
  __device__ weighted_row load(index number) const {
    const index at = place(number), row = of.list ? static_cast<index>(of.list[at]) : at;
    return {some::load(static_cast<const T*>(of.x) + row * of.columns + column),
            of.weights ? static_cast<const T*>(of.weights)[at] : T{}};
  }
  __device__ auto taken(const weighted_row& row, index number, int p) const {
    const A x = arith::widen<A>(row.x[p]);
    return What::taken(of.weights ? arith::mul(x, arith::widen<A>(row.weight)) : x, number);
  }
  /// Of `size` rows of a leaf.
  __device__ of_many leaf(index first, int size) const {
    return fold_leaf_by_thread<What, Many>(
        size, [&](int i) { return load(first + static_cast<index>(i)); },
        [&](const weighted_row& row, int i, int p) {
          return taken(row, first + static_cast<index>(i), p);
        });
  }
  /// Of an output that has n of them.
  __device__ void write(const of_many& s, index output, index n) const {
    const index at = output * of.columns + column;
    const auto* const base = static_cast<const T*>(of.met.base);
    T* const to = static_cast<T*>(of.out) + at;
    const some before = base ? some::load(base + at) : some::of(T{});
    some results = before;
    if (n > 0)
#pragma unroll
      for (int p = 0; p < Many; ++p)
        results.set(p, met<What>(of.met, What::result(s.each[p], n), n, before[p]));
    if (n > 0 || of.met.base != of.out) results.store(to);
    if constexpr (What::places)
#pragma unroll
      for (int p = 0; p < Many; ++p)
        of.largest[at + static_cast<index>(p)] =
            n > 0 && s.each[p].x == s.each[p].x
                ? static_cast<std::int64_t>(row_of(s.each[p].number))
                : -1;
  }
};

/// Those outputs that are in nodes, in any order, as that shows nowhere.
struct outputs_in_nodes {
  index* count;
  index* outputs;
  void* states;  ///< of columns, of nodes_of_rows
};

/// A thread takes Beside outputs, whose first rows are read at once: where there are so many, most
/// have one, or none.
template <class What, int Many, int Beside>
__global__ void __launch_bounds__(threads_on_rows)
    fold_keyed_rows(const __grid_constant__ keyed_rows of,
                    const __grid_constant__ outputs_in_nodes list) {
  using folder = rows_folder<What, Many>;
  const index columns = of.columns / Many, items = (of.outputs + Beside - 1) / Beside * columns;
  const bool narrow = items <= 0xffffffff;
  for (index i = index{blockIdx.x} * threads_on_rows + threadIdx.x; i < items;
       i += index{gridDim.x} * threads_on_rows) {
    const index group =
        narrow ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(columns) : i / columns;
    const folder by{of, (i - group * columns) * Many};
    const index first = group * Beside;
    std::int64_t begin[Beside + 1];
#pragma unroll
    for (int j = 0; j <= Beside; ++j) {
      const index k = first + static_cast<index>(j);
      begin[j] = of.offsets[k < of.outputs ? k : of.outputs];
    }
    typename folder::weighted_row row[Beside];
    if constexpr (Beside > 1)
#pragma unroll
      for (int j = 0; j < Beside; ++j)
        if (begin[j] < begin[j + 1]) row[j] = by.load(static_cast<index>(begin[j]));
#pragma unroll
    for (int j = 0; j < Beside; ++j) {
      const index k = first + static_cast<index>(j), at = static_cast<index>(begin[j]);
      if (k >= of.outputs) break;
      const auto n = static_cast<index>(begin[j + 1] - begin[j]);
      if (n > rows_of_node) {
        if (by.column == 0) list.outputs[add_to(*list.count, 1)] = k;
        continue;
      }
      typename folder::of_many s{};
      if (Beside > 1 && n == 1) {
#pragma unroll
        for (int p = 0; p < Many; ++p) s.each[p] = What::fold::start(by.taken(row[j], at, p));
      } else if (n > 0) {
        s = by.leaf(at, static_cast<int>(n));
      }
      by.write(s, k, n);
    }
  }
}

/// A node: of rows `first` to `first` + size - 1 in order; none has no size.
struct node_of_rows {
  index first;
  int size;
};
/// That which begins in a chunk and is its output's first, or that which is another.
__device__ inline node_of_rows node_in_chunk(const keyed_rows& of, index chunk, bool is_first) {
  const index at = (chunk + static_cast<index>(is_first)) * rows_of_node;
  if (static_cast<std::int64_t>(at) < of.offsets[0] ||
      static_cast<std::int64_t>(at) >= of.offsets[of.outputs])
    return {0, 0};
  const index k = segment_of(of.offsets, of.outputs, static_cast<std::int64_t>(at)),
              begin = static_cast<index>(of.offsets[k]),
              end = static_cast<index>(of.offsets[k + 1]);
  if (end - begin <= rows_of_node) return {0, 0};
  const index number = (at - begin + rows_of_node - 1) / rows_of_node,
              first = is_first ? begin : begin + number * rows_of_node;
  if (is_first ? begin >= at || begin + rows_of_node < at : number == 0 || first >= end)
    return {0, 0};
  return {first, end - first < rows_of_node ? static_cast<int>(end - first)
                                            : static_cast<int>(rows_of_node)};
}

template <class What, int Many>
__global__ void __launch_bounds__(threads_on_rows)
    fold_nodes_of_rows(const __grid_constant__ keyed_rows of,
                       const __grid_constant__ outputs_in_nodes list) {
  using folder = rows_folder<What, Many>;
  if (*list.count == 0) return;
  const index columns = of.columns / Many, items = (of.total / rows_of_node + 1) * columns;
  for (index i = index{blockIdx.x} * threads_on_rows + threadIdx.x; i < items;
       i += index{gridDim.x} * threads_on_rows) {
    const index chunk = i / columns;
    const folder by{of, (i - chunk * columns) * Many};
#pragma unroll 1
    for (int is_first = 0; is_first < 2; ++is_first) {
      const node_of_rows node = node_in_chunk(of, chunk, is_first != 0);
      if (node.size == 0) continue;
      const auto s = by.leaf(node.first, node.size);
      auto* const to = static_cast<typename folder::S*>(list.states) +
                       (2 * chunk + static_cast<index>(is_first)) * of.columns + by.column;
#pragma unroll
      for (int p = 0; p < Many; ++p) to[p] = s.each[p];
    }
  }
}

/// The nodes of the outputs that have some: warps of a block take runs of them, a thread a column.
template <class What>
__global__ void __launch_bounds__(warps_on_nodes_of_rows* warp)
    fold_outputs_in_nodes(const __grid_constant__ keyed_rows of,
                          const __grid_constant__ outputs_in_nodes list) {
  using fold = typename What::fold;
  using S = typename What::state;
  __shared__ S of_runs[warps_on_nodes_of_rows][warp];
  const int t = static_cast<int>(threadIdx.x) % warp;
  const auto w = static_cast<index>(threadIdx.x / warp);
  const index stripes = (of.columns + warp - 1) / warp, items = *list.count * stripes;
  for (index i = blockIdx.x; i < items; i += gridDim.x) {
    const index k = list.outputs[i / stripes], begin = static_cast<index>(of.offsets[k]),
                n = static_cast<index>(of.offsets[k + 1]) - begin,
                nodes = (n + rows_of_node - 1) / rows_of_node, chunk = begin / rows_of_node,
                column = i % stripes * warp + static_cast<index>(t);
    const bool is_there = column < of.columns;
    index run = 1;
    while (run * warps_on_nodes_of_rows < nodes) run *= 2;
    const index first = w * run, end = nodes < first + run ? nodes : first + run;
    const auto state = [&](index j) {
      return static_cast<const S*>(
          list.states)[(2 * (chunk + j) + static_cast<index>(j == 0)) * of.columns + column];
    };
    const auto rows_from = [&](index j, index many) {
      const index before = j * rows_of_node;
      return n - before < many * rows_of_node ? n - before : many * rows_of_node;
    };
    if (is_there && first < end) {
      thread_counter<fold, S, 24> of_run;
      constexpr int beside = 8;
#pragma unroll 1
      for (index j = first; j < end; j += beside) {
        S s[beside];
#pragma unroll
        for (int r = 0; r < beside; ++r)
          if (j + static_cast<index>(r) < end) s[r] = state(j + static_cast<index>(r));
#pragma unroll
        for (int r = 0; r < beside; ++r)
          if (j + static_cast<index>(r) < end)
            of_run.push(s[r], rows_from(j + static_cast<index>(r), 1));
      }
      of_runs[w][t] = of_run.total();
    }
    wait_for_the_block();
    if (w == 0 && is_there) {
      thread_counter<fold, S, 5> runs;
      for (index j = 0; j * run < nodes; ++j) runs.push(of_runs[j][t], rows_from(j * run, run));
      rows_folder<What, 1>{of, column}.write({runs.total()}, k, n);
    }
    wait_for_the_block();
  }
}

}  // namespace bitfold::cuda
