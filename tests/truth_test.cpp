// Is it true? The oracle against hand-made and big-integer sums; the inputs against what they
// claim; every method against its a-priori bound; every conversion and every printed decimal
// against MPFR.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>

#include <bitfold/reference.hpp>

#include "../accuracy/bounds.hpp"
#include "../accuracy/inputs.hpp"
#include "../accuracy/oracle.hpp"
#include "catch.hpp"
#include "float_reductions.hpp"

// method.inl once more, over counters in place of numbers: the additions that a summand, or a
// rounding error, passes through are counted from the arithmetic that the engines run.
namespace counting {
namespace order {
using bitfold::order::fold_in_place;
}
namespace arith {
struct count {
  std::int64_t additions;  // the most that any summand below has passed through; -1: no summand
};
inline count neutral(count) { return {-1}; }
inline count add(count a, count b) {
  if (a.additions < 0) return b;
  if (b.additions < 0) return a;
  return {std::max(a.additions, b.additions) + 1};
}
inline count add_too(count a, count b) { return add(a, b); }
template <class>
struct sum_and_error {
  count sum, error;
};
inline sum_and_error<count> two_sum(count a, count b) { return {add(a, b), {0}}; }
template <class Out>
Out round_to(count);
template <class Out>
Out round_sum_to(count, count);
template <class Out>
Out round_integer_to(count);
}  // namespace arith
namespace method {
#define BITFOLD_INLINE inline
#define BITFOLD_LAMBDA
#include <bitfold/method.inl>
#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA
}  // namespace method
}  // namespace counting

using namespace bitfold;
using namespace bitfold::accuracy;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;
using boost::multiprecision::cpp_int;

namespace {

constexpr std::size_t lanes = order::lanes, leaf = order::leaf;
constexpr std::array<std::size_t, 11> sizes{
    1, 2, 3, lanes - 1, lanes, lanes + 1, leaf - 1, leaf, leaf + 1, 3 * leaf + 17, 100000};

template <class T>
scalar rounded(double x) {
  return scalar_of(arith::round_to<T>(x));
}

template <class T>
exact_sum sum_of(const std::vector<T>& x) {
  return sum_exactly(dtype_of<T>, x.data(), x.size());
}

scalar reduce(method_id method, dtype in, dtype acc, dtype out, const std::vector<std::byte>& x) {
  return reference(make_reduction(op_id::sum, method, in, acc, out), x.data(),
                   x.size() / size_of(in));
}

// A finite float times 2^1074, as an integer, straight from its bits.
cpp_int as_integer(dtype t, std::uint64_t bits) {
  const float_format f = format_of(t);
  const int stored = f.precision - 1, width = 8 * static_cast<int>(size_of(t));
  const std::uint64_t rest = bits & ((1ull << (width - 1)) - 1);
  const auto biased = static_cast<int>(rest >> stored);
  cpp_int k = rest & ((1ull << stored) - 1);
  if (biased > 0) k += cpp_int(1) << stored;
  k <<= f.min_exponent + 1074 + std::max(biased, 1) - 1;
  return bits >> (width - 1) ? cpp_int(-k) : k;
}

bool is_finite_pattern(dtype t, std::uint64_t bits) { return isfinite(value_of({t, bits})); }

}  // namespace

// ---- Oracle -----------------------------------------------------------------------------------

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

// ---- Inputs -----------------------------------------------------------------------------------

TEST_CASE("inputs: the generator's bits are pinned", "[truth][inputs]") {
  random_source random(0);
  CHECK(random.bits() == 0xe220a8397b1dcdaf);  // the published first outputs for seed 0
  CHECK(random.bits() == 0x6e789e6aa1b965f4);
  CHECK(random.uniform() == (0x06c45d188009454f >> 11) / 0x1p53);
}

