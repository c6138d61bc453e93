#include <bitfold/view.hpp>

#include <algorithm>
#include <string>

#include "batch.hpp"

namespace bitfold {
namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& what) {
  throw error(errc::usage, argument + ": " + what);
}

void check(const view& v, const char* name) {
  if (static_cast<std::size_t>(v.type) >= all_dtypes.size())
    refuse(std::string(name) + ".type",
           std::to_string(static_cast<int>(v.type)) + " is none of bitfold's");
  if (v.rank < 0 || v.rank > max_axes)
    refuse(std::string(name) + ".rank",
           std::to_string(v.rank) + " is not from 0 to " + std::to_string(max_axes));
  for (int k = 0; k < v.rank; ++k)
    if (v.extent[k] < 0)
      refuse(std::string(name) + ".extent[" + std::to_string(k) + "]",
             std::to_string(v.extent[k]) + " is negative");
}

void check_axis(int axis, int rank) {
  if (axis < 0 || axis >= rank)
    refuse("axis", std::to_string(axis) + " of an array of " + std::to_string(rank) + " axes");
}

// Which axes are reduced.
std::array<bool, max_axes> marked(std::span<const int> axes, int rank) {
  std::array<bool, max_axes> reduced{};
  for (const int axis : axes) {
    check_axis(axis, rank);
    if (reduced[static_cast<std::size_t>(axis)])
      refuse("axis", std::to_string(axis) + " is given twice");
    reduced[static_cast<std::size_t>(axis)] = true;
  }
  return reduced;
}

// The extents to which both broadcast, as in NumPy: counted from the last axis, 1 or missing goes
// with any.
view common_shape(const view& x, const view* y) {
  check(x, "x");
  if (!y) return x;
  check(*y, "y");
  view both{x.type, nullptr, std::max(x.rank, y->rank), {}, {}};
  for (int k = 1; k <= both.rank; ++k) {
    const auto extent = [&](const view& v) { return k <= v.rank ? v.extent[v.rank - k] : 1; };
    if (extent(x) != extent(*y) && extent(x) != 1 && extent(*y) != 1)
      refuse("y", "extents " + std::to_string(extent(x)) + " and " + std::to_string(extent(*y)) +
                      " do not broadcast");
    both.extent[both.rank - k] = extent(x) == 1 ? extent(*y) : extent(x);
  }
  return both;
}

// The stride of v along axis k of `rank`, to which it is broadcast.
std::int64_t stride_along(const view& v, int k, int rank) {
  const int own = k - (rank - v.rank);
  return own < 0 || v.extent[own] == 1 ? 0 : v.stride[own];
}

// Adds an inner axis.
void append(detail::axes& outer, detail::axes::axis a) {
  if (a.extent == 1) return;
  if (outer.rank > 0) {
    auto& last = outer.dims[outer.rank - 1];
    const auto extent = static_cast<__int128>(a.extent);
    if (last.x == a.x * extent && last.y == a.y * extent) {
      last = {last.extent * a.extent, a.x, a.y};
      return;
    }
  }
  outer.dims[outer.rank++] = a;
}

}  // namespace

view row_major(dtype type, const void* data, std::span<const std::int64_t> extents) {
  if (extents.size() > max_axes) refuse("extents", std::to_string(extents.size()) + " of them");
  view v{type, data, static_cast<int>(extents.size()), {}, {}};
  std::copy(extents.begin(), extents.end(), v.extent.begin());
  std::uint64_t stride =
      1;  // it wraps where there are more elements than any reduction takes, or none
  for (int k = v.rank - 1; k >= 0; --k) {
    v.stride[k] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(v.extent[k]);
  }
  return v;
}

view permuted(const view& x, std::span<const int> order) {
  check(x, "x");
  if (static_cast<int>(order.size()) != x.rank)
    refuse("order", std::to_string(order.size()) + " axes of " + std::to_string(x.rank));
  (void)marked(order, x.rank);
  view v{x.type, x.data, x.rank, {}, {}};
  for (int k = 0; k < x.rank; ++k) {
    v.extent[k] = x.extent[order[static_cast<std::size_t>(k)]];
    v.stride[k] = x.stride[order[static_cast<std::size_t>(k)]];
  }
  return v;
}

