// cuBLASLt, opened when it is first needed: products of integers of 8 bits, which are exact
// whichever of its algorithms makes them.
#pragma once

#include "plan.hpp"

namespace bitfold::gpu {

/// Opens the library for this context. Errors: errc::no_device, saying what to install; errc::cuda.
void prepare_products(const current& where);

struct product_addresses {
  address a, b, to, scratch;
};
/// Enqueues the product. Errors: those of prepare_products; errc::cuda, of the library.
void multiply(const integer_product& p, const product_addresses& at, const current& where,
              stream on);

}  // namespace bitfold::gpu
