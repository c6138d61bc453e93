// The tree over contributions: in which order nodes of it join.
#pragma once

#include <bitfold/contributions.hpp>
#include <bitfold/error.hpp>
#include <bitfold/order.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace bitfold::detail {

// To push a node's states onto a stack; to add a node of one contribution to the states on top,
// which are of `left` ones; or to merge the two on top.
struct tree_step {
  const contribution_node* node = nullptr;
  order::index left = 0, right = 0;
};

class tree_plan {
  using index = order::index;

 public:
  /// Errors (errc::usage): nodes that are none of one tree, or that have a gap; none at all; and,
  /// where there are elements, a null pointer.
  tree_plan(std::span<const contribution_node> nodes, std::size_t n) : nodes_(nodes) {
    if (nodes.empty()) throw error(errc::usage, "nodes: none, and no contributions have no result");
    const contribution_node& last = nodes.back();
    if (last.first < nodes[0].first) refuse(last);
    count_ = last.first + last.count - nodes[0].first;
    visit(nodes[0].first, count_);
    if (used_ < nodes.size()) refuse(nodes[used_]);
    if (n > 0)
      for (const contribution_node& node : nodes)
        if (!node.data) throw error(errc::usage, "nodes: data is null");
  }
  std::span<const tree_step> steps() const { return steps_; }
  index count() const { return count_; }
  std::size_t depth() const { return depth_; }  // of the stack

 private:
  [[noreturn]] static void refuse(const contribution_node& n) {
    throw error(errc::usage, "nodes: that of " + std::to_string(n.count) + " contributions from " +
                                 std::to_string(n.first) +
                                 " on is none of the tree's, or out of place");
  }
  bool is_elements(index first) const {
    return used_ < nodes_.size() && nodes_[used_].is_elements && nodes_[used_].count == 1 &&
           nodes_[used_].first == first;
  }
  void visit(index first, index count) {
    const contribution_node& next = nodes_[used_ < nodes_.size() ? used_ : nodes_.size() - 1];
    if (used_ == nodes_.size() || next.first != first || next.count > count || next.count == 0 ||
        (next.is_elements && next.count != 1))
      refuse(next);
    if (next.count == count) {
      steps_.push_back({&next});
      ++used_;
      depth_ = std::max(depth_, ++height_);
      return;
    }
    index left = 1;
    while (left < count - left) left *= 2;
    visit(first, left);
    if (count - left == 1 && is_elements(first + left)) {
      steps_.push_back({&nodes_[used_++], left, 1});
      return;
    }
    visit(first + left, count - left);
    steps_.push_back({nullptr, left, count - left});
    --height_;
  }

  std::span<const contribution_node> nodes_;
  std::vector<tree_step> steps_;
  index count_ = 0;
  std::size_t used_ = 0, height_ = 0, depth_ = 0;
};

/// Errors (errc::usage): there are contributions before the first one.
inline void expect_all_contributions(std::span<const contribution_node> nodes) {
  if (!nodes.empty() && nodes[0].first != 0)
    throw error(errc::usage,
                "nodes: contributions before " + std::to_string(nodes[0].first) + " are missing");
}

}  // namespace bitfold::detail
