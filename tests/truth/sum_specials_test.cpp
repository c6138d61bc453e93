// IEEE 754's special values in sums.
#include "sums.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

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
  CHECK(reference(make_reduction(op_id::sum, method_id::exact, dtype::f32), x.data(), 3) ==
        scalar_of(max));
}