TEST_CASE("inputs: every one has its size, is finite and repeats", "[truth][inputs]") {
  std::set<std::string_view> names;
  for (const input& in : all_inputs()) {
    CAPTURE(in.name);
    CHECK(names.insert(in.name).second);
    for (dtype t : float_types) {
      CAPTURE(name(t));
      for (std::size_t n : {0u, 1u, 2u, 1000u}) {
        const auto x = in.make(n, 7, t);
        REQUIRE(x.size() == n);
        CHECK((x == in.make(n, 7, t)));  // in brackets: not worth printing
        const exact_sum s = sum_exactly(t, pack(x, t).data(), n);
        CHECK(isfinite(s.sum));  // in particular, nothing overflows the type
      }
    }
  }
}

TEST_CASE("inputs: the same bits on every platform", "[truth][inputs]") {
  const std::map<std::string_view, std::uint64_t> golden{
      {"uniform", 0x1fb380cccfc0ec57},        {"uniform-signed", 0x42e2f2cfc24f89f8},
      {"normal", 0x94c7e568e3073f3f},         {"positive", 0x8902de944308b57a},
      {"log-normal", 0x7658354740ea010c},     {"alternating", 0x36ceb4f0658742bb},
      {"relu", 0x03a46adb77ec4040},           {"gradients", 0x23217c8ed4445bdf},
      {"sorted-up", 0xa88a4ec5de45ad13},      {"sorted-down", 0x51bdc8b7b858c6df},
      {"stagnation", 0xefe64926ca609631},     {"absorption", 0xe1400332bc31c40d},
      {"drops", 0x3712e4f777947bfd},          {"overflow", 0x64078d6627f51559},
      {"underflow", 0x1cc710b91124a517},      {"tenths", 0xdd369487cc4da115},
      {"anderson", 0x436733e458bcf6df},       {"subnormal", 0x5f7904b1ea3fd8e5},
      {"condition-1e4", 0xb436f4c7aad81e8f},  {"condition-1e8", 0xe39c256179581987},
      {"condition-1e16", 0x3a5e878917396385}, {"condition-1e24", 0x847f5db0bd82641f},
      {"condition-1e40", 0x626aead8e6a2345b}};
  const auto add = [](std::uint64_t& hash, const std::vector<double>& x, dtype t) {  // FNV-1a
    for (std::byte b : pack(x, t)) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
  };
  for (const input& in : all_inputs()) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (dtype t : float_types) add(hash, in.make(1000, 7, t), t);
    CAPTURE(in.name);
    REQUIRE(golden.contains(in.name));
    CHECK(hash == golden.at(in.name));
  }
  CHECK(golden.size() == all_inputs().size());
  std::uint64_t hash = 0xcbf29ce484222325;
  for (dtype t : float_types)
    for (double c : {10.0, 1e16, 1e40}) {
      const dot_input in = dot_cancellation(1000, 7, t, c);
      add(hash, in.x, t);
      add(hash, in.y, t);
    }
  CHECK(hash == 0x248e32cddf3e9def);
}

