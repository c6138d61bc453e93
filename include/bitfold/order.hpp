// The canonical order, version 1: n -> one binary tree over the elements 0..n-1. It knows nothing
// of threads, SIMD lanes or multiprocessors, nor of dtype, operation, method or machine.
//
//   leaf   `leaf` consecutive elements; the last may be short.
//   lane   element i of a leaf belongs to lane i mod `lanes`; a lane takes its elements, at most
//          `rows` of them, in increasing order (the method says how: one by one, or in pairs).
//   fold   a leaf's lanes fold in adjacent pairs, level by level; then so do the leaves. A missing
//          partner passes the value through unchanged; no identity element is ever added.
//
// docs/order.md says why these numbers. Changing any of them, or the fold, means a new `version`
// and new golden bits in the same commit.
#pragma once

#include <cstdint>

#include <bitfold/config.hpp>

namespace bitfold::order {

/// The number of an element, of a leaf or of a lane.
using index = std::uint64_t;

/// The version of the order: with another one golden bits move.
inline constexpr int version = 1;
/// Lanes of a leaf; a short one has fewer.
inline constexpr int lanes = 32;
/// Elements of a leaf, of which the last may have fewer.
inline constexpr int leaf = 256;
/// Elements of a lane, at most.
inline constexpr int rows = leaf / lanes;

/// Number of leaves of n elements.
BITFOLD_HD constexpr index leaf_count(index n) { return n / leaf + (n % leaf != 0); }

/// Elements in leaf number `l` of n elements.
BITFOLD_HD constexpr int leaf_size(index n, index l) {
  const index left = n - l * leaf;
  return left < leaf ? static_cast<int>(left) : leaf;
}

/// Lanes that have an element in a leaf of `size` elements.
BITFOLD_HD constexpr int lane_count(int size) { return size < lanes ? size : lanes; }

/// Elements of lane `lane` in a leaf of `size` elements: those at lane, lane + lanes, ...
BITFOLD_HD constexpr int lane_size(int size, int lane) { return (size - lane + lanes - 1) / lanes; }

/// The fold, top down: the left part is the largest power of two below count. This is the same tree
/// as adjacent pairs level by level with a missing partner passed through. get(i) yields item i;
/// count >= 1.
template <class Get, class Merge>
constexpr auto fold(index first, index count, Get& get, Merge& merge) -> decltype(get(first)) {
  if (count == 1) return get(first);
  index left = 1;
  while (left < count - left) left *= 2;
  auto a = fold(first, left, get, merge);
  auto b = fold(first + left, count - left, get, merge);
  return merge(a, b);
}

/// The whole canonical order over n >= 1 elements, run in the plainest way: the reference that
/// every engine is compared with.
///   lane(count, get)  the method's state for one lane of `count` elements get(0..count)
///   merge(a, b)       the method's merge, a left of b in the tree (of lanes, whose elements lie
///                     among one another)
///   element(i)        element i, ready for the method
template <class Lane, class Merge, class Element>
constexpr auto interpret(index n, Lane lane, Merge merge, Element element) {
  auto one_leaf = [&](index l) {
    const int size = leaf_size(n, l);
    auto one_lane = [&](index j) {
      return lane(lane_size(size, static_cast<int>(j)),
                  [&](int row) { return element(l * leaf + j + static_cast<index>(row) * lanes); });
    };
    return fold(0, static_cast<index>(lane_count(size)), one_lane, merge);
  };
  return fold(0, leaf_count(n), one_leaf, merge);
}

#define BITFOLD_INLINE BITFOLD_HD inline
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ on array bounds of type int
#include <bitfold/order.inl>
#pragma GCC diagnostic pop
#undef BITFOLD_INLINE

}  // namespace bitfold::order
