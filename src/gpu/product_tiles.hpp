// Plans of products by method `fixed` in tiles of results (bitfold/cuda/product_tiles.cuh).
#pragma once

#include "products.hpp"

namespace bitfold::gpu {

/// Whether a GPU of that kind does it: with integers of up to 32 bits, and no longer vectors than
/// sums have room for.
bool can_be_tiles(const product_problem& of, const device_facts& on);
/// A plan whose workspace is at most `memory` bytes, or as few as there can be.
plan plan_tiles(const product_problem& of, std::size_t memory, const device_facts& on);
/// In nanoseconds, as the tuning table estimates it; 0 where no other way is as fast.
double time_of_tiles(const product_problem& of, const device_facts& on);

}  // namespace bitfold::gpu
