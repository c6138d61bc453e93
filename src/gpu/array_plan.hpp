// How a whole array is shared out: pure arithmetic.
#pragma once

#include <bitfold/cuda/plan.hpp>

#include "facts.hpp"

namespace bitfold::gpu {

/// A length for each way in which whole arrays of elements go: the kernels of these lengths,
/// aligned and not, are those of every length.
inline constexpr std::size_t lengths_of_ways[] = {
    1, 100, 1000, 5000, 12000, 100000, std::size_t{1} << 24};

struct array_plan {
  cuda::plan of;
  std::string_view line;  ///< of the table, that chose it
};
/// Errors: those of cuda::make_plan.
array_plan plan_array(const cuda::sizes& of, std::size_t n, const cuda::launch& shape,
                      const tuning& by);

}  // namespace bitfold::gpu
