// What needs a sort on a GPU: reductions by key, count_distinct; and the sort itself. Also windows'
// results, which are moved to their places.
#pragma once

#include <bitfold/cuda/scatter.hpp>
#include <bitfold/cuda/sort.hpp>
#include <optional>

#include "plan.hpp"

namespace bitfold::gpu {

/// Keys of 4 or 8 bytes, unsigned, with values of 1, 2, 4 or 8, or without; sorted by some bits.
struct sorting {
  std::size_t key_bytes, value_bytes;
  std::size_t n;
  int first_bit, bits;                                     ///< at least one
  std::size_t narrow_counts_below = std::size_t{1} << 30;  ///< elements; which two bits more hold
};
/// Where keys and values are, and go: there and back, until they are sorted.
struct sort_buffers {
  place keys[2], values[2];
};

/// A stable sort, in the order of its steps: it clears its counters, the digits of the keys are
/// counted, then there is a pass for each digit. Of no more elements than a tile has there is one
/// pass alone.
class sorter {
 public:
  /// Its counters lie in the workspace from there on.
  sorter(const sorting& what, std::size_t workspace, const tuning& by);
  std::size_t end() const { return end_; }

  void add_clearing(plan& to) const;
  /// A kernel that counts; or, for kernels that make keys, the parameter cuda::digit_counts by
  /// which they count, and how many blocks (of cuda::counting_threads) they have at the most.
  void add_counting(plan& to, place keys) const;
  void add_counts(arguments& to) const;
  static constexpr unsigned most_counting_blocks = 512;
  /// From buffers [0]; those are [0] again where everything is at last. The first pass reads values
  /// elsewhere where that is said (`nothing`: their numbers, of 4 bytes).
  sort_buffers add_passes(plan& to, sort_buffers at) const;
  sort_buffers add_passes(plan& to, sort_buffers at, place first_values) const;

 private:
  std::size_t words() const { return what_.n < what_.narrow_counts_below ? 4 : 8; }  // of a count
  std::size_t tiles() const;
  bool few() const { return tiles() <= 1; }

  sorting what_;
  const sort_line& shape_;
  int passes_;
  place counts_, begun_, status_[2];
  std::size_t cleared_ = 0, end_;
};

/// All of it, of keys and values in buffers [0] whose digits nobody has counted.
struct sorted {
  sort_buffers at;
  std::size_t end;  ///< of the workspace that it uses
};
sorted add_sort(plan& to, const sorting& what, const sort_buffers& at, std::size_t workspace,
                const tuning& by);

/// What sorts elements by the outputs that their keys name, `of.n` of them, for the passes of
/// segments behind it: their problem has these offsets, and this x or, where elements have more
/// than one input, these places. The keys are int64 at base::list; what names no output may go
/// behind the last one (`of.lost`), or to any. The values are at base::x.
struct sorted_keys {
  place offsets;
  place x, places;
  std::size_t end;  ///< of the workspace that it uses
};
sorted_keys add_keys(plan& to, const cuda::keys_on_axes& of, std::optional<dtype> type,
                     std::size_t outputs, place any_lost, std::size_t workspace, const tuning& by);
/// Of keys one behind the other, which are numbers of outputs.
cuda::keys_on_axes keys_in_a_row(std::size_t n, std::size_t outputs);

/// count_distinct, for reductions of those numbers that are that: of an array, of outputs on axes,
/// or of segments. Arrays of few elements, or of 1 or 2 bytes each, are not sorted. Outputs on axes
/// are sorted in sets of about so many elements, which bounds the workspace. Errors: errc::usage
/// (too many segments).
void add_distinct(plan& to, const problem& p, std::span<const std::size_t> which,
                  const device_facts& on, std::size_t elements_of_set = std::size_t{1} << 25);

/// Puts words into the workspace.
void add_words(plan& to, std::span<const std::uint64_t> words, place at);

/// Moves as many results as `places` have elements, one behind the other at `from`, to their
/// places, counted from result `first`.
void add_scatter(plan& to, place from, dtype type, const detail::axes& places, std::uint64_t first,
                 place result);

}  // namespace bitfold::gpu
