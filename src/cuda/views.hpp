// The seam between host code and the kernels of many outputs.
#pragma once

#include <algorithm>

#include "../batch.hpp"
#include "kernels.hpp"

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
  bool unaligned;  ///< as in_packs, on one axis, at any address; if elements have two bytes, 16 of
                   ///< the output's own lie behind its full leaves
  detail::axes kept, reduced;
  divisors by_kept, by_reduced;
  index outputs, n;             ///< elements of each, on axes; about so many otherwise
  index total;                  ///< elements of segments together
  const std::int64_t* offsets;  ///< in device memory; null: on axes
  const std::uint32_t* places;  ///< of elements offsets[k], offsets[k] + 1, ...; null: those
};

/// Results of output k are the k-th elements of where `list` says, of so many bytes each.
struct output_results {
  result_list list;
  int bytes[most_results];
  std::uint64_t empty[most_results];  ///< the bits of a result of no elements
  /// Which result, if there is one alone, of the elements' type, is written by the kernel itself.
  enum { nobody, most_asked, mean } alone;
};

/// Whether neighbouring outputs lie nearer to each other than neighbouring elements of an output.
bool outputs_are_neighbours(const output_elements& from);

/// The folds that are asked for along axes every day: these have kernels for elements as they are
/// stored.
template <class F>
inline constexpr bool is_everyday = false;
#define BITFOLD_EVERYDAY(...) \
  template <>                 \
  inline constexpr bool is_everyday<__VA_ARGS__> = true;
BITFOLD_EVERYDAY(total)
BITFOLD_EVERYDAY(fold::additive<method::tree, fold::square>)
BITFOLD_EVERYDAY(fold::additive<method::kahan, fold::identity>)
BITFOLD_EVERYDAY(smallest)
BITFOLD_EVERYDAY(largest)
BITFOLD_EVERYDAY(op::arg_fold<true>)
BITFOLD_EVERYDAY(op::logsumexp_fold)
BITFOLD_EVERYDAY(variance)
BITFOLD_EVERYDAY(company<kernel_kind::extremes>::fold)
BITFOLD_EVERYDAY(company<kernel_kind::max_and_place>::fold)
BITFOLD_EVERYDAY(company<kernel_kind::mean_and_variance>::fold)
BITFOLD_EVERYDAY(company<kernel_kind::softmax>::fold)
BITFOLD_EVERYDAY(company<kernel_kind::statistics>::fold)
#undef BITFOLD_EVERYDAY

/// As kernel_choice, of fewer kernels.
template <class F, class T, class A>
struct output_kernel_choice {
  static constexpr bool stored = is_everyday<F> && !std::is_integral_v<T> &&
                                 std::is_same_v<A, double> == std::is_same_v<T, double>;
  static constexpr part in =
      !stored ? (std::is_integral_v<A> ? part::widened_integers : part::widened_floats)
              : kernel_choice<F, T, A>::in;
};

inline constexpr int most_leaves_of_thread = 64;  ///< that one thread folds
inline constexpr index most_by_thread = order::lanes,
                       most_by_warp =
                           16 *
                           order::leaf;  ///< elements of segments that a thread, or a warp, folds
/// Columns that a thread folds, of states and elements of so many bytes: what it reads at once, if
/// their states fit in registers.
constexpr int neighbours_of_thread(std::size_t state, std::size_t element) {
  std::size_t many = 16 / element;
  while (many > 2 && many * state > 32) many /= 2;
  return static_cast<int>(many);
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

/// How the outputs are shared out, for kernels whose states and tiles have these sizes.
struct output_plan {
  /// Nodes of outputs; or whole ones, threads those that they bring to shared memory first.
  /// Segments, by their length.
  enum {
    threads_take,
    threads_take_columns,
    threads_take_short_columns,
    threads_take_rows,
    teams_take,
    teams_take_leaves,
    warps_take,
    blocks_take,
    by_length
  } by;
  int at_once;  ///< outputs that a warp takes
  int team;     ///< threads that take a row
  int parts;    ///< of a node of a column, a thread each
  int split;    ///< of these so many for the lanes of one leaf
  int pitch;    ///< of rows in shared memory, elements from one to the next
  index node;   ///< elements of a node
  index nodes;  ///< of an output; a single one is the result
  int threads, blocks;
  int second_threads,
      second_blocks;    ///< of the pass that folds the nodes, a block or a warp for each output
  index nodes_of_warp;  ///< in that pass
  node_list list;       ///< of segments
  int list_blocks;      ///< that fold what it names
  int tiles;            ///< of a node, where blocks fold them
  std::size_t workspace, shared;
};
/// Errors: errc::usage (a launch shape that is not allowed; outputs of more elements than there is
/// room to fold). `in_packs`: the kernels read elements in packs, where that can be done.
output_plan plan_outputs(const sizes& of, bool in_packs, const output_elements& from,
                         const launch& shape);

/// Enqueues the plan, as launch_part does.
template <part P>
const char* launch_outputs(kernel_kind kind, const reduction& r, const output_plan& p,
                           const output_elements& from, const output_results& how, void* workspace,
                           stream where);

/// Bytes for n elements of one input, or the places of those of two, by their keys. Errors:
/// errc::cuda.
std::size_t keys_workspace(dtype in, bool two, index n, index outputs);
/// Enqueues the sort of n keys in that room, and says in `to` where it leaves the elements, or the
/// places.
const char* launch_keys(const std::int64_t* keys, index n, index outputs, void* workspace,
                        stream where, output_elements& to);

/// Bytes for count_distinct of segments, of n elements together. Errors: errc::cuda.
std::size_t sort_workspace_of_segments(dtype in, index n, index outputs);
const char* launch_distinct_of_segments(const output_elements& from, std::int64_t* out,
                                        void* workspace, stream where);

/// Enqueues a copy of the elements of one output, of x, to `to`.
const char* launch_gather(const output_elements& from, index output, void* to, stream where);
/// Enqueues a copy of results that lie one behind the other to `places`, from the `first` of `to`
/// on.
const char* launch_scatter(const void* results, dtype type, const detail::axes& places,
                           const divisors& by, index first, void* to, stream where);

}  // namespace bitfold::cuda
