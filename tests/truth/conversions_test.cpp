// Every conversion against MPFR.
#include "sums.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

TEMPLATE_TEST_CASE("arith: all 16-bit patterns widen exactly and come back", "[truth][arith]",
                   float16, bfloat16) {
  const dtype t = dtype_of<TestType>;
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    const TestType v{static_cast<std::uint16_t>(b)};
    const scalar s = scalar_of(v);
    const real exact = value_of(s);
    const auto as_float = arith::widen<float>(v);
    const auto as_double = arith::widen<double>(v);
    const bool ok = isnan(exact) ? std::isnan(as_float) && std::isnan(as_double)
                                 : real(as_float) == exact && real(as_double) == exact &&
                                       std::signbit(as_float) == (b >> 15) &&
                                       std::signbit(as_double) == (b >> 15);
    const scalar back = rounded<TestType>(as_double);
    const scalar expected = isnan(exact) ? round_correctly(real(NAN), t) : s;
    if (!ok || back != expected) FAIL_CHECK("pattern " << to_hex(s));
  }
}

TEMPLATE_TEST_CASE("arith: doubles round correctly", "[truth][arith]", float16, bfloat16, float) {
  const dtype t = dtype_of<TestType>;
  const auto check = [&](double x) {
    for (double v : {x, -x}) {
      const scalar expected = round_correctly(v, t);
      if (rounded<TestType>(v) != expected) FAIL_CHECK(std::hexfloat << v);
      const auto f = static_cast<float>(v);
      if (f == v && scalar_of(arith::round_to<TestType>(f)) != expected)
        FAIL_CHECK(std::hexfloat << f << ", a float");
    }
  };
  const auto check_around = [&](double x) {
    check(x);
    check(std::nextafter(x, 0.0));
    check(std::nextafter(x, INFINITY));
    for (const float to : {0.0f, INFINITY}) check(std::nextafter(static_cast<float>(x), to));
  };
  random_source random(3);
  const float_format f = format_of(t);
  const int width = 8 * static_cast<int>(sizeof(TestType));
  const std::uint64_t infinity = round_correctly(real(INFINITY), t).bits;
  for (double special : {0.0, static_cast<double>(INFINITY)}) check(special);
  CHECK(scalar_of(arith::round_to<TestType>(-NAN)) == round_correctly(real(NAN), t));
  // Every value, or many, and every point halfway to the next, and their neighbours.
  const std::uint64_t count = width == 16 ? infinity : 50000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = width == 16 ? i : i < 100 ? i : random.bits() % infinity;
    const auto value = static_cast<double>(value_of({t, bits}));
    const double next = bits + 1 == infinity ? std::ldexp(1, f.max_exponent)
                                             : static_cast<double>(value_of({t, bits + 1}));
    check_around(value);
    check_around((value + next) / 2);
  }
  for (int i = 0; i < 50000; ++i) {
    check(std::bit_cast<double>(random.bits()));
    // Exponents around the type's range, long runs of equal bits.
    const int e = f.min_exponent - 60 + random.below(f.max_exponent - f.min_exponent + 80);
    check(std::ldexp(1 + random.uniform(), e));
    check(
        std::ldexp(1 + std::ldexp(static_cast<double>(random.bits() >> 62), -random.below(54)), e));
  }
}

TEMPLATE_TEST_CASE("arith: two-part sums round once", "[truth][arith]", float16, bfloat16, float,
                   double) {
  const dtype t = dtype_of<TestType>;
  const auto check = [&](double hi, double lo) {
    if (!std::isfinite(lo) || (hi == 0 && lo == 0)) return;  // hi decides: see below
    for (double sign : {1.0, -1.0}) {
      const double a = sign * hi, b = sign * lo;
      if (scalar_of(arith::round_sum_to<TestType>(a, b)) != round_correctly(real(a) + b, t))
        FAIL_CHECK(std::hexfloat << a << " + " << b);
    }
  };
  random_source random(4);
  const float_format f = format_of(t);
  const std::uint64_t infinity = round_correctly(real(INFINITY), t).bits;
  for (int i = 0; i < 30000; ++i) {
    const std::uint64_t bits = i < 1000 ? static_cast<std::uint64_t>(i) : random.bits() % infinity;
    const real value = value_of({t, bits});
    const real unit = ulp(value, t);
    // A point halfway (or a value), missed by a little: by far less than a double of its size sees,
    // which a rounding to double before the last one would lose.
    const auto half = static_cast<double>(real(value + unit / 2));
    const double little = std::ldexp(1 + random.uniform(), -random.below(160)) *
                          static_cast<double>(std::max(unit, ldexp(real(1), -900)));
    for (double middle : {half, static_cast<double>(value)})
      for (double lo : {little, -little, 0.0}) {
        check(middle, lo);
        check(middle - 4 * little, lo + 4 * little);  // hi off the halfway point
      }
    // Any two numbers, close in size or not.
    const auto any = std::bit_cast<double>(random.bits());
    const int e = f.min_exponent - 10 + random.below(f.max_exponent - f.min_exponent + 20);
    if (!std::isfinite(any)) continue;
    const double a = std::ldexp(1 + random.uniform(), e);
    const double b = std::ldexp(random.uniform() - 0.5, e - random.below(120));
    check(a, b);
    check(b, a);
    check(any, std::ldexp(any, -53));
    check(any, std::ldexp(any, -54));
    check(any, -any);
    check(any, std::bit_cast<double>(random.bits() & 0xbfefffffffffffff));
  }
  const auto bits = [](double hi, double lo) {
    return scalar_of(arith::round_sum_to<TestType>(hi, lo));
  };
  CHECK(bits(-0.0, 0.0) == round_correctly(-0.0, t));
  CHECK(bits(-0.0, -0.0) == round_correctly(-0.0, t));
  CHECK(bits(INFINITY, NAN) == round_correctly(INFINITY, t));
  CHECK(bits(-INFINITY, INFINITY) == round_correctly(-INFINITY, t));
  CHECK(bits(NAN, 1) == round_correctly(NAN, t));
}

TEST_CASE("arith: integers round once or wrap", "[truth][arith]") {
  random_source random(5);
  const auto check = [](auto x) {
    using I = decltype(x);
    for (dtype t : all_dtypes)
      visit(t, [&]<class Out>(std::type_identity<Out>) {
        const scalar got = scalar_of(arith::round_integer_to<Out, I>(x));
        scalar expected;
        if constexpr (std::is_integral_v<Out>) {
          cpp_int k = x;  // modulo 2^bits, in [0, 2^bits)
          const cpp_int modulus = cpp_int(1) << (8 * sizeof(Out));
          k = ((k % modulus) + modulus) % modulus;
          expected = {t, static_cast<std::uint64_t>(k)};
        } else {
          expected = round_correctly(real(x), t);
        }
        if (got != expected) FAIL_CHECK(x << " to " << name(t));
      });
  };
  for (int i = 0; i < 20000; ++i) {
    const int shift = random.below(64);
    const std::uint64_t any = random.bits() >> shift;
    // One to three bits set, and the numbers around: halfway points of every precision.
    const std::uint64_t sparse =
        1ull << random.below(64) | 1ull << random.below(64) | 1ull << random.below(64);
    for (std::uint64_t u : {any, sparse, sparse - 1, sparse + 1, ~sparse}) {
      check(u);
      check(static_cast<std::int64_t>(u));
      check(-static_cast<std::int64_t>(u >> 1));
    }
  }
  check(INT64_MIN);
  check(INT64_MAX);
  check(UINT64_MAX);
  check(std::int64_t{0});
}
