// Plans of exact sums: of whole arrays, of many outputs, and of several arrays as of one.
#pragma once

#include "plan.hpp"

namespace bitfold::gpu {

/// Adds what is to be done for reductions by method exact, those numbers of the problem's, whose
/// elements are read once for all of them, if a block has room for their terms. Of an array in
/// parts, the cells of each part stay in the workspace until the last one's pass. Errors
/// (errc::usage): a launch shape that is not allowed; no elements; more than 2^13 parts.
void add_exact(plan& to, const problem& p, std::span<const std::size_t> which,
               const device_facts& on, const cuda::launch& shape);

/// Errors (errc::usage): a reduction that is not by method exact, of floats and one input.
void check_takes_pieces(const reduction& r);
/// Adds what is to be done for the only reduction of a problem over several arrays: to its result,
/// or else to its state, the sum of its term. Errors (errc::usage): those of check_takes_pieces; no
/// elements; too many; a state of several terms.
void add_exact_pieces(plan& to, const problem& p, std::span<const cuda::piece> pieces,
                      const device_facts& on, bool finish = true);

}  // namespace bitfold::gpu
