// Is it true, for every operation: the oracle against definitions and fractions, the reference
// against the oracle within its a-priori bound, special values and extremes, and the one rounding
// of a quotient.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>

#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/fold.hpp>
#include <bitfold/reference.hpp>

#include "../accuracy/bounds.hpp"
#include "../accuracy/inputs.hpp"
#include "../accuracy/oracle.hpp"
#include "catch.hpp"
#include "data.hpp"
#include "float_reductions.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using test::float_types, test::scalar_of;

namespace {

const double inf = std::numeric_limits<double>::infinity();

elements as_elements(dtype t, const std::vector<std::byte>& x, const std::vector<std::byte>& y = {}) {
  return {t, x.data(), y.empty() ? nullptr : y.data(), x.size() / size_of(t)};
}

elements of_op(const elements& in, op_id op) {
  return {in.type, in.x, info(op).inputs == 2 ? in.y : nullptr, in.n};
}

scalar run(const reduction& r, const elements& in) {
  return reference(r, in.x, info(r.op()).inputs == 2 ? in.y : nullptr, in.n);
}

double run(const reduction& r, const std::vector<double>& x, const std::vector<double>& y = {}) {
  const auto a = pack(x, r.in()), b = pack(y, r.in());
  return static_cast<double>(value_of(run(r, as_elements(r.in(), a, b))));
}

bool same(const real& a, const real& b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

// Integers of type t, wrapping.
std::vector<std::byte> pack_any(const std::vector<double>& values, dtype t) {
  if (is_float(t)) return pack(values, t);
  std::vector<std::byte> out(values.size() * size_of(t));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_scalar(round_correctly(real(values[i]), t), out.data() + i * size_of(t));
  return out;
}

// Every reduction of an op there is, with every accumulator and output type.
std::vector<reduction> all_of(op_id op, dtype in) {
  std::vector<reduction> list;
  std::set<std::string> seen;
  for (const auto& method : methods_of(op))
    for (std::size_t a = 0; a <= all_dtypes.size(); ++a)
      for (dtype out : all_dtypes) {
        const std::optional<dtype> acc = a ? std::optional(all_dtypes[a - 1]) : std::nullopt;
        try {
          const reduction r = make_reduction(op, method, in, acc, out);
          if (seen.insert(test::describe(r, 0)).second) list.push_back(r);
        } catch (const error&) {
          // not a combination that there is
        }
      }
  return list;
}

}  // namespace

// ---- Oracle -----------------------------------------------------------------------------------

TEST_CASE("oracle: every op by hand", "[truth][oracle][ops]") {
  struct row {
    op_id op;
    std::vector<double> x, y;
    double value;
    int ddof = 0;
  };
  const std::vector<double> x{1, -2, 3, 10}, y{2, 5, 3, -1};
  const std::vector<row> rows{
      {op_id::sum, x, {}, 12},
      {op_id::nansum, {1, NAN, 3}, {}, 4},
      {op_id::prod, x, {}, -60},
      {op_id::mean, x, {}, 3},
      {op_id::nanmean, {1, NAN, 4}, {}, 2.5},
      {op_id::min, x, {}, -2},
      {op_id::max, x, {}, 10},
      {op_id::nanmin, {NAN, 2, 1}, {}, 1},
      {op_id::nanmax, {NAN, 2, 1}, {}, 2},
      {op_id::argmin, x, {}, 1},
      {op_id::argmax, x, {}, 3},
      {op_id::any, {0, 0, 5}, {}, 1},
      {op_id::any, {0, -0.0}, {}, 0},
      {op_id::all, x, {}, 1},
      {op_id::all, {1, 0}, {}, 0},
      {op_id::count_nonzero, {1, 0, NAN, -0.0}, {}, 2},
      {op_id::count_distinct, {1, 0, NAN, -0.0, 1, NAN, 2}, {}, 4},
      {op_id::count_distinct, {3, -3, 3, 0}, {}, 3},
      {op_id::sum_squares, x, {}, 114},
      {op_id::norm_l1, x, {}, 16},
      {op_id::norm_l2, {3, -4}, {}, 5},
      {op_id::norm_inf, {1, -20, 3}, {}, 20},
      {op_id::var, {1, 2, 3, 10}, {}, 12.5},
      {op_id::var, {1, 2, 3, 10}, {}, 50 / 3.0, 1},
      {op_id::var, {1, 2, 3, 10}, {}, 50, 3},
      {op_id::std, {1, 4}, {}, 1.5},
      {op_id::skewness, {1, 2, 3, 10}, {}, 45 / std::pow(12.5, 1.5)},
      {op_id::kurtosis, {1, 2, 3, 10}, {}, 348.5 / 156.25 - 3},
      {op_id::logsumexp, {1, 2, 3, 10}, {}, 10 + std::log1p(std::exp(-9) + std::exp(-8) + std::exp(-7))},
      {op_id::softmax_denominator, {1, 2, 3, 10}, {}, 1 + std::exp(-9) + std::exp(-8) + std::exp(-7)},
      {op_id::dot, x, y, -9},
      {op_id::squared_distance, x, y, 1 + 49 + 121},
      {op_id::mse, x, y, 171 / 4.0},
      {op_id::mae, x, y, 19 / 4.0},
      {op_id::cosine, {3, 4}, {4, 3}, 24 / 25.0},
  };
  std::set<op_id> seen;
  for (const row& r : rows) {
    CAPTURE(name(r.op), r.ddof);
    seen.insert(r.op);
    const auto a = pack(r.x, dtype::f64), b = pack(r.y, dtype::f64);
    const real v = exact_value(r.op, as_elements(dtype::f64, a, b), r.ddof);
    CHECK(static_cast<double>(v) == Approx(r.value).epsilon(1e-15));
    // And so is the reference, in every type that can hold the elements.
    for (dtype t : {dtype::f16, dtype::f32, dtype::i16}) {
      const bool whole =
          std::none_of(r.x.begin(), r.x.end(), [](double e) { return std::isnan(e); });
      if (!is_float(t) && !whole) continue;
      CAPTURE(name(t));
      const auto p = pack_any(r.x, t), q = pack_any(r.y, t);
      const reduction red = make_reduction(r.op, {}, t, {}, {}, r.ddof);
      CHECK(static_cast<double>(value_of(run(red, as_elements(t, p, q)))) ==
            Approx(r.value).epsilon(t == dtype::f16   ? 1e-3
                                    : t == dtype::f32 ? 1e-6
                                                      : 1e-14));
    }
  }
  CHECK(seen.size() == all_ops.size());
}

TEST_CASE("oracle: moments and terms against their definitions in fractions",
          "[truth][oracle][ops]") {
  using boost::multiprecision::cpp_int;
  using boost::multiprecision::cpp_rational;
  random_source random(21);
  const auto as_real = [](const cpp_rational& q) {
    return real(numerator(q).str()) / real(denominator(q).str());
  };
  const auto fraction = [](dtype t, const std::byte* p) {  // an element: a multiple of 2^-1074
    return cpp_rational(cpp_int(ldexp(value_of(load_scalar(t, p)), 1074)), cpp_int(1) << 1074);
  };
  const auto close = [](const real& a, const real& b) {
    return a == b || abs(a - b) <= ldexp(abs(b), -4200);
  };
  for (dtype t : all_dtypes)
    for (std::size_t n : {1u, 2u, 3u, 7u, 30u})
      for (test::kind k : {test::kind::near_one, test::kind::any_bits}) {
        const auto a = test::make_data(t, k, n, random.bits()),
                   b = test::make_data(t, k, n, random.bits());
        const elements in = as_elements(t, a, b);
        std::vector<cpp_rational> x, y;
        for (std::size_t i = 0; i < n; ++i) {
          x.push_back(fraction(t, &a[i * size_of(t)]));
          y.push_back(fraction(t, &b[i * size_of(t)]));
        }
        cpp_rational mean = 0, size = 0;
        for (const auto& v : x) mean += v, size += abs(v);
        mean /= n;
        const auto total = [&](auto f) {
          cpp_rational sum = 0;
          for (std::size_t i = 0; i < n; ++i) sum += f(x[i], y[i]);
          return as_real(sum);
        };
        CAPTURE(name(t), n, test::name(k));
        for (int power : {2, 3, 4}) {
          cpp_rational m = 0;
          for (const auto& v : x) {
            cpp_rational p = 1;
            for (int j = 0; j < power; ++j) p *= (v - mean) * n;
            m += p;
          }
          CHECK(close(scaled_moment(power, in), as_real(m / n)));
        }
        const auto sum = [&](term what) { return sum_exactly(what, in).sum; };
        CHECK(close(sum(term::square), total([](auto& p, auto&) { return cpp_rational(p * p); })));
        CHECK(close(sum(term::magnitude),
                    total([](auto& p, auto&) { return cpp_rational(abs(p)); })));
        CHECK(
            close(sum(term::product), total([](auto& p, auto& q) { return cpp_rational(p * q); })));
        CHECK(close(sum(term::difference),
                    total([](auto& p, auto& q) { return cpp_rational(abs(p - q)); })));
        CHECK(close(sum(term::squared_difference),
                    total([](auto& p, auto& q) { return cpp_rational((p - q) * (p - q)); })));
        CHECK(close(sum(term::extent),
                    total([](auto& p, auto& q) { return cpp_rational(abs(p) + abs(q)); })));
        CHECK(close(sum(term::squared_extent), total([](auto& p, auto& q) {
                      return cpp_rational((abs(p) + abs(q)) * (abs(p) + abs(q)));
                    })));
        CHECK(close(exact_value(op_id::norm_l1, {t, a.data(), nullptr, n}), as_real(size)));
        if (!is_float(t)) {
          cpp_int product = 1;
          for (const auto& v : x) product *= numerator(v);
          const cpp_int modulus = cpp_int(1) << 64;
          product = ((product % modulus) + modulus) % modulus;
          CHECK(cpp_int(value_of(round_correctly(
                    exact_value(op_id::prod, {t, a.data(), nullptr, n}), dtype::u64))) == product);
        }
      }
}

// ---- Special values ---------------------------------------------------------------------------

TEST_CASE("specials: the table of every op", "[truth][ieee][ops]") {
  struct row {
    std::vector<op_id> ops;
    std::vector<double> x, y;
    double value;
  };
  using enum op_id;
  const std::vector<row> rows{
      {{sum, nansum, mean, nanmean}, {1, inf}, {}, inf},
      {{sum, mean, nansum, nanmean}, {-inf, inf}, {}, NAN},
      {{sum, mean, prod, min, max, norm_l1, norm_l2, norm_inf, sum_squares, var, skewness,
        kurtosis},
       {1, NAN, 2},
       {},
       NAN},
      {{bitfold::op_id::std}, {1, NAN, 2}, {}, NAN},
      {{nansum}, {NAN, NAN}, {}, 0.0},
      {{nansum}, {NAN, -0.0}, {}, 0.0},
      {{nansum, nanmean}, {-0.0, -0.0}, {}, -0.0},
      {{nanmean, nanmin, nanmax}, {NAN, NAN}, {}, NAN},
      {{nanmean}, {NAN, 3, NAN, 4}, {}, 3.5},
      {{mean}, {-0.0, -0.0}, {}, -0.0},
      {{mean}, {-0.0, 0.0}, {}, 0.0},
      {{prod}, {0.0, inf}, {}, NAN},
      {{prod}, {-1, 0.0}, {}, -0.0},
      {{prod}, {-1, inf}, {}, -inf},
      {{prod}, {-0.0, -2}, {}, 0.0},
      {{min, nanmin}, {0.0, -0.0}, {}, -0.0},
      {{min, nanmin}, {-0.0, 0.0}, {}, -0.0},
      {{max, nanmax}, {0.0, -0.0}, {}, 0.0},
      {{max, nanmax}, {-0.0, 0.0}, {}, 0.0},
      {{min, max}, {NAN, -inf}, {}, NAN},
      {{min, max}, {inf, NAN}, {}, NAN},
      {{nanmin}, {NAN, inf, 2}, {}, 2},
      {{nanmax}, {NAN, -inf}, {}, -inf},
      {{nanmax}, {-3, NAN, -0.0, NAN}, {}, -0.0},
      {{min}, {inf, inf}, {}, inf},
      {{argmin, argmax}, {1, NAN, -inf, NAN, inf}, {}, 1},
      {{argmin, argmax}, {0.0, -0.0, 0.0}, {}, 0},
      {{argmin, argmax}, {-0.0, 0.0}, {}, 0},
      {{argmin}, {3, 1, 2, 1}, {}, 1},
      {{argmax}, {3, 1, 3, 3}, {}, 0},
      {{argmax}, {-inf, -inf}, {}, 0},
      {{argmin}, {5, -inf, NAN}, {}, 2},
      {{any}, {0.0, NAN}, {}, 1},
      {{any}, {-0.0, 0.0}, {}, 0},
      {{any}, {0, inf}, {}, 1},
      {{all}, {NAN, inf, 1}, {}, 1},
      {{all}, {NAN, -0.0}, {}, 0},
      {{count_nonzero}, {NAN, -0.0, inf, 0, 1}, {}, 3},
      {{count_distinct}, {NAN, -0.0, inf, 0, -NAN, -inf, inf}, {}, 4},
      {{count_distinct}, {-0.0, 0.0}, {}, 1},
      {{logsumexp}, {-0.0}, {}, 0.0},
      {{logsumexp}, {-2.5}, {}, -2.5},
      {{logsumexp}, {-inf, -2.5, -inf}, {}, -2.5},
      {{logsumexp}, {-inf, -inf}, {}, -inf},
      {{logsumexp}, {-inf, inf, 1, inf}, {}, inf},
      {{logsumexp}, {inf, 1, NAN, -inf}, {}, NAN},
      {{logsumexp}, {-inf, NAN}, {}, NAN},
      {{softmax_denominator}, {-0.0}, {}, 1},
      {{softmax_denominator}, {-inf, -2.5, -inf, -2.5}, {}, 2},
      {{softmax_denominator}, {-inf, -inf}, {}, NAN},
      {{softmax_denominator}, {-inf, inf, 1}, {}, NAN},
      {{softmax_denominator}, {1, NAN, -inf}, {}, NAN},
      {{softmax_denominator}, {60000, -60000, 60000}, {}, 2},
      {{sum_squares, norm_l1, norm_l2, norm_inf}, {1, -inf}, {}, inf},
      {{sum_squares, norm_l1, norm_l2, norm_inf}, {-0.0, -0.0}, {}, 0.0},
      {{sum_squares, norm_l1, norm_l2, norm_inf}, {NAN, -inf, 1}, {}, NAN},
      {{var, bitfold::op_id::std, skewness, kurtosis}, {1, inf}, {}, NAN},
      {{var, bitfold::op_id::std}, {7}, {}, 0},
      {{var, bitfold::op_id::std}, {7, 7}, {}, 0},
      {{skewness, kurtosis}, {7}, {}, NAN},
      {{skewness, kurtosis}, {7, 7, 7}, {}, NAN},
      {{skewness}, {1, 2}, {}, 0},
      {{kurtosis}, {1, 2}, {}, -2},
      {{dot}, {0.0, 1}, {inf, 1}, NAN},
      {{dot}, {inf, 1}, {-1, 1}, -inf},
      {{dot}, {-1}, {0.0}, -0.0},
      {{dot, squared_distance, mse, mae, cosine}, {1, NAN}, {1, 1}, NAN},
      {{dot, squared_distance, mse, mae, cosine}, {1, 1}, {NAN, 1}, NAN},
      {{squared_distance, mse, mae}, {inf}, {inf}, NAN},
      {{squared_distance, mse, mae}, {inf, 1}, {-inf, 1}, inf},
      {{squared_distance, mse, mae}, {2, -0.0}, {2, 0.0}, 0.0},
      {{cosine}, {0, 0}, {1, 2}, NAN},
      {{cosine}, {inf, 1}, {1, 1}, NAN},
      {{cosine}, {2, 0}, {-2, 0}, -1},
      {{cosine}, {2, 0}, {0, 1}, 0},
  };
  std::set<op_id> seen;
  for (const row& r : rows)
    for (op_id op : r.ops) {
      seen.insert(op);
      for (dtype t : float_types) {
        const auto x = pack(r.x, t), y = pack(r.y, t);
        const elements in = of_op(as_elements(t, x, y), op);
        const real exact = exact_value(op, in);
        INFO(name(op) << " of " << name(t) << " [" << r.x[0] << ", ...], oracle "
                      << static_cast<double>(exact) << ", expected " << r.value);
        CHECK(same(exact, r.value));
        for (const reduction& red : all_of(op, t)) {
          const scalar got = run(red, in), want = round_correctly(real(r.value), red.out());
          if (got != want) FAIL_CHECK(test::describe(red, in.n) << ": " << to_string(got));
        }
      }
    }
  CHECK(seen.size() == all_ops.size());
}

TEST_CASE("specials: wherever they stand", "[truth][ieee][ops]") {
  // Ones, with two other values anywhere: the reference has the oracle's class of result, and the
  // very one where nothing is rounded.
  const std::vector<double> others{inf, -inf, NAN, 0.0, -0.0, 2, -3};
  random_source random(5);
  for (dtype t : float_types)
    for (std::size_t n :
         {std::size_t{2}, std::size_t{31}, std::size_t{40}, std::size_t{300}, std::size_t{1100}})
      for (double a : others)
        for (double b : others) {
          std::vector<double> v(n, 1.0), w(n, 1.0);
          const auto at = static_cast<std::size_t>(random.below(static_cast<int>(n)));
          const auto by = static_cast<std::size_t>(random.below(static_cast<int>(n)));
          v[at] = a, (n % 2 ? v : w)[by] = b;
          const auto x = pack(v, t), y = pack(w, t);
          for (op_id op : all_ops) {
            const elements in = of_op(as_elements(t, x, y), op);
            const real exact = exact_value(op, in);
            for (const auto& method : methods_of(op)) {
              const reduction r = make_reduction(op, method, t);
              const scalar got = run(r, in);
              const real value = value_of(got);
              const bool close = isfinite(exact) ? abs(value - exact) <= ldexp(1 + abs(exact), -6)
                                                 : same(value, exact);
              if (!close)
                FAIL_CHECK(test::describe(r, n)
                           << " of " << a << " at " << at << " and " << b << " at " << by << ": "
                           << to_string(got) << ", exact " << static_cast<double>(exact));
            }
          }
        }
}

TEST_CASE("empty: what every op gives for no elements", "[truth][ops]") {
  const std::map<op_id, double> expected{
      {op_id::sum, 0},        {op_id::nansum, 0},        {op_id::prod, 1},
      {op_id::mean, NAN},     {op_id::nanmean, NAN},     {op_id::any, 0},
      {op_id::all, 1},        {op_id::count_nonzero, 0}, {op_id::sum_squares, 0},
      {op_id::count_distinct, 0}, {op_id::logsumexp, -inf},
      {op_id::softmax_denominator, 0},
      {op_id::norm_l1, 0},    {op_id::norm_l2, 0},       {op_id::norm_inf, 0},
      {op_id::var, NAN},      {op_id::std, NAN},         {op_id::skewness, NAN},
      {op_id::kurtosis, NAN}, {op_id::dot, 0},           {op_id::squared_distance, 0},
      {op_id::mse, NAN},      {op_id::mae, NAN},         {op_id::cosine, NAN}};
  for (op_id op : all_ops)
    for (dtype t : all_dtypes) {
      CAPTURE(name(op), name(t));
      for (const reduction& r : all_of(op, t)) {
        const elements none{t, nullptr, nullptr, 0};
        if (!expected.contains(op)) {
          CHECK_THROWS_AS(run(r, none), error);
          CHECK_THROWS_AS(exact_value(op, none), std::logic_error);
          continue;
        }
        CHECK(run(r, none) == round_correctly(real(expected.at(op)), r.out()));
        CHECK(same(exact_value(op, none), expected.at(op)));
      }
    }
}

// ---- Bounds -----------------------------------------------------------------------------------

namespace {

// What there is to say of how close results come to their bounds.
struct closeness {
  int checked = 0, unbounded = 0;
  double closest = 0;
};

// For skewness and kurtosis, which have no a-priori bound: what docs/operations.md says was
// measured.
real measured_bound(const reduction& r, const elements& in) {
  const real n = in.n, m2 = scaled_moment(2, in), m4 = scaled_moment(4, in);
  if (m2 == 0) return real(inf);
  const real kappa = sqrt(1 + sum_exactly(term::square, in).sum * n / m2);
  const real u = unit_roundoff(dtype::f64) * (10 + addition_depth(method_id::tree, in.n));
  if (u * kappa > 0.01) return real(inf);
  // Neither fourth powers nor m2^2 may leave the range of double.
  if (m4 > ldexp(real(1), 1000) || m2 * m2 < ldexp(n * n * n * n, -900)) return real(inf);
  const real value = abs(exact_value(r, in));
  return 4 * u * kappa * m4 / (m2 * m2) + std::max(real(value * unit_roundoff(r.out())),
                                                   ldexp(real(1), format_of(r.out()).min_exponent));
}

// The bound that is found beside a result, against the error and the a-priori bound.
void check_bound_beside(const reduction& r, const elements& in, std::string_view what, scalar got,
                        const real& error, const real& a_priori) {
  const bounded b = cpu::reduce_with_bound(r, in.x, in.y, in.n);
  const auto fail = [&](const char* why) {
    FAIL_CHECK(test::describe(r, in.n) << " on " << what << ": " << to_string(b.value) << " +- "
                                       << b.bound << ", off by " << error.str(5) << ", a priori "
                                       << a_priori.str(5) << ": " << why);
  };
  if (b.value != got) fail("other bits");
  if (!(b.bound >= 0) || error > b.bound) fail("wrong");
  if (isinf(a_priori) || !isfinite(value_of(got))) return;
  // Roundings upwards, subnormal ones too; and the last rounding is u of the result, not of the
  // exact value.
  const real step = ldexp(real(1), format_of(r.out()).min_exponent - 1) + ldexp(real(in.n), -1068);
  const real u = unit_roundoff(r.out());
  const real sizes = info(r.op()).takes_method && is_float(r.acc())
                         ? real(3 * addition_depth(*r.method(), in.n) * unit_roundoff(r.acc()))
                         : real(0);  // the magnitudes may be of the computed terms
  if (b.bound > (1 + 2 * u) * (1.001 + sizes) * a_priori + step) fail("too large");
  // In f64 roots, quotients of roots and largest elements are not rounded again.
  const bool stays = r.out() == dtype::f64 && (r.op() == op_id::norm_l2 || r.op() == op_id::cosine ||
                                               r.op() == op_id::norm_inf);
  const real rounding = stays ? real(1.001 * u * abs(value_of(got))) : real(0);
  if (b.bound > 0 && b.bound + step + rounding < (1 - 2 * u) * 0.999 * a_priori) fail("too small");
}

void check_bounds(const elements& in, std::string_view what, std::map<op_id, closeness>& seen) {
  for (op_id op : all_ops) {
    const elements mine = of_op(in, op);
    std::optional<real> by_others, by_exact_method;  // integers: modulo 2^64, and not
    for (const reduction& r : all_of(op, in.type)) {
      const bool by_exact = r.method() == method_id::exact;
      // Of longer ones, the default output, or none that hides what the accumulator holds.
      if (in.n > 40 && r.out() != make_reduction(op, {}, in.type).out() &&
          !(in.n > 1000 && r.out() == r.acc()))
        continue;
      const bool wraps = info(op).types == typing::additive && !is_float(in.type);
      std::optional<real>& exact = by_exact ? by_exact_method : by_others;
      if (!exact) exact = exact_value(r, mine);
      const scalar got = run(r, mine);
      closeness& c = seen[op];
      ++c.checked;
      if (!is_float(r.out())) {
        if (got != round_correctly(*exact, r.out()))
          FAIL_CHECK(test::describe(r, in.n) << " on " << what << ": " << to_string(got));
        continue;
      }
      if (!isfinite(*exact)) {
        if (got != round_correctly(*exact, r.out()))
          FAIL_CHECK(test::describe(r, in.n) << " on " << what << ": " << to_string(got) << ", not "
                                             << static_cast<double>(*exact));
        continue;
      }
      const bool measured = op == op_id::skewness || op == op_id::kurtosis;
      const real bound = measured ? measured_bound(r, mine) : error_bound(r, mine);
      const real error = abs(value_of(got) - *exact);
      if (has_error_bound(op, r.method())) check_bound_beside(r, mine, what, got, error, bound);
      if (!isfinite(bound)) {
        ++c.unbounded;
        continue;
      }
      if (!(error <= bound))
        FAIL_CHECK(test::describe(r, in.n)
                   << " on " << what << ": " << to_string(got) << " is off by " << error.str(5)
                   << ", bound " << bound.str(5) << ", exact " << exact->str(20));
      if (bound > 0 && !wraps && !by_exact && in.n > 40 &&
          format_of(r.out()).precision >= format_of(r.acc()).precision)
        c.closest = std::max(c.closest, static_cast<double>(real(error / bound)));
      if (bound == 0 && got != round_correctly(*exact, r.out()))  // the sign of zero, too
        FAIL_CHECK(test::describe(r, in.n) << " on " << what << ": " << to_string(got));
    }
  }
}

}  // namespace

TEST_CASE("bounds: every op, type, method, accumulator and output is within",
          "[truth][bounds][ops]") {
  std::map<op_id, closeness> seen;
  for (dtype t : float_types)
    for (const input& generator : all_inputs())
      for (std::size_t n : {1u, 2u, 33u, 300u}) {
        const auto x = pack(generator.make(n, 11, t), t), y = pack(generator.make(n, 12, t), t);
        check_bounds(as_elements(t, x, y), generator.name, seen);
      }
  for (dtype t : float_types) {
    for (std::size_t n : {2500u, 4097u}) {
      const auto x = pack(all_inputs()[2].make(n, 1, t), t),
                 y = pack(all_inputs()[3].make(n, 2, t), t);
      check_bounds(as_elements(t, x, y), "normal and positive", seen);
    }
    for (double condition : {10.0, 1e8, 1e30}) {
      const dot_input in = dot_cancellation(1000, 3, t, condition);
      const auto x = pack(in.x, t), y = pack(in.y, t);
      check_bounds(as_elements(t, x, y), "dot cancellation", seen);
    }
  }
  for (dtype t : all_dtypes)
    for (test::kind k : {test::kind::near_one, test::kind::any_bits})
      for (std::size_t n : {1u, 2u, 31u, 40u, 300u, 1029u}) {
        const auto x = test::make_data(t, k, n, n), y = test::make_data(t, k, n, n + 1);
        check_bounds(as_elements(t, x, y), test::name(k), seen);
      }
  for (op_id op : all_ops) {
    const closeness& c = seen.at(op);
    CAPTURE(name(op), c.checked, c.unbounded, c.closest);
    CHECK(c.checked > 500);
    CHECK(c.unbounded < c.checked / 3);
    CHECK(c.closest <= 1);
    const bool rounds = info(op).takes_method || info(op).types == typing::real ||
                        info(op).types == typing::wide || op == op_id::prod;
    CHECK((c.closest > 0.003) == rounds);  // and the bounds say something
  }
}

TEST_CASE("bounds: beside results, of long arrays and of products that underflow",
          "[truth][bounds][ops]") {
  const auto check = [](const elements& in, std::string_view what, const std::vector<op_id>& ops) {
    real worst = 0;
    for (op_id op : ops) {
      const elements mine = of_op(in, op);
      const real exact = exact_value(op, mine);
      for (const auto& m : methods_of(op))
        for (dtype out : {in.type, dtype::f64}) {
          const reduction r = make_reduction(op, m, in.type, {}, out);
          const scalar got = run(r, mine);
          const real error = abs(value_of(got) - exact), bound = error_bound(r, mine);
          check_bound_beside(r, mine, what, got, error, bound);
          if (m != method_id::exact) worst = std::max(worst, real(error / bound));
        }
    }
    return worst;
  };
  using enum op_id;
  for (dtype t : {dtype::bf16, dtype::f32}) {
    const std::size_t n = 100'003;
    const auto x = test::make_data(t, test::kind::near_one, n, 1),
               y = test::make_data(t, test::kind::near_one, n, 2);
    check(as_elements(t, x, y), "a long array", {sum, norm_l2, dot, mae});
  }
  // Of which a quarter are numbers.
  std::vector<double> holes(1000, NAN);
  for (std::size_t i = 0; i < holes.size(); i += 4) holes[i] = 1 / (1.0 + static_cast<double>(i));
  for (dtype t : float_types) check(as_elements(t, pack(holes, t)), "holes", {nansum, nanmean});
  // Products of 3/8 of the smallest subnormal vanish.
  for (dtype t : {dtype::f32, dtype::f64})
    for (std::size_t n : {1u, 300u, 5000u}) {
      const int half = format_of(t).min_exponent / 2;
      const auto x = pack(std::vector<double>(n, std::ldexp(0.5, half)), t),
                 y = pack(std::vector<double>(n, std::ldexp(t == dtype::f32 ? 0.375 : 0.75, half)), t);
      const auto zeros = pack(std::vector<double>(n, 0.0), t);
      CHECK(check(as_elements(t, x, y), "tiny", {dot}) > 0.3);
      CHECK(check(as_elements(t, x, zeros), "tiny", {sum_squares, squared_distance, mse}) > 0.2);
    }
}

TEST_CASE("bounds: depend on the method as documented", "[truth][bounds][ops]") {
  const auto x = pack(all_inputs()[0].make(5000, 1, dtype::f32), dtype::f32);
  const elements in = as_elements(dtype::f32, x, x);
  for (op_id op : all_ops) {
    if (!info(op).takes_method || op == op_id::norm_l2) continue;
    CAPTURE(name(op));
    const auto bound = [&](method_id m) {
      return error_bound(make_reduction(op, m, dtype::f32), of_op(in, op));
    };
    CHECK(bound(method_id::kahan) < 1.01 * bound(method_id::pairwise));
    if (info(op).has_exact) CHECK(bound(method_id::exact) <= bound(method_id::kahan));
    CHECK(bound(method_id::pairwise) <= bound(method_id::tree));
    CHECK(bound(method_id::tree) <= bound(method_id::sequential));
  }
}

// ---- Exact --------------------------------------------------------------------------------------

namespace {

std::optional<reduction> exact_reduction(op_id op, dtype in, dtype out, int ddof) try {
  return make_reduction(op, method_id::exact, in, {}, out, ddof);
} catch (const error&) {
  return {};  // not an output that it can have
}

// By method exact every result has the bits of the true value, rounded once: by the reference and on the CPU,
// in every output type.
void check_exact(const elements& in, std::string_view what, int& checked) {
  for (op_id op : all_ops) {
    if (!info(op).has_exact) continue;
    const elements mine = of_op(in, op);
    for (int ddof : {0, 1}) {
      if (ddof && op != op_id::var && op != op_id::std) continue;
      const real exact = exact_value(op, mine, ddof);
      for (dtype out : all_dtypes) {
        const auto r = exact_reduction(op, in.type, out, ddof);
        if (!r) continue;
        const scalar want = round_correctly(exact, out);
        for (const scalar& got : {run(*r, mine), cpu::reduce(*r, mine.x, mine.y, mine.n)})
          if (got != want)
            FAIL_CHECK(test::describe(*r, in.n) << " ddof=" << ddof << " on " << what << ": " << to_hex(got) << " ("
                                                << to_string(got) << "), not " << to_hex(want));
        ++checked;
      }
    }
  }
}

// Elements of type t whose sum lies halfway between two numbers of type `out`, or beside that by the smallest
// number of t. There are 2^k of them, so that this holds for their mean too.
std::vector<std::vector<double>> ties(dtype t, dtype out, random_source& random) {
  const float_format f = format_of(t), g = format_of(out);
  const int first = std::max(f.min_exponent, g.min_exponent - 1);
  const int last = std::min(f.max_exponent, g.max_exponent) - g.precision - 1;
  std::vector<std::vector<double>> list;
  for (int half = first; half <= last; half += 1 + random.below(8))
    for (int beside : {0, 1, -1}) {
      std::uint64_t halves = random.bits() >> (63 - g.precision) | 1;
      if (half >= g.min_exponent) halves |= 1ull << g.precision;
      const double sign = random.below(2) ? -1 : 1;
      std::vector<double> x{std::ldexp(beside, f.min_exponent)};
      for (int at = 0; halves >> at; at += f.precision) {
        const std::uint64_t digits = halves >> at & ((1ull << f.precision) - 1);
        x.push_back(sign * std::ldexp(static_cast<double>(digits), half + at));
      }
      x.resize(std::bit_ceil(x.size()));
      list.push_back(x);
    }
  return list;
}

}  // namespace

TEST_CASE("exact: every op, type and input has the bits of the true value, rounded once", "[truth][exact][ops]") {
  int checked = 0;
  for (dtype t : float_types) {
    for (const input& generator : all_inputs())
      for (std::size_t n : {0u, 1u, 2u, 3u, 33u, 300u, 5000u}) {
        const auto x = pack(generator.make(n, 21, t), t), y = pack(generator.make(n, 22, t), t);
        check_exact({t, x.data(), y.data(), n}, generator.name, checked);
      }
    for (double condition : {2.0, 1e8, 1e16, 1e30, 1e40})
      for (std::size_t n : {100u, 4000u}) {
        const dot_input in = dot_cancellation(n, 23, t, condition);
        const auto x = pack(in.x, t), y = pack(in.y, t);
        check_exact(as_elements(t, x, y), "dot cancellation", checked);
        const auto a = pack(cancellation(n, 24, t, condition), t), b = pack(cancellation(n, 25, t, condition), t);
        check_exact(as_elements(t, a, b), "cancellation", checked);
      }
    random_source random(26);
    for (dtype out : float_types)
      for (const auto& values : ties(t, out, random)) {
        const auto x = pack(values, t), ones = pack(std::vector<double>(values.size(), 1.0), t);
        check_exact(as_elements(t, x, ones), "a tie", checked);
      }
  }
  for (dtype t : all_dtypes)
    for (test::kind k : test::all_kinds)
      for (std::size_t n : {1u, 2u, 40u, 1029u}) {
        const auto x = test::make_data(t, k, n, n), y = test::make_data(t, k, n, n + 1);
        check_exact(as_elements(t, x, y), test::name(k), checked);
      }
  CHECK(checked > 100'000);
}

TEST_CASE("exact: long arrays, on many threads, in any order", "[truth][exact][ops]") {
  int checked = 0;
  for (dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i64}) {
    const std::size_t n = 300'007;
    const auto kind = is_float(t) ? test::kind::near_one : test::kind::any_bits;
    auto x = test::make_data(t, kind, n, 1), y = test::make_data(t, kind, n, 2);
    check_exact(as_elements(t, x, y), "a long array", checked);
    // Backwards, and in two pieces that change places: the same bits.
    const auto results = [&] {
      std::vector<scalar> all;
      for (op_id op : all_ops)
        if (info(op).has_exact) {
          const elements in = of_op(as_elements(t, x, y), op);
          all.push_back(cpu::reduce(make_reduction(op, method_id::exact, t), in.x, in.y, n));
        }
      return all;
    };
    const auto before = results();
    for (auto* a : {&x, &y}) {
      std::reverse(a->begin(), a->end());
      for (std::size_t i = 0; i < n; ++i) std::reverse(&(*a)[i * size_of(t)], &(*a)[i * size_of(t)] + size_of(t));
      std::rotate(a->begin(), a->begin() + static_cast<std::ptrdiff_t>(n / 3 * size_of(t)), a->end());
    }
    CHECK(results() == before);
  }
}

// ---- Means, moments and norms in hard places ----------------------------------------------------

TEST_CASE("moments: a small variance about a large mean", "[truth][ops]") {
  random_source random(31);
  const std::size_t n = 100003;
  std::vector<double> alternating(n - 1), noisy(n);
  for (std::size_t i = 0; i + 1 < n; ++i) alternating[i] = i % 2 ? 1e8 + 1 : 1e8 - 1;
  for (double& v : noisy) v = 1e8 + random.normal();
  CHECK(run(make_reduction(op_id::var, {}, dtype::f64), alternating) == 1);
  CHECK(run(make_reduction(op_id::std, {}, dtype::f64), alternating) == 1);
  CHECK(run(make_reduction(op_id::mean, {}, dtype::f64), alternating) == 1e8);
  CHECK(run(make_reduction(op_id::kurtosis, {}, dtype::f64), alternating) ==
        Approx(-2).epsilon(1e-7));
  const auto x = pack(noisy, dtype::f64);
  const elements in = as_elements(dtype::f64, x);
  for (op_id op : {op_id::var, op_id::std}) {
    const reduction r = make_reduction(op, {}, dtype::f64, {}, {}, 1);
    CHECK(relative_error(run(r, in), exact_value(r, in)) < 1e-9);
    CHECK(error_bound(r, in) < 1e-5);
  }
  for (op_id op : {op_id::skewness, op_id::kurtosis}) {
    const reduction r = make_reduction(op, {}, dtype::f64);
    CHECK(abs(value_of(run(r, in)) - exact_value(r, in)) < 1e-7);
  }
  // A mean is rounded once: from 2^24 + 1 in f32, over 3.
  CHECK(run(make_reduction(op_id::mean, method_id::kahan, dtype::f32), {0x1p24, 1, 0}) ==
        static_cast<double>(static_cast<float>((0x1p24 + 1) / 3)));
}

TEST_CASE("moments: of elements that are all the same", "[truth][ops]") {
  for (dtype t : float_types)
    for (double value : {0.1, 1 / 3.0, 1e4 + 0.7, -3e-5})
      for (std::size_t n : {2u, 3u, 7u, 33u, 224u, 255u, 1000u}) {
        CAPTURE(name(t), value, n);
        const std::vector<double> x(n, value);
        for (dtype acc : {dtype::f32, dtype::f64})
          if (acc >= t) {
            CHECK(run(make_reduction(op_id::var, {}, t, acc), x) == 0);
            CHECK(run(make_reduction(op_id::std, {}, t, acc, {}, 1), x) == 0);
          }
        CHECK(std::isnan(run(make_reduction(op_id::skewness, {}, t), x)));
        CHECK(std::isnan(run(make_reduction(op_id::kurtosis, {}, t), x)));
      }
}

TEST_CASE("moments: ddof", "[truth][ops]") {
  const std::vector<double> x{1, 2, 3, 10};
  const auto var = [&](int ddof) {
    return run(make_reduction(op_id::var, {}, dtype::f64, {}, {}, ddof), x);
  };
  CHECK(var(0) == 12.5);
  CHECK(var(1) == 50 / 3.0);
  CHECK(var(3) == 50);
  CHECK(var(4) == inf);  // as in NumPy and PyTorch, which divide by max(0, n - ddof)
  CHECK(var(5) == inf);
  CHECK(std::isnan(run(make_reduction(op_id::var, {}, dtype::f64, {}, {}, 1), {7})));
  const auto packed = pack(x, dtype::f64);
  for (int ddof : {4, 5}) CHECK(exact_value(op_id::var, as_elements(dtype::f64, packed), ddof) == inf);
  CHECK(run(make_reduction(op_id::std, {}, dtype::f64, {}, {}, 2), x) == 5);
}

TEST_CASE("moments: merges of more elements than anyone has", "[truth][ops]") {
  using moments = op::moments<4>;
  using state = moments::state<double>;
  // Two values on each side, so and so many times.
  struct atoms {
    double value;
    std::uint64_t count;
  };
  const auto exact = [](const std::vector<atoms>& all) {
    real n = 0, mean = 0;
    for (const atoms& a : all) n += a.count, mean += real(a.value) * a.count;
    mean /= n;
    std::array<real, 5> m{n, mean};
    for (const atoms& a : all) {
      const real d = a.value - mean;
      m[2] += a.count * d * d;
      m[3] += a.count * d * d * d;
      m[4] += a.count * d * d * d * d;
    }
    return m;
  };
  const auto as_state = [](const std::array<real, 5>& m) {
    return state{static_cast<double>(m[1]), static_cast<double>(m[2]), static_cast<double>(m[3]),
                 static_cast<double>(m[4])};
  };
  const std::uint64_t big = 1ull << 33;
  random_source random(41);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t left = big, right = round == 0 ? big : 1 + (random.bits() & (big - 1));
    const std::uint64_t l = 1 + random.bits() % (left - 1), r = random.bits() % right;
    const double centre = round % 2 ? 0 : 1000;
    const auto value = [&] { return centre + std::round(1000 * random.normal()); };
    const std::vector<atoms> a{{value(), l}, {value(), left - l}},
        b{{value(), r}, {value(), right - r}};
    std::vector<atoms> all = a;
    all.insert(all.end(), b.begin(), b.end());
    const auto want = exact(all);
    const state got = moments::merge(as_state(exact(a)), as_state(exact(b)), {left, right});
    const auto off = [&](double v, const real& w, const real& size) {
      return static_cast<double>(real(abs(v - w) / size));
    };
    const real sigma = sqrt(want[2] / want[0]),
               cube = want[4] / sigma;  // sizes to measure errors in
    CAPTURE(round, l, r);
    CHECK(off(got.mean, want[1], abs(want[1]) + sigma) < 1e-15);
    CHECK(off(got.m2, want[2], want[2]) < 3e-15);
    CHECK(off(got.m3, want[3], cube) < 5e-15);
    CHECK(off(got.m4, want[4], want[4]) < 5e-15);
  }
  CHECK(op::var_fold::finish<double>(op::moment_state<double, 2>{0, static_cast<double>(big - 1)},
                                     fold::finishing{big, 1}) == 1);
}

