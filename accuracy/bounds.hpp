// What each method guarantees before it runs: a-priori error bounds for the canonical order.
//
// u is the unit roundoff of the accumulator, g(k) = (1 + u)^k - 1, A = sum |x|, S the exact sum,
// and d the largest number of additions that any element passes through.
//
// Plain methods (tree, pairwise, sequential). Every addition returns (a + b)(1 + delta), |delta| <=
// u, also where it underflows, since sums in the subnormal range are exact. So the result is sum
// x_i (1 + theta_i) with |theta_i| <= g(d), and |result - S| <= g(d) A. (Higham, Accuracy and
// Stability of Numerical Algorithms, 2nd ed., section 4.2, with g for his gamma.)
//
// Compensated (kahan). Each two_sum gives its rounding error e_k exactly, so S = s + sum e_k
// exactly, where s is the computed sum.
//  1. A node of the tree whose sum s_k passed through at most h additions has
//     |s_k| <= (1 + u)^h A_k, A_k the |x| below it, and |e_k| <= u |a + b| for its two inputs a, b.
//     By induction up the tree, sum |e_k| <= u (1 + (1 + u) + ... + (1 + u)^(d-1)) A = g(d) A.
//  2. The errors are summed like a plain method; if d' is the largest number of additions that an
//     error passes through, the computed sum E of the errors has |E - sum e_k| <= g(d') g(d) A.
//  3. The result is s + E = S + (E - sum e_k), rounded once.
// (Neumaier, ZAMM 54, 1974; Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26, 2005, whose Sum2 is the
// sequential case.)
//
// One rounding to the output type then adds at most u_out |v| for the value v that is rounded, or
// half of the smallest subnormal where the output type is the narrower one and underflows.
//
// All of this supposes that no addition overflows.
#pragma once

#include <cstdint>

#include <bitfold/reduction.hpp>

#include "oracle.hpp"

namespace bitfold::accuracy {

/// d: the largest number of additions that an element of n passes through in the canonical order.
std::uint64_t addition_depth(method_id method, std::uint64_t n);
/// d': an upper bound on the additions that a rounding error passes through in method `kahan`.
std::uint64_t error_depth(std::uint64_t n);

/// Bound on |v - S|, where v is the value that r rounds to its output type. Infinite when an
/// addition might overflow. 0 for integers: they are exact (modulo 2^64).
real bound_before_rounding(const reduction& r, std::uint64_t n, const exact_sum& exact);

/// Bound on |result - S|. Infinite when an addition or the output type might overflow.
real error_bound(const reduction& r, std::uint64_t n, const exact_sum& exact);

}  // namespace bitfold::accuracy
