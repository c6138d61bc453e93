// SIMD vectors by Highway: memory, shuffles, and the vector side of `arith`. Included once per target,
// inside that target's namespace.

namespace simd {

namespace hn = hwy::HWY_NAMESPACE;

template <class A>
using tag = hn::ScalableTag<A>;
template <class A>
using vec = hn::Vec<tag<A>>;
template <class A>
constexpr int width = static_cast<int>(HWY_LANES(A));

/// width<A> elements at p (any alignment), widened exactly.
template <class A, class T>
HWY_INLINE vec<A> load(const T* p) {
  const tag<A> d;
  if constexpr (std::is_same_v<A, T>) {
    return hn::LoadU(d, p);
  } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    using H = std::conditional_t<std::is_same_v<T, float16>, hwy::float16_t, hwy::bfloat16_t>;
    const hn::Rebind<float, tag<A>> df;
    const auto f = hn::PromoteTo(df, hn::LoadU(hn::Rebind<H, tag<A>>(), reinterpret_cast<const H*>(p)));
    if constexpr (std::is_same_v<A, float>) return f;
    else return hn::PromoteTo(d, f);
  } else if constexpr (std::is_floating_point_v<A> || sizeof(T) == 4) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, tag<A>>(), p));
  } else {  // 8- and 16-bit integers by way of 32 bits
    using I = std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>;
    return hn::PromoteTo(
        d, hn::PromoteTo(hn::Rebind<I, tag<A>>(), hn::LoadU(hn::Rebind<T, tag<A>>(), p)));
  }
}

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
/// The first n lanes of a, then those of b.
template <class V>
HWY_INLINE V first_n_of(int n, V a, V b) {
  return hn::IfThenElse(hn::FirstN(hn::DFromV<V>(), static_cast<std::size_t>(n)), a, b);
}

}  // namespace simd

namespace arith {

using bitfold::arith::add;
using bitfold::arith::add_too;
using bitfold::arith::neutral;
using bitfold::arith::round_integer_to;
using bitfold::arith::round_sum_to;
using bitfold::arith::round_to;
using bitfold::arith::sub;
using bitfold::arith::sub_too;

template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V add(V a, V b) {
  return simd::hn::Add(a, b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V sub(V a, V b) {
  return simd::hn::Sub(a, b);
}
// The same by the units of the fused multiply-add, a * 1 + b, which is as exactly rounded: AMD's cores
// have two of these beside two adders, and a compensated sum can use all four. The 1 is hidden from the
// compiler, which might see through it.
template <class V>
HWY_INLINE V hidden_one(V) {
  V one = simd::hn::Set(simd::hn::DFromV<V>(), 1);
  asm("" : "+x"(one.raw));
  return one;
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V add_too(V a, V b) {
  return simd::hn::MulAdd(a, hidden_one(a), b);
}
template <class V, class = simd::hn::DFromV<V>>
HWY_INLINE V sub_too(V a, V b) {
  return simd::hn::MulSub(a, hidden_one(a), b);
}
template <class V, class D = simd::hn::DFromV<V>>
HWY_INLINE V neutral(V) {
  return simd::hn::Set(D(), static_cast<simd::hn::TFromD<D>>(-0.0));
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
