// Error-free transformations, written once in terms of add and sub. Included by arith.hpp in namespace
// bitfold::arith, and once per SIMD target by the CPU engine. V is a scalar or a SIMD vector.

template <class V>
struct sum_and_error {
  V sum, error;
};

/// sum = fl(a + b) and error = (a + b) - sum exactly, whatever the magnitudes (Knuth, TAOCP vol. 2,
/// 4.2.2, theorem B). When sum is not finite, error is not meaningful.
template <class V>
BITFOLD_INLINE sum_and_error<V> two_sum(V a, V b) {
  const V s = add(a, b);
  const V b_part = sub(s, a);
  const V a_part = sub(s, b_part);
  return {s, add(sub(a, a_part), sub(b, b_part))};
}
