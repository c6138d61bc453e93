// Plans of products by method `fixed` in tiles of results (bitfold/cuda/product_tiles.cuh), and of
// contractions, whose operands lie along several axes.
#pragma once

#include "product_passes.hpp"

namespace bitfold::gpu {

/// Inner products of each vector of a and of b, for each of `results`, whose x and y are the
/// strides, in elements, of a's and b's matrices. The result is row-major.
struct contraction_problem {
  const matrix_product& product;
  detail::operand_layout a, b;  ///< data: addresses
  const detail::axes& results;
  const detail::addend_layout* addend;
  void* out;
};

/// Whether a GPU of that kind does it: with integers of up to 32 bits, no longer vectors than sums
/// have room for, whose elements are not too far apart.
bool can_contract(const contraction_problem& of, const device_facts& on);
/// A plan whose workspace is at most `memory` bytes, or as few as there can be.
plan plan_contraction(const contraction_problem& of, std::size_t memory, const device_facts& on);

/// In nanoseconds, as the tuning table estimates it.
double time_of_contraction(const contraction_problem& of, const device_facts& on);

/// A product of matrices.
contraction_problem as_contraction(const product_problem& of);

}  // namespace bitfold::gpu
