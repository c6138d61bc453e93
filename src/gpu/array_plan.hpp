// How a whole array is shared out: pure arithmetic.
#pragma once

#include <bitfold/cuda/plan.hpp>

#include "facts.hpp"

namespace bitfold::gpu {

struct array_plan {
  cuda::plan of;
  std::string_view line;  ///< of the table, that chose it
};
/// Errors: those of cuda::make_plan.
array_plan plan_array(const cuda::sizes& of, std::size_t n, const cuda::launch& shape,
                      const tuning& by);

}  // namespace bitfold::gpu
