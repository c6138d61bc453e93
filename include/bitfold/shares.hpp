// Reductions of an array whose parts lie with several processes: each makes bytes of its share, and
// whoever has the bytes of all shares has the results, with the bits of the whole array in one
// process (docs/distributed.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <bitfold/cpu.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::cpu {

/// What is to be known of n consecutive elements of an array: states of the leaves that are whole
/// in them, elements of those that are not, and exact sums. For reduce_shares of the same version
/// of bitfold, on machines of the same byte order.
/// reductions: the same for all shares.
/// x, y: the elements, at any alignment; y is null where the reductions take one input.
/// first: the index of the first of them in the whole array.
/// Returns: bytes for at most 510 elements of each input, and for each reduction some states for
/// each binary digit of n.
/// Errors (errc::usage), besides those of reduce: a reduction that has no states (count_distinct,
/// and method sequential).
std::vector<std::byte> make_share(std::span<const reduction> reductions, const void* x,
                                  const void* y, std::size_t n, std::uint64_t first,
                                  const options& opts = {});

/// The results for the whole array.
/// shares: what make_share returned, of all processes, in the order of the array; some may be of no
/// elements.
/// out: out[k] is the result of reductions[k].
/// Errors: errc::usage where `out` is not as long as `reductions`, or where there is no result for
/// no elements; errc::bad_input for what is no share of these reductions, or where one does not
/// begin where the one before ends.
void reduce_shares(std::span<const reduction> reductions,
                   std::span<const std::span<const std::byte>> shares, std::span<scalar> out);

}  // namespace bitfold::cpu
