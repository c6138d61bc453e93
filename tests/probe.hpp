// A probe of the real order of a summation, which sees nothing but its results: numbers go in, one
// number comes out, and the tree of additions is found from how large values swallow small ones or
// overflow. After FPRev (Xie, Gao, Wang and Xue, USENIX ATC 2025).
//
// The trees come as the text of print_order(..., order_format::expression), without its newline.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <bitfold/formats.hpp>

namespace bitfold::probe {

using indices = std::vector<std::uint64_t>;

/// 0 .. n-1
inline indices all_of(std::uint64_t n) {
  indices all(n);
  for (std::uint64_t i = 0; i < n; ++i) all[i] = i;
  return all;
}

// On the way from element i up to the root, the other elements join in groups: those that meet i in
// the same node. grouped(i, others) yields the groups, the earliest first; each is a subtree, found
// in the same way. `elements` is in increasing order.
template <class Grouped>
std::string build(std::span<const std::uint64_t> elements, Grouped& grouped) {
  const std::uint64_t first = elements[0];
  std::string text = std::to_string(first);
  for (const indices& group : grouped(first, elements.subspan(1)))
    text = "(" + text + " " + build(group, grouped) + ")";
  return text;
}

/// What absorbs what: unit added to large, n times over, leaves large as it is in the accumulator,
/// and sums of fewer than 2^24 units are exact.
template <class T>
struct masks {
  static constexpr double large = 0x1p100, unit = 1;
};
template <>
struct masks<float16> {  // an f32 accumulator only, and n < 2^15
  static constexpr double large = 0x1p15, unit = 0x1p-24;
};

/// The tree of f, a plain sum of n elements of type T, restricted to `kept` (in increasing order;
/// all elements if empty). f maps std::span<const T> to the sum, as a double, exactly.
///
/// With `large` at i, -large at j and units elsewhere, the units that meet i or j before these two
/// meet are lost, and the others are counted: f = n - (leaves below the node where i and j meet).
template <class T, class F>
std::string tree_of_plain_sum(F f, std::uint64_t n, const indices& kept = {}) {
  const double large = masks<T>::large, unit = masks<T>::unit;
  std::vector<T> x(n, arith::round_to<T>(unit));
  const bool whole = kept.empty();
  const auto leaves_where_they_meet = [&](std::uint64_t i, std::uint64_t j) {
    x[i] = arith::round_to<T>(large);
    x[j] = arith::round_to<T>(-large);
    const double count = f(std::span<const T>(x)) / unit;
    x[i] = x[j] = arith::round_to<T>(unit);
    if (!(count >= 0 && count <= static_cast<double>(n - 2)) || count != std::floor(count))
      throw std::runtime_error("probe: not a count: " + std::to_string(count));
    return n - static_cast<std::uint64_t>(count);
  };
  auto grouped = [&](std::uint64_t i, std::span<const std::uint64_t> others) {
    std::map<std::uint64_t, indices> by_leaves;
    for (auto j : others) by_leaves[leaves_where_they_meet(i, j)].push_back(j);
    std::vector<indices> groups;
    std::uint64_t below = 1;
    for (auto& [leaves, group] : by_leaves) {
      below += group.size();
      if (whole && below != leaves) throw std::runtime_error("probe: not a binary tree");
      groups.push_back(std::move(group));
    }
    return groups;
  };
  return build(whole ? all_of(n) : kept, grouped);
}

/// The same for a compensated sum, which loses no unit, of type T and accumulators of T's range.
///
/// With h, h and -h at i, j and k, where 2h overflows, and zeros elsewhere, the sum is infinite if
/// i and j meet before either meets k, and finite if not. So the order in which others meet i can
/// be found by comparisons.
template <class T, class F>
std::string tree_of_compensated_sum(F f, std::uint64_t n, const indices& kept = {}) {
  const double h = std::is_same_v<T, double> ? 0x1p1023 : 0x1p127;
  std::vector<T> x(n, T{});
  const auto meet_before = [&](std::uint64_t i, std::uint64_t j, std::uint64_t k) {
    x[i] = x[j] = arith::round_to<T>(h);
    x[k] = arith::round_to<T>(-h);
    const double sum = f(std::span<const T>(x));
    x[i] = x[j] = x[k] = T{};
    if (sum != INFINITY && sum != h)
      throw std::runtime_error("probe: neither h nor infinite: " + std::to_string(sum));
    return sum == INFINITY;
  };
  auto grouped = [&](std::uint64_t i, std::span<const std::uint64_t> others) {
    std::vector<indices> groups;
    for (auto j : others) {  // binary search for the place of j among the groups so far
      std::size_t low = 0, high = groups.size();
      bool found = false;
      while (low < high && !found) {
        const std::size_t middle = (low + high) / 2;
        const std::uint64_t other = groups[middle][0];
        if (meet_before(i, j, other)) {
          high = middle;
        } else if (meet_before(i, other, j)) {
          low = middle + 1;
        } else {
          groups[middle].push_back(j);
          found = true;
        }
      }
      if (!found) groups.insert(groups.begin() + static_cast<std::ptrdiff_t>(low), indices{j});
    }
    return groups;
  };
  return build(kept.empty() ? all_of(n) : kept, grouped);
}

}  // namespace bitfold::probe
