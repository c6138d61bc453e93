// Is it true, for every operation: the oracle against definitions and fractions, the reference against the
// oracle within its a-priori bound, special values and extremes, and the one rounding of a quotient.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>

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

elements view(dtype t, const std::vector<std::byte>& x, const std::vector<std::byte>& y = {}) {
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
  return static_cast<double>(value_of(run(r, view(r.in(), a, b))));
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
  for (const auto& m : all_methods) {
    const std::optional<method_id> method = info(op).takes_method ? std::optional(m.id) : std::nullopt;
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
    if (!method) break;
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
    const real v = exact_value(r.op, view(dtype::f64, a, b), r.ddof);
    CHECK(static_cast<double>(v) == Approx(r.value).epsilon(1e-15));
    // And so is the reference, in every type that can hold the elements.
    for (dtype t : {dtype::f16, dtype::f32, dtype::i16}) {
      const bool whole = std::none_of(r.x.begin(), r.x.end(), [](double e) { return std::isnan(e); });
      if (!is_float(t) && !whole) continue;
      CAPTURE(name(t));
      const auto p = pack_any(r.x, t), q = pack_any(r.y, t);
      const reduction red = make_reduction(r.op, {}, t, {}, {}, r.ddof);
      CHECK(static_cast<double>(value_of(run(red, view(t, p, q)))) ==
            Approx(r.value).epsilon(t == dtype::f16 ? 1e-3 : t == dtype::f32 ? 1e-6 : 1e-14));
    }
  }
  CHECK(seen.size() == all_ops.size());
}