view sliced(const view& x, int axis, std::int64_t begin, std::int64_t count, std::int64_t step) {
  check(x, "x");
  check_axis(axis, x.rank);
  const auto last = static_cast<__int128>(begin) + static_cast<__int128>(count - 1) * step;
  if (count < 0) refuse("count", std::to_string(count) + " is negative");
  if (count > 0 && (begin < 0 || begin >= x.extent[axis] || last < 0 || last >= x.extent[axis]))
    refuse("begin",
           "elements from " + std::to_string(begin) + " on of " + std::to_string(x.extent[axis]));
  view v = x;
  if (count > 0)
    v.data = static_cast<const std::byte*>(x.data) +
             begin * x.stride[axis] * static_cast<std::int64_t>(size_of(x.type));
  v.extent[axis] = count;
  v.stride[axis] *= step;
  return v;
}

namespace {

// Neighbouring windows of an axis that have the same elements of the window, from `from` to `to`
// - 1.
struct window_range {
  std::int64_t first, count, begin, end;
};

void check_windows(const view& x, std::span<const window> per_axis) {
  check(x, "x");
  std::vector<int> along;
  for (const window& w : per_axis) along.push_back(w.axis);
  (void)marked(along, x.rank);
  if (x.rank + static_cast<int>(per_axis.size()) > max_axes)
    refuse("windows", "more than " + std::to_string(max_axes) + " axes");
  for (const window& w : per_axis) {
    for (const auto& [name, value] :
         {std::pair{"size", w.size}, {"stride", w.stride}, {"dilation", w.dilation}})
      if (value < 1) refuse(std::string("window.") + name, std::to_string(value) + " is below 1");
    if (w.padding < 0) refuse("window.padding", std::to_string(w.padding) + " is negative");
    if (w.padding > static_cast<__int128>(w.size - 1) * w.dilation)
      refuse("window.padding", "a window that begins " + std::to_string(w.padding) +
                                   " elements before the array ends there, too");
  }
}

constexpr std::int64_t max_windows = std::int64_t{1} << 60, max_cut_off = 1 << 16;

std::int64_t count_of(const window& w, std::int64_t extent) {
  const auto span = static_cast<__int128>(w.size - 1) * w.dilation + 1,
             whole = static_cast<__int128>(extent) + 2 * static_cast<__int128>(w.padding);
  if (span > whole) {
    const auto text = [](std::int64_t n) { return std::to_string(n); };
    const std::string apart = w.dilation > 1 ? ", " + text(w.dilation) + " apart," : "",
                      padded = w.padding > 0
                                   ? " and " + text(w.padding) + " of padding on either side"
                                   : "";
    refuse("window.size", "a window of " + text(w.size) + " elements" + apart +
                              " is longer than axis " + text(w.axis) + ", which has " +
                              text(extent) + padded);
  }
  const __int128 count = (whole - span) / w.stride + 1;
  if (count > max_windows)
    refuse("window", "more than 2^60 of them along axis " + std::to_string(w.axis));
  return static_cast<std::int64_t>(count);
}

[[noreturn]] void refuse_cut_off() {
  refuse("window.padding",
         "with it windows are cut off in more than " + std::to_string(max_cut_off) + " ways");
}

std::vector<window_range> ranges_of(const window& w, std::int64_t extent) {
  const std::int64_t count = count_of(w, extent);
  const auto up = [](__int128 a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : __int128{0}; };
  std::vector<window_range> ranges;
  int ways = 0;
  for (std::int64_t k = 0; k < count;) {
    if (++ways > max_cut_off) refuse_cut_off();
    const __int128 begin = static_cast<__int128>(k) * w.stride - w.padding, end = extent - begin;
    const __int128 before = up(-begin, w.dilation),
                   to = std::min<__int128>(up(end, w.dilation), w.size),
                   from = std::min(before, to);
    // The first window of which fewer elements lie before what is `ahead` of the first one's begin.
    const auto fewer = [&](__int128 than, __int128 ahead) {
      return than == 0 ? count
                       : static_cast<std::int64_t>(std::min<__int128>(
                             up(ahead - (than - 1) * w.dilation, w.stride), count));
    };
    const std::int64_t next =
        std::min(fewer(before, w.padding), fewer(to, static_cast<__int128>(extent) + w.padding));
    const window_range range{k, next - k, from == to ? 0 : static_cast<std::int64_t>(from),
                             from == to ? 0 : static_cast<std::int64_t>(to)};
    if (!ranges.empty() && ranges.back().begin == range.begin && ranges.back().end == range.end)
      ranges.back().count += range.count;
    else
      ranges.push_back(range);
    k = next;
  }
  return ranges;
}

// Of each window the elements of one of its runs. (Products of strides that nothing is reached by
// may be too large.)
view view_of(const view& x, std::span<const window> per_axis,
             std::span<const window_range> ranges) {
  view v = x;
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < per_axis.size(); ++k) {
    const window& w = per_axis[k];
    const window_range& r = ranges[k];
    if (r.count > 0 && r.begin < r.end)
      begin += static_cast<std::int64_t>(static_cast<__int128>(r.first) * w.stride - w.padding +
                                         static_cast<__int128>(r.begin) * w.dilation) *
               x.stride[w.axis];
    v.extent[v.rank] = r.end - r.begin;
    v.stride[v.rank++] = r.end - r.begin > 1 && r.count > 0 ? x.stride[w.axis] * w.dilation : 0;
    v.extent[w.axis] = r.count;
    v.stride[w.axis] = r.count > 1 && r.begin < r.end ? x.stride[w.axis] * w.stride : 0;
  }
  if (x.data && begin != 0)
    v.data =
        static_cast<const std::byte*>(x.data) + begin * static_cast<std::int64_t>(size_of(x.type));
  return v;
}

}  // namespace

