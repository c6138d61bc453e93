// Arrays of several axes whose element type is known when the program is compiled, and what
// bitfold::reduce (reduce.hpp) makes of them: the typed face of view.hpp.
//
//   const auto x = row_major(pixels, {8, 3, 32, 32});  // of a std::vector<float>
//   const auto [mean, top] = reduce(x, axes{0, 2, 3}, ops::mean, ops::max);
//   reduce(x, axes{1}, into(sums), ops::sum);  // to where you have room
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <bitfold/source.hpp>
#include <bitfold/view.hpp>

namespace bitfold {

// ---- Views of a known type ----------------------------------------------------------------------

/// A view of elements T. It goes wherever a view does. It is copied freely and owns nothing.
template <class T>
struct view_of : view {
  using value_type = T;
  /// A view whose type is known to be T. Errors (errc::usage): a view of another type.
  explicit view_of(const view& x) : view(x) {
    if (x.type != dtype_of<T>)
      throw error(errc::usage, "x: of type " + std::string(name(x.type)) + ", not " +
                                   std::string(name(dtype_of<T>)));
  }
};

/// A view of n elements as C lays out an array of these extents, the last axis moving fastest. The
/// elements are not copied, and stay where they are while the view is used; a range that is a
/// temporary is refused when the program is compiled.
/// data, x: a pointer to elements, or a contiguous range of them.
/// extents: one for each axis, from 0 on; of a range their product is its number of elements.
/// Errors (errc::usage): more than max_axes extents; of a range also a negative extent, and another
/// number of elements than the extents have. (Of a pointer a reduction looks at the extents.)
template <class T>
view_of<T> row_major(const T* data, std::span<const std::int64_t> extents) {
  return view_of<T>(row_major(dtype_of<T>, data, extents));
}
template <class T>
view_of<T> row_major(const T* data, std::initializer_list<std::int64_t> extents) {
  return row_major(data, std::span(extents.begin(), extents.size()));
}
template <element_range R>
auto row_major(R&& x, std::span<const std::int64_t> extents) {
  detail::refuse_temporaries<R>();
  const element_of<R>* const data = std::ranges::data(x);
  const auto v = row_major(data, extents);
  std::size_t n = 1;
  for (const std::int64_t e : extents)
    if (e < 0 || __builtin_mul_overflow(n, static_cast<std::size_t>(e), &n))
      throw error(errc::usage,
                  "extents: " + std::to_string(e) + " is negative, or the array too large");
  if (n != std::ranges::size(x))
    throw error(errc::usage, "extents: of " + std::to_string(n) + " elements, where x has " +
                                 std::to_string(std::ranges::size(x)));
  return v;
}
template <element_range R>
auto row_major(R&& x, std::initializer_list<std::int64_t> extents) {
  return row_major(std::forward<R>(x), std::span(extents.begin(), extents.size()));
}

// The functions of view.hpp, which keep the type.

/// The same elements with axis order[k] in place k: as permuted of a view, of a known type.
template <class T>
view_of<T> permuted(const view_of<T>& x, std::span<const int> order) {
  return view_of<T>(permuted(static_cast<const view&>(x), order));
}
template <class T>
view_of<T> permuted(const view_of<T>& x, std::initializer_list<int> order) {
  return permuted(x, std::span(order.begin(), order.size()));
}
/// Elements begin, begin + step, ... of an axis: as sliced of a view, of a known type.
template <class T>
view_of<T> sliced(const view_of<T>& x, int axis, std::int64_t begin, std::int64_t count,
                  std::int64_t step = 1) {
  return view_of<T>(sliced(static_cast<const view&>(x), axis, begin, count, step));
}
/// All windows that lie in x: as windows of a view, of a known type.
template <class T>
view_of<T> windows(const view_of<T>& x, std::span<const window> per_axis) {
  return view_of<T>(windows(static_cast<const view&>(x), per_axis));
}
template <class T>
view_of<T> windows(const view_of<T>& x, std::initializer_list<window> per_axis) {
  return windows(x, std::span(per_axis.begin(), per_axis.size()));
}

/// std::mdspan, and what is like it (Kokkos's, for compilers without one), with elements where its
/// pointer and strides say.
template <class M>
concept strided_mdspan = requires(const M& m) {
  typename M::element_type;
  { m.data_handle() } -> std::convertible_to<const typename M::element_type*>;
  { M::rank() } -> std::convertible_to<std::size_t>;
  { m.is_strided() } -> std::convertible_to<bool>;
  m.extent(0);
  m.stride(0);
};
/// The view of an mdspan's elements, which are not copied; of a view itself. Errors (errc::usage):
/// an mdspan whose layout has no strides. More than max_axes axes are an error of the compiler's.
template <strided_mdspan M>
auto as_view(const M& m) {
  using T = std::remove_cv_t<typename M::element_type>;
  static_assert(M::rank() <= static_cast<std::size_t>(max_axes),
                "bitfold: an array has at most 8 axes");
  if (!m.is_strided()) throw error(errc::usage, "x: an mdspan whose layout has no strides");
  view v{dtype_of<T>, m.data_handle(), static_cast<int>(M::rank())};
  for (std::size_t k = 0; k < M::rank(); ++k) {
    v.extent[k] = static_cast<std::int64_t>(m.extent(k));
    v.stride[k] = static_cast<std::int64_t>(m.stride(k));
  }
  return view_of<T>(v);
}
template <class T>
view_of<T> as_view(const view_of<T>& x) {
  return x;
}
/// What reduce takes for an array of several axes: a view of a known type, or an mdspan.
template <class X>
concept viewable = requires(const X& x) { as_view(x); };

/// Two arrays for operations of two inputs, which broadcast as in NumPy.
template <class T>
struct view_pair {
  view_of<T> x, y;
};
/// Two views or mdspans as one input for operations of two inputs, such as ops::dot: a view_pair.
/// They have one element type, or the compiler says so. Whether their extents broadcast is looked
/// at by the reduction (errc::usage).
template <viewable X, viewable Y>
auto pairs(const X& x, const Y& y) {
  const auto a = as_view(x);
  const auto b = as_view(y);
  constexpr bool same = std::is_same_v<decltype(a), decltype(b)>;
  static_assert(same, "bitfold: pairs takes two arrays of one element type");
  if constexpr (same)
    return view_pair<typename decltype(a)::value_type>{a, b};
  else
    return view_pair<typename decltype(a)::value_type>{a, a};
}

// ---- What an output is of -----------------------------------------------------------------------

/// Along these axes, counted from 0, of a view, an mdspan or pairs of them: an output for each
/// position along the others. Errors, of the reduction (errc::usage): an axis that the array has
/// not, or one twice.
class axes {
 public:
  /// In any order, which shows in no bit. None: each element is an output.
  axes(std::initializer_list<int> which) : which_(which) {}
  explicit axes(std::span<const int> which) : which_(which.begin(), which.end()) {}
  /// The same, which stay in the result with an extent of 1.
  axes kept() const {
    axes a = *this;
    a.keep_ = true;
    return a;
  }
  /// The axes, as they were given.
  std::span<const int> which() const { return which_; }
  /// Whether they stay in the result.
  bool keep() const { return keep_; }

