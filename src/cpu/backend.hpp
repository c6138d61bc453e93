// The seam between the CPU engine and the code compiled once per instruction set.
#pragma once

#include <span>

#include <bitfold/cpu.hpp>
#include <bitfold/fold.hpp>

namespace bitfold::cpu {

/// How many bytes further on memory is asked for what folds of little arithmetic read: 0, which
/// asks for nothing new, where the processor's own guesses are as early.
extern const std::ptrdiff_t bytes_ahead;

/// One input of a run, or two; y is null where there is one.
struct inputs {
  const void* x;
  const void* y;
};

/// Full leaves of each input that lie one behind the other.
struct leaf_run {
  inputs data;
  order::index leaves;
};

/// Folds the `leaves` leaves of some runs, followed by a short leaf of `tail` elements when tail >
/// 0 (at least one element in all), into one partial of the fold, written to `state`. The tail lies
/// behind the leaves of the last run, which alone may have none. The first element has index
/// `first`. Returns the target that it was compiled for. A call takes at most 2^30 elements.
using kernel = target (*)(std::span<const leaf_run> runs, order::index leaves, int tail,
                          order::index first, void* state);
inline constexpr order::index max_leaves = (order::index{1} << 30) / order::leaf;

/// Widens n elements at `from` to the accumulator's type, at `to`.
using converter = void (*)(const void* from, std::size_t n, void* to);

/// The same n <= order::leaf elements of some neighbouring outputs: those of element i at x +
/// x_rows[i], in elements; y likewise, where there are two inputs. `first` is the index of element
/// 0. They are of the accumulator's type; or, with a converter, stored in so many bytes, and there
/// is room at `widened` for order::rows elements of each output and input. Further runs of as many
/// outputs lie x_apart and y_apart elements apart.
struct column_leaf {
  const void *x, *y;
  const std::ptrdiff_t *x_rows, *y_rows;
  int size, first;
  converter widen = nullptr;
  std::size_t stored = 0;
  void* widened = nullptr;
  int runs = 1;
  std::ptrdiff_t x_apart = 0, y_apart = 0;
};
/// What is folded so far of a run of leaves, all of them full but the last: a binary counter of
/// lanes.
struct column_counter {
  order::index lanes = 0;
  int depth = 0;
  order::index elements[64];  ///< elements in each entry
  void* pending = nullptr;  ///< room for the entries, of which there are at most 1 + the logarithm
                            ///< of all lanes, rounded up: of column_width outputs, or a multiple of
                            ///< that, in each run a partial for each; so aligned, too
};
/// The most outputs that a vector holds, and the alignment of one.
inline constexpr int column_width = 16, column_alignment = 64;

/// Folds of several outputs together.
struct batch_kernels {
  /// One more leaf of runs of `outputs` neighbouring outputs, at least column_width of them.
  void (*add)(column_counter& c, const column_leaf& leaf, int outputs) = nullptr;
  /// The same of elements as they are stored, which are widened as they are loaded; or null.
  void (*add_stored)(column_counter& c, const column_leaf& leaf, int outputs) = nullptr;
  /// Writes the partials of `runs` runs. The first element of output k has index first + k * apart.
  void (*total)(const column_counter& c, int outputs, int runs, order::index first,
                order::index apart, void* states) = nullptr;
  /// Writes the partials of `count` outputs of 1 <= n < max_row elements each; those of
  /// output k are contiguous at outputs[k], from index 0 on, as add_stored takes them if that is
  /// there. Null without vectors.
  void (*rows)(const inputs* outputs, int count, int n, void* states) = nullptr;
  int width = 0;              ///< outputs that `rows` folds at once
  std::size_t element = 0;    ///< bytes of the type that is computed with
  converter widen = nullptr;  ///< null where elements are of that type
  /// For what takes elements as they are stored if it can.
  converter widen_before() const { return add_stored ? nullptr : widen; }
  /// Element i < n of output k, at x[rows[k] + i], to to[i * pitch + k], widened; k < `count`,
  /// which is rounded up to whole vectors.
  void (*transpose)(const void* x, const std::ptrdiff_t* rows, int count, int n, void* to,
                    int pitch) = nullptr;
};
inline constexpr int max_row = 256 * order::leaf;
/// Rows below this may spend most of their time in a tail.
inline constexpr int max_tailed_row = 8 * order::leaf;

/// How many keys (arith::key_of) n >= 1 elements have, on up to `threads` threads.
std::size_t count_distinct(dtype type, const void* data, std::size_t n, int threads);

/// What a target has for a reduction in the canonical order. Without a converter the kernel takes
/// elements as they are stored; with one, as converted.
struct kernels {
  kernel fold = nullptr;
  converter convert = nullptr;
  bool slow_tail = false;  ///< a short leaf takes as long as several full ones
  batch_kernels batch{};
};

/// Those of a target; nothing if this build does not hold it or this machine does not run it. Each
/// target is compiled in a file of its own.
template <target>
kernels find_kernels_of(const reduction& r);
template <>
kernels find_kernels_of<target::scalar>(const reduction& r);
template <>
kernels find_kernels_of<target::avx2>(const reduction& r);
template <>
kernels find_kernels_of<target::avx512>(const reduction& r);
template <>
kernels find_kernels_of<target::neon>(const reduction& r);

/// What find_kernels_of has for a target, whatever is wanted. A build holds the targets of its own
/// processor alone (CMakeLists.txt).
template <class Wanted>
auto find_kernels_for(target t, const Wanted& wanted)
    -> decltype(find_kernels_of<target::scalar>(wanted)) {
  switch (t) {
    case target::scalar: return find_kernels_of<target::scalar>(wanted);
#if defined(__aarch64__)
    case target::neon: return find_kernels_of<target::neon>(wanted);
#else
    case target::avx2: return find_kernels_of<target::avx2>(wanted);
    case target::avx512: return find_kernels_of<target::avx512>(wanted);
#endif
    default: return {};
  }
}

}  // namespace bitfold::cpu
