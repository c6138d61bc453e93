// Softmax, its logarithm, layer norms and exp against MPFR.
#include <cmath>
#include <limits>
#include <vector>

#include <boost/multiprecision/mpfr.hpp>

#include <bitfold/arith.hpp>
#include <bitfold/rows.hpp>

#include "catch.hpp"
#include "data.hpp"

using namespace bitfold;

TEST_CASE("rows: softmax and log_softmax within their bounds of the truth", "[truth]") {
  using real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>>;
  test::random_bits next{7};
  const double u = 0x1p-24;
  for (const std::size_t n : {1, 5, 100, 3000}) {
    std::vector<float> x(n), y(n), logs(n);
    const double span = n == 100 ? 220 : 40;  // down to subnormal results, and to 0
    for (float& v : x)
      v = static_cast<float>(static_cast<double>(next() >> 40) * 0x1p-24 * span - 20);
    cpu::apply(row_function::softmax, {dtype::f32, 1, n, x.data()}, y.data());
    cpu::apply(row_function::log_softmax, {dtype::f32, 1, n, x.data()}, logs.data());
    real sum = 0, most = x[0];
    for (const float v : x) most = max(most, real(v));
    for (const float v : x) sum += exp(real(v) - most);
    const double depth = std::ceil(std::log2(static_cast<double>(n))) +
                         9;  // additions behind one another, and merges' exp
    for (std::size_t i = 0; i < n; ++i) {
      const real of = exp(real(x[i]) - most) / sum, log_of = real(x[i]) - most - log(sum);
      const double far = static_cast<double>(abs(real(x[i]) - most));
      // x - most is rounded, which exp takes times far; exp has 2 u, or 5 u by its square, the sum
      // 5 u for each level, the inverse and the product 1 each. A square and a product may be
      // subnormal.
      CHECK(static_cast<double>(abs(y[i] - of)) <=
            static_cast<double>(of) * (far + 7 + 5 * depth) * u + 0x1p-148);
      CHECK(static_cast<double>(abs(logs[i] - log_of)) <=
            (2 * far + 2 * std::log(static_cast<double>(n)) + 5 * depth) * u);
    }
  }
}

TEMPLATE_TEST_CASE("rows: layer norms about large means, and of any scale", "[truth]", float,
                   double) {
  using real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<700>>;
  constexpr bool narrow = std::is_same_v<TestType, float>;
  const double u = narrow ? 0x1p-24 : 0x1p-53;
  test::random_bits next{9};
  for (const std::size_t n : {2, 31, 100, 3000})
    for (const double mean : {0.0, 100.0, -1e4})
      for (const double scale :
           {1.0, 1e30, 1e-30, narrow ? 1e33 : 1e300, narrow ? 1e-33 : 1e-300}) {
        std::vector<TestType> x(n), y(n), means(1), rstds(1);
        for (TestType& v : x)
          v = static_cast<TestType>((mean + static_cast<double>(next() >> 40) * 0x1p-24) * scale);
        const double eps = scale == 1 ? 1e-5 : 0;
        cpu::apply(row_function::layer_norm,
                   {narrow ? dtype::f32 : dtype::f64, 1, n, x.data(), nullptr, nullptr, nullptr,
                    means.data(), rstds.data(), eps},
                   y.data());
        real sum = 0, squares = 0;
        for (const TestType v : x) sum += v;
        const real middle = sum / n;
        for (const TestType v : x) squares += (v - middle) * (v - middle);
        const real rstd = 1 / sqrt(squares / n + eps);
        real largest = 0;
        for (const TestType v : x) largest = max(largest, abs((v - middle) * rstd));
        CAPTURE(n, mean, scale);
        CHECK(abs(means[0] - middle) <= abs(middle) * u + abs(squares) * u);
        CHECK(abs(rstds[0] - rstd) <= rstd * 8 * u);
        for (std::size_t i = 0; i < n; ++i)
          if (!(abs(y[i] - (x[i] - middle) * rstd) <= largest * 12 * u))
            FAIL_CHECK(x[i] << " became " << y[i]);
      }
}

TEMPLATE_TEST_CASE("rows: exp within its bounds of the truth", "[truth]", float, double) {
  using real = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<60>>;
  constexpr bool narrow = std::is_same_v<TestType, float>;
  const double u = narrow ? 0x1p-24 : 0x1p-53, least = narrow ? 0x1p-149 : 0x1p-1074,
               farthest = narrow ? 110 : 750;
  test::random_bits next{7};
  std::vector<TestType> x(60'000), y(x.size());
  for (TestType& v : x)
    v = static_cast<TestType>((static_cast<double>(next() >> 11) * 0x1p-52 - 1) * farthest);
  cpu::apply(row_function::exp, {narrow ? dtype::f32 : dtype::f64, 1, x.size(), x.data()},
             y.data());
  const TestType most = std::numeric_limits<TestType>::max();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const real truth = exp(real(x[i]));
    const bool deep = std::abs(x[i]) > -arith::exp_floor<TestType>;
    const int bound = x[i] > 0 ? (deep ? 7 : 3) : (deep ? 5 : 2);
    INFO(x[i] << " " << y[i]);
    if (std::isinf(y[i]))
      CHECK(truth * (1 + 7 * u) > real(most));
    else
      CHECK(abs(real(y[i]) - truth) <= truth * bound * u + real(least) / 2);
  }
}
