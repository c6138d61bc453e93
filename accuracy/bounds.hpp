// What each method guarantees before it runs: a-priori error bounds for the canonical order. (What
// is known when it has run is bitfold/bound.hpp.)
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
// Terms that are themselves computed. A term of k roundings is t (1 + theta), |theta| <= g(k), so
// that A is the sum of |t|, and g(k) A adds to what is above, of which the A grows accordingly. k
// is 1 for a difference, 2 for its square before the product, 1 for each 64-bit integer that
// becomes a double (there the numbers that the errors are proportional to are |x| + |y|). A rounded
// product is one more, and off by half of the smallest subnormal eta where it underflows. kahan
// takes a product as p + e by two_prod, exactly but for such a half; e is one more error below u
// |p| to sum, by one more addition. (Ogita, Rump and Oishi's Dot2.)
//
// mean, nanmean, mse, mae: the bound of the sum over n, and one rounding of the exact quotient.
// norm_l2: |sqrt(s (1 + e)) - sqrt(s)| <= sqrt(s) E / (1 + sqrt(1 - E)) for |e| <= E < 1, and 1
// more
//   rounding in double, or 6 where the sums of f64 are scaled (Blue). E has no underflow: the
//   squares of narrower types are exact in double, those of f64 are scaled; the error of a middling
//   one, for kahan, may be lost, which is u of it.
// cosine: that of dot over the norms, and theirs.
// prod: g(n - 1) |prod| while no product of some of the elements can overflow or be subnormal
//   (Higham, section 3.1).
// norm_inf: the conversion of a 64-bit integer, and the output rounding.
// Those that round nothing (min, max, nanmin, nanmax, argmin, argmax, any, all, count_nonzero,
//   count_distinct): 0.
// Whatever is done by method exact: the one rounding, of the exact value.
// skewness, kurtosis: no a-priori bound is known to us: infinity. Their errors are measured.
//
// var, std. In a canonical tree of h levels of merges above lanes of at most c elements; Q is
// sqrt(sum x^2), M the sum of squares of differences from the mean, u and eta the accumulator's.
//  1. Means. A lane sums differences d from its first element x: its mean x + sum d / c and its
//     differences from that are off by at most g(c + 1) of the mean |d|, u |d|, and u of the mean,
//     where sum d^2 <= (1 + c) times the lane's M and 1 + c <= 9: by a vector no longer than
//     g(3 c + 4) times its root sum of squares. A merge computes a + (b - a) w with w <= 1/2, as
//     the left side is never the smaller; its own error is below u |m| + g(4) |b - a| w, and it
//     averages those of a and b. Let E_j be the root of the sum over the nodes of level j of (their
//     number of elements) (error of their mean)^2. Averaging does not increase it, and what m and w
//     |b - a| contribute is at most Q + E_j, so that E_j + Q grows by 1 + g(5) a level: E_j <= g(3
//     c + 4 + 5 j) Q. A quotient or a product that underflows adds eta / 2 to a mean, sqrt(n) eta /
//     2 to E_j.
//  2. Sums of squares. A lane adds its M, a merge (b - a)^2 l r / (l + r) for l and r elements.
//  Their
//     sum is the squared length of a vector, M for exact means, that is off by a vector of length
//     F, F^2 <= E_0^2 + (E_0^2 + ... + E_(h-1)^2) <= (h + 1) E_h^2, since (e - f)^2 l r / (l + r)
//     <= l e^2 + r f^2. So the sum is off by at most 2 sqrt(M) F + F^2.
//  3. All terms are positive and each goes through at most c + 10 + 2 h roundings: g of that more.
//     Underflow: at most (h + 2) n eta.
// Then n - ddof divides, std takes the root: |sqrt(v + e) - sqrt(v)| <= min(|e| / sqrt(v),
// sqrt(|e|)). With kappa = Q / sqrt(M), F is about h u kappa sqrt(M): the shape of Chan, Golub and
// LeVeque's bound for the pairwise algorithm (The American Statistician 37(3), 1983), with log n
// for their n.
//
// logsumexp. S = sum p, p = exp(x - m) for the largest element m, is 1 at least. In a canonical
// tree of h levels of merges above lanes of at most c elements:
//  1. A p is made by at most h + 1 exps, each within 2 u of it (arith.inl) and of a difference of
//     maxima, the rounding of which is at most u of the difference. These differences have one sign
//     and add up to m - x, so that all their roundings make a factor exp(t), |t| <= u (m - x). c -
//     1 additions and h fused multiply-adds round besides.
//  2. The sum of p (m - x) is S (H - log S) for the entropy H of the p / S, at most S log n: with
//     what 1. says, S is off by at most E S, E = (1 + g(c - 1 + h + 2 (h + 1))) (1 + 1.001 u log n)
//     - 1; u (m - x) is below 2^-12, so that 1.001 covers exp(t) - 1.
//  3. Where m - x > 86 (f32; 708 in f64), exp ends (arith.hpp), on some way down: what is computed
//     and what is meant are both below 2^-123 (2^-1020).
//  4. Then log(S (1 + e)) is off by at most -log(1 - E), and by 5 u64 of itself as it is computed;
//     m + log S is rounded once. Rounding an i64 or u64 x to a double moves the result by at most
//     u64 |x|.
// The error is absolute: where m and log S cancel, nothing keeps the relative one small.
//
// softmax_denominator. S by 1. to 3., rounded to the output type.
//
// All of this supposes that no addition overflows.
//
// Anybody else's (any_order_bound). d = n - 1, as left to right: in no order is it more. A mean's
// sum is rounded to the output type too, and so are the sum of squares below norm_l2's root and the
// variance below std's. var: the larger bound of two algorithms. Two passes, as NumPy: with a mean
// off by e the sum of squares is M + n e^2, of terms with 3 roundings. Merges, as PyTorch (Welford,
// Technometrics 4(3), 1962): as above with h = n and c = 1. cosine: a sum of quotients, or a
// quotient of sums: with norms off by at most t, terms off by (1 + g(n + 4)) / (1 - t)^2 - 1.
// logsumexp: the largest element and the logarithm of a sum, exp and log supposed to be within 4 u.
#pragma once

#include <cstdint>

#include <bitfold/reduction.hpp>

#include "oracle.hpp"

namespace bitfold::accuracy {

/// d: the largest number of additions that an element of n passes through in the canonical order.
std::uint64_t addition_depth(method_id method, std::uint64_t n);
/// d': an upper bound on the additions that a rounding error passes through in method `kahan`.
std::uint64_t error_depth(std::uint64_t n);

/// Of sums: bound on |v - S|, where v is the value that r rounds to its output type. Infinite when
/// an addition might overflow. 0 for integers: they are exact (modulo 2^64).
real bound_before_rounding(const reduction& r, std::uint64_t n, const exact_sum& exact);

/// Bound on |result - S|. Infinite when an addition or the output type might overflow.
real error_bound(const reduction& r, std::uint64_t n, const exact_sum& exact);
/// The same for any op, S being exact_value(r, in), for finite elements (nansum, nanmean: or NaN).
/// Infinite also where there is no bound.
real error_bound(const reduction& r, const elements& in);

/// The same of whoever computes op (ddof = 0) in operations that are rounded to type acc, at least
/// f32, or a wider one, adding in whatever order: naive, pairwise, in blocks, with fma or without.
/// Infinite for an op that it is not known of.
real any_order_bound(op_id op, dtype acc, dtype out, const elements& in);

}  // namespace bitfold::accuracy
