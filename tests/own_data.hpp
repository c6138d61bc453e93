// What the tests of operations of the caller's own share: arrays, and the order walked by hand.
#pragma once

#include <cstring>
#include <vector>

#include "examples/own_ops.hpp"
#include <bitfold/arith.hpp>

#include "tests/data.hpp"

namespace bitfold::test {

struct own_data {
  std::vector<float> x, y;
  std::vector<std::uint8_t> mask;
  std::vector<complex> z;
  explicit own_data(std::size_t n) : x(n), y(n), mask(n), z(n) {
    random_bits next{n + 5};
    const auto number = [&] { return static_cast<float>(static_cast<std::int64_t>(next())) * 0x1p-60f; };
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
