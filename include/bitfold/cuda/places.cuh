// Where the elements of an output lie, for kernels.
#pragma once

#include <bitfold/cuda/device.cuh>
#include <bitfold/cuda/outputs.hpp>

namespace bitfold::cuda {

struct offset {
  std::int64_t x = 0, y = 0;
};
// a / b, mostly of small ones.
__device__ inline index quotient(index a, index b) {
  if (a < b) return 0;
  if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}
// i over the extent of axis k, where all are narrow.
__device__ inline std::uint32_t quotient(const divisors& by, int k, std::uint32_t i) {
  return static_cast<std::uint32_t>((std::uint64_t{high_product(i, by.each[k].factor)} + i) >>
                                    by.each[k].shift);
}
// Out of line, as 64-bit divisions are long.
__device__ __noinline__ inline offset far_offset(const detail::axes& of, index i) {
  offset o;
#pragma unroll 1
  for (int k = of.rank - 1; k >= 0; --k) {
    index digit = i;
    if (k > 0) digit = i % of.dims[k].extent, i /= of.dims[k].extent;
    o.x += static_cast<std::int64_t>(digit) * of.dims[k].x;
    o.y += static_cast<std::int64_t>(digit) * of.dims[k].y;
  }
  return o;
}
// Element i of some axes.
__device__ inline offset offset_of(const detail::axes& of, const divisors& by, index i) {
  if (!by.narrow) return far_offset(of, i);
  auto left = static_cast<std::uint32_t>(i);
  offset o;
#pragma unroll 1
  for (int k = of.rank - 1; k >= 0; --k) {
    std::uint32_t digit = left;
    if (k > 0) {
      const std::uint32_t q = quotient(by, k, left);
      digit = left - q * static_cast<std::uint32_t>(of.dims[k].extent);
      left = q;
    }
    o.x += static_cast<std::int64_t>(digit) * of.dims[k].x;
    o.y += static_cast<std::int64_t>(digit) * of.dims[k].y;
  }
  return o;
}

__device__ inline index elements_of(const output_elements& from, index output) {
  if (!from.offsets) return from.n;
  const std::int64_t* const at = from.offsets + output * from.offsets_each;
  return static_cast<index>(at[1] - at[0]);
}

/// The segment that an element of some segment lies in: not an empty one, and of several that begin
/// there the last.
__device__ inline index segment_of(const std::int64_t* offsets, index segments,
                                   std::int64_t element) {
  index segment = 0, end = segments;  // offsets[segment] <= element < offsets[end]
  while (end - segment > 1) {
    const index middle = (segment + end) / 2;
    (offsets[middle] <= element ? segment : end) = middle;
  }
  return segment;
}

// Where elements lie that follow a known one: at equal distances;
struct line_of_places {
  offset begin, stride;
  __device__ offset operator()(int i) const {
    return {begin.x + i * stride.x, begin.y + i * stride.y};
  }
};
// as many on one line, with a jump to another ahead of number `first`;
struct lines_of_places {
  offset begin, stride, jump;
  int first;
  __device__ offset operator()(int i) const {
    const offset jumped = i < first ? offset{} : jump;
    return {begin.x + i * stride.x + jumped.x, begin.y + i * stride.y + jumped.y};
  }
};
// and of as many rows of a leaf as a warp has threads, each of which knows one of them.
template <bool Two>
struct lines_of_rows {
  lines_of_places own;
  __device__ offset operator()(int i) const {
    const int row = i / order::lanes, lane = i % order::lanes;
    return lines_of_places{of_row(own.begin, row), own.stride, of_row(own.jump, row),
                           shuffle(own.first, row)}(lane);
  }

 private:
  __device__ static offset of_row(const offset& mine, int row) {
    if constexpr (Two)
      return {shuffle(mine.x, row), shuffle(mine.y, row)};
    else
      return {shuffle(mine.x, row), 0};
  }
};

// Where element i of an output lies, counted from the beginnings of the inputs.
struct finder {
  const output_elements* from;
  offset begin, stride;
  bool linear;  // at begin + i stride
  __device__ static finder of(const output_elements& from, index output) {
    if (from.offsets) {
      const std::int64_t at = from.offsets[output * from.offsets_each];
      return {&from, {at, at}, {1, 1}, from.places == nullptr};
    }
    return {&from,
            offset_of(from.kept, from.by_kept, output),
            {from.reduced.dims[0].x, from.reduced.dims[0].y},
            from.reduced.rank <= 1};
  }
  __device__ offset operator()(index i) const {
    const auto at = static_cast<std::int64_t>(i);
    if (linear) return {begin.x + at * stride.x, begin.y + at * stride.y};
    if (from->places) {
      const auto place = static_cast<std::int64_t>(from->places[begin.x + at]);
      return {place, place};
    }
    const offset o = offset_of(from->reduced, from->by_reduced, i);
    return {begin.x + o.x, begin.y + o.y};
  }
  __device__ line_of_places line(index i) const { return {(*this)(i), stride}; }
  /// Elements that lie at equal distances in each run; 0: nobody knows.
  __device__ index run() const {
    return from->offsets ? 0 : from->reduced.dims[from->reduced.rank - 1].extent;
  }
  /// Those from number i on, as many as a run has at most.
  __device__ lines_of_places lines(index i) const {
    const index of_run = run(),
                before = from->by_reduced.narrow
                             ? static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(of_run)
                             : i % of_run,
                left = of_run - before;
    const auto& along = from->reduced.dims[from->reduced.rank - 1];
    const offset at = (*this)(i);
    if (left >= 1 << 30) return {at, {along.x, along.y}, {}, 1 << 30};
    const offset next = (*this)(i + left);
    const auto elements = static_cast<std::int64_t>(left);
    return {at,
            {along.x, along.y},
            {next.x - at.x - elements * along.x, next.y - at.y - elements * along.y},
            static_cast<int>(left)};
  }
};

}  // namespace bitfold::cuda
