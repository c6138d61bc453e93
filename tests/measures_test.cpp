// The measures: by hand, and the trace of a reduction against the same walk in MPFR.
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <bitfold/reference.hpp>

#include "../accuracy/bounds.hpp"
#include "../accuracy/inputs.hpp"
#include "../accuracy/measures.hpp"
#include "../accuracy/oracle.hpp"
#include "catch.hpp"
#include "float_reductions.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

namespace {

// docs/order.md and docs/semantics.md once more, one MPFR operation at a time.
struct walked {
  struct state {
    real sum, error;
  };
  dtype acc;
  bool compensated;
  real lost = 0;  // the sum of |s| over the additions that lose their error
  std::uint64_t stagnations = 0, overflows = 0;

  real rounded(const real& x) { return value_of(round_correctly(x, acc)); }

  real add(const real& a, const real& b) {
    const real s = rounded(a + b);
    lost += abs(s);
    if (isfinite(s) && ((s == a && b != 0) || (s == b && a != 0))) ++stagnations;
    if (isinf(s) && isfinite(a) && isfinite(b)) ++overflows;
    return s;
  }

  // a + b as a state: the rounded sum, its error added to `error`.
  state two_sum(const real& a, const real& b, const real& error) {
    const real exact = a + b, s = rounded(exact);
    if (isinf(s) && isfinite(exact)) ++overflows;
    return {s, add(error, exact - s)};
  }

  state merge(const state& a, const state& b) {
    if (!compensated) return {add(a.sum, b.sum), 0};
    return two_sum(a.sum, b.sum, add(a.error, b.error));
  }

  // What a lane of kahan does with one more element: no error of its own to add.
  state append(const state& a, const real& x) {
    if (!compensated) return {add(a.sum, x), 0};
    return two_sum(a.sum, x, a.error);
  }

  state pairs(std::vector<state> v) {
    while (v.size() > 1) {
      std::vector<state> half;
      for (std::size_t i = 0; i + 1 < v.size(); i += 2) half.push_back(merge(v[i], v[i + 1]));
      if (v.size() % 2) half.push_back(v.back());
      v = half;
    }
    return v[0];
  }

  state in_turn(const std::vector<state>& v) {
    state s = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) s = append(s, v[i].sum);
    return s;
  }

  state run(method_id method, const std::vector<state>& x) {
    if (method == method_id::sequential) return in_turn(x);
    if (method == method_id::exact) {
      state s{real(-0.0), 0};
      for (const state& e : x) s.sum += e.sum;
      return s;
    }
    std::vector<state> leaves;
    for (std::size_t first = 0; first < x.size(); first += 256) {
      std::vector<std::vector<state>> in_lane(32);
      for (std::size_t i = first; i < std::min(first + 256, x.size()); ++i)
        in_lane[(i - first) % 32].push_back(x[i]);
      std::vector<state> lanes;
      for (const auto& lane : in_lane)
        if (!lane.empty())
          lanes.push_back(method == method_id::pairwise ? pairs(lane) : in_turn(lane));
      leaves.push_back(pairs(lanes));
    }
    return pairs(leaves);
  }
};