TEST_CASE("oracle: moments and terms against their definitions in fractions", "[truth][oracle][ops]") {
  using boost::multiprecision::cpp_rational;
  using boost::multiprecision::cpp_int;
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
        const auto a = test::make_data(t, k, n, random.bits()), b = test::make_data(t, k, n, random.bits());
        const elements in = view(t, a, b);
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
        CHECK(close(sum(term::magnitude), total([](auto& p, auto&) { return cpp_rational(abs(p)); })));
        CHECK(close(sum(term::product), total([](auto& p, auto& q) { return cpp_rational(p * q); })));
        CHECK(close(sum(term::difference), total([](auto& p, auto& q) { return cpp_rational(abs(p - q)); })));
        CHECK(close(sum(term::squared_difference),
                    total([](auto& p, auto& q) { return cpp_rational((p - q) * (p - q)); })));
        CHECK(close(sum(term::extent), total([](auto& p, auto& q) { return cpp_rational(abs(p) + abs(q)); })));
        CHECK(close(sum(term::squared_extent), total([](auto& p, auto& q) {
                      return cpp_rational((abs(p) + abs(q)) * (abs(p) + abs(q)));
                    })));
        CHECK(close(exact_value(op_id::norm_l1, {t, a.data(), nullptr, n}), as_real(size)));
        if (!is_float(t)) {
          cpp_int product = 1;
          for (const auto& v : x) product *= numerator(v);
          const cpp_int modulus = cpp_int(1) << 64;
          product = ((product % modulus) + modulus) % modulus;
          CHECK(cpp_int(value_of(round_correctly(exact_value(op_id::prod, {t, a.data(), nullptr, n}),
                                                 dtype::u64))) == product);
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
      {{sum, mean, prod, min, max, norm_l1, norm_l2, norm_inf, sum_squares, var, skewness, kurtosis},
       {1, NAN, 2}, {}, NAN},
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
        // Also far apart, in other lanes and leaves, beside elements that change nothing.
        const auto x = pack(r.x, t), y = pack(r.y, t);
        const elements in = of_op(view(t, x, y), op);
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
  // Ones, with two other values anywhere: the reference has the oracle's class of result, and the very
  // one where nothing is rounded.
  const std::vector<double> others{inf, -inf, NAN, 0.0, -0.0, 2, -3};
  random_source random(5);
  for (dtype t : float_types)
    for (std::size_t n : {std::size_t{2}, std::size_t{31}, std::size_t{40}, std::size_t{300}, std::size_t{1100}})
      for (double a : others)
        for (double b : others) {
          std::vector<double> v(n, 1.0), w(n, 1.0);
          const auto at = static_cast<std::size_t>(random.below(static_cast<int>(n)));
          const auto by = static_cast<std::size_t>(random.below(static_cast<int>(n)));
          v[at] = a, (n % 2 ? v : w)[by] = b;
          const auto x = pack(v, t), y = pack(w, t);
          for (op_id op : all_ops) {
            const elements in = of_op(view(t, x, y), op);
            const real exact = exact_value(op, in);
            for (const auto& m : all_methods) {
              if (!info(op).takes_method && m.id != method_id::tree) continue;
              const auto method = info(op).takes_method ? std::optional(m.id) : std::nullopt;
              const reduction r = make_reduction(op, method, t);
              const scalar got = run(r, in);
              const real value = value_of(got);
              const bool close = isfinite(exact) ? abs(value - exact) <= ldexp(1 + abs(exact), -6)
                                                 : same(value, exact);
              if (!close)
                FAIL_CHECK(test::describe(r, n) << " of " << a << " at " << at << " and " << b << " at " << by
                                                << ": " << to_string(got) << ", exact "
                                                << static_cast<double>(exact));
            }
          }
        }
}

TEST_CASE("empty: what every op gives for no elements", "[truth][ops]") {
  const std::map<op_id, double> expected{
      {op_id::sum, 0},          {op_id::nansum, 0},      {op_id::prod, 1},
      {op_id::mean, NAN},       {op_id::nanmean, NAN},   {op_id::any, 0},
      {op_id::all, 1},          {op_id::count_nonzero, 0}, {op_id::sum_squares, 0},
      {op_id::norm_l1, 0},      {op_id::norm_l2, 0},     {op_id::norm_inf, 0},
      {op_id::var, NAN},        {op_id::std, NAN},       {op_id::skewness, NAN},
      {op_id::kurtosis, NAN},   {op_id::dot, 0},         {op_id::squared_distance, 0},
      {op_id::mse, NAN},        {op_id::mae, NAN},       {op_id::cosine, NAN}};
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

// Ops whose error has no a-priori bound: within this many units of (their number of roundings) u kappa
// (m4 / m2^2), measured.
real measured_bound(const reduction& r, const elements& in) {
  const real n = in.n, m2 = scaled_moment(2, in), m4 = scaled_moment(4, in);
  if (m2 == 0) return real(inf);
  const real kappa = sqrt(1 + sum_exactly(term::square, in).sum * n / m2);
  const real u = unit_roundoff(dtype::f64) * (10 + addition_depth(method_id::tree, in.n));
  if (u * kappa > 0.01) return real(inf);
  const real value = abs(exact_value(r, in));
  return 4 * u * kappa * m4 / (m2 * m2) +
         std::max(real(value * unit_roundoff(r.out())), ldexp(real(1), format_of(r.out()).min_exponent));
}

void check_bounds(const elements& in, std::string_view what, std::map<op_id, closeness>& seen) {
  for (op_id op : all_ops) {
    const elements mine = of_op(in, op);
    std::optional<real> exact;
    for (const reduction& r : all_of(op, in.type)) {
      // Other outputs than the default are for the shorter ones.
      if (in.n > 40 && r.out() != make_reduction(op, {}, in.type).out()) continue;
      const bool wraps = info(op).types == typing::additive && !is_float(in.type);
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
      if (!isfinite(bound)) {
        ++c.unbounded;
        continue;
      }
      const real error = abs(value_of(got) - *exact);
      if (!(error <= bound))
        FAIL_CHECK(test::describe(r, in.n) << " on " << what << ": " << to_string(got) << " is off by "
                                           << error.str(5) << ", bound " << bound.str(5) << ", exact "
                                           << exact->str(20));
      if (bound > 0 && !wraps && in.n > 40)
        c.closest = std::max(c.closest, static_cast<double>(real(error / bound)));
      if (bound == 0 && got != round_correctly(*exact, r.out()))  // the sign of zero, too
        FAIL_CHECK(test::describe(r, in.n) << " on " << what << ": " << to_string(got));
    }
  }
}

}  // namespace

TEST_CASE("bounds: every op, type, method, accumulator and output is within", "[truth][bounds][ops]") {
  std::map<op_id, closeness> seen;
  for (dtype t : float_types)
    for (const input& generator : all_inputs())
      for (std::size_t n : {1u, 2u, 3u, 33u, 257u, 600u}) {
        const auto x = pack(generator.make(n, 11, t), t), y = pack(generator.make(n, 12, t), t);
        check_bounds(view(t, x, y), generator.name, seen);
      }
  for (dtype t : float_types) {
    for (std::size_t n : {2500u, 4097u}) {
      const auto x = pack(all_inputs()[2].make(n, 1, t), t), y = pack(all_inputs()[3].make(n, 2, t), t);
      check_bounds(view(t, x, y), "normal and positive", seen);
    }
    for (double condition : {10.0, 1e8, 1e30}) {
      const dot_input in = dot_cancellation(1000, 3, t, condition);
      const auto x = pack(in.x, t), y = pack(in.y, t);
      check_bounds(view(t, x, y), "dot cancellation", seen);
    }
  }
  for (dtype t : all_dtypes)
    for (test::kind k : {test::kind::near_one, test::kind::any_bits})
      for (std::size_t n : {1u, 2u, 31u, 40u, 255u, 300u, 1029u}) {
        const auto x = test::make_data(t, k, n, n), y = test::make_data(t, k, n, n + 1);
        check_bounds(view(t, x, y), test::name(k), seen);
      }
  for (op_id op : all_ops) {
    const closeness& c = seen.at(op);
    WARN(name(op) << ": " << c.checked << " results, " << c.unbounded << " without bound, closest "
                  << c.closest);
  }
}