TEST_CASE("inputs: what each one claims", "[truth][inputs]") {
  const std::size_t n = 20000;
  const auto make = [&](std::string_view wanted, dtype t = dtype::f32) {
    for (const input& in : all_inputs())
      if (in.name == wanted) return in.make(n, 5, t);
    throw std::logic_error("no such input");
  };
  const auto mean = [&](const std::vector<double>& x, auto f) {
    double sum = 0;
    for (double v : x) sum += f(v);
    return sum / static_cast<double>(x.size());
  };
  const auto identity = [](double v) { return v; };
  const auto square = [](double v) { return v * v; };
  const auto between = [](const std::vector<double>& x, double low, double high) {
    return std::all_of(x.begin(), x.end(), [=](double v) { return v >= low && v < high; });
  };
  CHECK(between(make("uniform"), 0, 1));
  CHECK(mean(make("uniform"), identity) == Approx(0.5).margin(0.02));
  CHECK(between(make("uniform-signed"), -1, 1));
  CHECK(mean(make("uniform-signed"), identity) == Approx(0).margin(0.02));
  CHECK(between(make("positive"), 1, 2));
  CHECK(mean(make("normal"), identity) == Approx(0).margin(0.03));
  CHECK(mean(make("normal"), square) == Approx(1).margin(0.05));
  CHECK(mean(make("relu"), [](double v) { return v == 0 ? 1.0 : 0.0; }) ==
        Approx(0.5).margin(0.02));
  CHECK(between(make("relu"), 0, 6));
  const auto exponent = [](double v) { return static_cast<double>(std::ilogb(v)); };
  for (dtype t : float_types) {
    const auto x = make("log-normal", t);
    const double scale = t == dtype::f16 ? 0.5 : 1;
    CHECK(between(x, std::ldexp(1, t == dtype::f16 ? -16 : -30),
                  std::ldexp(1, t == dtype::f16 ? 15 : 31)));
    CHECK(mean(x, exponent) == Approx(t == dtype::f16 ? -1 : 0).margin(0.5));
    // Four times uniform in 0 .. 15 has variance 4 (16^2 - 1) / 12 = 85.
    CHECK(mean(x, [&](double v) { return square(exponent(v) / scale); }) ==
          Approx(85).epsilon(0.05));
  }
  const auto alternating = make("alternating");
  for (std::size_t i = 0; i < n; ++i)
    if (const double v = i % 2 ? -alternating[i] : alternating[i]; v < 1000 || v >= 1001)
      FAIL_CHECK("alternating: " << v);
  CHECK(mean(make("tenths"), [](double v) { return v == 0.1; }) == 1);
  const auto up = make("sorted-up"), down = make("sorted-down");
  CHECK(std::is_sorted(up.begin(), up.end()));
  CHECK(std::is_sorted(down.rbegin(), down.rend()));
  CHECK(up.front() < up.back());
  CHECK(down.front() > down.back());
  const auto gradients = make("gradients");
  const double largest = *std::max_element(gradients.begin(), gradients.end());
  CHECK(largest > 100 * mean(gradients, [](double v) { return std::fabs(v); }));
  for (dtype t : float_types) {
    CAPTURE(name(t));
    const auto x = make("stagnation", t);
    const dtype acc = t == dtype::f64 ? dtype::f64 : dtype::f32;
    // Sequential summation returns the large value: each of the others is lost.
    CHECK(value_of(reduce(method_id::sequential, t, acc, acc, pack(x, t))) == real(x[0]));
    CHECK(sum_exactly(t, pack(x, t).data(), n).condition() == 1);
    const auto subnormal = make("subnormal", t);
    CHECK(between(subnormal, -255.5 * std::ldexp(1, format_of(t).min_exponent),
                  255.5 * std::ldexp(1, format_of(t).min_exponent)));
    CHECK(sum_exactly(t, pack(subnormal, t).data(), n).condition() > 10);
    CHECK(sum_exactly(t, pack(make("absorption", t), t).data(), n).condition() > 1e6);
    CHECK(sum_exactly(t, pack(make("anderson", t), t).data(), n).condition() > 1e3);
  }
}

TEST_CASE("inputs: the lecture's cases", "[truth][inputs]") {
  const auto find = [](std::string_view wanted) {
    for (const input& in : all_inputs())
      if (in.name == wanted) return in;
    throw std::logic_error("no such input");
  };
  // Ten small ones, then two large ones that cancel: what is left depends on where one begins.
  const auto x = find("absorption").make(12, 1, dtype::f64);
  std::vector<double> expected(12, 1e-20);
  expected[10] = 1e20, expected[11] = -1e20;
  CHECK(x == expected);
  double left = 0, right = 0;
  for (double v : x) left += v;
  for (auto v = x.rbegin(); v != x.rend(); ++v) right += *v;
  CHECK(left == 0);
  CHECK(right == Approx(1e-19));
  // 1000 + 1e-3: f16 has no room for it, f32 has.
  const auto y = find("drops").make(2, 1, dtype::f16);
  CHECK(y == std::vector<double>{1000, 1e-3});
  const auto halves = pack(y, dtype::f16);
  CHECK(to_string(reduce(method_id::tree, dtype::f16, dtype::f32, dtype::f16, halves)) == "1000");
  CHECK(to_string(reduce(method_id::tree, dtype::f16, dtype::f32, dtype::f32, halves)) ==
        "1000.001");
}

