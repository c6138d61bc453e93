// Softmax and its logarithm against MPFR.
#include <cmath>

#include <boost/multiprecision/mpfr.hpp>

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
    for (float& v : x) v = static_cast<float>(static_cast<double>(next() >> 40) * 0x1p-24 * span - 20);
    cpu::apply(row_function::softmax, {dtype::f32, 1, n, x.data()}, y.data());
    cpu::apply(row_function::log_softmax, {dtype::f32, 1, n, x.data()}, logs.data());
    real sum = 0, most = x[0];
    for (const float v : x) most = max(most, real(v));
    for (const float v : x) sum += exp(real(v) - most);
    const double depth = std::ceil(std::log2(static_cast<double>(n))) + 9;  // additions behind one another, and merges' exp
    for (std::size_t i = 0; i < n; ++i) {
      const real of = exp(real(x[i]) - most) / sum, log_of = real(x[i]) - most - log(sum);
      const double far = static_cast<double>(abs(real(x[i]) - most));
      // x - most is rounded, which exp takes times far; exp has 2 u, or 5 u by its square, the sum 5 u for each level, the inverse
      // and the product 1 each. A square and a product may be subnormal.
      CHECK(static_cast<double>(abs(y[i] - of)) <= static_cast<double>(of) * (far + 7 + 5 * depth) * u + 0x1p-148);
      CHECK(static_cast<double>(abs(logs[i] - log_of)) <= (2 * far + 2 * std::log(static_cast<double>(n)) + 5 * depth) * u);
    }
  }
}