// Checks a trace against that walk. No element may be infinite or NaN.
void check_trace(const reduction& r, const std::vector<std::byte>& data, std::string_view what) {
  const std::size_t n = data.size() / size_of(r.in());
  walked w{r.acc(), r.method() == method_id::kahan};
  std::vector<walked::state> x;
  for (std::size_t i = 0; i < n; ++i)
    x.push_back({value_of(load_scalar(r.in(), data.data() + i * size_of(r.in()))), real(-0.0)});
  const walked::state s = w.run(*r.method(), x);
  const bool plain = s.error == 0 || !isfinite(s.sum);
  const real v = plain ? s.sum : real(s.sum + s.error);
  const scalar result = round_correctly(v, r.out());
  const real bound = unit_roundoff(r.acc()) * w.lost + abs(value_of(result) - v);
  w.overflows += isfinite(v) && isinf(value_of(result));
  const trace t = trace_of(r, data.data(), n);
  const bool bounded =
      isfinite(value_of(result))
          ? t.running_bound >= bound && t.running_bound <= bound * (1 + ldexp(real(1), -30))
          : isinf(t.running_bound);
  const bool same =
      t.result == result && t.stagnations == w.stagnations && t.overflows == w.overflows && bounded;
  if (!same)
    FAIL_CHECK(describe(r) << " on " << what << ", n = " << n << ": " << to_string(t.result) << " "
                           << t.running_bound.str(20) << " " << t.stagnations << " " << t.overflows
                           << ", by MPFR " << to_string(result) << " " << bound.str(20) << " "
                           << w.stagnations << " " << w.overflows);
}

template <class T>
trace trace_sum(method_id method, const std::vector<T>& x, std::optional<dtype> acc = {},
                std::optional<dtype> out = {}) {
  return trace_of(make_reduction(op_id::sum, method, dtype_of<T>, acc, out), x.data(), x.size());
}

double ulps(const trace& t) { return static_cast<double>(ldexp(t.running_bound, 24)); }

}  // namespace

// ---- The trace ----------------------------------------------------------------------------------

TEST_CASE("trace: the same walk by MPFR", "[measures][trace]") {
  for (dtype in : float_types)
    for (const input& generator : all_inputs())
      for (std::size_t n : {1u, 2u, 31u, 33u, 257u, 600u}) {
        const auto x = pack(generator.make(n, 3, in), in);
        for_each_reduction(in, [&](const reduction& r) {
          // One output type for each accumulator is enough for the long ones.
          if (n < 100 || r.out() == r.in()) check_trace(r, x, generator.name);
        });
      }
}

TEST_CASE("trace: where the sum of |s| leaves the range of double", "[measures][trace]") {
  const double huge = std::numeric_limits<double>::max() / 16;
  std::vector<double> x{huge, huge, -huge / 3, huge, -huge, huge / 7, -huge, 1, 0x1p-1074, 3};
  for (std::size_t i = 0; i < 300; ++i) x.push_back((i + i / 32) % 2 ? 0.7 * huge : -0.7 * huge);
  for (const auto& m : all_methods)
    check_trace(make_reduction(op_id::sum, m.id, dtype::f64), pack(x, dtype::f64), "huge");
}

TEST_CASE("trace: by hand", "[measures][trace]") {
  // In f32, 2^24 + 1 is a tie that goes to 2^24. The bounds are in units of 2^-24, but for the
  // little that they are rounded upwards.
  const std::vector<float> x{0x1p24f, 1, 1, 1};
  const trace left = trace_sum(method_id::sequential, x);
  CHECK(left.result == scalar_of(0x1p24f));
  CHECK(left.stagnations == 3);
  CHECK(ulps(left) == Approx(3 * 0x1p24).epsilon(1e-12));  // attained: the error is 3
  const trace tree = trace_sum(method_id::tree, x);        // (2^24 + 1) + (1 + 1)
  CHECK(tree.result == scalar_of(0x1p24f + 2));
  CHECK(tree.stagnations == 1);
  CHECK(ulps(tree) == Approx(0x1p24 + 2 + (0x1p24 + 2)).epsilon(1e-12));
  // The errors are 1 and 0, then 0: the sums of errors -0 + -0 + 1, -0 + -0 + 0 and 1 + 0 + 0.
  // Their sizes are 0, 1, 0, 0, 1, 1. The state 2^24 + 2 and 1 is halfway and rounds to 2^24 + 4.
  const trace kahan = trace_sum(method_id::kahan, x);
  CHECK(kahan.result == scalar_of(0x1p24f + 4));
  CHECK(kahan.stagnations == 0);
  CHECK(ulps(kahan) == Approx(3 + 0x1p24).epsilon(1e-12));
  for (const auto& t : {left, tree, kahan}) CHECK(t.overflows == 0);
  const trace exact = trace_sum(method_id::exact, x);  // 2^24 + 3 is a tie
  CHECK(exact.result == scalar_of(0x1p24f + 4));
  CHECK(exact.stagnations == 0);
  CHECK(exact.running_bound == 1);
  CHECK(trace_sum(method_id::exact, x, {}, dtype::f64).running_bound == 0);

  CHECK(trace_sum<float>(method_id::sequential, {1, 0, -0.0f, 0}).stagnations == 0);
  CHECK(trace_sum<float>(method_id::sequential, {1, -1, 0x1p-30f, 1}).stagnations == 1);
  CHECK(trace_sum<float>(method_id::tree, {5}).running_bound == 0);
  CHECK(trace_sum<float>(method_id::tree, {}).running_bound == 0);
  CHECK(trace_sum<float>(method_id::tree, {}).result == scalar_of(0.0f));
  // One rounding and nothing else: 1 + 2^-24 is exact in f64 and half an ulp from 1.
  const trace narrow = trace_sum<float>(method_id::tree, {1 + 0x1p-23f}, {}, dtype::bf16);
  CHECK(narrow.running_bound == ldexp(real(1), -23));
}

