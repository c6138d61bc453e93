// Partials of nodes of the canonical tree, which come as their elements do: not in the tree's
// order.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "task.hpp"

namespace bitfold::cpu {

/// The nodes that cover some intervals of the leaves of one task, as large as these make them.
class forest {
 public:
  /// `leaves` leaves from `leaf` on, a complete subtree or the last ones, which may be short. They
  /// come behind all others.
  void push(const task& t, order::index leaf, order::index leaves, order::index n,
            const void* state) {
    const std::size_t size = t.states.size;
    const auto* bytes = static_cast<const std::byte*>(state);
    states_.insert(states_.end(), bytes, bytes + size);
    nodes_.push_back({leaf, leaves, n});
    for (std::size_t k = nodes_.size() - 1; k > 0 && precedes(nodes_[k - 1], nodes_[k]); --k) {
      std::byte* const left = &states_[(k - 1) * size];
      t.states.merge(left, nodes_[k - 1].n, left + size, nodes_[k].n);
      nodes_[k - 1].leaves *= 2;
      nodes_[k - 1].n += nodes_[k].n;
      nodes_.pop_back();
      states_.resize(k * size);
    }
  }
  /// What all of `parts`, which have no leaf in common, make together; in any order.
  static forest joined(const task& t, std::span<const forest> parts) {
    std::vector<std::pair<const node*, const std::byte*>> all;
    for (const forest& f : parts)
      for (std::size_t k = 0; k < f.nodes_.size(); ++k)
        all.push_back({&f.nodes_[k], &f.states_[k * t.states.size]});
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.first->leaf < b.first->leaf; });
    forest whole;
    for (const auto& [n, state] : all) whole.push(t, n->leaf, n->leaves, n->n, state);
    return whole;
  }
  /// The state of all leaves, from the first one to the last one of an output.
  partial total(const task& t) const {
    const auto get = [&](std::size_t k) {
      partial s;
      s.n = nodes_[k].n;
      s.size = t.states.size;
      std::memcpy(s.bytes, &states_[k * s.size], s.size);
      return s;
    };
    partial s = get(nodes_.size() - 1);
    for (std::size_t k = nodes_.size() - 1; k-- > 0;) s = t.merge(get(k), s);
    return s;
  }
  bool empty() const { return nodes_.empty(); }
  std::size_t size() const { return nodes_.size(); }
  /// Calls f(leaf, leaves, n, state) for each node, in order: what push takes.
  template <class F>
  void each(const task& t, F f) const {
    for (std::size_t k = 0; k < nodes_.size(); ++k)
      f(nodes_[k].leaf, nodes_[k].leaves, nodes_[k].n, &states_[k * t.states.size]);
  }
  void clear() {
    nodes_.clear();
    states_.clear();
  }

 private:
  struct node {
    order::index leaf, leaves, n;
  };
  // Whether b is the right half of a node of which a is the left one.
  static bool precedes(const node& a, const node& b) {
    return (b.leaf & b.leaves) && a.leaves == b.leaves && a.leaf + a.leaves == b.leaf;
  }

  std::vector<node> nodes_;
  std::vector<std::byte> states_;  // one behind the other
};

}  // namespace bitfold::cpu