TEST_CASE("inputs: overflow and underflow happen in their own type", "[truth][inputs]") {
  const std::size_t n = 1000;
  // Left to right in type t; `flush`: to zero, what is subnormal.
  const auto sum_in = [](dtype t, const std::vector<std::byte>& x, bool flush) {
    const float_format f = format_of(t);
    const real smallest_normal = ldexp(real(1), f.min_exponent + f.precision - 1);
    real s = 0;
    for (std::size_t i = 0; i < x.size(); i += size_of(t)) {
      s = value_of(round_correctly(s + value_of(load_scalar(t, &x[i])), t));
      if (flush && abs(s) < smallest_normal) s = 0;
    }
    return s;
  };
  for (const input& in : all_inputs())
    for (dtype t : float_types) {
      CAPTURE(name(t));
      if (in.name == "overflow") {
        const auto x = pack(in.make(n, 3, t), t);
        const exact_sum s = sum_exactly(t, x.data(), n);
        CHECK(isinf(sum_in(t, x, false)));
        CHECK(isfinite(value_of(round_correctly(s.sum, t))));
        CHECK(s.sum != 0);
        CHECK(s.condition() < 4 * n);
        const reduction wider = make_reduction(op_id::sum, method_id::tree, t, dtype::f64, t);
        if (t != dtype::f64) CHECK(error_in_ulps(reference(wider, x.data(), n), s.sum) <= 0.5);
        // In the canonical order, too, where the accumulator has no more range.
        const dtype acc = t == dtype::f64 ? dtype::f64 : dtype::f32;
        CHECK(isfinite(value_of(reduce(method_id::tree, t, acc, t, x))) == (t == dtype::f16));
      } else if (in.name == "underflow") {
        const auto x = pack(in.make(n, 3, t), t);
        const real exact = sum_exactly(t, x.data(), n).sum;
        const float_format f = format_of(t);
        for (std::size_t i = 0; i < x.size(); i += size_of(t))
          if (abs(value_of(load_scalar(t, &x[i]))) <
              ldexp(real(1), f.min_exponent + f.precision - 1))
            FAIL_CHECK("a subnormal");
        CHECK(abs(sum_in(t, x, false) - exact) < exact / 50);
        CHECK(abs(sum_in(t, x, true)) < exact / 10);
      }
    }
}

TEST_CASE("inputs: cancellation reaches the condition number asked for", "[truth][inputs]") {
  const auto check = [](std::size_t n, std::uint64_t seed, dtype t, double c) {
    const auto x = cancellation(n, seed, t, c);
    const auto packed = pack(x, t);
    // Nothing is lost when it is packed: the values are of type t already.
    for (std::size_t i = 0; i < std::min<std::size_t>(n, 1000); ++i)
      if (value_of(load_scalar(t, packed.data() + i * size_of(t))) != x[i]) FAIL("rounded");
    const real reached = sum_exactly(t, packed.data(), n).condition();
    CAPTURE(name(t), n, seed, c, static_cast<double>(reached));
    CHECK(reached >= c / 2);
    CHECK(reached <= c * 2);
  };
  for (dtype t : float_types) {
    for (double c = 1; c < 2e40; c *= 10)
      if (t != dtype::f16 || c <= 0x1p26)
        for (std::size_t n : {100u, 1000u, 5000u})
          for (std::uint64_t seed : {1u, 2u}) check(n, seed, t, c);
    for (double c : {1.0, 0x1p26, 1e40})
      if (t != dtype::f16 || c <= 0x1p26) check(200000, 3, t, c);
  }
  check(2000000, 10, dtype::f16, 0x1p26);  // half of it has a sum that is too large for f16
}

