// What plans and kernels of contributions both know: nodes of the tree, as a kernel takes them.
#pragma once

#include <bitfold/cuda/tile.hpp>

namespace bitfold::cuda {

/// As many as fit in a kernel's arguments.
inline constexpr int most_nodes = 96;
/// A node, and how often the two states on top of the stack are merged behind it.
struct listed_node {
  const void* data;  ///< elements or states
  index first, count;
  std::uint32_t is_elements, merges;
};
struct listed_nodes {
  std::uint32_t count;
  listed_node each[most_nodes];
};
/// Contributions that follow one another, as elements: so few that a kernel is compiled for them.
inline constexpr int most_of_few = 8;
struct few_contributions {
  const void* data[most_of_few];
  index first;
};

inline constexpr int threads_on_contributions = 256;

}  // namespace bitfold::cuda
