// The oracle's sums against those made by hand, by big integers and by fractions.
#include "sums.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

TEST_CASE("oracle: sums that can be checked by hand", "[truth][oracle]") {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const double huge = std::numeric_limits<double>::max();
  CHECK(sum_of<double>({1, tiny, -1}).sum == real(tiny));
  CHECK(sum_of<double>({huge, huge, huge, -huge, tiny}).sum == 2 * real(huge) + tiny);
  CHECK(sum_of<double>({1e20, 1, -1e20}).condition() == 2 * real(1e20) + 1);
  CHECK(sum_of<double>({0.5, 0.25, -4}).sum == real(-3.25));
  CHECK(sum_of<float>({1e8f, 1, -1e8f}).sum_abs == real(200000001));
  CHECK(sum_of<float16>({{0x3c00}, {0x0001}}).sum == 1 + ldexp(real(1), -24));
  CHECK(sum_of<bfloat16>({{0x3f80}, {0xc000}}).sum == -1);
  CHECK(sum_of<std::int8_t>({-128, 127, -1}).sum == -2);
  CHECK(sum_of<std::int8_t>({-128, 127, -1}).sum_abs == 256);
  CHECK(sum_of<std::int64_t>({INT64_MIN, INT64_MIN, 1}).sum == 1 - ldexp(real(1), 64));
  CHECK(sum_of<std::uint64_t>({UINT64_MAX, UINT64_MAX}).sum == ldexp(real(1), 65) - 2);
  CHECK(sum_of<double>({}).sum == 0);
  CHECK_FALSE(signbit(sum_of<double>({}).sum));
  CHECK(signbit(sum_of<double>({-0.0, -0.0}).sum));
  CHECK_FALSE(signbit(sum_of<double>({-0.0, 0.0}).sum));
  CHECK_FALSE(signbit(sum_of<double>({-1.0, 1.0, -0.0}).sum));
  CHECK(sum_of<double>({}).condition() == 1);
  CHECK(isinf(sum_of<double>({1, -1}).condition()));
  CHECK(isnan(sum_of<double>({INFINITY, 1, -INFINITY}).sum));
  CHECK(isnan(sum_of<double>({NAN, 1}).sum));
  CHECK(sum_of<double>({-INFINITY, 1}).sum == real(-INFINITY));
}

TEST_CASE("oracle: random bits of every type against big integers", "[truth][oracle]") {
  random_source random(1);
  for (dtype t : all_dtypes) {
    CAPTURE(name(t));
    for (std::size_t n : {1u, 2u, 17u, 500u}) {
      std::vector<std::byte> data(n * size_of(t));
      cpp_int sum = 0, sum_abs = 0;
      for (std::size_t i = 0; i < n; ++i) {
        scalar v{t, 0};
        do {
          v.bits = random.bits() >> (64 - 8 * size_of(t));
        } while (is_float(t) && !is_finite_pattern(t, v.bits));
        store_scalar(v, data.data() + i * size_of(t));
        cpp_int k;
        if (is_float(t)) {
          k = as_integer(t, v.bits);
        } else {
          k = v.bits;
          if (is_signed_int(t) && v.bits >> (8 * size_of(t) - 1)) k -= cpp_int(1) << 8 * size_of(t);
        }
        sum += k;
        sum_abs += abs(k);
      }
      const exact_sum s = sum_exactly(t, data.data(), n);
      const int scale = is_float(t) ? 1074 : 0;
      CHECK(cpp_int(ldexp(s.sum, scale)) == sum);
      CHECK(cpp_int(ldexp(s.sum_abs, scale)) == sum_abs);
    }
  }
}

TEST_CASE("oracle: sums with halfway cases, subnormals and large exponents against fractions",
          "[truth][oracle]") {
  using boost::multiprecision::cpp_rational;
  // A float's value as a fraction, by the definition of its format.
  const auto fraction = [](dtype t, std::uint64_t bits) {
    return cpp_rational(as_integer(t, bits), cpp_int(1) << 1074);
  };
  random_source random(8);
  for (dtype t : float_types) {
    CAPTURE(name(t));
    const std::uint64_t infinity = round_correctly(real(INFINITY), t).bits;
    const std::uint64_t sign = 1ull << (8 * size_of(t) - 1);
    const std::uint64_t normal = 1ull << (format_of(t).precision - 1);  // the smallest one
    for (int round = 0; round < 200; ++round) {
      // Subnormals, the smallest and largest normals, powers of two and their neighbours.
      const auto n = static_cast<std::size_t>(random.below(6));
      std::vector<std::byte> x(n * size_of(t)), y(n * size_of(t));
      cpp_rational sum = 0, dot = 0, dot_abs = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const auto pick = [&] {
          const std::uint64_t power = (1 + random.bits() % (infinity / normal - 1)) * normal;
          const std::uint64_t choices[] = {
              0, 1, random.bits() % normal, normal - 1, power, power - 1, power + 1, infinity - 1};
          return choices[random.below(8)] | (random.below(2) ? sign : 0);
        };
        const std::uint64_t a = pick(), b = pick();
        store_scalar({t, a}, &x[i * size_of(t)]);
        store_scalar({t, b}, &y[i * size_of(t)]);
        const cpp_rational product = fraction(t, a) * fraction(t, b);
        sum += fraction(t, a);
        dot += product;
        dot_abs += abs(product);
      }
      const auto is = [](const real& got, const cpp_rational& expected) {
        return cpp_rational(cpp_int(ldexp(got, 2148)), cpp_int(1) << 2148) == expected;
      };
      CHECK(is(exact_value(op_id::sum, t, x.data(), n), sum));
      const exact_dot d = dot_exactly(t, x.data(), y.data(), n);
      CHECK(is(d.dot, dot));
      CHECK(is(d.dot_abs, dot_abs));
      if (dot != 0) CHECK(abs(d.condition() * abs(d.dot) - 2 * d.dot_abs) <= d.dot_abs * 1e-300);
    }
  }
}