TEST_CASE("inputs: so does that of dot products", "[truth][inputs]") {
  const auto check = [](std::size_t n, std::uint64_t seed, dtype t, double c) {
    const dot_input in = dot_cancellation(n, seed, t, c);
    const auto x = pack(in.x, t), y = pack(in.y, t);
    for (std::size_t i = 0; i < std::min<std::size_t>(n, 1000); ++i)
      if (value_of(load_scalar(t, x.data() + i * size_of(t))) != in.x[i] ||
          value_of(load_scalar(t, y.data() + i * size_of(t))) != in.y[i])
        FAIL("rounded");
    const real reached = dot_exactly(t, x.data(), y.data(), n).condition();
    CAPTURE(name(t), n, seed, c, static_cast<double>(reached));
    CHECK(reached >= c / 2);
    CHECK(reached <= c * 2);
  };
  for (dtype t : float_types) {
    for (double c : {2.0, 4.0}) check(1000, 1, t, c);
    for (double c = 10; c < 2e40; c *= 10)
      if (t != dtype::f16 || c <= 0x1p26)
        for (std::size_t n : {100u, 1000u, 5000u})
          for (std::uint64_t seed : {1u, 2u}) check(n, seed, t, c);
    for (double c : {2.0, 0x1p26, 1e40})
      if (t != dtype::f16 || c <= 0x1p26) check(200000, 3, t, c);
  }
  for (std::size_t n : {0u, 1u, 2u, 3u}) {
    const dot_input in = dot_cancellation(n, 1, dtype::f32, 1e8);
    CHECK(in.x.size() == n);
    CHECK(in.y.size() == n);
  }
}

// ---- Bounds -----------------------------------------------------------------------------------

namespace {

// A way through the tree: the element that passes through the most additions, and one element from
// each subtree that it meets on its way.
struct longest_path {
  std::uint64_t deepest;
  std::vector<std::uint64_t> met;
};

template <class M>
struct follows : M {
  static longest_path start(longest_path x) { return x; }
  static longest_path merge(longest_path a, longest_path b) {
    if (a.met.size() < b.met.size()) std::swap(a, b);
    a.met.push_back(b.deepest);
    return a;
  }
  static longest_path add(longest_path s, longest_path x) { return merge(std::move(s), x); }
};

// The state of n elements under a method of any namespace, element(i) being the i-th.
template <class M, class Element>
auto run_order(std::uint64_t n, Element element) {
  return order::interpret(
      n, [](int count, auto get) { return method::fold_lane<M, order::rows>(count, get); },
      [](auto a, auto b) { return M::merge(a, b); }, element);
}

longest_path find_longest_path(method_id method, std::uint64_t n) {
  return visit(method, [&]<class M>(std::type_identity<M>) {
    const auto element = [](std::uint64_t i) { return longest_path{i, {}}; };
    if constexpr (std::is_same_v<M, method::sequential>) {
      longest_path s = element(0);
      for (std::uint64_t i = 1; i < n; ++i) s.met.push_back(i);
      return s;
    } else {
      return run_order<follows<M>>(n, element);
    }
  });
}

}  // namespace

TEST_CASE("bounds: the depths are those of the order", "[truth][bounds]") {
  std::vector<std::uint64_t> ns;
  for (std::uint64_t n = 1; n <= 2 * order::lanes + 2; ++n) ns.push_back(n);
  for (std::uint64_t leaves = 1; leaves <= 9; ++leaves)
    for (int d : {-order::lanes - 1, -1, 0, 1, order::lanes + 1})
      ns.push_back(leaves * order::leaf + static_cast<std::uint64_t>(d));
  for (std::uint64_t n : ns) {
    CAPTURE(n);
    for (const auto& m : all_methods) {
      CAPTURE(m.name);
      const bool any_order = m.ordering == ordering::any;  // of integers, which lose nothing
      CHECK(addition_depth(m.id, n) == (any_order ? 0 : find_longest_path(m.id, n).met.size()));
    }
    // From the arithmetic itself: the depth of kahan's sums, and of its errors.
    const auto counted = run_order<counting::method::kahan>(
        n, [](std::uint64_t) { return counting::arith::count{0}; });
    CHECK(addition_depth(method_id::kahan, n) == static_cast<std::uint64_t>(counted.sum.additions));
    const auto errors = static_cast<std::int64_t>(error_depth(n));
    CHECK(errors >= counted.error.additions);
    CHECK(errors <= counted.error.additions + 3);
  }
}

