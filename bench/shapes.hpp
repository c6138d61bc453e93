// How bench/shapes.cu and bench/cpu_shapes.cpp name what they reduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct shape {
  std::vector<std::int64_t> extents;
  std::vector<int> axes;
  std::string text() const {
    std::string s;
    for (const auto e : extents) s += (s.empty() ? "" : "x") + std::to_string(e);
    s += "_over_";
    for (const int a : axes) s += std::to_string(a);
    return s;
  }
  std::size_t elements() const {
    std::size_t n = 1;
    for (const auto e : extents) n *= static_cast<std::size_t>(e);
    return n;
  }
  std::size_t outputs() const {
    std::size_t n = elements();
    for (const int a : axes) n /= static_cast<std::size_t>(extents[static_cast<std::size_t>(a)]);
    return n;
  }
};
