// Plans of products by method `fixed` of few rows of short vectors (bitfold/cuda/few_products.cuh).
#pragma once

#include "products.hpp"

namespace bitfold::gpu {

/// Whether a thread's registers hold a vector, sums fit its words, and there are few rows; to f16,
/// bf16 or f32. The plan needs no workspace.
bool is_of_few(const product_problem& of);
plan plan_few(const product_problem& of, const device_facts& on);

/// Long vectors of `rows` rows and `columns` columns: how many columns a block takes; 0 where tiles
/// are as good.
order::index columns_of_few(const matrix_product& p, order::index rows, order::index columns,
                            order::index n);

/// Whether the matrices of both operands lie side by side along their last axis, so many that
/// neighbouring threads take one each.
bool lie_beside(const product_problem& of);

}  // namespace bitfold::gpu
