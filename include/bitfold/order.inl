// The one fold of the canonical order. Included by order.hpp in namespace bitfold::order, and once
// per SIMD target by the CPU engine, so that it is compiled for that target's registers.
// BITFOLD_INLINE is the function specifier to use.

// Adjacent pairs, level by level, of v[0..count); a missing partner passes the value through.
// The result is in v[0]. Every index is a constant once Max is, so v stays in registers.
template <int Max, class State, class Merge>
BITFOLD_INLINE void fold_in_place(State (&v)[Max], int count, Merge merge) {
  BITFOLD_UNROLL
  for (int step = 1; step < Max; step *= 2) {
    BITFOLD_UNROLL
    for (int left = 0; left < Max; left += 2 * step) {
      if (left + step < Max) {
        if (left + step < count) v[left] = merge(v[left], v[left + step]);
      }
    }
  }
}
