// Plans of scatters (bitfold/scatter.hpp). Rows' arrays go into them by their addresses, but x and
// keys, which are base::x and base::list; result 0 is `out`, and result 1 any_lost.
#pragma once

#include <bitfold/scatter.hpp>

#include "plan.hpp"

namespace bitfold::gpu {

plan plan_scatter(const scattering& how, const view& x, const view& keys, int axis,
                  const view& base, void* out, bool asks_for_lost, const device_facts& on);
plan plan_scatter_rows(const scattering& how, const listed_rows& x, const places_of_rows& to,
                       const void* base, void* out, std::int64_t* largest, bool asks_for_lost,
                       const device_facts& on);

}  // namespace bitfold::gpu