 private:
  std::vector<int> which_;
  bool keep_ = false;
};
/// Of a range or pairs of them: output k is of elements offsets[k] to offsets[k + 1] - 1. There is
/// one offset more than there are outputs. Errors, of the reduction (errc::usage): no offsets;
/// offsets that fall or leave the array.
struct by_segment {
  std::span<const std::int64_t> offsets;
};
/// Of a range or pairs of them: output k < outputs is of the elements whose key is k, in the order
/// in which they lie. There is a key for each element. Errors, of the reduction (errc::usage):
/// another number of keys; a key that is negative or not below `outputs`.
struct by_key {
  std::span<const std::int64_t> keys;
  std::size_t outputs;
};
/// Of a view or an mdspan: an output for each sliding window. Errors, of the reduction: those of
/// windows_extents, and windows that are cut off in more than 2^16 ways (errc::usage).
struct by_window {
  std::vector<window> per_axis;
  /// A window for each axis along which it slides.
  by_window(std::initializer_list<window> list) : per_axis(list) {}
};

// ---- Results ------------------------------------------------------------------------------------

/// An array of results, in row-major order: a contiguous range with extents. What reduce returns
/// where there are several outputs.
template <class T>
class result_array {
 public:
  using value_type = T;
  /// Of as many elements as these extents have, all of them 0.
  explicit result_array(std::vector<std::int64_t> extents) : extents_(std::move(extents)) {
    std::size_t n = 1;
    for (const std::int64_t e : extents_) n *= static_cast<std::size_t>(e);
    values_.resize(n);
  }
  /// One for each axis of the result.
  std::span<const std::int64_t> extents() const { return extents_; }
  /// How many results there are: the product of the extents.
  std::size_t size() const { return values_.size(); }
  /// The first result; the others lie behind it.
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  /// The results in row-major order, from begin() to end().
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  /// Result i in row-major order, which is not looked at: i < size().
  T& operator[](std::size_t i) { return values_[i]; }
  const T& operator[](std::size_t i) const { return values_[i]; }
  /// By an index for each axis. Errors (errc::usage): another number of indices than of axes; an
  /// index that is negative, or not below its extent.
  template <std::integral... I>
  const T& operator()(I... indices) const {
    if (sizeof...(I) != extents_.size())
      throw error(errc::usage, "index: of " + std::to_string(sizeof...(I)) +
                                   " axes, where there are " + std::to_string(extents_.size()));
    std::size_t i = 0, axis = 0;
    const auto step = [&](std::int64_t index) {
      const std::int64_t extent = extents_[axis++];
      if (index < 0 || index >= extent)
        throw error(errc::usage, "index: " + std::to_string(index) + " along axis " +
                                     std::to_string(axis - 1) + " of extent " +
                                     std::to_string(extent));
      i = i * static_cast<std::size_t>(extent) + static_cast<std::size_t>(index);
    };
    (step(static_cast<std::int64_t>(indices)), ...);
    return values_[i];
  }
  /// The results as an array, to be reduced further; good while this lives.
  view_of<T> view() const { return row_major(data(), extents_); }

 private:
  std::vector<std::int64_t> extents_;
  std::vector<T> values_;
};

/// Where results go instead: contiguous ranges, one for each operation, of its result's type and of
/// as many elements as there are results (errc::usage). They overlap neither each other nor the
/// elements. Memory: none is taken for results then.
template <class... R>
struct into {
  std::tuple<std::span<R>...> ranges;
  /// Ranges that can be written, in the order of the operations; no temporaries.
  template <class... Range>
    requires(std::is_constructible_v<std::span<R>, Range&> && ...)
  explicit into(Range&&... range) : ranges(std::span<R>(range)...) {
    detail::refuse_temporaries<Range...>();
  }
};
template <class... Range>
into(Range&&...) -> into<std::remove_reference_t<std::ranges::range_reference_t<Range>>...>;

}  // namespace bitfold
