// Kernels of outputs that are neighbours: a thread folds several of them, or parts of several.
#pragma once

#include <bitfold/cuda/elements.cuh>

namespace bitfold::cuda {

// Lanes `begin` to `end` of a leaf of `size` elements in up to Rows rows, which begins at element
// `at` of Many columns: Beside lanes at once, so that many loads are on their way. Their states are
// pushed on `to`.
template <class F, int Many, int Rows, int Beside, class Columns, class Counter>
__device__ void fold_few_rows(const Columns& columns, std::int64_t stride, int at, int size,
                              int begin, int end, Counter& to) {
  using of_columns = fold_of_many<F, Many>;
#pragma unroll 1
  for (int l = begin; l < end; l += Beside) {
    const int count = min(Beside, end - l);
    typename Columns::some v[Rows][Beside];
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int k = 0; k < Beside; ++k)
        if (const int i = r * order::lanes + l + k; i < size && k < count)
          v[r][k] = columns.load((at + i) * stride);
    std::remove_reference_t<decltype(to.pending[0])> s[Beside];
#pragma unroll
    for (int k = 0; k < Beside; ++k) {
      const int rows = Rows == 1 ? 1 : order::lane_size(size, l + k);
#pragma unroll
      for (int p = 0; p < Many; ++p)
        s[k].each[p] = method::fold_lane<F, Rows>(
            rows, [&](int r) { return columns.get(v[r][k], p, at + l + k + r * order::lanes); });
    }
    // With one row a lane is one element, so counts are widths, which the compiler knows.
    const auto elements = [=](int first, int width) {
      return Rows == 1 ? static_cast<index>(width) : leaf_lanes{size}(l + first, width);
    };
    fold_owned<of_columns>(s, count, elements);
    to.push(s[0], elements(0, count));
  }
}