TEST_CASE("count_distinct: of any bits, NaNs of both signs among them", "[truth][ops]") {
  for (dtype t : all_dtypes)
    for (test::kind k : {test::kind::special, test::kind::any_bits})
      for (std::size_t n : {10u, 300u, 20000u}) {
        const auto x = test::make_data(t, k, n, 81);
        const reduction r = make_reduction(op_id::count_distinct, {}, t);
        const real exact = exact_value(r, as_elements(t, x));
        CAPTURE(name(t), test::name(k), n);
        CHECK(value_of(run(r, as_elements(t, x))) == exact);
        if (is_float(t) && k == test::kind::special && n == 20000) CHECK(exact < n);
      }
}

TEST_CASE("logsumexp: large, small and cancelling", "[truth][ops]") {
  const auto of = [](dtype t, const std::vector<double>& x) {
    return run(make_reduction(op_id::logsumexp, {}, t), x);
  };
  const double log_2 = std::log(2.0);
  for (dtype t : {dtype::f32, dtype::f64}) {
    const double epsilon = t == dtype::f32 ? 1e-7 : 2e-16;
    CHECK(of(t, {1000, 1000}) == Approx(1000 + log_2).epsilon(epsilon));
    CHECK(of(t, {-1000, -1000}) == Approx(-1000 + log_2).epsilon(epsilon));
    CHECK(of(t, {3e38, -3e38, 3e38}) == of(t, {3e38}));
    CHECK(of(t, {0, -2000}) == 0);
    // m + log(s) about 0.
    for (int n : {2, 32, 1000, 70000}) {
      const std::vector<double> x(static_cast<std::size_t>(n), -std::log(n));
      const auto packed = pack(x, t);
      const reduction r = make_reduction(op_id::logsumexp, {}, t);
      const elements in = as_elements(t, packed);
      const real error = abs(value_of(run(r, in)) - exact_value(r, in)), bound = error_bound(r, in);
      CAPTURE(name(t), n);
      CHECK(error <= bound);
      CHECK(bound < 150 * unit_roundoff(t));
    }
  }
  CHECK(of(dtype::f16, {65504, 65504}) == 65504);
  CHECK(run(make_reduction(op_id::logsumexp, {}, dtype::i16), {0, 0}) == 0.0 + log_2);
}

