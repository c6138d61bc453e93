// SIMD vectors by Highway: memory, shuffles, and the vector side of `arith`. Included once per
// target, inside that target's namespace.

namespace simd {

namespace hn = hwy::HWY_NAMESPACE;
using order::index;

template <class A>
using tag = hn::ScalableTag<A>;
template <class A>
using vec = hn::Vec<tag<A>>;
template <class A>
constexpr int width = static_cast<int>(HWY_LANES(A));

HWY_INLINE std::ptrdiff_t bytes_ahead() { return bitfold::cpu::bytes_ahead; }

/// width<A> elements at p (any alignment), widened exactly.
template <class A, class T>
HWY_INLINE vec<A> load(const T* p) {
  const tag<A> d;
  if constexpr (std::is_same_v<A, T>) {
    return hn::LoadU(d, p);
  } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    using H = std::conditional_t<std::is_same_v<T, float16>, hwy::float16_t, hwy::bfloat16_t>;
    const hn::Rebind<float, tag<A>> df;
    const auto f =
        hn::PromoteTo(df, hn::LoadU(hn::Rebind<H, tag<A>>(), reinterpret_cast<const H*>(p)));
    if constexpr (std::is_same_v<A, float>)
      return f;
    else
      return hn::PromoteTo(d, f);
  } else if constexpr (std::is_floating_point_v<A> && std::is_integral_v<T>) {
    // Integers to f64, rounded where they have more than 53 bits.
    using W = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    if constexpr (sizeof(T) <= 4 && std::is_signed_v<T>) {
      if constexpr (sizeof(T) == 4)
        return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, tag<A>>(), p));
      else
        return hn::PromoteTo(d, hn::PromoteTo(hn::Rebind<std::int32_t, tag<A>>(),
                                              hn::LoadU(hn::Rebind<T, tag<A>>(), p)));
    } else {
      return hn::ConvertTo(d, load<W>(p));
    }
  } else if constexpr (std::is_floating_point_v<A> || sizeof(A) == 4 || sizeof(T) == 4) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, tag<A>>(), p));
  } else {  // 8- and 16-bit integers by way of 32 bits
    using I = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
    return hn::PromoteTo(
        d, hn::PromoteTo(hn::Rebind<I, tag<A>>(), hn::LoadU(hn::Rebind<T, tag<A>>(), p)));
  }
}

/// The first n of the elements at p, at most as many as a vector has, and nothing read beyond; then
/// the zero that changes no sum.
template <class A, class T>
HWY_INLINE vec<A> load_first(const T* p, int n) {
  const tag<A> d;
  if constexpr (std::is_same_v<A, T>) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(n));
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p),
                          hn::Set(d, bitfold::arith::stored_neutral<T>));
  } else {
    T copy[width<A>];
    std::fill_n(copy, width<A>, bitfold::arith::stored_neutral<T>);
    std::memcpy(copy, p, static_cast<std::size_t>(n) * sizeof(T));
    return load<A>(copy);
  }
}

/// The indices i, i + 1, ... of the elements of a vec<A>.
template <class A>
HWY_INLINE auto indices_from(index i) {
  const hn::RebindToSigned<tag<A>> d;
  return hn::Add(hn::Iota(d, 0),
                 hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(i)));  // Iota of a constant is one
}
template <class A>
HWY_INLINE void store(vec<A> v, A* p) {
  hn::StoreU(v, tag<A>(), p);
}

#if HWY_ARCH_ARM
#define BITFOLD_ANY_VECTOR "+w"
#define BITFOLD_VECTOR "+w"
#else
#define BITFOLD_ANY_VECTOR "+v"
#define BITFOLD_VECTOR "+x"
#endif

/// v, loaded before what is asked for later: a compiler would move each load to where it is used.
template <class V>
HWY_INLINE V in_order(V v) {
  asm volatile("" : BITFOLD_ANY_VECTOR(v.raw));
  return v;
}