TEST_CASE("bounds: the plain bound is attained", "[truth][bounds]") {
  // 1, and u in every sum that it meets: each addition is a tie that loses u. The bound must hold
  // and have nothing to spare but its terms of second order.
  for (dtype t : {dtype::f32, dtype::f64})
    for (method_id m : {method_id::tree, method_id::pairwise, method_id::sequential})
      for (std::size_t n : sizes) {
        if (n > 20000) continue;
        CAPTURE(name(t), name(m), n);
        const auto path = find_longest_path(m, n);
        std::vector<double> x(n, 0.0);
        x[path.deepest] = 1;
        for (auto i : path.met) x[i] = std::ldexp(1, -format_of(t).precision);
        const auto packed = pack(x, t);
        const reduction r = make_reduction(op_id::sum, m, t);
        const scalar result = reference(r, packed.data(), n);
        const exact_sum s = sum_exactly(t, packed.data(), n);
        const real error = abs(value_of(result) - s.sum);
        CHECK(value_of(result) == 1);
        CHECK(error <= error_bound(r, n, s));
        CHECK(error >= 0.99 * error_bound(r, n, s));
      }
}

TEST_CASE("bounds: kahan's bound, by hand", "[truth][bounds]") {
  // Perfectly conditioned: half an ulp and nothing one could see beside it.
  const exact_sum s{1, 1};
  const reduction r = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  const double u = 0x1p-24;
  CHECK(error_bound(r, 100000, s) < u * 1.0001);
  CHECK(error_bound(r, 100000, s) > u);
  const double second_order = u * u * static_cast<double>(error_depth(100000)) *
                              static_cast<double>(addition_depth(method_id::kahan, 100000));
  const auto before = static_cast<double>(bound_before_rounding(r, 100000, s));
  CHECK(before == Approx(second_order).epsilon(1e-4));
}

TEST_CASE("bounds: every method, type and input is within", "[truth][bounds]") {
  int checked = 0, overflowing = 0;
  double closest = 0;
  for (dtype in : float_types)
    for (const input& generator : all_inputs())
      for (std::size_t n : sizes) {
        const auto x = pack(generator.make(n, 11, in), in);
        const exact_sum s = sum_exactly(in, x.data(), n);
        for_each_reduction(in, [&](const reduction& r) {
          const scalar result = reference(r, x.data(), n);
          const real v = value_of(result);
          const real before = bound_before_rounding(r, n, s), bound = error_bound(r, n, s);
          // The value that was rounded lies within `before` of S, and rounding is monotonic: this
          // also says which results may be infinite.
          const bool between = v >= value_of(round_correctly(s.sum - before, r.out())) &&
                               v <= value_of(round_correctly(s.sum + before, r.out()));
          const bool within = !isfinite(bound) || abs(v - s.sum) <= bound;
          overflowing += !isfinite(bound);
          ++checked;
          // Only `overflow` may overflow, where the accumulator has no more range than its type.
          const bool may = generator.name == "overflow" && (in == r.acc() || in == dtype::bf16);
          if (isfinite(before) ? !between || !within : !may)
            FAIL_CHECK(describe(r) << " on " << generator.name << ", n = " << n << ": "
                                   << to_string(result) << ", exact " << s.sum.str(20)
                                   << ", bounds " << before.str(5) << " and " << bound.str(5));
          if (bound > 0 && isfinite(bound) && r.method() != method_id::exact)
            closest = std::max(closest, static_cast<double>(real(abs(v - s.sum) / bound)));
        });
      }
  CAPTURE(checked, overflowing, closest);
  CHECK(overflowing < checked / 20);  // only f16's small range leads here
  CHECK(closest > 0.9);               // and the bounds say something
}

// ---- IEEE 754's special values ----------------------------------------------------------------

