// Arrays of several axes, of any layout, and reductions along some of them. Each output is the
// canonical order over its own elements, taken in row-major order of the reduced axes: its bits
// depend on nothing else, neither on the other outputs nor on where the elements lie.
//
//   const view x = row_major(dtype::f32, data, {32, 64, 128});
//   std::vector<float> means(64);
//   cpu::reduce(make_reduction(op_id::mean, method_id::tree, dtype::f32), x, {0, 2}, means.data());
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <bitfold/dtype.hpp>
#include <bitfold/error.hpp>
#include <bitfold/order.hpp>
#include <bitfold/strides.hpp>

namespace bitfold {

/// An array of several axes whose element type is known when the program runs. Element (i0, i1,
/// ...) lies at data + i0 stride[0] + i1 stride[1] + ..., strides in elements; they may be zero or
/// negative. It is copied freely and owns nothing. What is wrong with it is an error of the call
/// that takes it.
struct view {
  dtype type;
  const void* data;
  int rank;  ///< how many axes: 0 to max_axes; an array of none is one element
  std::array<std::int64_t, max_axes> extent{}, stride{};
};

/// An array as C lays it out, the last axis moving fastest.
/// data: of size_of(type) bytes an element; null where there are none.
/// extents: one for each axis; none: an array of one element.
/// Errors (errc::usage): more than max_axes extents.
view row_major(dtype type, const void* data, std::span<const std::int64_t> extents);
inline view row_major(dtype type, const void* data, std::initializer_list<std::int64_t> extents) {
  return row_major(type, data, std::span(extents.begin(), extents.size()));
}

/// The same elements with axis order[k] in place k; nothing is copied.
/// order: each axis of x once.
/// Errors (errc::usage): no permutation of the axes.
view permuted(const view& x, std::span<const int> order);
inline view permuted(const view& x, std::initializer_list<int> order) {
  return permuted(x, std::span(order.begin(), order.size()));
}
/// Elements begin, begin + step, ... of an axis, `count` of them; a negative step goes backwards,
/// and of step 0 it is one element again and again. Nothing is copied.
/// Errors (errc::usage): an axis that x has not; a negative count; elements that x has not.
view sliced(const view& x, int axis, std::int64_t begin, std::int64_t count, std::int64_t step = 1);

/// A sliding window along an axis: `size` elements, `dilation` apart, every `stride` elements. The
/// first begins `padding` elements before the axis, and the last ends at most so many behind it.
struct window {
  int axis;
  std::int64_t size, stride = 1, dilation = 1, padding = 0;
};
/// All windows that lie in x: its axes with the number of windows for extents, then one of the
/// window's size for each of `per_axis`. Nothing is copied; to pool, reduce the last axes. Errors
/// (errc::usage): an axis that x has not or twice; a size, stride or dilation below 1; a window
/// longer than its axis (with its padding); a padding, as no view has it (see reduce_windows); more
/// than 2^60 windows along an axis; more than max_axes axes.
view windows(const view& x, std::span<const window> per_axis);
inline view windows(const view& x, std::initializer_list<window> per_axis) {
  return windows(x, std::span(per_axis.begin(), per_axis.size()));
}
/// The extents of the result of reducing x by windows, padded or not: those of x, with the number
/// of windows along their axes. Errors: as above, but for a padding: one below 0, or with which a
/// window would lie before x or behind it; more than 2^60 windows in all.
std::vector<std::int64_t> windows_extents(const view& x, std::span<const window> per_axis);
inline std::vector<std::int64_t> windows_extents(const view& x,
                                                 std::initializer_list<window> per_axis) {
  return windows_extents(x, std::span(per_axis.begin(), per_axis.size()));
}

/// Every axis of x, in order: what to reduce for one result of a whole array.
std::vector<int> all_axes(const view& x);

/// The extents of the result of reducing x, or x and y (null where there is one), along `axes`;
/// with 1 in place of each of these where they are kept. Errors: as cpu::reduce's.
std::vector<std::int64_t> result_extents(const view& x, const view* y, std::span<const int> axes,
                                         bool keepdims = false);
inline std::vector<std::int64_t> result_extents(const view& x, const view* y,
                                                std::initializer_list<int> axes,
                                                bool keepdims = false) {
  return result_extents(x, y, std::span(axes.begin(), axes.size()), keepdims);
}

namespace detail {

/// One or two inputs of one shape (y is null where there is one), as outputs and their elements.
/// Neighbouring axes whose strides fit together are joined into one, so that kernels meet few, long
/// axes.
struct layout {
  dtype type;
  const std::byte *x, *y;
  axes kept, reduced;
  std::uint64_t outputs, n;  ///< of elements each

  /// Whether the elements of an output lie one behind the other.
  bool contiguous() const {
    return reduced.rank == 0 ||
           (reduced.rank == 1 && reduced.dims[0].x == 1 && (!y || reduced.dims[0].y == 1));
  }
};
/// Errors (errc::usage, naming the argument): a rank, an extent or an axis that is not allowed; an
/// axis twice; two inputs that do not broadcast to one shape or differ in type; null data of
/// elements; more than 2^60 of these.
layout layout_of(const view& x, const view* y, std::span<const int> reduced);

/// Windows with equally many elements. Padding cuts windows off at the edges, and each way to be
/// cut off is a box of its own.
struct window_box {
  view x;               ///< as windows() has it, the windows in the order of their axes
  std::uint64_t first;  ///< the place of its first result among all,
  axes results;         ///< and of each from there on (of x)
};
struct window_boxes {
  std::vector<int> reduced;  ///< axes of each view
  std::vector<window_box> boxes;
};
/// Errors: as windows_extents'; windows that are cut off in more than 2^16 ways.
window_boxes boxes_of(const view& x, std::span<const window> per_axis);

}  // namespace detail
}  // namespace bitfold