view windows(const view& x, std::span<const window> per_axis) {
  check_windows(x, per_axis);
  std::vector<window_range> whole;
  for (const window& w : per_axis) {
    if (w.padding > 0)
      refuse("window.padding",
             std::to_string(w.padding) + ", and no view is padded; reduce_windows takes it");
    whole.push_back(ranges_of(w, x.extent[w.axis])[0]);
  }
  return view_of(x, per_axis, whole);
}

std::vector<std::int64_t> windows_extents(const view& x, std::span<const window> per_axis) {
  check_windows(x, per_axis);
  std::vector<std::int64_t> extents(x.extent.begin(), x.extent.begin() + x.rank);
  for (const window& w : per_axis)
    extents[static_cast<std::size_t>(w.axis)] = count_of(w, x.extent[w.axis]);
  __int128 outputs = 1;
  for (const std::int64_t extent : extents)
    outputs = std::min<__int128>(outputs * extent, __int128{max_windows} + 1);
  if (outputs > max_windows && std::count(extents.begin(), extents.end(), 0) == 0)
    refuse("x", "more than 2^60 windows");
  return extents;
}

detail::window_boxes detail::boxes_of(const view& x, std::span<const window> in_any_order) {
  const view results = row_major(x.type, nullptr, windows_extents(x, in_any_order));
  std::vector<window> per_axis(
      in_any_order.begin(),
      in_any_order.end());  // the elements of a window come in the array's order
  std::sort(per_axis.begin(), per_axis.end(),
            [](const window& a, const window& b) { return a.axis < b.axis; });
  const auto extents = std::span(results.extent).first(static_cast<std::size_t>(results.rank));
  const bool none = std::count(extents.begin(), extents.end(), 0) > 0;
  __int128 ways = 1;
  window_boxes boxes;
  std::vector<std::vector<window_range>> ranges;
  for (std::size_t k = 0; k < per_axis.size(); ++k) {
    boxes.reduced.push_back(x.rank + static_cast<int>(k));
    ranges.push_back(none ? std::vector{window_range{
                                0, extents[static_cast<std::size_t>(per_axis[k].axis)], 0, 0}}
                          : ranges_of(per_axis[k], x.extent[per_axis[k].axis]));
    ways *= static_cast<__int128>(ranges.back().size());
    if (ways > max_cut_off) refuse_cut_off();
  }
  std::vector<std::size_t> digit(per_axis.size());
  for (bool more = true; more;) {
    std::vector<window_range> chosen;
    window_box box{{}, 0, {}};
    for (std::size_t k = 0; k < per_axis.size(); ++k) {
      chosen.push_back(ranges[k][digit[k]]);
      box.first += static_cast<std::uint64_t>(chosen[k].first * results.stride[per_axis[k].axis]);
    }
    box.x = view_of(x, per_axis, chosen);
    for (int a = 0; a < x.rank; ++a)
      append(box.results, {static_cast<std::uint64_t>(box.x.extent[a]), results.stride[a], 0});
    boxes.boxes.push_back(box);
    more = false;
    for (std::size_t k = per_axis.size(); k-- > 0 && !more;) {
      more = ++digit[k] < ranges[k].size();
      if (!more) digit[k] = 0;
    }
  }
  return boxes;
}

