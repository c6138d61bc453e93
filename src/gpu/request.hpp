// The plans of bitfold/cuda.hpp's calls, for a GPU of those facts.
#pragma once

#include <bitfold/cuda.hpp>
#include <span>

#include "../batch.hpp"
#include "plan.hpp"

namespace bitfold::gpu {

/// Errors (errc::usage): a method that no GPU has (sequential).
void check_methods(std::span<const reduction> all);

/// All reductions of a problem: those with a canonical order, exact ones, and those that sort.
/// Of no elements the results of none. Errors: errc::usage.
plan plan_of(const problem& p, const cuda::launch& shape, const device_facts& on);

/// Along axes: of an array where that is what they are of. Of `layout`'s addresses it
/// matters how they are aligned, and whether there is a y; the launcher brings the addresses.
plan plan_axes(std::span<const reduction> all, const detail::layout& layout,
               const cuda::launch& shape, const device_facts& on);
plan plan_windows(std::span<const reduction> all, const detail::window_boxes& boxes,
                  const void* data, const cuda::launch& shape, const device_facts& on);
/// `two`: of two inputs.
plan plan_segments(std::span<const reduction> all, bool two, std::size_t n, std::size_t segments,
                   const cuda::launch& shape, const device_facts& on);
/// Null where none has some.
const cuda::piece* first_with_elements(std::span<const cuda::piece> arrays);
/// Of each array a result: its elements are a segment, counted from the first array that has some.
plan plan_arrays(const reduction& r, std::span<const cuda::piece> arrays, const device_facts& on);
plan plan_keys(std::span<const reduction> all, bool two, std::size_t n, std::size_t outputs,
               const cuda::launch& shape, const device_facts& on);

}  // namespace bitfold::gpu
