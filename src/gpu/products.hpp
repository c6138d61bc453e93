// Plans of products of matrices by method `fixed` (bitfold/matmul.hpp). Their arrays go into them
// by their addresses; the arguments have been checked.
#pragma once

#include "../products.hpp"
#include "plan.hpp"

namespace bitfold::gpu {

/// Inner products of each vector of a and of b, for each of `results`, whose x and y are the
/// strides, in elements, of a's and b's matrices: of matrices, or contracted. The result is
/// row-major.
struct product_problem {
  product_problem(const matrix_product& p, const detail::product_layout& l,
                  const detail::addend_layout* added, void* to)
      : product(p), a(l.a), b(l.b), results(l.places), addend(added), out(to) {}

  const matrix_product& product;
  detail::operand_layout a, b;  ///< data: addresses
  const detail::axes& results;
  const detail::addend_layout* addend;
  void* out;
};

/// Whose digits are made in tiles of results (product_tiles.hpp), or go through memory to a
/// library.
enum class product_way : std::uint8_t { fastest, tiles, library };

/// Whether elements along several axes are no further apart than their offsets can say.
bool can_contract(const product_problem& of);
/// A plan whose workspace is at most `memory` bytes, or as few as there can be: then parts of the
/// operands, and of the results, are made one after the other. Tiles that there cannot be are the
/// library's.
plan plan_product(const product_problem& of, std::size_t memory, const device_facts& on,
                  product_way way = product_way::fastest);

}  // namespace bitfold::gpu
