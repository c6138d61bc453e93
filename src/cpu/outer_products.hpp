// Products of columns of one element and rows of one, of floats of up to 32 bits.
#pragma once

#include "../products.hpp"

namespace bitfold::cpu {

/// Whether l's products are such ones, and p keeps every bit of their elements.
bool are_outer_products(const matrix_product& p, const detail::product_layout& l);
/// Writes them, with an addend if it is not null.
void multiply_outer(const matrix_product& p, const detail::product_layout& l,
                    const detail::addend_layout* addend, void* out, const options& opts);

}  // namespace bitfold::cpu
