// Error-free transformations and exp, written once in terms of the basic operations. Included by
// arith.hpp in namespace bitfold::arith, and once per SIMD target by the CPU engine. V is a scalar
// or a SIMD vector. add_alternate and sub_alternate are add and sub by other execution units, where
// there are such.

template <class V>
struct sum_and_error {
  V sum, error;
};

/// sum = fl(a + b) and error = (a + b) - sum exactly, whatever the magnitudes (Knuth, TAOCP vol. 2,
/// 4.2.2, theorem B). When sum is not finite, or an operand is the largest finite number of either
/// sign (Boldo, Graillat and Muller, ACM TOMS 44(1), 2017), error may be infinite or NaN.
template <class V>
BITFOLD_INLINE sum_and_error<V> two_sum(V a, V b) {
  const V s = add(a, b);
  const V b_part = sub_alternate(s, a);
  const V a_part = sub(s, b_part);
  return {s, add(sub_alternate(a, a_part), sub_alternate(b, b_part))};
}

/// product = fl(a * b) and error = a * b - product exactly, unless it underflows (Ogita, Rump and
/// Oishi, SIAM J. Sci. Comput. 26(6), 2005, TwoProductFMA). When the product is not finite, error
/// is not either.
template <class V>
BITFOLD_INLINE sum_and_error<V> two_prod(V a, V b) {
  const V p = mul(a, b);
  return {p, fma(a, b, neg(p))};
}

/// c + c1 x + c2 x^2 + ..., by Horner's scheme.
template <class V, class... C>
BITFOLD_INLINE V polynomial(V x, double c, C... higher) {
  if constexpr (sizeof...(higher) == 0)
    return constant(x, c);
  else
    return fma(x, polynomial(x, higher...), constant(x, c));
}

/// exp(x) for x <= 0, 1 for 0; what is below `exp_floor`, or NaN, counts as that.
/// With x = k ln 2 + r, k an integer, it is 2^k times a polynomial in r, |r| <= ln(2) / 2, whose
/// coefficients make its relative error the smallest (scripts/exp-coefficients). The relative error
/// is below 2 u: u for the last addition, u / 4 for each r and the one before it, and u / 3 for all
/// others and the polynomial.
template <class V>
BITFOLD_INLINE V exp_nonpositive(V x) {
  using A = element_of<V>;
  constexpr bool narrow = std::is_same_v<A, float>;
  const V bounded = at_least(x, constant(x, exp_floor<A>)),
          shift = constant(x, narrow ? 0x1.8p23 : 0x1.8p52);
  const V shifted = fma(bounded, constant(x, 0x1.71547652b82fep0), shift), k = sub(shifted, shift);
  const V r = fma(k, constant(x, -ln2_low<A>), fma(k, constant(x, -ln2_high<A>), bounded));
  V p;
  if constexpr (narrow)
    p = polynomial(r, 1.0, 1.0, 0x1.fffffb9b0369ep-2, 0x1.55549168124cfp-3, 0x1.5558f11fa0197p-5,
                   0x1.1239d3812c212p-7, 0x1.6a244cf5aac78p-10);
  else
    p = polynomial(r, 1.0, 1.0, 0x1.000000000000ap-1, 0x1.55555555554fap-3, 0x1.555555555088cp-5,
                   0x1.1111111127b9dp-7, 0x1.6c16c184266f0p-10, 0x1.a01a012a69180p-13,
                   0x1.a0199a16dc245p-16, 0x1.71df253bb2c46p-19, 0x1.28ad68a7fcf50p-22,
                   0x1.ad7f7852ceb0dp-26);
  return scale(p, shifted);
}
