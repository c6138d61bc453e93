// Rows that go to outputs, column by column: a thread takes Many neighbouring columns of an output;
// of one with many rows, of a node of it.
#pragma once

#include <bitfold/cuda/places.cuh>
#include <bitfold/cuda/rows.cuh>
#include <bitfold/cuda/scattered.cuh>

namespace bitfold::cuda {

/// What there is of rows: an order, a list, weights.
template <bool Ordered, bool Listed, bool Weighted>
struct rows_given {
  static constexpr bool ordered = Ordered, listed = Listed, weighted = Weighted;
};

template <class What, class Given, int Many>
struct rows_folder {
  using T = typename What::element;
  using A = typename What::number;
  using S = typename What::state;
  using some = packet<T, Many>;
  using of_many = states_of_many<S, Many>;
  struct row {
    some x;
    T weight;
  };
  const keyed_rows& of;
  index column;

  __device__ index place(index number) const {
    if constexpr (Given::ordered) return of.order[number];
    return number;
  }
  __device__ index row_at(index place) const {
    if constexpr (Given::listed) return static_cast<index>(of.list[place]);
    return place;
  }
  /// Rows first, first + step, ... in order, of which `count` are there: of the others the last one
  /// again, so that no load waits for a branch. Where they lie is asked for all at once.
  template <int Most>
  __device__ void load(row (&v)[Most], index first, int step, int count) const {
    index at[Most];
#pragma unroll
    for (int r = 0; r < Most; ++r)
      at[r] = place(first + static_cast<index>(min(r, count - 1) * step));
    if constexpr (Given::weighted)
#pragma unroll
      for (int r = 0; r < Most; ++r) v[r].weight = static_cast<const T*>(of.weights)[at[r]];
#pragma unroll
    for (int r = 0; r < Most; ++r) at[r] = row_at(at[r]);
#pragma unroll
    for (int r = 0; r < Most; ++r)
      v[r].x = some::load(static_cast<const T*>(of.x) + at[r] * of.columns + column);
  }
  __device__ static auto taken(const row& v, index number, int p) {
    A x = arith::widen<A>(v.x[p]);
    if constexpr (Given::weighted) x = arith::mul(x, arith::widen<A>(v.weight));
    return What::taken(x, number);
  }
  /// Of `size` rows of a leaf.
  __device__ of_many leaf(index first, int size) const {
    return fold_leaf_by_thread<What, Many, row>(
        size,
        [&](row(&v)[order::rows], int begin, int step, int count) {
          load(v, first + static_cast<index>(begin), step, count);
        },
        [&](const row& v, int i, int p) { return taken(v, first + static_cast<index>(i), p); });
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
                ? static_cast<std::int64_t>(row_at(place(s.each[p].number)))
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
template <class What, class Given, int Many, int Beside>
__global__ void __launch_bounds__(threads_on_rows,
                                  Many * sizeof(typename What::state) <= 16 ? 5 : 3)
    fold_keyed_rows(const __grid_constant__ keyed_rows of,
                    const __grid_constant__ outputs_in_nodes list) {
  using folder = rows_folder<What, Given, Many>;
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
    typename folder::row row[Beside][1];
    if constexpr (Beside > 1)
#pragma unroll
      for (int j = 0; j < Beside; ++j)
        if (begin[j] < begin[j + 1]) by.load(row[j], static_cast<index>(begin[j]), 1, 1);
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
        for (int p = 0; p < Many; ++p) s.each[p] = What::fold::start(by.taken(row[j][0], at, p));
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

template <class What, class Given, int Many>
__global__ void __launch_bounds__(threads_on_rows,
                                  Many * sizeof(typename What::state) <= 16 ? 5 : 3)
    fold_nodes_of_rows(const __grid_constant__ keyed_rows of,
                       const __grid_constant__ outputs_in_nodes list) {
  using folder = rows_folder<What, Given, Many>;
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
template <class What, class Given>
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
      rows_folder<What, Given, 1>{of, column}.write({runs.total()}, k, n);
    }
    wait_for_the_block();
  }
}

}  // namespace bitfold::cuda
