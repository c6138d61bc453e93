// What plans and kernels of many outputs both know: where the elements of each lie, and the lists
// of those that have many.
#pragma once

#include <algorithm>

#include <bitfold/channel_inputs.hpp>
#include <bitfold/cuda/tile.hpp>
#include <bitfold/strides.hpp>

namespace bitfold::cuda {

/// What divides by the extents of some axes (but the first): a quotient of i < 2^32 is (i factor /
/// 2^32 + i) / 2^shift (Granlund and Montgomery, Division by invariant integers using
/// multiplication, PLDI 1994).
struct divisors {
  bool narrow;  ///< all elements are below 2^32
  struct {
    std::uint32_t factor;
    int shift;
  } each[max_axes];
};

/// Whole leaves, whole rows of order::lanes elements, or packs.
enum class runs_of { leaves, lanes, packs };

/// Where the elements of the outputs are: on axes, in segments, or where places say.
struct output_elements {
  const void *x, *y;
  dtype type;
  runs_of runs;    ///< in packs: what lies in one run of the last axis
  bool in_packs;   ///< of an output 16 bytes of neighbours are neighbours in memory, and aligned
  bool columns;    ///< 16 bytes of neighbouring outputs are neighbours in memory, aligned, and
                   ///< elements at equal distances
  bool unaligned;  ///< as in_packs, on one axis, at any address; if elements on axes have two
                   ///< bytes, 16 of the output's own lie behind its full leaves
  bool two_alike;  ///< there is a second input, which lies as the first, and is read with it
  bool alike;      ///< it lies as the first, whether it is read together with it or not
  detail::axes kept, reduced;
  divisors by_kept, by_reduced;
  index outputs, n;             ///< elements of each, on axes; about so many otherwise
  index total;                  ///< elements of segments together
  const std::int64_t* offsets;  ///< in device memory; null: on axes
  index offsets_each;  ///< of a segment: its begin, which is the end of the one before; or 2
  const std::uint32_t* places;  ///< of elements offsets[k], offsets[k] + 1, ...; null: those
  // What plans know of the addresses, which kernels alone are given.
  bool aligned;              ///< x, and y, to 16 bytes
  bool two, listed, placed;  ///< there are y, offsets, and places
};

/// Elements with channels, and what divides a place among them: by their inner extent, by `sharing`
/// and by statistics in a row.
struct channel_places {
  channels of;
  detail::axes extents;  ///< outer, count / sharing, sharing, inner
  divisors by;
};
/// The elements of outputs that are made of such: x is g, and y what the norm took.
struct channel_elements : output_elements {
  channel_places places_of;
};

inline constexpr int threads_on_channels = 256;   ///< of a block that maps elements
inline constexpr int most_leaves_of_thread = 64;  ///< that one thread folds
inline constexpr index most_by_thread = order::lanes,
                       most_by_warp =
                           16 *
                           order::leaf;  ///< elements of segments that a thread, or a warp, folds
inline constexpr int levels_of_leaf_teams = 5;  ///< of the counter of a thread that folds leaves
/// Elements of a row whose leaves teams fold: as many leaves as that counter takes.
inline constexpr index most_by_leaf_teams = ((1 << levels_of_leaf_teams) - 1) * order::leaf;
/// Columns that a thread folds, of states and elements of so many bytes: what it reads at once, if
/// their states fit in registers.
constexpr int neighbours_of_thread(std::size_t state, std::size_t element) {
  std::size_t many = 16 / element;
  while (many > 2 && many * element > 4 && many * state > 32) many /= 2;
  return static_cast<int>(many);
}

/// A block's patch of columns (patches.cuh): threads, rows, and words of 1 to 8 bytes in a row,
/// which take one bank more than they have.
inline constexpr int patch_threads = 256, rows_of_patch = 2 * order::leaf;
constexpr int words_of_patch(std::size_t word) { return word == 8 ? 16 : 32; }
constexpr int columns_of_patch(std::size_t word, std::size_t element) {
  return words_of_patch(word) * static_cast<int>(word / element);
}
constexpr std::size_t bytes_of_patch(std::size_t word) {
  return rows_of_patch * static_cast<std::size_t>(words_of_patch(word) + 1) * word;
}

/// The nodes of segments that are too long for a warp, in the workspace.
struct node_list {
  struct entry {
    index segment, number;
  };
  index node;                    ///< elements
  index room, room_for_several;  ///< entries
  index* counts;                 ///< of nodes, and of segments that have several
  entry* nodes;                  ///< by segment and number, those of a segment one behind the other
  entry* several;                ///< the segments that have several, with the place of their first
  void* states;                  ///< of nodes

  /// For segments of `total` elements together.
  static node_list of(index node, index total) {
    if (total <= most_by_warp) return {node, 0, 0, nullptr, nullptr, nullptr, nullptr};
    return {node,
            total / node + total / (most_by_warp + 1),
            total / (std::max(node, most_by_warp) + 1),
            nullptr,
            nullptr,
            nullptr,
            nullptr};
  }
  std::size_t bytes(std::size_t state) const {
    return room == 0 ? 0
                     : 2 * sizeof(index) + (room + room_for_several) * sizeof(entry) + room * state;
  }
  node_list in(void* workspace) const {
    node_list l = *this;
    if (room == 0) return l;
    l.counts = static_cast<index*>(workspace);
    l.nodes = reinterpret_cast<entry*>(l.counts + 2);
    l.several = l.nodes + room;
    l.states = l.several + room_for_several;
    return l;
  }
};

}  // namespace bitfold::cuda
