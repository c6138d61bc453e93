// The exact sum as a value: filled in pieces, in any order, by threads or machines, merged, saved,
// resumed and rounded once at the end.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <bitfold/error.hpp>
#include <bitfold/exact.hpp>

namespace bitfold {

namespace exact {

/// What tells one type of sum from another, and where its words lie.
struct layout {
  dtype type;
  int degree;
  int low;  ///< the exponent of bit 0
  int words;
};
template <class T, int Degree>
constexpr layout layout_of(const sum<T, Degree>&) {
  return {dtype_of<T>, Degree, sum<T, Degree>::low, sum<T, Degree>::words};
}

/// Adds n terms to `state`, a sum_of the element type and the term, with the fastest kernels of
/// this machine. y is null for a term of one input. Any alignment; any floating-point environment.
void deposit(term what, dtype type, const void* x, const void* y, std::size_t n, void* state);

std::vector<std::byte> to_bytes(const layout& of, kind k, std::span<const word> words);
/// Errors (errc::bad_input, naming the field): see accumulator::from_bytes.
kind from_bytes(const layout& of, std::span<const std::byte> bytes, std::span<word> words);

}  // namespace exact

/// The exact sum of up to 2^60 elements (Degree 1) or products of two elements (Degree 2) of type
/// T, one of float16, bfloat16, float, double and the 8- to 64-bit integers. Its value depends on
/// what was added and on nothing else. NaN, and infinities of both signs, make it NaN; -0s only
/// make -0; nothing makes +0. Arithmetic on one never throws; two threads must not change the same
/// one.
template <class T, int Degree = 1>
class accumulator {
 public:
  using state = exact::sum<T, Degree>;  ///< what the engines add to

  // ---- Adding. Each of these gives the accumulator itself.

  /// Adds an element. Cost: some operations on integers; a span is faster, as it is read in
  /// vectors.
  accumulator& add(T x)
    requires(Degree == 1)
  {
    exact::deposit<exact::term::element>(state_, x);
    return *this;
  }
  /// Adds each element of a span, of any length and alignment.
  accumulator& add(std::span<const T> x)
    requires(Degree == 1)
  {
    return deposit(exact::term::element, x);
  }
  /// Adds |x[i]| for each i.
  accumulator& add_magnitudes(std::span<const T> x)
    requires(Degree == 1)
  {
    return deposit(exact::term::magnitude, x);
  }
  /// Adds x y, which is not rounded.
  accumulator& add_product(T x, T y)
    requires(Degree == 2)
  {
    exact::deposit<exact::term::product>(state_, x, y);
    return *this;
  }
  /// Adds x x, which is not rounded.
  accumulator& add_square(T x)
    requires(Degree == 2)
  {
    exact::deposit<exact::term::square>(state_, x);
    return *this;
  }
  /// Adds x[i] y[i] for each i. Errors (errc::usage): spans of two lengths.
  accumulator& add_products(std::span<const T> x, std::span<const T> y)
    requires(Degree == 2)
  {
    return deposit(exact::term::product, x, y);
  }
  /// Adds x[i] x[i] for each i.
  accumulator& add_squares(std::span<const T> x)
    requires(Degree == 2)
  {
    return deposit(exact::term::square, x);
  }
  /// Adds (x[i] - y[i])^2 for each i, of which nothing is rounded. Errors (errc::usage): spans of
  /// two lengths.
  accumulator& add_squared_differences(std::span<const T> x, std::span<const T> y)
    requires(Degree == 2)
  {
    return deposit(exact::term::squared_difference, x, y);
  }

  /// Takes away what was added, or what never was. A zero that this leaves is +0.
  accumulator& subtract(T x)
    requires(Degree == 1)
  {
    return subtract(accumulator().add(x));
  }
  accumulator& subtract(std::span<const T> x)
    requires(Degree == 1)
  {
    return subtract(accumulator().add(x));
  }
  accumulator& subtract(const accumulator& o) {
    state_.subtract(o.state_);
    return *this;
  }
  /// Adds the sum of another one: in any order, the value is the same.
  accumulator& merge(const accumulator& o) {
    state_.merge(o.state_);
    return *this;
  }

