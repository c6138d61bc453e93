// Where elements come from: what bitfold::reduce (reduce.hpp, cuda/reduce.cuh) takes as its input.
// A source is a value that is copied to wherever the fold runs; the arrays stay where they are, and
// must live that long.
#pragma once

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <bitfold/error.hpp>
#include <bitfold/fold.hpp>
#include <bitfold/formats.hpp>

namespace bitfold {

namespace detail {

/// Whether T is an element type of bitfold's own operations.
template <class T>
inline constexpr bool is_element =
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float> ||
    std::is_same_v<T, double> ||
    (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8);

template <class... T>
struct arrays {
  template <class F, class... X>
  BITFOLD_HD auto call(const F& f, order::index, const X&... x) const {
    return f(x...);
  }
  bool readable() const { return true; }
};
template <class T>
bool is_readable(const T* p) {
  return p && reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0;
}
template <class T, class... Rest>
struct arrays<T, Rest...> {
  const T* p;
  arrays<Rest...> rest;
#ifdef __CUDACC__
#pragma nv_exec_check_disable  // f may be for the host alone, where this is called on the host
#endif
  template <class F, class... X>
  BITFOLD_HD auto call(const F& f, order::index i, const X&... x) const {
    return rest.call(f, i, x..., as_number(p[i]));
  }
  bool readable() const { return is_readable(p) && rest.readable(); }
};

}  // namespace detail

/// One array of n elements T.
template <class T>
struct array_source {
  using stored = T;
  const T* x;
  std::size_t n;
  static constexpr std::size_t element_bytes = sizeof(T);
  BITFOLD_HD auto operator()(order::index i) const { return detail::as_number(x[i]); }
  /// Not null, and aligned to its elements.
  bool readable() const { return detail::is_readable(x); }
};

/// Two arrays of n elements T each, for operations that take two inputs.
template <class T>
struct pair_source {
  using stored = T;
  const T *x, *y;
  std::size_t n;
  static constexpr std::size_t element_bytes = 2 * sizeof(T);
  BITFOLD_HD auto operator()(order::index i) const {
    const auto a = detail::as_number(x[i]);
    return fold::pair_of<std::remove_const_t<decltype(a)>>{a, detail::as_number(y[i])};
  }
  bool readable() const { return detail::is_readable(x) && detail::is_readable(y); }
};

/// f(x[i], y[i], ...) for each i. A value that is no float, double or integer of up to 64 bits is
/// for operations of the caller's own only.
template <class F, class... T>
struct transform_source {
  F f;
  detail::arrays<T...> arrays;
  std::size_t n;
  static constexpr std::size_t element_bytes = (sizeof(T) + ...);
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
  BITFOLD_HD auto operator()(order::index i) const { return arrays.call(f, i); }
  bool readable() const { return arrays.readable(); }
};

/// An element with its index.
template <class V>
struct indexed_value {
  V value;
  std::uint64_t index;
};
/// The elements of another source with their indices.
template <class Source>
struct indexed_source {
  Source source;
  std::size_t n;
  static constexpr std::size_t element_bytes = Source::element_bytes;
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
  BITFOLD_HD auto operator()(order::index i) const {
    const auto x = source(i);
    return indexed_value<std::remove_const_t<decltype(x)>>{x, i};
  }
  bool readable() const { return source.readable(); }
};

/// The elements of another source, permuted so that the canonical tree, read from left to right,
/// has them in the array's order.
template <class Source>
struct in_order_source {
  Source source;
  std::size_t n;
  static constexpr std::size_t element_bytes = Source::element_bytes;
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
  BITFOLD_HD auto operator()(order::index i) const {
    const order::index leaf = i / order::leaf;
    const int size = order::leaf_size(n, leaf), position = static_cast<int>(i % order::leaf);
    const int lane = position % order::lanes, row = position / order::lanes;
    const int rows = size / order::lanes;
    const int longer = size % order::lanes;  // the first `longer` lanes have a row more
    return source(leaf * order::leaf +
                  static_cast<order::index>(lane * rows + (lane < longer ? lane : longer) + row));
  }
  bool readable() const { return source.readable(); }
};

/// An array as reduce takes it: a std::vector, a std::span, a std::array or another contiguous
/// range that knows its size.
template <class R>
concept element_range = std::ranges::contiguous_range<R> && std::ranges::sized_range<R>;
/// The type of its elements.
template <element_range R>
using element_of = std::remove_cv_t<std::ranges::range_value_t<R>>;

namespace detail {
/// R is what a forwarding reference deduces. A source keeps no copy of an array.
template <class... R>
constexpr void refuse_temporaries() {
  static_assert((std::ranges::borrowed_range<R> && ...),
                "bitfold: a source keeps no copy of an array: give a temporary a name");
}
template <class Range>
std::size_t common_size(std::size_t n, const Range& range) {
  if (std::ranges::size(range) != n)
    throw error(errc::usage, "inputs: one of " + std::to_string(n) + " elements, one of " +
                                 std::to_string(std::ranges::size(range)));
  return n;
}
inline arrays<> arrays_of() { return {}; }
template <class R, class... Rest>
auto arrays_of(const R& first, const Rest&... rest) {
  return arrays<element_of<R>, element_of<Rest>...>{std::ranges::data(first), arrays_of(rest...)};
}
template <class S>
concept source = requires(const S& s) {
  s(order::index{});
  s.n;
  S::element_bytes;
};
template <class S>
inline constexpr bool is_in_order = false;
template <class S>
inline constexpr bool is_in_order<in_order_source<S>> = true;
template <class Input>
concept input = element_range<Input> || source<Input>;
template <input Input>
auto source_of(const Input& in) {
  if constexpr (source<Input>)
    return in;
  else
    return array_source<element_of<Input>>{std::ranges::data(in), std::ranges::size(in)};
}
/// What a source yields.
template <class S>
using value_of = decltype(std::declval<const S&>()(0));
}  // namespace detail

/// Two arrays as one input, for operations of two inputs, such as ops::dot: element i is the pair
/// of x[i] and y[i]. Nothing is copied. x, y: contiguous ranges of one element type, or the
/// compiler says so; no temporaries. Errors (errc::usage): two lengths.
template <element_range X, element_range Y>
auto pairs(X&& x, Y&& y) {
  constexpr bool same = std::is_same_v<element_of<X>, element_of<Y>>;
  static_assert(same, "bitfold: pairs takes two arrays of one element type");
  detail::refuse_temporaries<X, Y>();
  const std::size_t n = detail::common_size(std::ranges::size(x), y);
  if constexpr (same)
    return pair_source<element_of<X>>{std::ranges::data(x), std::ranges::data(y), n};
  else
    return pair_source<element_of<X>>{};
}

/// f applied to one or more arrays of one length, element by element, as they are read: no array of
/// the results is made.
/// f: copied, called by several threads and more than once for an element, and gives the same each
/// time; for a GPU it is a function object of BITFOLD_HD (or a `__host__ __device__` lambda with
/// nvcc's `--extended-lambda`). 16-bit floats reach it as float. For bitfold's operations it gives
/// a float, a double or an integer; for your own whatever they take. x, more: contiguous ranges; no
/// temporaries. Errors (errc::usage): arrays of several lengths.
template <class F, element_range X, element_range... More>
auto transform(F f, X&& x, More&&... more) {
  detail::refuse_temporaries<X, More...>();
  const std::size_t n = std::ranges::size(x);
  (detail::common_size(n, more), ...);
  return transform_source<F, element_of<X>, element_of<More>...>{f, detail::arrays_of(x, more...),
                                                                 n};
}

/// The elements of a range, of pairs or of a transform with their indices, as indexed_value: for
/// operations of the caller's own that ask where an element lies.
template <class Input>
  requires detail::input<std::remove_cvref_t<Input>>
auto indexed(Input&& in) {
  if constexpr (!detail::source<std::remove_cvref_t<Input>>) detail::refuse_temporaries<Input>();
  const auto source = detail::source_of(in);
  using Source = std::remove_const_t<decltype(source)>;
  static_assert(!detail::is_in_order<Source>,
                "bitfold: it is in_order(indexed(x)), as places are those in x");
  return indexed_source<Source>{source, source.n};
}

/// The elements of a range, of pairs, of a transform or indexed, for operations of the caller's own
/// that do not commute: merge is then given neighbouring runs, a directly left of b. (Their bits
/// are those of the canonical order of the elements so rearranged.)
template <class Input>
  requires detail::input<std::remove_cvref_t<Input>>
auto in_order(Input&& in) {
  if constexpr (!detail::source<std::remove_cvref_t<Input>>) detail::refuse_temporaries<Input>();
  const auto source = detail::source_of(in);
  return in_order_source<std::remove_const_t<decltype(source)>>{source, source.n};
}

}  // namespace bitfold