TEST_CASE("trace: overflow", "[measures][trace]") {
  const float max = std::numeric_limits<float>::max();
  const trace early = trace_sum<float>(method_id::sequential, {max, max, -max, 1});
  CHECK(early.result == scalar_of(float{INFINITY}));
  CHECK(early.overflows == 1);    // at max + max; what follows is inf already
  CHECK(early.stagnations == 0);  // and that is not stagnation
  CHECK(isinf(early.running_bound));
  const trace kahan = trace_sum<float>(method_id::kahan, {max, max, -max, 1});
  CHECK(kahan.overflows == 1);
  CHECK(isinf(kahan.running_bound));
  CHECK(trace_sum<float>(method_id::pairwise, {max, max, max, max}).overflows == 2);
  CHECK(trace_sum<float>(method_id::exact, {max, max, -max, 1}).overflows == 0);
  CHECK(trace_sum<float>(method_id::exact, {max, max, -max, 1}).running_bound == 1);
  CHECK(trace_sum<float>(method_id::exact, {max, max}).overflows == 1);
  CHECK(isinf(trace_sum<float>(method_id::exact, {max, max}).running_bound));
  // Beyond f16, within its accumulator's range.
  const std::vector<float16> halves(2, float16{0x7bff});
  const trace late = trace_sum(method_id::tree, halves);
  CHECK(late.overflows == 1);
  CHECK(isinf(late.running_bound));
  CHECK(trace_sum(method_id::tree, halves, {}, dtype::f32).overflows == 0);
  CHECK(trace_sum(method_id::tree, halves, {}, dtype::f32).running_bound > 0);
  // Not an overflow, and no bound either.
  for (float special : {INFINITY, -INFINITY, NAN})
    for (const auto& m : all_methods) {
      const trace t = trace_sum<float>(m.id, {1, special, 2});
      CHECK(t.overflows == 0);
      CHECK(t.stagnations == 0);
      CHECK(isinf(t.running_bound));
    }
  // An operand that is the largest finite number, and an overflow inside of TwoSum: the sum is
  // finite, its error is not. kahan does without it, and so the bound is gone.
  const float nearly = 0x1.776c7p+123f;
  const auto inside = arith::two_sum(nearly, -max);
  REQUIRE(std::isfinite(inside.sum));
  REQUIRE_FALSE(std::isfinite(inside.error));
  const trace lost = trace_sum<float>(method_id::kahan, {nearly, -max});
  CHECK(lost.result == scalar_of(inside.sum));
  CHECK(lost.overflows == 1);
  CHECK(isinf(lost.running_bound));
}