std::vector<int> all_axes(const view& x) {
  std::vector<int> all;
  for (int k = 0; k < x.rank; ++k) all.push_back(k);
  return all;
}

std::vector<std::int64_t> result_extents(const view& x, const view* y, std::span<const int> axes,
                                         bool keepdims) {
  const view both = common_shape(x, y);
  const auto is_reduced = marked(axes, both.rank);
  std::vector<std::int64_t> extents;
  for (int k = 0; k < both.rank; ++k) {
    if (!is_reduced[static_cast<std::size_t>(k)])
      extents.push_back(both.extent[k]);
    else if (keepdims)
      extents.push_back(1);
  }
  return extents;
}

detail::layout detail::layout_of(const view& x, const view* y, std::span<const int> reduced) {
  const view both = common_shape(x, y);
  if (y && x.type != y->type)
    refuse("y", std::string(name(y->type)) + ", and x is " + std::string(name(x.type)));
  const auto is_reduced = marked(reduced, both.rank);
  layout l{x.type,
           static_cast<const std::byte*>(x.data),
           y ? static_cast<const std::byte*>(y->data) : nullptr,
           {},
           {},
           1,
           1};
  constexpr __int128 most = __int128{1} << 60;
  __int128 outputs = 1, n = 1;
  for (int k = 0; k < both.rank; ++k) {
    const bool is_one = is_reduced[static_cast<std::size_t>(k)];
    __int128& count = is_one ? n : outputs;
    count = std::min(count * both.extent[k], most + 1);
    append(is_one ? l.reduced : l.kept,
           {static_cast<std::uint64_t>(both.extent[k]), stride_along(x, k, both.rank),
            y ? stride_along(*y, k, both.rank) : 0});
  }
  if (outputs > most || n > most || outputs * n > most) refuse("x", "more than 2^60 elements");
  l.outputs = static_cast<std::uint64_t>(outputs);
  l.n = static_cast<std::uint64_t>(n);
  if (outputs * n > 0 && !x.data) refuse("x.data", "null");
  if (outputs * n > 0 && y && !y->data) refuse("y.data", "null");
  return l;
}

detail::layout detail::in_memory_order(const layout& l) {
  layout sorted = l;
  axes a = l.reduced;
  const auto size = static_cast<std::int64_t>(size_of(l.type));
  for (int k = 0; k < a.rank; ++k) {
    axes::axis& one = a.dims[k];
    if (one.x >= 0 || one.extent == 0) continue;  // forwards
    const auto last = static_cast<std::int64_t>(one.extent) - 1;
    sorted.x += last * one.x * size;
    if (l.y) sorted.y += last * one.y * size;
    one.x = -one.x;
    one.y = -one.y;
  }
  std::stable_sort(a.dims, a.dims + a.rank, [](const axes::axis& left, const axes::axis& right) {
    return left.x > right.x;
  });
  sorted.reduced.rank = 0;
  for (int k = 0; k < a.rank; ++k) append(sorted.reduced, a.dims[k]);
  return sorted;
}

}  // namespace bitfold