/// The sign that a and b both have, and the other bits of either.
template <class V>
HWY_INLINE V common_sign(V a, V b) {
  const hn::DFromV<V> d;
#if HWY_TARGET <= HWY_AVX3
  const hn::RebindToUnsigned<hn::DFromV<V>> bits;
  const auto sign = hn::BitCast(bits, hn::SignBit(d)), x = hn::BitCast(bits, a),
             y = hn::BitCast(bits, b);
  return hn::BitCast(d, decltype(x){_mm512_ternarylogic_epi64(x.raw, y.raw, sign.raw, 0xD4)});
#else
  return hn::Or(hn::And(a, b), hn::AndNot(hn::SignBit(d), hn::Or(a, b)));
#endif
}

/// sum, to each of whose integers the products of two neighbours of a and b are added.
template <class V16, class V32>
HWY_INLINE V32 add_pair_products(V16 a, V16 b, V32 sum) {
#if HWY_ARCH_ARM  // where Highway's own has two sums, of other pairs
  return hn::Add(sum, V32{vpaddq_s32(vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)),
                                     vmull_high_s16(a.raw, b.raw))});
#else
  const hn::DFromV<V32> d;
  V32 unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, unused);
#endif
}

/// Numbers below 2^31 rounded to integers; of those that are not finite the integer says nothing.
HWY_INLINE vec<std::int32_t> nearest_of_finite(vec<float> x) {
#if HWY_TARGET > HWY_AVX2
  return hn::NearestInt(x);
#elif HWY_TARGET <= HWY_AVX3
  return {_mm512_cvtps_epi32(x.raw)};
#else
  return {_mm256_cvtps_epi32(x.raw)};
#endif
}
/// The same, those that are not finite as 0.
HWY_INLINE vec<std::int32_t> nearest(vec<float> x) {
#if HWY_TARGET > HWY_AVX2
  return nearest_of_finite(hn::IfThenElseZero(hn::IsFinite(x), x));
#else
  const auto i = nearest_of_finite(x);
  const auto of_none = hn::Set(tag<std::int32_t>(), std::numeric_limits<std::int32_t>::min());
  return hn::IfThenZeroElse(hn::Eq(i, of_none), i);
#endif
}

/// Doubles for each of a vector's floats.
struct wide {
  vec<double> low, high;
};

/// [a0, a2, ..., b0, b2, ...]
template <class V>
HWY_INLINE V even(V a, V b) {
  return hn::ConcatEven(hn::DFromV<V>(), b, a);
}
/// [a1, a3, ..., b1, b3, ...]
template <class V>
HWY_INLINE V odd(V a, V b) {
  return hn::ConcatOdd(hn::DFromV<V>(), b, a);
}
template <class V>
HWY_INLINE auto first(V v) {
  return hn::GetLane(v);
}
template <class V>
HWY_INLINE auto lane(V v, int i) {
  return hn::ExtractLane(v, static_cast<std::size_t>(i));
}
/// The first n lanes of a, then those of b.
template <class V>
HWY_INLINE V first_n_of(int n, V a, V b) {
  return hn::IfThenElse(hn::FirstN(hn::DFromV<V>(), static_cast<std::size_t>(n)), a, b);
}

HWY_INLINE wide even(wide a, wide b) { return {even(a.low, a.high), even(b.low, b.high)}; }
HWY_INLINE wide odd(wide a, wide b) { return {odd(a.low, a.high), odd(b.low, b.high)}; }