TEST_CASE("specials: infinities, NaNs and signed zeros follow IEEE 754", "[truth][ieee]") {
  const double inf = INFINITY;
  const std::vector<std::vector<double>> specials{
      {inf},       {-inf},      {NAN},      {-NAN},     {inf, inf},
      {inf, -inf}, {-inf, inf}, {NAN, inf}, {inf, NAN}, {-inf, NAN, inf}};
  for (dtype in : float_types)
    for (std::size_t n : {std::size_t{3}, lanes + 1, leaf, 2 * leaf + 5})
      for (const auto& special : specials)
        for (std::size_t where : {std::size_t{0}, n / 2, n - 1}) {
          std::vector<double> values(n, 1.0);
          for (std::size_t k = 0; k < special.size(); ++k)
            values[(where + k * (n / 3)) % n] = special[k];
          const auto x = pack(values, in);
          const exact_sum s = sum_exactly(in, x.data(), n);
          for_each_reduction(in, [&](const reduction& r) {
            if (reference(r, x.data(), n) != round_correctly(s.sum, r.out()))
              FAIL_CHECK(describe(r) << " n = " << n << ", special " << special[0]);
          });
        }
  // A NaN of any sign and payload comes out as the one canonical NaN.
  for (std::uint32_t bits : {0x7fc00000u, 0xffc00001u, 0x7f800001u, 0xffffffffu}) {
    const auto x = std::bit_cast<float>(bits);
    for_each_reduction(dtype::f32, [&](const reduction& r) {
      CHECK(reference(r, &x, 1) == round_correctly(real(NAN), r.out()));
    });
  }
  for (dtype in : float_types)
    for (std::size_t n : sizes) {
      for (bool one_positive : {false, true}) {
        std::vector<double> values(n, -0.0);
        if (one_positive) values[n / 2] = 0.0;
        const auto x = pack(values, in);
        for_each_reduction(in, [&](const reduction& r) {
          const scalar zero = round_correctly(one_positive ? 0.0 : -0.0, r.out());
          if (reference(r, x.data(), n) != zero) FAIL_CHECK(describe(r) << " zeros, n = " << n);
        });
      }
      if (n > 1000) break;
    }
  for_each_reduction(dtype::f32, [&](const reduction& r) {
    CHECK(reference(r, nullptr, 0) == scalar{r.out(), 0});
  });
}

TEST_CASE("specials: sums that overflow are infinite", "[truth][ieee]") {
  for (dtype in : float_types)
    for (double sign : {1.0, -1.0}) {
      const float_format f = format_of(in);
      const double largest = std::ldexp(2 - std::ldexp(1, 1 - f.precision), f.max_exponent - 1);
      const auto x = pack(std::vector<double>(3000, sign * largest), in);
      const exact_sum s = sum_exactly(in, x.data(), 3000);
      for_each_reduction(in, [&](const reduction& r) {
        CAPTURE(describe(r));
        const scalar result = reference(r, x.data(), 3000);
        const bool overflows = abs(s.sum) >= ldexp(real(1), format_of(r.out()).max_exponent) ||
                               abs(s.sum) >= ldexp(real(1), format_of(r.acc()).max_exponent);
        if (r.method() == method_id::exact)
          CHECK(result == round_correctly(s.sum, r.out()));
        else if (overflows)
          CHECK(result == round_correctly(sign * INFINITY, r.out()));
        else
          CHECK(isfinite(value_of(result)));
      });
    }
  // Within half an ulp of overflowing: what kahan has collected decides.
  const float max = std::numeric_limits<float>::max();
  const reduction kahan = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  const auto sum = [&](std::vector<float> x) { return reference(kahan, x.data(), x.size()); };
  CHECK(sum({max, 0x1p102f, 0x1p102f}) == scalar_of(INFINITY));
  CHECK(sum({max, 0x1p102f, 0x1p101f}) == scalar_of(max));
  CHECK(sum({-max, -0x1p102f, -0x1p102f}) == scalar_of(-INFINITY));
  // In between, nothing overflows by exact.
  const std::vector<float> x{max, max, -max};
  CHECK(reference(make_reduction(op_id::sum, method_id::exact, dtype::f32), x.data(), 3) == scalar_of(max));
}

// ---- Conversions ------------------------------------------------------------------------------

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

// ---- Text -------------------------------------------------------------------------------------