TEST_CASE("trace: integers lose nothing but in the rounding to a float", "[measures][trace]") {
  const std::vector<std::int32_t> x{1 << 24, 1};
  for (const auto& m : all_methods) {
    const trace exact = trace_sum(m.id, x);
    CHECK(exact.result == scalar_of(std::int64_t{(1 << 24) + 1}));
    CHECK(exact.running_bound == 0);
    CHECK(exact.stagnations == 0);
    CHECK(trace_sum(m.id, x, {}, dtype::f32).running_bound == 1);
    CHECK(trace_sum(m.id, x, {}, dtype::f64).running_bound == 0);
    const trace half = trace_sum(m.id, x, {}, dtype::f16);
    CHECK(half.overflows == 1);
    CHECK(isinf(half.running_bound));
    CHECK(trace_sum<std::uint64_t>(m.id, {UINT64_MAX, 3}).running_bound == 0);  // wraps to 2
    CHECK(trace_sum<std::uint64_t>(m.id, {UINT64_MAX, 3}, {}, dtype::f64).running_bound ==
          (m.id == method_id::exact ? 2 : 0));  // of 2^64 + 2
  }
}

TEST_CASE("trace: the error is within the running bound, and that within the a-priori bound",
          "[measures][trace]") {
  double closest = 0;
  for (dtype in : float_types)
    for (const input& generator : all_inputs())
      for (std::size_t n : {1u, 2u, 3u, 32u, 255u, 257u, 785u, 20000u}) {
        const auto x = pack(generator.make(n, 11, in), in);
        const exact_sum s = sum_exactly(in, x.data(), n);
        for_each_reduction(in, [&](const reduction& r) {
          const trace t = trace_of(r, x.data(), n);
          const real a_priori = error_bound(r, n, s);
          const bool infinite = !isfinite(value_of(t.result));
          const real error = infinite ? real(0) : real(abs(value_of(t.result) - s.sum));
          // u |computed sum| rather than u |exact sum| is what can make the difference; see
          // bounds.hpp.
          if (t.result != reference(r, x.data(), n) || error > t.running_bound ||
              t.running_bound > a_priori * (1 + ldexp(real(1), -20)) ||
              isinf(t.running_bound) != infinite || (t.overflows > 0) != infinite)
            FAIL_CHECK(describe(r)
                       << " on " << generator.name << ", n = " << n << ": " << to_string(t.result)
                       << ", error " << error.str(5) << ", running bound " << t.running_bound.str(5)
                       << ", a-priori bound " << a_priori.str(5));
          // Without the rounding to the output type, which the bound knows exactly.
          if (r.method() != method_id::kahan && r.method() != method_id::exact &&
              r.out() == r.acc() && t.running_bound > 0 && !infinite)
            closest = std::max(closest, static_cast<double>(real(error / t.running_bound)));
        });
      }
  CHECK(closest > 0.9);
}

// ---- Errors -------------------------------------------------------------------------------------