// Folds take adjacent pairs of lanes, two vectors to one, level by level: left_of_pairs and
// right_of_pairs are what meets. At level 0, and after a whole number of `cycle` levels, lanes are
// in their order; between, where a target's shuffles leave them.
template <class A>
constexpr int cycle = std::countr_zero(static_cast<unsigned>(width<A>));
#if HWY_TARGET == HWY_AVX2
// Shuffles that cross the halves of a vector take several times as long: pairs meet within the
// halves, until at the last level of a cycle the halves meet.
template <class A>
constexpr bool halves_meet(int level) {
  return level % cycle<A> == cycle<A> - 1;
}
template <class V>
HWY_INLINE V left_of_pairs(V a, V b, int level) {
  const hn::DFromV<V> d;
  if (halves_meet<hn::TFromV<V>>(level)) return hn::ConcatLowerLower(d, b, a);
  if constexpr (sizeof(hn::TFromV<V>) == 8) {
    return hn::InterleaveLower(a, b);
  } else {
    const tag<float> f;
    return hn::BitCast(
        d, vec<float>{_mm256_shuffle_ps(hn::BitCast(f, a).raw, hn::BitCast(f, b).raw, 0x88)});
  }
}
template <class V>
HWY_INLINE V right_of_pairs(V a, V b, int level) {
  const hn::DFromV<V> d;
  if (halves_meet<hn::TFromV<V>>(level)) return hn::ConcatUpperUpper(d, b, a);
  if constexpr (sizeof(hn::TFromV<V>) == 8) {
    return hn::InterleaveUpper(d, a, b);
  } else {
    const tag<float> f;
    return hn::BitCast(
        d, vec<float>{_mm256_shuffle_ps(hn::BitCast(f, a).raw, hn::BitCast(f, b).raw, 0xdd)});
  }
}
// Each half of a vector of floats is one of doubles.
HWY_INLINE wide left_of_pairs(wide a, wide b, int level) {
  if (halves_meet<float>(level)) return {a.low, b.low};
  return {even(a.low, b.low), even(a.high, b.high)};
}
HWY_INLINE wide right_of_pairs(wide a, wide b, int level) {
  if (halves_meet<float>(level)) return {a.high, b.high};
  return {odd(a.low, b.low), odd(a.high, b.high)};
}
template <class A>
struct place_table {
  int of[cycle<A>][width<A>] = {};  // by level and lane
  constexpr place_table() {
    for (int level = 0; level < cycle<A>; ++level) {
      int side_of[cycle<A>] = {};  // of each bit of a lane the level whose left or right it says
      for (int l = 0; l < cycle<A>; ++l)
        if (halves_meet<A>(level + l)) {
          side_of[cycle<A> - 1] = l;
        } else {
          for (int bit = 0; bit + 2 < cycle<A>; ++bit) side_of[bit] = side_of[bit + 1];
          side_of[cycle<A> - 2] = l;
        }
      for (int lane = 0; lane < width<A>; ++lane)
        for (int bit = 0; bit < cycle<A>; ++bit)
          of[level][lane] |= (lane >> bit & 1) << side_of[bit];
    }
  }
};
template <class A>
constexpr place_table<A> places;
/// Where a vector belongs among as many as it has lanes, if folding them, from this level on, is to
/// leave its total in lane k.
template <class A>
HWY_INLINE int place_among_vectors(int level, int k) {
  return places<A>.of[level % cycle<A>][k];
}
#else
template <class V>
HWY_INLINE V left_of_pairs(V a, V b, int) {
  return even(a, b);
}
template <class V>
HWY_INLINE V right_of_pairs(V a, V b, int) {
  return odd(a, b);
}
template <class A>
HWY_INLINE int place_among_vectors(int, int k) {
  return k;
}
#endif
HWY_INLINE double first(wide v) { return first(v.low); }
HWY_INLINE double lane(wide v, int i) {
  return i < width<double> ? lane(v.low, i) : lane(v.high, i - width<double>);
}
HWY_INLINE wide first_n_of(int n, wide a, wide b) {
  const int low = n < width<double> ? n : width<double>;
  return {first_n_of(low, a.low, b.low), first_n_of(n - low, a.high, b.high)};
}

}  // namespace simd

