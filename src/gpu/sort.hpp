#pragma once
#include "plan.hpp"
namespace bitfold::gpu {
struct sorted_keys {
  place offsets, x, places;
  std::size_t workspace_end;
};
sorted_keys add_keys(plan& to, dtype type, bool two, std::size_t n, std::size_t outputs,
                     std::size_t workspace);
void add_distinct(plan& to, const problem& p, std::span<const std::size_t> which);
void add_scatter(plan& to, place from, dtype type, const detail::axes& places, std::uint64_t first,
                 place result);
}
