// Plans of products of matrices by method `fixed` (bitfold/matmul.hpp). Their arrays go into them
// by their addresses; the arguments have been checked.
#pragma once

#include "../products.hpp"
#include "plan.hpp"

namespace bitfold::gpu {

struct product_problem {
  const matrix_product& product;
  const detail::product_layout& layout;
  const detail::addend_layout* addend;
  void* out;
};

/// Whose digits are made in tiles of results (product_tiles.hpp), or go through memory to a
/// library.
enum class product_way : std::uint8_t { fastest, tiles, library };

/// A plan whose workspace is at most `memory` bytes, or as few as there can be: then parts of the
/// operands, and of the results, are made one after the other. Tiles that there cannot be are the
/// library's.
plan plan_product(const product_problem& of, std::size_t memory, const device_facts& on,
                  product_way way = product_way::fastest);

}  // namespace bitfold::gpu