namespace arith {

using bitfold::arith::abs;
using bitfold::arith::add;
using bitfold::arith::add_alternate;
using bitfold::arith::all;
using bitfold::arith::at_least;
using bitfold::arith::both;
using bitfold::arith::canonical_nan;
using bitfold::arith::constant;
using bitfold::arith::div;
using bitfold::arith::either;
using bitfold::arith::equal;
using bitfold::arith::exp_floor;
using bitfold::arith::fma;
using bitfold::arith::index_constant;
using bitfold::arith::index_less;
using bitfold::arith::is_finite;
using bitfold::arith::is_negative;
using bitfold::arith::less;
using bitfold::arith::ln2_high;
using bitfold::arith::ln2_low;
using bitfold::arith::log_from_one;
using bitfold::arith::maximum;
using bitfold::arith::minimum;
using bitfold::arith::mul;
using bitfold::arith::neg;
using bitfold::arith::neutral;
using bitfold::arith::opposite;
using bitfold::arith::round_integer_to;
using bitfold::arith::round_quotient_to;
using bitfold::arith::round_sum_to;
using bitfold::arith::round_to;
using bitfold::arith::scale;
using bitfold::arith::select;
using bitfold::arith::sqrt;
using bitfold::arith::sub;
using bitfold::arith::sub_alternate;
using bitfold::arith::unordered;

template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V add(V a, V b) {
  return simd::hn::Add(a, b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V sub(V a, V b) {
  return simd::hn::Sub(a, b);
}
// The same by the units of the fused multiply-add, a * 1 + b, which is as exactly rounded: AMD's
// cores have two of these beside two adders, and a compensated sum can use all four. The 1 is
// hidden from the compiler, which might see through it.
template <class V>
HWY_INLINE V hidden_one(V) {
  V one = simd::hn::Set(simd::hn::DFromV<V>(), 1);
  asm("" : BITFOLD_VECTOR(one.raw));
  return one;
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V add_alternate(V a, V b) {
  return simd::hn::MulAdd(a, hidden_one(a), b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V sub_alternate(V a, V b) {
  return simd::hn::MulSub(a, hidden_one(a), b);
}
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V neutral(V) {
  return simd::hn::Set(D(), static_cast<simd::hn::TFromD<D>>(-0.0));
}

template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V mul(V a, V b) {
  return simd::hn::Mul(a, b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V div(V a, V b) {
  return simd::hn::Div(a, b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V fma(V a, V b, V c) {
  return simd::hn::MulAdd(a, b, c);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V neg(V a) {
  return simd::hn::Neg(a);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V abs(V a) {
  return simd::hn::Abs(a);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE auto less(V a, V b) {
  return simd::hn::Lt(a, b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE auto equal(V a, V b) {
  return simd::hn::Eq(a, b);
}
template <class V, class M, class D = simd::hn::DFromV<V>>
HWY_INLINE bool all(V, M mask) {
  return simd::hn::AllTrue(D(), mask);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE auto unordered(V a) {
  if constexpr (std::is_floating_point_v<simd::hn::TFromV<V>>)
    return simd::hn::IsNaN(a);
  else
    return simd::hn::Ne(a, a);
}
template <class M, class = decltype(simd::hn::Or(M{}, M{}))>
HWY_INLINE M either(M a, M b) {
  return simd::hn::Or(a, b);
}
template <class M, class = decltype(simd::hn::And(M{}, M{}))>
HWY_INLINE M both(M a, M b) {
  return simd::hn::And(a, b);
}
template <class M, class = decltype(simd::hn::Not(M{}))>
HWY_INLINE M opposite(M a) {
  return simd::hn::Not(a);
}
/// The mask may be one for values of another type of the same size.
template <class M, class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V select(M mask, V yes, V no) {
  return simd::hn::IfThenElse(simd::hn::RebindMask(D(), mask), yes, no);
}
template <class V>
struct element_type {
  using type = simd::hn::TFromV<V>;
};
template <class A>
  requires std::is_arithmetic_v<A>
struct element_type<A> {
  using type = A;
};
template <>
struct element_type<simd::wide> {
  using type = double;
};
template <class V>
using element_of = typename element_type<V>::type;

template <class V>
struct wide_type {
  using type = simd::wide;
};
template <class A>
  requires std::is_arithmetic_v<A>
struct wide_type<A> {
  using type = double;
};
template <class V>
using wide_of = typename wide_type<V>::type;
using bitfold::arith::widened;
HWY_INLINE simd::wide widened(simd::vec<float> v) {
  const simd::tag<double> d;
  const simd::hn::Half<simd::tag<float>> half;
  return {simd::hn::PromoteTo(d, simd::hn::LowerHalf(half, v)),
          simd::hn::PromoteTo(d, simd::hn::UpperHalf(half, v))};
}
HWY_INLINE simd::wide add(simd::wide a, simd::wide b) {
  return {add(a.low, b.low), add(a.high, b.high)};
}
HWY_INLINE simd::wide sub(simd::wide a, simd::wide b) {
  return {sub(a.low, b.low), sub(a.high, b.high)};
}
HWY_INLINE simd::wide mul(simd::wide a, simd::wide b) {
  return {mul(a.low, b.low), mul(a.high, b.high)};
}
HWY_INLINE simd::wide fma(simd::wide a, simd::wide b, simd::wide c) {
  return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V at_least(V x, V low) {
#if HWY_ARCH_X86  // whose Max(a, b) is b where an operand is a NaN or both are zeros
  return simd::hn::Max(x, low);
#else
  return simd::hn::IfThenElse(simd::hn::Lt(low, x), x, low);
#endif
}
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V scale(V x, V shifted) {
  const simd::hn::RebindToUnsigned<D> bits;
  constexpr int mantissa = sizeof(simd::hn::TFromD<D>) == 4 ? 23 : 52;
  return simd::hn::BitCast(
      D(), simd::hn::Add(simd::hn::BitCast(bits, x),
                         simd::hn::ShiftLeft<mantissa>(simd::hn::BitCast(bits, shifted))));
}
using bitfold::arith::power_ratio;
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V power_ratio(V a, V b) {
  const simd::hn::RebindToSigned<D> bits;
  const V one = simd::hn::Set(D(), 1);
  const auto r =
      simd::hn::Add(simd::hn::Sub(simd::hn::BitCast(bits, a), simd::hn::BitCast(bits, b)),
                    simd::hn::BitCast(bits, one));
  return simd::hn::BitCast(D(), simd::hn::IfThenZeroElse(simd::hn::Lt(r, simd::hn::Zero(bits)), r));
}
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V constant(V, double c) {
  return simd::hn::Set(D(), static_cast<simd::hn::TFromD<D>>(c));
}
HWY_INLINE simd::wide constant(simd::wide v, double c) {
  return {constant(v.low, c), constant(v.high, c)};
}
template <class V>
struct index_type {
  using type = simd::hn::Vec<simd::hn::RebindToSigned<simd::hn::DFromV<V>>>;
};
template <class A>
  requires std::is_arithmetic_v<A>
struct index_type<A> {
  using type = std::int64_t;
};
template <class V>
using index_of = typename index_type<V>::type;
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE index_of<V> index_constant(V, int i) {
  return simd::hn::Set(simd::hn::DFromV<index_of<V>>(), i);
}
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE auto index_less(V, index_of<V> i, index_of<V> j) {
  return simd::hn::RebindMask(D(), simd::hn::Lt(i, j));
}
// Of x86's Min(a, b) and Min(b, a) one is a and one is b where an operand is a NaN or both are
// zeros; elsewhere the two are the same. So the bits of both together are a NaN, and -0 below +0.
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V minimum(V a, V b) {
  if constexpr (std::is_integral_v<simd::hn::TFromD<D>>) return simd::hn::Min(a, b);
#if HWY_ARCH_ARM  // where Highway's own take the number of a number and a NaN
  else if constexpr (sizeof(simd::hn::TFromD<D>) == 4)
    return V{vminq_f32(a.raw, b.raw)};
  else
    return V{vminq_f64(a.raw, b.raw)};
#else
  else
    return simd::hn::Or(simd::hn::Min(a, b), simd::hn::Min(b, a));
#endif
}
// Here +0 is above -0.
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V maximum(V a, V b) {
  if constexpr (std::is_integral_v<simd::hn::TFromD<D>>) {
    return simd::hn::Max(a, b);
#if HWY_ARCH_ARM
  } else if constexpr (sizeof(simd::hn::TFromD<D>) == 4) {
    return V{vmaxq_f32(a.raw, b.raw)};
  } else {
    return V{vmaxq_f64(a.raw, b.raw)};
#else
  } else {
    return simd::common_sign(simd::hn::Max(a, b), simd::hn::Max(b, a));
#endif
  }
}

#include <bitfold/arith.inl>

}  // namespace arith

namespace order {
using namespace bitfold::order;
#include <bitfold/order.inl>
}  // namespace order

namespace method {
#include <bitfold/method.inl>
}  // namespace method

#include <bitfold/ops.inl>