// Outputs whose elements lie at equal distances, and which are neighbours: a thread takes Many of
// them, and of each some leaves, or of a single leaf one in `split` of its lanes, a part; a block
// `parts` neighbouring ones, a node, of as many outputs as it has room for.
template <class F, class Source, class A, int Many, class Results>
__global__ void __launch_bounds__(128, Many * sizeof(fold::partial<F, A>) <= 16 ? 4 : 2)
    fold_columns(const __grid_constant__ typename Source::parameters data, int parts, int split,
                 index node, index nodes, void* states, const __grid_constant__ Results how) {
  using S = fold::partial<F, A>;
  using local = typename engine<F, Source, A>::local;
  using of_many = states_of_many<local, Many>;
  using of_columns = fold_of_many<F, Many>;
  struct in_rows {
    typename Source::template columns<Many>::some x[order::rows];
  };
  S* const of_threads = reinterpret_cast<S*>(shared_bytes);
  // Parts, those that share a leaf, and threads beside each other are powers of two: quotients of
  // their numbers would take as long as short columns do.
  const int of_parts = first_bit(static_cast<unsigned>(parts)),
            of_split = first_bit(static_cast<unsigned>(split)),
            of_width = first_bit(blockDim.x >> of_parts), width = 1 << of_width,
            j = static_cast<int>(threadIdx.x) >> of_width;                        // the part
  const int lanes = order::lanes >> of_split, begin = (j & (split - 1)) * lanes;  // of each leaf
  const index groups = data.outputs / Many, part = node >> (of_parts - of_split),
              stripes = (groups + static_cast<index>(width - 1)) >> of_width,
              items = stripes * nodes;
  for (index i = blockIdx.x; i < items; i += gridDim.x) {
    const index k = quotient(i, stripes),
                group = ((i - k * stripes) << of_width) +
                        (threadIdx.x & static_cast<unsigned>(width - 1)),
                output = group * Many;
    const index of_node = k * node, first = of_node + static_cast<index>(j >> of_split) * part;
    const index left = data.n - of_node, here = left < node ? left : node;
    of_many total;
    if (group < groups && first < data.n) {
      const finder find = finder::of(data, output);
      const auto columns = Source::at(data, find, first).template columns_from<Many>();
      const int n = static_cast<int>(data.n - first < part ? data.n - first : part);
      const std::int64_t stride = find.stride.x;
      const auto load = [&](int at, int rows) {  // the lane that begins there
        std::int64_t p = at * stride;
        in_rows v;
#pragma unroll
        for (int r = 0; r < order::rows; ++r) {
          if (r < rows) v.x[r] = columns.load(p);
          p += order::lanes * stride;
        }
        return v;
      };
      const auto lane = [&](const in_rows& v, int rows, int at) {
        of_many s;
#pragma unroll
        for (int p = 0; p < Many; ++p)
          s.each[p] = method::fold_lane<F, order::rows>(
              rows, [&](int r) { return columns.get(v.x[r], p, at + r * order::lanes); });
        return s;
      };
      thread_counter<of_columns, of_many, 7> leaves;
      int at = 0;
      in_rows next;
      if (n >= order::leaf) next = load(begin, order::rows);
#pragma unroll 1
      for (; n - at >= order::leaf; at += order::leaf) {
        thread_counter<of_columns, of_many, 5> of_leaf;
#pragma unroll 1
        for (int l = at + begin, end = l + lanes; l < end; l += 2) {
          in_rows v = next;
          next = load(l + 1, order::rows);
          const of_many left = lane(v, order::rows, l);
          v = next;
          // The next lane, or of the next leaf the first; the last once more.
          next = load(l + 2 < end                 ? l + 2
                      : n - at >= 2 * order::leaf ? at + order::leaf + begin
                                                  : l + 1,
                      order::rows);
          of_leaf.push(of_columns::merge(left, lane(v, order::rows, l + 1),
                                         fold::counts{order::rows, order::rows}),
                       2 * order::rows);
        }
        leaves.push(split == 1 ? of_leaf.pending[4] : of_leaf.total(),
                    static_cast<index>(order::leaf / split));
      }
      if (const int size = n - at, end = min(order::lane_count(size), begin + lanes);
          size > 0 && begin < end) {
        thread_counter<of_columns, of_many, 6> of_leaf;
        constexpr int few = 2;
        if (size <= few * order::lanes) {
          fold_few_rows<F, Many, few, order::rows / few>(columns, stride, at, size, begin, end,
                                                         of_leaf);
        } else {
          next = load(at + begin, order::lane_size(size, begin));
#pragma unroll 1
          for (int l = begin; l < end; ++l) {
            const int rows = order::lane_size(size, l);
            const in_rows v = next;
            if (l + 1 < end) next = load(at + l + 1, order::lane_size(size, l + 1));
            of_leaf.push(lane(v, rows, at + l), static_cast<index>(rows));
          }
        }
        leaves.push(of_leaf.total(), leaf_lanes{size}(begin, lanes));
      }
      total = leaves.total();
    }
    S s[Many];
#pragma unroll
    for (int p = 0; p < Many; ++p) s[p] = F::template rebase<A>(total.each[p], first);
    // The elements of `d` parts from part q on, if any.
    const auto elements = [&](int q, int d) -> index {
      const index before = static_cast<index>(q >> of_split) * part;
      if (before >= here) return 0;
      if (d >= split) return equal_runs{part, here}(q >> of_split, d >> of_split);
      return leaf_lanes{here - before < order::leaf
                            ? static_cast<int>(here - before)
                            : order::leaf}((q & (split - 1)) * lanes, d * lanes);
    };
    // Each part is written once, and read once thereafter.
    for (int d = 1; d < parts; d *= 2) {
      if ((j & (2 * d - 1)) == d)
#pragma unroll
        for (int p = 0; p < Many; ++p) of_threads[p * blockDim.x + threadIdx.x] = s[p];
      wait_for_the_block();
      if ((j & (2 * d - 1)) == 0)
        if (const index right = elements(j + d, d); right > 0)
#pragma unroll
          for (int p = 0; p < Many; ++p)
            s[p] = F::merge(s[p], of_threads[p * blockDim.x + threadIdx.x + (d << of_width)],
                            fold::counts{elements(j, d), right});
    }
    if (items > gridDim.x) wait_for_the_block();
    if (j == 0 && group < groups)
#pragma unroll
      for (int p = 0; p < Many; ++p) {
        if (nodes == 1)
          how.template write<F, Source, A>(s[p], data.n, output + static_cast<index>(p));
        else
          static_cast<S*>(states)[(output + static_cast<index>(p)) * nodes + k] = s[p];
      }
  }
}

// The same of up to Rows rows of a leaf each: a thread takes Many whole outputs, and reads half of
// a leaf's lanes at a time, or fewer.
template <class F, class Source, class A, int Many, int Rows, class Results>
__global__ void __launch_bounds__(128)
    fold_short_columns(const __grid_constant__ typename Source::parameters data,
                       const __grid_constant__ Results how) {
  using of_many = states_of_many<typename engine<F, Source, A>::local, Many>;
  using of_columns = fold_of_many<F, Many>;
  constexpr int beside = order::lanes / (sizeof(of_many) <= 16 && !Source::two ? 2 : 4) / Rows;
  const int n = static_cast<int>(data.n), lanes = order::lane_count(n);
  const index groups = data.outputs / Many, stride = index{gridDim.x} * blockDim.x;
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < groups; i += stride) {
    const index output = i * Many;
    const finder find = finder::of(data, output);
    const auto columns = Source::at(data, find, 0).template columns_from<Many>();
    thread_counter<of_columns, of_many, Rows == 1 ? 3 : 4> parts;
    fold_few_rows<F, Many, Rows, beside>(columns, find.stride.x, 0, n, 0, lanes, parts);
    const of_many all = parts.total();
#pragma unroll
    for (int p = 0; p < Many; ++p)
      how.template write<F, Source, A>(F::template rebase<A>(all.each[p], 0), data.n,
                                       output + static_cast<index>(p));
  }
}

}  // namespace bitfold::cuda