TEST_CASE("norm_l2: neither overflows nor underflows where its result does not", "[truth][ops]") {
  random_source random(51);
  const double max = std::numeric_limits<double>::max(),
               tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<double> edges{max,    max / 2,  0x1p1000,  1e300,     0x1p486, 1,
                                  1e-300, 0x1p-511, 0x1p-1022, 0x1p-1040, tiny};
  const auto norm = [](method_id m, const std::vector<double>& x) {
    return run(make_reduction(op_id::norm_l2, m, dtype::f64), x);
  };
  double worst = 0;
  for (int round = 0; round < 4000; ++round) {
    // Sizes of one or two places, on both sides of an edge.
    const auto n = static_cast<std::size_t>(1 + random.below(round % 50 == 0 ? 600 : 12));
    const double a = edges[random.below(static_cast<int>(edges.size()))];
    const double b = edges[random.below(static_cast<int>(edges.size()))];
    const double shrink = a >= 1e300 || b >= 1e300 ? 1 / std::sqrt(static_cast<double>(2 * n)) : 1;
    std::vector<double> x(n);
    for (double& v : x) {
      const double size = random.below(3) ? a : b,
                   factor = 1 + (random.uniform() - 0.5) * (random.below(2) ? 1 : 0x1p-50);
      v = (random.below(2) ? -1 : 1) * std::min(size * shrink * std::min(factor, 1 / shrink), max);
    }
    const auto packed = pack(x, dtype::f64);
    const elements in = as_elements(dtype::f64, packed);
    const real exact = exact_value(op_id::norm_l2, in);
    for (const auto& m : all_methods) {
      const reduction r = make_reduction(op_id::norm_l2, m.id, dtype::f64);
      const scalar got = run(r, in);
      const double ulps = error_in_ulps(got, exact);
      const real bound = error_bound(r, in);
      if (n <= 12) worst = std::max(worst, ulps);
      if ((n <= 12 && !(ulps < 3)) || (isfinite(bound) && !(abs(value_of(got) - exact) <= bound)))
        FAIL_CHECK(m.name << " of " << n << " around " << a << " and " << b << ": "
                          << to_string(got) << " is off by " << ulps << " ulps, bound "
                          << bound.str(5));
    }
  }
  CHECK(worst > 0.6);
  for (const auto& m : all_methods) {
    CAPTURE(m.name);
    CHECK(norm(m.id, {max}) == max);
    CHECK(norm(m.id, {max, 0x1p900, tiny}) == max);
    CHECK(norm(m.id, {max, max}) == inf);
    CHECK(norm(m.id, {-tiny}) == tiny);
    CHECK(norm(m.id, {3 * tiny, 4 * tiny}) == 5 * tiny);
    CHECK(norm(m.id, {3e300, 4e300}) == Approx(5e300).epsilon(1e-15));
    CHECK(norm(m.id, {3e-300, 4e-300}) == Approx(5e-300).epsilon(1e-15));
    CHECK(norm(m.id, {3 * 0x1p-512, 4 * 0x1p-512}) == 5 * 0x1p-512);  // on both sides of the edge
    CHECK(norm(m.id, {inf, 1e-300}) == inf);
    CHECK(std::isnan(norm(m.id, {1e300, NAN, 1e-300})));
    CHECK(std::isnan(norm(m.id, {1e-300, NAN})));
    CHECK(std::isnan(norm(m.id, {inf, NAN})));
  }
  // The squares of narrower types fit double.
  const float large = std::numeric_limits<float>::max(),
              small = std::numeric_limits<float>::denorm_min();
  CHECK(run(make_reduction(op_id::norm_l2, {}, dtype::f32), {large}) == large);
  CHECK(run(make_reduction(op_id::norm_l2, {}, dtype::f32), {3 * small, 4 * small}) ==
        5 * double{small});
  CHECK(run(make_reduction(op_id::norm_l2, {}, dtype::f32), {large, large}) == inf);
}

