// bitfold/testing.hpp: distances against counting the values between, and the matchers' messages.
#include <bitfold/testing_catch2.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <bitfold/formats.hpp>

#include "catch.hpp"

using namespace bitfold;
using namespace bitfold::testing;

namespace {

// For matchers: what Catch2 would show of a mismatch.
template <class M, class T>
std::string message(const M& matcher, const T& value) {
  CHECK_FALSE(matcher.match(value));
  return matcher.toString();
}

// Every value of a 16-bit type in increasing order, -0 and +0 as one, NaNs left out: the distance
// of two is how many places apart they stand.
template <class T>
void check_all_of_16_bits() {
  std::vector<T> line;
  const auto value = [](T x) { return arith::widen<double>(x); };
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T x{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(value(x)) && bits != 0x8000) line.push_back(x);
  }
  std::sort(line.begin(), line.end(), [&](T a, T b) { return value(a) < value(b); });
  bool good = true;
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (const std::size_t step : {0, 1, 2, 1000})
      if (i + step < line.size())
        good = good && ulp_distance(line[i], line[i + step]) == step &&
               ulp_distance(line[i + step], line[i]) == step;
    good = good && ulp_distance(line[0], line[i]) == i;
    good = good && ulp_distance(line[i], T{0x7fff}) == no_distance;
  }
  CHECK(good);
  CHECK(ulp_distance(T{0x8000}, T{0}) == 0);
  CHECK(ulp_distance(T{0x8000}, T{1}) == 1);
  CHECK(ulp_distance(T{0x8001}, T{1}) == 2);
  CHECK(ulp_distance(T{0x7fff}, T{0xffff}) == 0);
}

// Steps by std::nextafter.
template <class T>
void check_steps(T from, int steps, T direction) {
  T x = from;
  for (int i = 0; i < steps; ++i) {
    CHECK(ulp_distance(from, x) == static_cast<std::uint64_t>(i));
    CHECK(ulp_distance(x, from) == static_cast<std::uint64_t>(i));
    CHECK(ulp_distance(as_scalar(x), as_scalar(from)) == static_cast<std::uint64_t>(i));
    x = std::nextafter(x, direction);
  }
}

}  // namespace

TEST_CASE("ulp_distance: all values of the 16-bit types") {
  check_all_of_16_bits<float16>();
  check_all_of_16_bits<bfloat16>();
}

TEMPLATE_TEST_CASE("ulp_distance: steps of nextafter", "", float, double) {
  using limits = std::numeric_limits<TestType>;
  const TestType inf = limits::infinity(), nan = limits::quiet_NaN();
  for (const TestType from : {TestType{1}, TestType{-1}, TestType{0}, -3 * limits::denorm_min(),
                              TestType{-0.1}, 3 * limits::min(), limits::lowest()})
    check_steps(from, 20, inf);
  check_steps(inf, 20, -inf);
  CHECK(ulp_distance(limits::max(), inf) == 1);
  CHECK(ulp_distance(TestType{-0.0}, TestType{0.0}) == 0);
  CHECK(ulp_distance(nan, -nan) == 0);
  CHECK(ulp_distance(nan, inf) == no_distance);
  CHECK(ulp_distance(TestType{1}, nan) == no_distance);
}

TEST_CASE("ulp_distance: the farthest values, integers, scalars of two types") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(ulp_distance(-inf, inf) == 0xffe0000000000000);
  CHECK(ulp_distance(INT64_MIN, INT64_MAX) == UINT64_MAX);
  CHECK(ulp_distance(std::int64_t{-1}, std::int64_t{1}) == 2);
  CHECK(ulp_distance(std::int8_t{-128}, std::int8_t{127}) == 255);
  CHECK(ulp_distance(std::uint64_t{0}, UINT64_MAX) == UINT64_MAX);
  CHECK(ulp_distance(std::uint8_t{200}, std::uint8_t{100}) == 100);
  CHECK(ulp_distance(as_scalar(1.0f), as_scalar(1.0)) == no_distance);
  CHECK(ulp_distance(as_scalar(std::int32_t{1}), as_scalar(std::uint32_t{1})) == no_distance);
  static_assert(ulp_distance(1.0f, 1.0000001f) == 1);
}