TEST_CASE("oracle: dot products by hand, and special values", "[truth][oracle]") {
  const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
    return dot_exactly(dtype::f64, x.data(), y.data(), x.size());
  };
  CHECK(dot({1, 2, -3}, {4, 5, 6}).dot == -4);
  CHECK(dot({1, 2, -3}, {4, 5, 6}).condition() == 2 * real(32) / 4);
  CHECK(dot({3}, {0.5}).condition() == 2);
  CHECK(isinf(dot({1, 1}, {1, -1}).condition()));
  CHECK(dot({}, {}).dot == 0);
  CHECK_FALSE(signbit(dot({}, {}).dot));
  CHECK(signbit(dot({-1}, {0.0}).dot));
  CHECK(dot({}, {}).condition() == 2);
  CHECK(isnan(dot({INFINITY, 1}, {0, 1}).dot));
  CHECK(dot({INFINITY, 1}, {-1, 1}).dot == real(-INFINITY));
  CHECK(isnan(dot({INFINITY, INFINITY}, {-1, 1}).dot));
  CHECK_THROWS_AS(dot_exactly(dtype::i32, nullptr, nullptr, 1), std::logic_error);
}

TEST_CASE("oracle: one correct rounding", "[truth][oracle]") {
  const auto bits = [](const real& x, dtype t) { return round_correctly(x, t).bits; };
  const real one = 1, tiny = ldexp(one, -2000);
  CHECK(bits(one + ldexp(one, -24), dtype::f32) == 0x3f800000);         // tie to even
  CHECK(bits(one + ldexp(one, -24) + tiny, dtype::f32) == 0x3f800001);  // just above it
  CHECK(bits(one + 3 * ldexp(one, -24), dtype::f32) == 0x3f800002);
  CHECK(bits(ldexp(one, -150), dtype::f32) == 0);
  CHECK(bits(-(ldexp(one, -150) + tiny), dtype::f32) == 0x80000001);
  CHECK(bits(-tiny, dtype::f32) == 0x80000000);
  CHECK(bits(ldexp(one, -126) - ldexp(one, -150), dtype::f32) == 0x00800000);
  CHECK(bits(ldexp(one, 128) - ldexp(one, 103), dtype::f32) == 0x7f800000);
  CHECK(bits(ldexp(one, 128) - ldexp(one, 103) - tiny, dtype::f32) == 0x7f7fffff);
  CHECK(bits(real(65520), dtype::f16) == 0x7c00);
  CHECK(bits(real(65519), dtype::f16) == 0x7bff);
  CHECK(bits(real(-1e300), dtype::bf16) == 0xff80);
  CHECK(bits(real(NAN), dtype::f16) == 0x7e00);
  CHECK(bits(real(NAN), dtype::f64) == 0x7ff8000000000000);
  CHECK(bits(real(-INFINITY), dtype::f64) == 0xfff0000000000000);
  CHECK(ulp(one, dtype::f32) == ldexp(one, -23));
  CHECK(ulp(one - tiny, dtype::f32) == ldexp(one, -24));
  CHECK(ulp(real(0), dtype::f16) == ldexp(one, -24));
  CHECK(error_in_ulps(scalar_of(1.0f), one + ldexp(one, -23)) == 1);
  CHECK(error_in_ulps(scalar_of(INFINITY), one) == INFINITY);
  CHECK(error_in_ulps(scalar_of(float{INFINITY}), real(INFINITY)) == 0);
  // Beyond the largest number of the type, infinity is the correctly rounded result.
  const scalar f16_infinity{dtype::f16, 0x7c00}, f16_largest{dtype::f16, 0x7bff};
  CHECK(error_in_ulps(f16_infinity, real(65520)) == 0);
  CHECK(relative_error(f16_infinity, real(100000)) == 0);
  CHECK(error_in_ulps(f16_infinity, real(65519)) == INFINITY);
  CHECK(error_in_ulps(f16_infinity, real(-100000)) == INFINITY);
  CHECK(error_in_ulps(f16_largest, real(65520)) == 0.5);
  CHECK(relative_error(scalar_of(3.0), real(2)) == 0.5);

  // The processor converts double to float, and MPFR to double, by themselves.
  random_source random(2);
  for (int i = 0; i < 100000; ++i) {
    const auto d = std::bit_cast<double>(random.bits());
    if (std::isnan(d)) continue;
    const float f = static_cast<float>(d);
    const bool same = round_correctly(d, dtype::f32) == scalar_of(f) &&
                      round_correctly(d, dtype::f64) == scalar_of(d);
    if (!same) FAIL_CHECK("rounding " << d);
    const auto e = std::bit_cast<double>(random.bits() >> (random.bits() % 60));
    const real sum = real(d) + e;
    const double correct = mpfr_get_d(sum.backend().data(), MPFR_RNDN);
    if (!std::isnan(e) && round_correctly(sum, dtype::f64) != scalar_of(correct))
      FAIL_CHECK("rounding " << d << " + " << e);
  }
}
