// Error-free transformations, written once in terms of the basic operations. Included by arith.hpp in namespace
// bitfold::arith, and once per SIMD target by the CPU engine. V is a scalar or a SIMD vector. add_too
// and sub_too are add and sub by other execution units, where there are such.

template <class V>
struct sum_and_error {
  V sum, error;
};

/// sum = fl(a + b) and error = (a + b) - sum exactly, whatever the magnitudes (Knuth, TAOCP vol. 2,
/// 4.2.2, theorem B). When sum is not finite, or an operand is the largest finite number of either sign
/// (Boldo, Graillat and Muller, ACM TOMS 44(1), 2017), error may be infinite or NaN.
template <class V>
BITFOLD_INLINE sum_and_error<V> two_sum(V a, V b) {
  const V s = add(a, b);
  const V b_part = sub_too(s, a);
  const V a_part = sub(s, b_part);
  return {s, add(sub_too(a, a_part), sub_too(b, b_part))};
}

/// product = fl(a * b) and error = a * b - product exactly, unless it underflows (Ogita, Rump and Oishi,
/// SIAM J. Sci. Comput. 26(6), 2005, TwoProductFMA). When the product is not finite, error is not either.
template <class V>
BITFOLD_INLINE sum_and_error<V> two_prod(V a, V b) {
  const V p = mul(a, b);
  return {p, fma(a, b, neg(p))};
}
