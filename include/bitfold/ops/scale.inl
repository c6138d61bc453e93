// Powers of two by which a lane scales its elements, so that their squares neither overflow nor
// underflow. The largest magnitude in the lane chooses one of three or five. For most data it is 1.

template <class V>
BITFOLD_INLINE V either_constant(V like, double in_f32, double in_f64) {
  return arith::constant(like, std::is_same_v<arith::element_of<V>, float> ? in_f32 : in_f64);
}
/// `above` where largest > high, `below` where largest < low, else `between`.
template <class V>
BITFOLD_INLINE V by_range(V largest, V low, V high, V below, V between, V above) {
  return arith::select(arith::less(largest, low), below,
                       arith::select(arith::less(high, largest), above, between));
}

/// Where by_range takes `between`.
template <class V>
BITFOLD_INLINE auto is_between(V largest, V low, V high) {
  return arith::opposite(arith::either(arith::less(largest, low), arith::less(high, largest)));
}

/// For squares, added up in a lane: scaled elements are at most 2^60 (f32) or 2^490 (f64).
template <class V>
BITFOLD_INLINE V square_scale(V largest) {
  const auto constant = [&](double c, double d)
                            BITFOLD_LAMBDA { return either_constant(largest, c, d); };
  return by_range(largest, constant(0x1p-37, 0x1p-400), constant(0x1p60, 0x1p490),
                  constant(0x1p97, 0x1p674), constant(1, 1), constant(0x1p-68, 0x1p-534));
}
/// Where it is 1.
template <class V>
BITFOLD_INLINE auto squares_fit(V largest) {
  return is_between(largest, either_constant(largest, 0x1p-37, 0x1p-400),
                    either_constant(largest, 0x1p60, 0x1p490));
}
/// Its reciprocal, in f32.
template <class V>
BITFOLD_INLINE V square_unscale(V largest) {
  const auto constant = [&](double c) BITFOLD_LAMBDA { return arith::constant(largest, c); };
  return by_range(largest, constant(0x1p-37), constant(0x1p60), constant(0x1p-97), constant(1),
                  constant(0x1p68));
}
/// For squares, and in f64 fourth powers, of up to 2^33 elements: scaled ones are at most 2^46
/// (f32) or 2^244 (f64).
template <class V>
BITFOLD_INLINE V range_scale(V largest) {
  const auto constant = [&](double c, double d)
                            BITFOLD_LAMBDA { return either_constant(largest, c, d); };
  const V near = by_range(largest, constant(0x1p-18, 0x1p-150), constant(0x1p46, 0x1p240),
                          constant(0x1p64, 0x1p390), constant(1, 1), constant(0x1p-64, 0x1p-390));
  return by_range(largest, constant(0x1p-82, 0x1p-540), constant(0x1p110, 0x1p630),
                  constant(0x1p120, 0x1p780), near, constant(0x1p-110, 0x1p-780));
}
/// Where it is 1.
template <class V>
BITFOLD_INLINE auto fits_unscaled(V largest) {
  return is_between(largest, either_constant(largest, 0x1p-18, 0x1p-150),
                    either_constant(largest, 0x1p46, 0x1p240));
}
template <class V>
BITFOLD_INLINE V lesser_scale(V a, V b) {
  return arith::select(arith::less(a, b), a, b);
}