// ---- Roundings --------------------------------------------------------------------------------

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
  for (int i = 0; i < 30000; ++i) {
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
      for (const float v : {close, std::nextafter(close, 0.0f), std::nextafter(close, std::numeric_limits<float>::infinity())})
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

// ---- The document -------------------------------------------------------------------------------

TEST_CASE("operations: docs/operations.md lists the operations there are", "[truth][ops]") {
  std::ifstream file(BITFOLD_OPERATIONS_DOC);
  REQUIRE(file);
  std::vector<std::string> listed, expected, headings;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| [`")) listed.push_back(line);
    if (line.starts_with("### ")) headings.push_back(line.substr(4));
  }
  constexpr const char* types[] = {"additive", "real", "wide", "same", "place", "count", "truth"};
  constexpr const char* empty[] = {"0", "1", "NaN", "-inf", "refused"};
  for (const op_info& op : all_op_infos) {
    const std::string id(op.name);
    expected.push_back("| [`" + id + "`](#" + id + ") | " + std::string(op.summary) + " | " +
                       std::to_string(op.inputs) + " | " + types[static_cast<int>(op.types)] +
                       " | " + (op.takes_method ? "yes" : "none") + " | " + (op.has_exact ? "yes" : "none") + " | " +
                       empty[static_cast<int>(op.empty)] + " |");
  }
  CHECK(listed == expected);
  std::vector<std::string> names;
  for (op_id op : all_ops) names.emplace_back(name(op));
  CHECK(headings == names);
}

TEST_CASE("operations: the examples of docs/operations.md are right", "[truth][ops]") {
  const std::regex form(
      R"(Example: `([a-z_0-9]+)\(\{([^}]*)\}(?:, \{([^}]*)\})?\)` is `([^`]*)`\.)");
  const auto numbers = [](const std::string& text) {
    std::vector<double> list;
    std::stringstream in(text);
    for (std::string item; std::getline(in, item, ',');) list.push_back(std::stod(item));
    return list;
  };
  std::ifstream file(BITFOLD_OPERATIONS_DOC);
  std::set<std::string> shown;
  for (std::string line; std::getline(file, line);) {
    std::smatch m;
    if (!std::regex_match(line, m, form)) {
      CHECK_FALSE(line.starts_with("Example"));
      continue;
    }
    CAPTURE(line);
    const auto op = parse_op(m[1].str());
    REQUIRE(op);
    shown.insert(m[1]);
    const auto x = pack(numbers(m[2]), dtype::f64), y = pack(numbers(m[3]), dtype::f64);
    CHECK(to_string(run(make_reduction(*op, {}, dtype::f64), as_elements(dtype::f64, x, y))) == m[4]);
  }
  CHECK(shown.size() == all_ops.size());
}

TEST_CASE("operations: what must be the same is, to the bit", "[truth][ops]") {
  // Against zeros and ones, and an array against itself, by every method and accumulator: no
  // rounding is left that one of the two has and the other has not.
  const auto check = [](op_id a, const elements& in_a, op_id b, const elements& in_b) {
    const auto list_a = all_of(a, in_a.type), list_b = all_of(b, in_b.type);
    REQUIRE(list_a.size() == list_b.size());
    for (std::size_t k = 0; k < list_a.size(); ++k)
      if (run(list_a[k], of_op(in_a, a)) != run(list_b[k], of_op(in_b, b)))
        FAIL_CHECK(test::describe(list_a[k], in_a.n)
                   << " is not " << test::describe(list_b[k], in_b.n));
  };
  using enum op_id;
  for (dtype t : all_dtypes)
    for (std::size_t n : {1u, 33u, 300u, 1500u}) {
      const auto x = test::make_data(t, test::kind::near_one, n, 5);
      const auto zeros = pack_any(std::vector<double>(n, 0.0), t);
      const auto ones = pack_any(std::vector<double>(n, 1.0), t);
      const elements alone = as_elements(t, x), with_self = as_elements(t, x, x);
      check(dot, with_self, sum_squares, alone);
      check(dot, as_elements(t, x, ones), sum, alone);
      check(squared_distance, as_elements(t, x, zeros), sum_squares, alone);
      check(nansum, alone, sum, alone);
      check(nanmean, alone, mean, alone);
      check(nanmin, alone, min, alone);
      check(nanmax, alone, max, alone);
      check(mae, as_elements(t, x, zeros), mae, as_elements(t, zeros, x));
      check(mse, as_elements(t, x, zeros), mse, as_elements(t, zeros, x));
      if (!is_float(t)) continue;
      auto magnitudes = x;  // without the sign bits
      for (std::size_t i = size_of(t) - 1; i < x.size(); i += size_of(t))
        magnitudes[i] &= std::byte{0x7f};
      check(mae, as_elements(t, x, zeros), mean, as_elements(t, magnitudes));
      check(norm_l1, alone, sum, as_elements(t, magnitudes));
    }
}

TEST_CASE("operations: roots and quotients are those of what they are made of", "[truth][ops]") {
  const dtype f64 = dtype::f64;
  for (dtype t : float_types)
    for (dtype acc : {dtype::f32, f64})
      for (std::size_t n : {33u, 300u, 1500u, 20000u}) {
        if (acc < t) continue;
        const auto x = test::make_data(t, test::kind::near_one, n, 7);
        const auto y = test::make_data(t, test::kind::near_one, n, 8);
        const elements xy = as_elements(t, x, y), only_x = as_elements(t, x), only_y = as_elements(t, y);
        const auto of = [&](op_id op, std::optional<method_id> m, dtype a, const elements& in) {
          return static_cast<double>(
              value_of(run(make_reduction(op, m, t, a, f64), of_op(in, op))));
        };
        CAPTURE(name(t), name(acc), n);
        CHECK(of(op_id::std, {}, acc, xy) == std::sqrt(of(op_id::var, {}, acc, xy)));
        for (const auto& m : methods_of(op_id::cosine)) {  // not exact: its parts are not rounded
          CAPTURE(name(m));
          const double xx = of(op_id::sum_squares, m, acc, only_x);
          const double yy = of(op_id::sum_squares, m, acc, only_y);
          if (acc == f64) CHECK(of(op_id::norm_l2, m, acc, only_x) == std::sqrt(xx));
          CHECK(of(op_id::cosine, m, acc, xy) ==
                of(op_id::dot, m, acc, xy) / (std::sqrt(xx) * std::sqrt(yy)));
        }
      }
}