namespace {

// The significant digits of a decimal, without leading and trailing zeros.
std::string significant(const std::string& text) {
  std::string digits;
  for (char c : text.substr(0, text.find('e')))
    if (c >= '0' && c <= '9' && (c != '0' || !digits.empty())) digits += c;
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return digits;
}

// Whether some decimal of `digits` significant digits reads as v: one next to |v| below or above.
bool some_decimal_reads_as(scalar v, const real& value, int digits) {
  char exact[900];  // all digits of any double
  std::snprintf(exact, sizeof exact, "%.800e", std::fabs(static_cast<double>(value)));
  const std::string text = exact, cut = text.substr(0, 1) + text.substr(2, digits - 1);
  const int exponent = std::atoi(text.substr(text.find('e') + 1).c_str()) - (digits - 1);
  for (int up : {0, 1}) {
    const real candidate(std::to_string(std::stoll(cut) + up) + "e" + std::to_string(exponent));
    if (round_correctly(value < 0 ? -candidate : candidate, v.type) == v) return true;
  }
  return false;
}

void check_text(scalar v) {
  const real value = value_of(v);
  const std::string text = to_string(v);
  if (!isfinite(value)) {
    if (text != (isnan(value) ? "nan" : value > 0 ? "inf" : "-inf")) FAIL_CHECK(to_hex(v) << text);
    return;
  }
  if (round_correctly(real(text), v.type) != v) FAIL_CHECK(to_hex(v) << " prints as " << text);
  // Shortest counts characters: a large integer may show all its digits where that is no longer
  // than fewer of them and an exponent.
  const auto digits = static_cast<int>(significant(text).size());
  const bool integer = text.find_first_of(".e") == std::string::npos;
  for (int k = integer ? 1 : digits - 1; k > 0 && k < std::min(digits, 18); ++k)
    if (some_decimal_reads_as(v, value, k)) {
      const int scientific = (value < 0) + (k == 1 ? 1 : k + 1) + 4;
      if (!integer || scientific < static_cast<int>(text.size()))
        FAIL_CHECK(to_hex(v) << " prints as " << text << ": " << k << " digits would do");
      break;
    }
}

}  // namespace

TEST_CASE("text: decimals read back and are the shortest", "[truth][text]") {
  for (dtype t : {dtype::f16, dtype::bf16})
    for (std::uint64_t b = 0; b < 0x10000; ++b) check_text({t, b});
  random_source random(6);
  for (int i = 0; i < 5000; ++i) {
    check_text({dtype::f32, random.bits() >> 32});
    check_text({dtype::f64, random.bits()});
    check_text({dtype::f64, static_cast<std::uint64_t>(i)});
    check_text({dtype::f32, static_cast<std::uint64_t>(i % 256) << 23});  // powers of two
    check_text({dtype::f64, static_cast<std::uint64_t>(i % 2047) << 52});
    check_text(scalar_of(static_cast<double>(i)));
    check_text(scalar_of(i / 100.0));
  }
  CHECK(to_string(scalar_of(1.0f)) == "1");
  CHECK(to_string(scalar_of(0.1)) == "0.1");
  CHECK(to_string(scalar_of(-0.0)) == "-0");
  CHECK(to_string(round_correctly(real(0.1), dtype::bf16)) == "0.1");
  CHECK(to_string(scalar_of(std::int8_t{-128})) == "-128");
  CHECK(to_string(scalar_of(UINT64_MAX)) == "18446744073709551615");
  CHECK(to_string(scalar_of(INT64_MIN)) == "-9223372036854775808");
}

TEST_CASE("text: hex is the bits at full width", "[truth][text]") {
  CHECK(to_hex(scalar_of(1.0f)) == "3f800000");
  CHECK(to_hex(scalar_of(-0.0)) == "8000000000000000");
  CHECK(to_hex({dtype::f16, 0x0001}) == "0001");
  CHECK(to_hex({dtype::bf16, 0x7fc0}) == "7fc0");
  CHECK(to_hex(scalar_of(std::int8_t{-1})) == "ff");
  CHECK(to_hex(scalar_of(std::int32_t{10})) == "0000000a");
  random_source random(7);
  for (dtype t : all_dtypes)
    for (int i = 0; i < 200; ++i) {
      const scalar v{t, random.bits() >> (64 - 8 * size_of(t))};
      const std::string hex = to_hex(v);
      CHECK(hex.size() == 2 * size_of(t));
      CHECK(std::stoull(hex, nullptr, 16) == v.bits);
    }
}
