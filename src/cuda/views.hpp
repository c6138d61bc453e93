// The seam between host code and the kernels of many outputs.
#pragma once

#include <bitfold/cuda/outputs.hpp>

#include "../batch.hpp"
#include "kernels.hpp"

namespace bitfold::cuda {

/// Results of output k are the k-th elements of where `list` says, of so many bytes each.
struct output_results {
  result_list list;
  int bytes[most_results];
  std::uint64_t empty[most_results];  ///< the bits of a result of no elements
  /// Which result, if there is one alone, of the elements' type, is written by the kernel itself.
  enum { nobody, most_asked, mean } alone;
};

divisors divisors_of(const detail::axes& of);
/// The elements of several outputs on axes; and of about so many lists, of n elements together.
output_elements elements_of(const detail::layout& l);
output_elements elements_of(std::span<const reduction> all, const void* x, const void* y,
                            std::size_t n, std::size_t outputs);

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
