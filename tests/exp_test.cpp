// bitfold's own exp and log against MPFR.
#include <bit>
#include <cmath>
#include <limits>

#include <boost/multiprecision/mpfr.hpp>

#include <bitfold/arith.hpp>

#include "../accuracy/inputs.hpp"
#include "catch.hpp"

using namespace bitfold;
using accuracy::random_source;

namespace {

using real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>>;

// In u. The bounds are 2 and 5; this much docs/operations.md says was seen.
constexpr double exp_worst = 1.3, log_worst = 3;

template <class A>
constexpr double unit = std::numeric_limits<A>::epsilon() / 2;

template <class A>
double error_in_u(A got, const real& exact) {
  return static_cast<double>(real(abs(got - exact) / exact)) / unit<A>;
}
template <class A>
double exp_error(A x) {
  return error_in_u(arith::exp_nonpositive(x), exp(real(x)));
}

struct worst_of {
  double error = 0, at = 0;
  void see(double e, double x) {
    if (!(e <= error)) error = e, at = x;
  }
};

// The numbers around which exp's argument changes its k, and those where r is next to nothing.
template <class A>
A hard_place(random_source& random, A floor) {
  const double halves = random.below(static_cast<int>(-2 * floor / std::log(2.0)));
  A x = static_cast<A>(-halves / 2 * std::log(2.0));
  for (int steps = random.below(5); steps > 0; --steps)
    x = std::nextafter(x, random.below(2) ? A(0) : floor);
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("exp: within 2 u of the truth", "[truth][exp]", float, double) {
  const TestType floor = arith::exp_floor<TestType>;
  random_source random(71);
  worst_of worst;
  for (int i = 0; i < 200'000; ++i) {
    TestType x = static_cast<TestType>(random.uniform() * floor);
    if (i % 4 == 1) x = hard_place(random, floor);
    if (i % 4 == 2) x = static_cast<TestType>(-std::exp2(-random.uniform() * 60));
    if (i % 4 == 3) x = static_cast<TestType>(x / 100);
    worst.see(exp_error(x), x);
  }
  CAPTURE(worst.error, worst.at);
  CHECK(worst.error < exp_worst);
  CHECK(worst.error > 0.9);  // of which the last rounding is 1
  CHECK(arith::exp_nonpositive(TestType(0)) == 1);
  CHECK(arith::exp_nonpositive(TestType(-0.0)) == 1);
  CHECK(exp_error(floor) < exp_worst);
  const TestType least = arith::exp_nonpositive(floor);
  CHECK(least >= std::numeric_limits<TestType>::min());
  for (TestType x :
       {std::nextafter(floor, 2 * floor), 10 * floor, std::numeric_limits<TestType>::lowest(),
        -std::numeric_limits<TestType>::infinity(), std::numeric_limits<TestType>::quiet_NaN()})
    CHECK(arith::exp_nonpositive(x) == least);
}

// A minute or two: `truth_tests "[exhaustive]"`. The C library's exp, which is off by 2^-44 at most
// (nobody's is by more than 2^-50), tells which x may be the worst; MPFR says what the error is
// there.
TEST_CASE("exp: every f32", "[.][exhaustive]") {
  const auto last = std::bit_cast<std::uint32_t>(arith::exp_floor<float>);
  worst_of worst{1};  // the least that is of interest
  std::size_t asked = 0;
  for (std::uint32_t bits = 0x80000000u; bits <= last; ++bits) {
    const auto x = std::bit_cast<float>(bits);
    const double close = std::exp(static_cast<double>(x));
    const double error = std::fabs(arith::exp_nonpositive(x) - close) / (close * unit<float>);
    if (error + 0x1p-20 <= worst.error) continue;
    ++asked;
    worst.see(exp_error(x), x);
  }
  WARN("exp of every f32: worst error " << worst.error << " u, at " << worst.at << "; " << asked
                                        << " by MPFR");
  CHECK(worst.error < exp_worst);
  CHECK(worst.error > 1);
}

TEST_CASE("log: within 5 u of the truth", "[truth][exp]") {
  random_source random(72);
  worst_of worst;
  const auto see = [&](double x) {
    if (x > 1) worst.see(error_in_u(arith::log_from_one(x), log(real(x))), x);
  };
  for (int i = 0; i < 100'000; ++i) {
    see(std::exp2(64 * random.uniform()));
    see(1 + std::exp2(-52 * random.uniform()));
    see(std::ldexp(1.5 + std::ldexp(random.below(9) - 4, -52),
                   random.below(64)));  // where k changes
    see(std::ldexp(1 + std::ldexp(random.below(9) - 4, -30), random.below(64)));
  }
  CAPTURE(worst.error, worst.at);
  CHECK(worst.error < log_worst);
  CHECK(worst.error > 0.9);
  CHECK(std::bit_cast<std::uint64_t>(arith::log_from_one(1)) == 0);
}