namespace {
const real one = 1, none = std::numeric_limits<double>::quiet_NaN(),
           beyond = std::numeric_limits<double>::infinity();
const double inf = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("measures: the error in ulps is in units of the exact value's binade", "[measures]") {
  const auto both = [](scalar result, const real& exact, double expected) {
    CAPTURE(to_string(result), exact.str(20));
    CHECK(signed_error_in_ulps(result, exact) == expected);
    CHECK(error_in_ulps(result, exact) == std::fabs(expected));
  };
  const float above = 1 + 0x1p-23f, below = 1 - 0x1p-24f;
  both(scalar_of(1.0f), one, 0);
  both(scalar_of(above), one, 1);
  both(scalar_of(below), one, -0.5);  // the ulp of 1 is that above it
  both(scalar_of(1.0f), below, 1);    // and below 1 it is half of that
  both(scalar_of(1.0f), one + ldexp(one, -25), -0.25);
  both(scalar_of(-above), -one, -1);  // towards -inf is below
  both(scalar_of(-1.0f), -one - ldexp(one, -24), 0.5);
  both(scalar_of(1.0), one - ldexp(one, -54), 0.5);
  both(scalar_of(float16{0x3c01}), one, 1);
  both(scalar_of(bfloat16{0x3f7f}), one, -0.5);
  // Around zero, the spacing of the subnormals.
  both(scalar_of(0x1p-149f), 0, 1);
  both(scalar_of(0.0f), ldexp(one, -150), -0.5);
  both(scalar_of(-0.0f), 0, 0);
  both(scalar_of(0x3p-149f), ldexp(one, -149), 2);
  both(scalar_of(1.0f), 0, 0x1p149);
  both(scalar_of(std::int32_t{-3}), -1, -2);
  both(scalar_of(std::uint8_t{3}), 1, 2);
  // Not finite: right or wrong.
  both(scalar_of(INFINITY), one, inf);
  both(scalar_of(-INFINITY), one, -inf);
  both(scalar_of(1.0f), beyond, -inf);
  both(scalar_of(INFINITY), beyond, 0);
  both(scalar_of(INFINITY), -beyond, inf);
  both(scalar_of(NAN), none, 0);
  for (auto [result, exact] : {std::pair{scalar_of(NAN), one}, std::pair{scalar_of(1.0f), none}}) {
    CHECK(error_in_ulps(result, exact) == inf);
    CHECK(std::isnan(signed_error_in_ulps(result, exact)));
  }
}

TEST_CASE("measures: the relative error", "[measures]") {
  CHECK(relative_error(scalar_of(3.0f), 4) == 0.25);
  CHECK(relative_error(scalar_of(-3.0f), -4) == 0.25);
  CHECK(relative_error(scalar_of(4.0f), -4) == 2);
  CHECK(relative_error(scalar_of(1.0f), 0) == inf);
  CHECK(relative_error(scalar_of(0.0f), 0) == 0);
  CHECK(relative_error(scalar_of(NAN), 1) == inf);
  CHECK(relative_error(scalar_of(NAN), none) == 0);
}

TEST_CASE("measures: correct bits", "[measures]") {
  CHECK(correct_bits(scalar_of(3.0f), 4) == 2);
  CHECK(correct_bits(scalar_of(5.0f), 4) == 2);
  CHECK(correct_bits(scalar_of(-4.0f), 4) == 0);  // twice off, and not -1
  CHECK(correct_bits(scalar_of(1 + 0x1p-20), one) == 20);
  CHECK(correct_bits(scalar_of(0.0f), 1) == 0);
  CHECK(correct_bits(scalar_of(1.0f), 0) == 0);
  CHECK(correct_bits(scalar_of(INFINITY), 1) == 0);
  CHECK(correct_bits(scalar_of(NAN), 1) == 0);
  // A correctly rounded result has all bits of its type, an exact one no more.
  const real third = one / 3;
  for (dtype t : float_types) {
    CHECK(correct_bits(round_correctly(third, t), third) == format_of(t).precision);
    CHECK(correct_bits(round_correctly(one, t), one) == format_of(t).precision);
    CHECK(correct_bits(round_correctly(beyond, t), beyond) == format_of(t).precision);
  }
  CHECK(correct_bits(scalar_of(std::int32_t{7}), 7) == 32);
}

TEST_CASE("measures: docs/measures.md lists the inputs there are", "[measures]") {
  std::ifstream file(BITFOLD_MEASURES_DOC);
  REQUIRE(file);
  std::vector<std::string> listed, expected;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `")) listed.push_back(line);
  for (const input& in : all_inputs())
    expected.push_back("| `" + std::string(in.name) + "` | " + std::string(in.description) + " |");
  CHECK(listed == expected);
}