TEST_CASE("as_scalar is what is stored") {
  const auto check = [](auto x) { CHECK(as_scalar(x) == load_scalar(dtype_of<decltype(x)>, &x)); };
  check(float16{0x8001});
  check(bfloat16{0xff80});
  check(-0.1f);
  check(-0.1);
  check(std::int8_t{-1});
  check(std::int16_t{-2});
  check(std::int32_t{-3});
  check(std::int64_t{-4});
  check(std::uint8_t{255});
  check(std::uint64_t{1} << 63);
}

TEST_CASE("same_bits and first_difference") {
  CHECK(same_bits(1.5f, 1.5f));
  CHECK_FALSE(same_bits(0.0, -0.0));
  CHECK(same_bits(std::nan(""), std::nan("")));
  CHECK_FALSE(same_bits(float16{0x7e00}, float16{0x7e01}));
  CHECK_FALSE(same_bits(as_scalar(0.0f), as_scalar(0.0)));

  const std::vector<double> a{1, 2, 3};
  auto b = a;
  CHECK(same_bits(a, b));
  CHECK(first_difference(a, b) == std::nullopt);
  b[1] = std::nextafter(b[1], 3.0);
  CHECK(first_difference(a, b) == 1u);
  CHECK_FALSE(same_bits(a, b));
  CHECK(first_difference(a, std::span<const double>(a).first(2)) == 2u);
  CHECK(first_difference(std::vector<double>{}, a) == 0u);
  CHECK(same_bits(std::vector<double>{}, std::vector<double>{}));
  const int array[] = {1, 2};
  CHECK(same_bits(array, std::vector<int>{1, 2}));
  CHECK(first_difference(std::vector{as_scalar(1), as_scalar(2)},
                         std::vector{as_scalar(1), as_scalar(2u)}) == 1u);
}

TEST_CASE("the matchers match") {
  CHECK_THAT(1.5f, HasBitsOf(1.5f));
  CHECK_THAT(0.0f, !HasBitsOf(-0.0f));
  CHECK_THAT(0.0f, WithinUlpsOf(-0.0f, 0));
  CHECK_THAT(1.0000002f, WithinUlpsOf(1.0f, 2));
  CHECK_THAT(1.0000002f, !WithinUlpsOf(1.0f, 1));
  CHECK_THAT(std::nanf(""), WithinUlpsOf(-std::nanf(""), 0));
  CHECK_THAT(std::nanf(""), !WithinUlpsOf(1.0f, UINT64_MAX));
  CHECK_THAT(float16{1}, WithinUlpsOf(float16{0x8001}, 2));
  CHECK_THAT(as_scalar(2.0), HasBitsOf(as_scalar(2.0)) && !HasBitsOf(as_scalar(2.0f)));
  const std::vector<float> a{1, 2}, b{1, 2.0000002f};
  CHECK_THAT(a, HasBitsOf(a));
  CHECK_THAT(a, !HasBitsOf(b));
  CHECK_THAT(a, WithinUlpsOf(b, 1));
  CHECK_THAT(a, !HasBitsOf(std::vector<float>{1}));
  CHECK_THAT(std::span<const float>(a), HasBitsOf(std::vector<float>{1, 2}));
}

TEST_CASE("the matchers tell what they saw") {
  CHECK(message(WithinUlpsOf(1.0f, 1), 1.0000002f) ==
        "is within 1 ulps of 1 (f32 3f800000): got 1.0000002 (f32 3f800002), 2 ulps");
  CHECK(message(HasBitsOf(as_scalar(float16{0x3c00})), as_scalar(float16{0x3c01})) ==
        "has the bits of 1 (f16 3c00): got 1.001 (f16 3c01), 1 ulp");
  CHECK(message(HasBitsOf(1.0), std::nan("")) ==
        "has the bits of 1 (f64 3ff0000000000000): got nan (f64 7ff8000000000000), no distance");
  CHECK(message(HasBitsOf(std::vector{1, 2, 3}), std::vector{1, 5, 9}) ==
        "has the bits of 3 values: 2 not, first at [1], 5 (i32 00000005) instead of 2 (i32 "
        "00000002), 3 ulps");
  CHECK(message(WithinUlpsOf(std::vector{1, 2, 3}, 4), std::vector{1}) ==
        "is within 4 ulps of 3 values: got 1 values");
  // A matcher that is used again does not tell of the value before.
  const auto one = HasBitsOf(1);
  message(one, 2);
  CHECK(message(one, 3) == "has the bits of 1 (i32 00000001): got 3 (i32 00000003), 2 ulps");
  CHECK(Catch::Detail::stringify(bfloat16{0x3f80}) == "1 (bf16 3f80)");
}
