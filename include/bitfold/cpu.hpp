// The CPU engine: any number of threads, any SIMD target, the same bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <bitfold/reduction.hpp>
#include <bitfold/view.hpp>

namespace bitfold::cpu {

/// The instruction sets that a CPU kernel can be compiled for. `scalar` runs everywhere, avx2 and
/// avx512 are x86-64's, and neon is aarch64's.
enum class target { scalar, avx2, avx512, neon };
/// Every target there is, on whatever machine.
inline constexpr target all_targets[] = {target::scalar, target::avx2, target::avx512,
                                         target::neon};

/// "scalar", "avx2", "avx512" or "neon", as options of the command line have it.
std::string_view name(target t);
/// The target of that name; nothing where there is none.
std::optional<target> parse_target(std::string_view text);
/// The targets that this build holds and this machine can run, best last. Never empty.
std::vector<target> available_targets();

/// More threads than these count as these: an array is cut into so many parts at the most.
inline constexpr int max_threads = 1024;

/// How a call on the CPU is run: it changes the speed and never a bit. What takes one refuses
/// (errc::usage) a negative number of threads, and a target that this build or this machine has
/// not.
struct options {
  /// At most so many threads, and no more than there are cores that this process may use; 0: one
  /// for each of these. Fewer, where no more can be made.
  int threads = 0;
  std::optional<cpu::target> target = {};  ///< empty: the best available one
};

/// Other threads than bitfold's own, as OpenMP's runtimes have them (GOMP_parallel): calls
/// body(argument) on the calling thread and up to threads - 1 others at once, and returns when all
/// have returned.
using team = void (*)(void (*body)(void*), void* argument, unsigned threads, unsigned flags);
/// While it lives, calls of this thread with options::threads above 1 use that team, if it is not
/// null: two runtimes' threads that wait for work, each in a loop, take the cores from one another.
class on_team {
 public:
  /// t: null for bitfold's own threads. Teams may be nested: the one before comes back at the end.
  explicit on_team(team t);
  ~on_team();
  on_team(const on_team&) = delete;
  on_team& operator=(const on_team&) = delete;

