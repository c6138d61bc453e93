// What the tests of operations of the caller's own share: arrays, and the order walked by hand.
#pragma once

#include <cstring>
#include <vector>

#include "examples/own_ops.hpp"
#include <bitfold/formats.hpp>
#include <bitfold/source.hpp>

#include "tests/data.hpp"

namespace bitfold::test {

struct own_data {
  std::vector<float> x, y;
  std::vector<std::uint8_t> mask;
  std::vector<complex> z;
  explicit own_data(std::size_t n) : x(n), y(n), mask(n), z(n) {
    random_bits next{n + 5};
    const auto number = [&] {
      return static_cast<float>(static_cast<std::int64_t>(next())) * 0x1p-60f;
    };
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = number();
      y[i] = number();
      if (i % 5 == 0) x[i] = 3;  // equal scores
      mask[i] = next() & 1;
      z[i] = {x[i], y[i]};
    }
  }
};

/// Op over element(0) ... element(n - 1), n >= 1, straight from the definition of the order.
template <class Op, class Element>
auto by_hand(std::size_t n, Element element) {
  const auto lane = [](int count, auto get) {
    auto s = Op::start(get(0));
    for (int r = 1; r < count; ++r) s = Op::merge(s, Op::start(get(r)));
    return s;
  };
  return order::interpret(n, lane, [](auto a, auto b) { return Op::merge(a, b); }, element);
}

/// Functions x -> a x + b of integers modulo 2^64, composed from left to right: exact, and it does
/// not commute.
struct affine {
  std::uint64_t a, b;
  friend bool operator==(const affine&, const affine&) = default;
};
struct compose {
  BITFOLD_HD static affine start(affine f) { return f; }
  BITFOLD_HD static affine merge(affine f, affine g) { return {g.a * f.a, g.a * f.b + g.b}; }
  BITFOLD_HD static affine finish(affine f) { return f; }
};
inline std::vector<affine> functions(std::size_t n) {
  random_bits next{n + 9};
  std::vector<affine> f(n);
  for (affine& g : f) g = {next() | 1, next()};
  return f;
}
inline affine one_after_the_other(const std::vector<affine>& f) {
  affine all{1, 0};
  for (const affine& g : f) all = compose::merge(all, g);
  return all;
}

/// The last element that is not below 0, and where it is: by places, it commutes.
struct last_positive {
  struct state {
    float value;
    std::uint64_t index;
    friend bool operator==(const state&, const state&) = default;
  };
  BITFOLD_HD static state start(indexed_value<float> x) {
    return x.value < 0 ? state{0, ~std::uint64_t{0}} : state{x.value, x.index};
  }
  BITFOLD_HD static state merge(state a, state b) { return a.index + 1 > b.index + 1 ? a : b; }
  BITFOLD_HD static state finish(state s) { return s; }
};

/// A NaN that comes out is the canonical one.
inline double given(double x) { return x != x ? arith::canonical_nan<double> : x; }

template <class T>
bool same_memory(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// top_label with one argument.
struct top_pair : top_label {
  static state start(std::pair<float, float> e) { return top_label::start(e.first, e.second); }
};

}  // namespace bitfold::test
