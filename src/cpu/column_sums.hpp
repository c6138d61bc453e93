// Sums of columns, by method tree, of what rows become one after the other: each lane of a leaf has
// a running sum of every column, so that memory is read row by row and nothing else is written.
#pragma once

#include "../strided.hpp"
#include "float_loops.hpp"

namespace bitfold::cpu {

/// Rows of n numbers, `pitch` apart, are added in adjacent pairs, level by level, into the first.
template <class A>
struct add_rows_in_pairs {
  [[gnu::always_inline]] static void run(A* rows, std::size_t count, std::size_t pitch,
                                         std::size_t n) {
    for (std::size_t step = 1; step < count; step *= 2)
      for (std::size_t left = 0; left + step < count; left += 2 * step) {
        A* __restrict const a = rows + left * pitch;
        const A* __restrict const b = a + step * pitch;
        for (std::size_t i = 0; i < n; ++i) a[i] = arith::add(a[i], b[i]);
      }
  }
};

/// Columns that are summed at a time, so that all lanes stay in the first cache, or near it.
template <class A>
constexpr std::size_t most_columns(std::size_t sums) {
  return 2048 / (sums * sizeof(A));
}

/// Part of a row as it is computed with; memory, which does not foresee parts of rows, is asked for
/// the same part of the next.
template <class T, class A>
const A* part_of_row(const conversions<T>& by, const void* rows, std::size_t row,
                     std::size_t columns, std::size_t first, std::size_t n, A* to) {
  const T* const from = static_cast<const T*>(rows) + row * columns + first;
  const std::size_t ahead = columns * sizeof(T);
  if constexpr (std::is_same_v<A, T>)
    detail::foresee(reinterpret_cast<std::uintptr_t>(from) + ahead, n * sizeof(T));
  return widened(by, from, n, to, ahead);
}

/// Of `sums` terms the sums of all columns, one behind the other. make() gives each thread what
/// adds a row's terms, add(row, first, n, to, apart): term k of column first + i to to[k * apart +
/// i].
template <class A, class Make>
std::unique_ptr<A[], aligned_delete> sums_of_columns(std::size_t sums, std::size_t rows,
                                                     std::size_t columns, std::size_t bytes,
                                                     const options& opts, Make make) {
  const auto fold = loop_for<add_rows_in_pairs<A>>(resolve_target(opts));
  const std::size_t at_once = most_columns<A>(sums), stripes = (columns - 1) / at_once + 1,
                    leaves = order::leaf_count(rows), pitch = sums * columns;
  auto nodes = uninitialized<A>(std::max<std::size_t>(leaves, 1) * pitch);  // of each leaf
  if (leaves == 0) std::fill_n(nodes.get(), pitch, A(0));
  for_each_range(leaves * stripes, bytes, 4, opts, [&](std::size_t begin, std::size_t end) {
    auto add = make();
    const auto lanes = uninitialized<A>(order::lanes * sums * at_once);
    for (std::size_t item = begin; item < end; ++item) {
      const std::size_t leaf = item / stripes, first = item % stripes * at_once,
                        here = std::min(at_once, columns - first), of_lane = sums * here;
      const auto size = static_cast<std::size_t>(order::leaf_size(rows, leaf)),
                 lane_count = std::min<std::size_t>(size, order::lanes);
      std::fill_n(lanes.get(), lane_count * of_lane, -A(0));  // which changes no number added to it
      for (std::size_t i = 0; i < size; ++i)
        add(leaf * order::leaf + i, first, here, lanes.get() + i % order::lanes * of_lane, here);
      fold(lanes.get(), lane_count, of_lane, of_lane);
      for (std::size_t k = 0; k < sums; ++k)
        std::copy_n(lanes.get() + k * here, here, nodes.get() + leaf * pitch + k * columns + first);
    }
  });
  fold(nodes.get(), leaves, pitch, pitch);
  return nodes;
}

}  // namespace bitfold::cpu