 private:
  team previous_;
};

/// Reduces n elements in the canonical order, and gives the result, of type r.out(). May be called
/// from any thread, inside tasks of oneTBB or OpenMP, in the child of a fork, and by destructors at
/// the end of a thread or of the program. All calls share threads of bitfold's own, and one waits
/// for nothing but its own elements.
/// r: what is computed, by which method and in which types (make_reduction).
/// data: elements of type r.in(), one behind the other, at any alignment; may be null when n is 0.
/// n: of no elements the result is what the operation has for none: 0 of a sum, NaN of a mean.
/// opts: threads and target, on which no bit depends.
/// Cost: one read of the elements, by one thread of a short array, and by more of a longer one.
/// count_distinct sorts a copy of elements that are wider than 2 bytes; `sequential` takes one
/// thread.
/// Errors (errc::usage): threads < 0; a target that is not available; a null pointer with n > 0; an
/// operation that takes two inputs; no elements where the operation has no result for them (min).
scalar reduce(const reduction& r, const void* data, std::size_t n, const options& opts = {});
/// The same of two inputs of n elements each, for the operations that take two. With y null it is
/// the call above.
scalar reduce(const reduction& r, const void* x, const void* y, std::size_t n,
              const options& opts = {});

/// Several reductions of the same one or two inputs (y is null where they take one) in one pass:
/// out[k] has the bits that reductions[k] has alone.
/// out: room for a result of each reduction, in their order.
/// Errors (errc::usage), besides the above: reductions that differ in in() or in how many inputs
/// they take; `out` not as long as `reductions`. Nothing is written then.
void reduce(std::span<const reduction> reductions, const void* x, const void* y, std::size_t n,
            std::span<scalar> out, const options& opts = {});

/// Along some axes of a view, or of two that broadcast to one shape as in NumPy (y is null where
/// there is one). Each result has the bits of its own elements in one array.
/// axes: those that are reduced, counted from 0, in any order. None: each element by itself.
/// out: out[k] is the address of the results of reductions[k]: elements of type
/// reductions[k].out(), in row-major order of the axes that are kept (result_extents in view.hpp).
/// Nothing looks at how much room there is.
/// Errors (errc::usage, naming the argument), besides the above: an axis that x has not or that is
/// given twice; extents that are negative or do not broadcast; more than 2^60 elements; an output
/// without elements where a reduction has no result for that. Nothing is written then.
void reduce(std::span<const reduction> reductions, const view& x, const view* y,
            std::span<const int> axes, std::span<void* const> out, const options& opts = {});
void reduce(const reduction& r, const view& x, std::span<const int> axes, void* out,
            const options& opts = {});
inline void reduce(const reduction& r, const view& x, std::initializer_list<int> axes, void* out,
                   const options& opts = {}) {
  reduce(r, x, std::span(axes.begin(), axes.size()), out, opts);
}

/// Sliding windows of x, of which each is an output: its elements in x's row-major order, without
/// those of the padding, which are not there (a mean is that of the others).
/// per_axis: a window for each axis along which it slides; an axis has one at the most.
/// out: out[k] is the address of the results of reductions[k], of the extents windows_extents(x,
/// per_axis), in row-major order.
/// Memory, if there is a padding: that of the results once more.
/// Errors, besides reduce's: those of windows_extents; windows that are cut off in more than 2^16
/// ways.
void reduce_windows(std::span<const reduction> reductions, const view& x,
                    std::span<const window> per_axis, std::span<void* const> out,
                    const options& opts = {});

/// Segments of one or two arrays of n elements, one output each.
/// offsets: one more than there are segments. Segment k has elements offsets[k] to offsets[k + 1] -
/// 1, which may be none. Elements before the first and from the last on are in no segment.
/// out: out[k] is the address of the results of reductions[k], one for each segment.
/// Errors (errc::usage), besides those of reduce: no offsets at all; offsets that fall or leave the
/// array; a segment without elements where a reduction has no result for that.
void reduce_segments(std::span<const reduction> reductions, const void* x, const void* y,
                     std::size_t n, std::span<const std::int64_t> offsets,
                     std::span<void* const> out, const options& opts = {});

/// Output k is of the elements whose key is k, in the order in which they lie. (With sum this is
/// index_add or scatter_add onto zeros.)
/// keys: one for each element, in any order; their number is that of the elements.
/// outputs: how many there are, up to 2^59; some may have no elements.
/// out: out[k] is the address of the results of reductions[k], one for each output.
/// Memory: 8 bytes for each element and 16 for each output; of one sum by tree or pairwise up to 28
/// for each element, which then are moved themselves, by all threads.
/// Errors (errc::usage), besides those of reduce: a key that is negative or not below `outputs`; an
/// output without elements where a reduction has no result for that.
void reduce_by_key(std::span<const reduction> reductions, const void* x, const void* y,
                   std::span<const std::int64_t> keys, std::size_t outputs,
                   std::span<void* const> out, const options& opts = {});

/// The sum of an array, vector, span or another contiguous range in its default accumulator and
/// output type: the shortest way to a sum.
/// Errors (errc::usage): those of reduce.
template <class T>
scalar sum(std::span<const T> values, method_id method = method_id::tree,
           const options& opts = {}) {
  return reduce(make_reduction(op_id::sum, method, dtype_of<T>), values.data(), values.size(),
                opts);
}
template <class Range>
  requires requires(const Range& values) { std::span(values); }
scalar sum(const Range& values, method_id method = method_id::tree, const options& opts = {}) {
  using element = typename decltype(std::span(values))::value_type;
  return sum(std::span<const element>(values), method, opts);
}

}  // namespace bitfold::cpu