  // ---- The value, rounded once.

  /// The value, rounded once: to nearest even, with subnormals and infinities, NaN the canonical
  /// one.
  /// Out: any float type; of integers also any integer type, modulo 2^bits.
  template <class Out = T>
  Out round() const {
    return exact::round<Out>(state_);
  }
  /// Whether round<Out>() is the value itself. Integers only.
  template <class Out>
  bool fits() const {
    return exact::fits<Out>(state_);
  }
  /// The value over n, rounded once: of n elements their mean. NaN for n = 0.
  template <class Out = T>
  Out round_quotient(std::uint64_t n) const {
    return exact::round_quotient<Out>(state_, n);
  }
  /// The square root, rounded once: of squares their norm. NaN for a negative value.
  template <class Out = T>
  Out round_root() const {
    return exact::round_root<Out>(state_);
  }

  /// Finite, and 0 or -0.
  bool is_zero() const { return state_.is_zero(); }
  /// By value: -0 equals +0, and nothing compares with NaN.
  friend bool operator==(const accumulator& a, const accumulator& b) {
    return a.state_ == b.state_;
  }
  /// By value: unordered where one is NaN.
  friend std::partial_ordering operator<=>(const accumulator& a, const accumulator& b) {
    return a.state_ <=> b.state_;
  }

  // ---- As bytes.

  /// The sum, to be stored or sent: equal sums have equal bytes (but nothing, +0 and -0 differ).
  /// docs/exact.md has the format.
  std::vector<std::byte> to_bytes() const {
    return exact::to_bytes(exact::layout_of(state_), state_.kind(), state_.w);
  }
  /// The sum that these bytes are. Errors (errc::bad_input, naming the field): bytes that
  /// to_bytes() of this type does not write.
  static accumulator from_bytes(std::span<const std::byte> bytes) {
    accumulator a;
    switch (exact::from_bytes(exact::layout_of(a.state_), bytes, a.state_.w)) {
      case exact::kind::empty: break;
      case exact::kind::minus_zero: a.state_.flags = exact::a_minus_zero; break;
      case exact::kind::finite: a.state_.flags = exact::something_else; break;
      case exact::kind::plus_infinity: a.state_.flags = exact::plus_infinity; break;
      case exact::kind::minus_infinity: a.state_.flags = exact::minus_infinity; break;
      case exact::kind::nan: a.state_.flags = exact::a_nan; break;
    }
    return a;
  }

  /// What the engines add to: no part of it is for users.
  const state& value() const { return state_; }
  state& value() { return state_; }

 private:
  accumulator& deposit(exact::term what, std::span<const T> x) {
    exact::deposit(what, dtype_of<T>, x.data(), nullptr, x.size(), &state_);
    return *this;
  }
  accumulator& deposit(exact::term what, std::span<const T> x, std::span<const T> y) {
    if (x.size() != y.size()) throw error(errc::usage, "y: not of the length of x");
    exact::deposit(what, dtype_of<T>, x.data(), y.data(), x.size(), &state_);
    return *this;
  }

  state state_;
};

/// The exact sum of products of two elements, squares and squares of differences.
template <class T>
using product_accumulator = accumulator<T, 2>;

/// The variance of n elements from their sum and the sum of their squares, rounded once: over n -
/// ddof. NaN for no elements or if one is not finite; for n <= ddof inf, or NaN where nothing
/// varies.
template <class T, class Out = T>
Out round_variance(const accumulator<T>& sum, const product_accumulator<T>& squares,
                   std::uint64_t n, std::uint64_t ddof = 0) {
  return exact::round_variance<Out>(sum.value(), squares.value(), n, ddof);
}
/// Its square root, the standard deviation, rounded once.
template <class T, class Out = T>
Out round_deviation(const accumulator<T>& sum, const product_accumulator<T>& squares,
                    std::uint64_t n, std::uint64_t ddof = 0) {
  return exact::round_deviation<Out>(sum.value(), squares.value(), n, ddof);
}

}  // namespace bitfold
