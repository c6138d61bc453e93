// The one rounding of a quotient.
#include "ops.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::float_types, test::scalar_of;

TEMPLATE_TEST_CASE("arith: quotients of two-part sums round once", "[truth][arith][ops]", float16,
                   bfloat16, float, double) {
  const dtype t = dtype_of<TestType>;
  const float_format f = format_of(t);
  random_source random(61);
  int ties = 0, subnormals = 0;
  const auto check = [&](double hi, double lo, std::uint64_t n) {
    const real sum = real(hi) + lo;
    if (!std::isfinite(hi) || !std::isfinite(lo) || !std::isfinite(hi + lo) || sum == 0) return;
    const scalar got = scalar_of(arith::round_quotient_to<TestType>(hi, lo, n));
    const real exact = sum / n;
    const scalar want = round_correctly(exact, t);
    const real in_ulps = abs(exact) / ulp(exact, t);
    ties += abs(in_ulps - floor(in_ulps) - 0.5) == 0;
    subnormals += abs(exact) < ldexp(real(1), f.min_exponent + f.precision - 1);
    if (got != want)
      FAIL_CHECK(std::hexfloat << hi << " + " << lo << " over " << n << ": " << to_hex(got)
                               << ", not " << to_hex(want));
  };
  const auto any_n = [&]() -> std::uint64_t {
    const std::uint64_t n = random.bits() >> random.below(64);
    switch (random.below(6)) {
      case 0: return ~0ull;
      case 1: return 1ull << random.below(64);
      case 2: return (1ull << random.below(64)) - (random.below(2) ? 1 : 0) + 1;
      default: return n ? n : 1;
    }
  };
  const auto sign = [&] { return random.below(2) ? -1.0 : 1.0; };
  for (int i = 0; i < 10000; ++i) {
    const std::uint64_t n = std::max<std::uint64_t>(any_n(), 1);
    // A value of the type, or a point halfway between two, times n; and what is just beside it.
    const std::uint64_t infinity = round_correctly(real(inf), t).bits;
    const std::uint64_t bits =
        random.below(4) ? random.bits() % infinity : random.bits() % (1ull << f.precision);
    const real value = value_of({t, bits}), half = ulp(value, t) / 2;
    for (const real& target : {value, real(value + half)}) {
      const real product = target * n;
      const double hi = sign() * static_cast<double>(product),
                   lo = (hi < 0 ? -1 : 1) * static_cast<double>(real(product - abs(real(hi))));
      check(hi, lo, n);
      check(hi, std::nextafter(lo, inf), n);
      check(hi, std::nextafter(lo, -inf), n);
      check(hi, lo + sign() * 0x1p-1074, n);
      check(hi, lo + sign() * std::ldexp(std::fabs(hi), -53 - random.below(80)), n);
      check(lo, hi, n);
      // Floats over few, which have a way of their own.
      const std::uint64_t few = 1 + random.bits() % (random.below(2) ? 100 : 1 << 24);
      const float close = static_cast<float>(real(target * few));
      for (const float v : {close, std::nextafter(close, 0.0f),
                            std::nextafter(close, std::numeric_limits<float>::infinity())})
        check(sign() * static_cast<double>(v), 0, few);
    }
    // Any sums.
    const double a = std::bit_cast<double>(random.bits());
    check(a, std::ldexp(a, -53 - random.below(60)) * (random.uniform() - 0.5), any_n());
    check(a, std::bit_cast<double>(random.bits()), any_n());
    check(a, 0, any_n());
    const double b = sign() * std::ldexp(1 + random.uniform(),
                                         f.min_exponent - 5 +
                                             random.below(f.max_exponent - f.min_exponent + 70));
    if (b != 0) check(b, std::ldexp(sign(), std::ilogb(b) - 53 - random.below(3)), any_n());
    check(sign() * 0x1p-1074 * static_cast<double>(random.below(1 << 20)), 0, any_n());
  }
  CHECK(ties > 1000);
  CHECK(subnormals > 1000);
  const auto bits = [](double hi, double lo) {
    return scalar_of(arith::round_quotient_to<TestType>(hi, lo, 3));
  };
  CHECK(bits(-0.0, -0.0) == round_correctly(-0.0, t));
  CHECK(bits(-0.0, 0.0) == round_correctly(-0.0, t));
  CHECK(bits(1, -1) == round_correctly(0.0, t));
  CHECK(bits(inf, NAN) == round_correctly(inf, t));
  CHECK(bits(-inf, inf) == round_correctly(-inf, t));
  CHECK(bits(NAN, 1) == round_correctly(NAN, t));
  CHECK(bits(3, NAN) == round_correctly(1, t));
}
