// The plans of bitfold/cuda.hpp's calls.
#pragma once

#include <bitfold/cuda.hpp>
#include <span>

#include "../batch.hpp"
#include "plan.hpp"

namespace bitfold::gpu {

/// All reductions of a problem: those with a canonical order, exact ones, and those that sort.
/// Of no elements the results of none. Errors: errc::usage; errc::no_device, of exact ones.
plan plan_of(const problem& p, const cuda::launch& shape);

/// Along axes: of an array where that is what they are of. Of `layout`'s addresses it
/// matters how they are aligned, and whether there is a y; the launcher brings the addresses.
plan plan_axes(std::span<const reduction> all, const detail::layout& layout,
               const cuda::launch& shape);
plan plan_windows(std::span<const reduction> all, const detail::window_boxes& boxes,
                  const void* data, const cuda::launch& shape);
/// `two`: of two inputs.
plan plan_segments(std::span<const reduction> all, bool two, std::size_t n, std::size_t segments,
                   const cuda::launch& shape);
plan plan_keys(std::span<const reduction> all, bool two, std::size_t n, std::size_t outputs,
               const cuda::launch& shape);

}  // namespace bitfold::gpu
