// The seam between the CPU engine and the code compiled once per instruction set.
#pragma once

#include <bitfold/cpu.hpp>
#include <bitfold/fold.hpp>

namespace bitfold::cpu {

/// One input of a run, or two; y is null where there is one.
struct inputs {
  const void* x;
  const void* y;
};

/// Folds `leaves` full leaves of each input, followed by a short leaf of `tail` elements when tail > 0 (at
/// least one element in all), into one settled state of the fold, written to `state`. Places are counted
/// from `first`, which is where the run starts. Says which target it was compiled for. A run has at most
/// 2^30 elements.
using kernel = target (*)(inputs data, order::index leaves, int tail, order::index first, void* state);
inline constexpr order::index most_leaves = (order::index{1} << 30) / order::leaf;

/// Widens n elements at `from` to the accumulator's type, at `to`.
using converter = void (*)(const void* from, std::size_t n, void* to);

/// How many keys (arith::key_of) n >= 1 elements have, on up to `threads` threads.
std::size_t count_distinct(dtype type, const void* data, std::size_t n, int threads);

/// What a target has for a reduction in the canonical order. Without a converter the kernel takes elements as
/// they are stored; with one, as converted.
struct kernels {
  kernel fold = nullptr;
  converter convert = nullptr;
};

/// Those of a target; nothing if this build does not hold it or this machine does not run it. Each target
/// is compiled in a file of its own.
template <target>
kernels find_kernels_of(const reduction& r);
template <>
kernels find_kernels_of<target::scalar>(const reduction& r);
template <>
kernels find_kernels_of<target::avx2>(const reduction& r);
template <>
kernels find_kernels_of<target::avx512>(const reduction& r);

}  // namespace bitfold::cpu
