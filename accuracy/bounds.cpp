#include "bounds.hpp"

#include <algorithm>
#include <limits>

#include <bitfold/bound.hpp>

#include "terms_bound.hpp"

namespace bitfold::accuracy {
namespace {

using detail::conversion_rounds, detail::first_lane_size, detail::folds_above_lane;
using arithmetic = detail::term_arithmetic;

const real infinity = std::numeric_limits<double>::infinity();

// (1 + u)^k - 1
real g(const real& u, std::uint64_t k) { return pow(1 + u, k) - 1; }

// Covers the roundings of these formulas themselves, which are computed to over 2300 bits.
real upwards(const real& bound) { return bound * (1 + ldexp(real(1), -2000)); }

bool is_narrower(dtype a, dtype b) { return format_of(a).precision < format_of(b).precision; }

// Whether every value of b is one of a.
bool holds(dtype a, dtype b) {
  return !is_narrower(a, b) && format_of(a).max_exponent >= format_of(b).max_exponent;
}

// One rounding to `out` of a number within `before` of exact.
real rounded(const real& exact, const real& before, dtype out, bool underflows) {
  const float_format f = format_of(out);
  const real u = unit_roundoff(out), largest = abs(exact) + before;
  if (!(largest * (1 + u) < ldexp(real(1), f.max_exponent))) return infinity;
  real rounding = u * largest;
  if (underflows) rounding = std::max(rounding, ldexp(real(1), f.min_exponent - 1));
  return upwards(before + rounding);
}

// One rounding of the exact value.
real correctly_rounded(const real& exact, dtype out) {
  return is_float(out) ? rounded(exact, 0, out, true) : real(0);
}

// On the sum of n terms by r's method before its last rounding, where `size` is the sum of the
// numbers that the terms' errors are proportional to.
real terms_bound(const reduction& r, std::uint64_t n, const real& size, const arithmetic& how) {
  const real u = unit_roundoff(r.acc()), eta = ldexp(real(1), format_of(r.acc()).min_exponent);
  const auto error = detail::terms_bound(*r.method(), n, size, how, u, eta,
                                         [&](std::uint64_t k) { return g(u, k); });
  if (error.largest >= ldexp(real(1), format_of(r.acc()).max_exponent)) return infinity;
  return upwards(error.bound);
}

}  // namespace

std::uint64_t addition_depth(method_id method, std::uint64_t n) {
  return detail::addition_depth(method, n);
}

std::uint64_t error_depth(std::uint64_t n) { return detail::error_depth(n); }

real bound_before_rounding(const reduction& r, std::uint64_t n, const exact_sum& exact) {
  if (!is_float(r.in()) || r.method() == method_id::exact) return 0;
  return terms_bound(r, n, exact.sum_abs, {});
}

real error_bound(const reduction& r, std::uint64_t n, const exact_sum& exact) {
  if (r.method() == method_id::exact) return correctly_rounded(exact.sum, r.out());
  const real before = bound_before_rounding(r, n, exact);
  if (!is_float(r.out())) return before;
  const bool narrower = !is_float(r.in()) || is_narrower(r.out(), r.acc());
  // What a plain method rounds is already a number of its accumulator's type.
  if (!narrower && r.method() != method_id::kahan) return before;
  return rounded(exact.sum, before, r.out(), narrower);
}

namespace {

// What is summed for each element: the sum of terms and, where the conversion to the accumulator
// and a difference round, of the larger numbers that their errors are proportional to.
struct summed {
  term what, extent;
  arithmetic how;
};

summed terms_of(op_id op, dtype in, dtype acc) {
  const bool converts = conversion_rounds(in, acc);
  const auto with = [&](term what, std::optional<term> extent = {}) {
    return summed{what, extent && converts ? *extent : what, detail::arithmetic_of(op, in, acc)};
  };
  switch (op) {
    case op_id::nansum:
    case op_id::nanmean: return with(term::number);
    case op_id::norm_l1: return with(term::magnitude);
    case op_id::sum_squares:
    case op_id::norm_l2: return with(term::square);
    case op_id::dot:
    case op_id::cosine: return with(term::product);
    case op_id::squared_distance:
    case op_id::mse: return with(term::squared_difference, term::squared_extent);
    case op_id::mae: return with(term::difference, term::extent);
    default: return with(term::element);
  }
}

// The sum itself: exact, and the bound on the sum that is computed before any last rounding.
struct bounded_sum {
  real exact, bound;
};
bounded_sum sum_of(const reduction& r, const elements& in, const summed& s) {
  const exact_sum exact = sum_exactly(s.what, in);
  const real size = s.extent == s.what ? exact.sum_abs : sum_exactly(s.extent, in).sum_abs;
  return {exact.sum, terms_bound(r, in.n, size, s.how)};
}

// Of sqrt(s (1 + e)), |e| <= relative, and k more roundings of numbers like it.
real relative_root(const real& relative, const real& u, int k) {
  if (!(relative < 1)) return infinity;
  return (1 + relative / (1 + sqrt(1 - relative))) * pow(1 + u, k) - 1;
}

const real u64 = unit_roundoff(dtype::f64);
// Half of the smallest subnormal.
real half_step(dtype t) { return ldexp(real(1), format_of(t).min_exponent - 1); }

// The relative error of a root of a sum of squares in double, k roundings after the sum's own.
real norm_error(const reduction& r, const elements& in, const summed& s, int k) {
  const bounded_sum squares = sum_of(r, in, s);
  if (squares.exact == 0) return 0;
  const real vanishing = s.how.lanes_scaled ? ldexp(real(in.n), -100) : real(0);
  const real relative = squares.bound / squares.exact + vanishing;
  return relative_root((1 + relative) * (1 + u64) - 1, u64, k);
}

real norm_l2_bound(const reduction& r, const elements& in) {
  summed s = terms_of(r.op(), r.in(), r.acc());
  if (r.in() == dtype::f64) {
    s.how.scaled = true;
    // A root of a root's square and a quotient's, and the rounding of a subnormal root.
    const real exact = sqrt(sum_exactly(term::square, in).sum);
    return rounded(exact, norm_error(r, in, s, 6) * exact + half_step(dtype::f64), r.out(), true);
  }
  if (is_float(r.in()))
    s.how = {};  // squares of 24 bits are exact in double, and so are their sizes
  const real exact = sqrt(sum_exactly(term::square, in).sum);
  return rounded(exact, norm_error(r, in, s, 1) * exact, r.out(), true);
}

real cosine_bound(const reduction& r, const elements& in) {
  const summed s = terms_of(r.op(), r.in(), r.acc());
  const bounded_sum dot = sum_of(r, in, s);
  const elements x{in.type, in.x, nullptr, in.n}, y{in.type, in.y, nullptr, in.n};
  const summed square{term::square, term::square, s.how};
  const real norms =
      sqrt(sum_exactly(term::square, x).sum) * sqrt(sum_exactly(term::square, y).sum);
  const real tx = norm_error(r, x, square, 1), ty = norm_error(r, y, square, 1);
  const real t = (1 + tx) * (1 + ty) * (1 + u64) - 1;
  if (!(t < 1)) return infinity;
  const real exact = dot.exact / norms;
  // What underflows where lanes are scaled is tiny beside the norms.
  const real vanishing = ldexp(real(in.n), -100) * norms;
  const real of_dot =
      dot.bound + vanishing + u64 * (abs(dot.exact) + dot.bound) + half_step(dtype::f64);
  const real before = (of_dot / norms + abs(exact) * t) / (1 - t);  // and at most 1 where that is
  return rounded(exact, before + u64 * (abs(exact) + before) + half_step(dtype::f64), r.out(),
                 true);
}

real prod_bound(const reduction& r, const elements& in) {
  const real exact = exact_value(r, in);
  if (!is_float(r.in())) return correctly_rounded(exact, r.out());
  // Every product of some elements lies between these.
  real most = 1, least = 1;
  bool has_zero = false;
  for (std::size_t i = 0; i < in.n; ++i) {
    const real x = abs(
        value_of(load_scalar(in.type, static_cast<const std::byte*>(in.x) + i * size_of(in.type))));
    if (x > 1)
      most *= x;
    else if (x > 0)
      least *= x;
    has_zero = has_zero || x == 0;
  }
  const float_format f = format_of(r.acc());
  const real relative = g(unit_roundoff(r.acc()), in.n - 1);
  if (most * (1 + relative) >= ldexp(real(1), f.max_exponent)) return infinity;
  if (has_zero) return 0;
  if (least * (1 - relative) < ldexp(real(1), f.min_exponent + f.precision - 1)) return infinity;
  const real before = upwards(relative * abs(exact));
  return is_narrower(r.out(), r.acc()) ? rounded(exact, before, r.out(), true) : before;
}

// On the computed sum of the squares of the differences from the mean, whose exact value is m2,
// where means are merged without their rounding errors, as others do.
real plain_moment_bound(dtype acc, std::uint64_t lane, std::uint64_t levels, const elements& in,
                        const real& m2) {
  const std::uint64_t n = in.n;
  const real u = unit_roundoff(acc), eta = ldexp(real(1), format_of(acc).min_exponent);
  const real converted = conversion_rounds(in.type, acc) ? u : real(0);
  const real q = sqrt(sum_exactly(term::square, in).sum) * (1 + converted);
  const real means = g(u, 3 * lane + 4 + 5 * levels) * (q + (levels + 1) * sqrt(real(n)) * eta);
  const real f =
      sqrt(real(levels + 1)) * (means + (levels + 1) * sqrt(real(n)) * eta) + converted * q;
  const real shifted = 2 * sqrt(m2) * f + f * f;
  const real before =
      shifted + g(u, lane + 10 + 2 * levels) * (m2 + shifted) + (levels + 2) * n * eta;
  const real largest = 8 * (q * q + before + 1) + 8 * sum_exactly(term::magnitude, in).sum;
  if (!(largest < ldexp(real(1), format_of(acc).max_exponent))) return infinity;
  return upwards(before);
}

// On bitfold's, as docs/operations.md has it.
real second_moment_bound(dtype acc, const elements& in, const real& m2) {
  const std::uint64_t c = first_lane_size(in.n), levels = folds_above_lane(in.n);
  const real u = unit_roundoff(acc), n = in.n, k = levels;
  const real q = sqrt(sum_exactly(term::square, in).sum);
  // Of the lanes by themselves, and of their means: both relative to what varies.
  const real lanes = g(u, 2 * c + 3) + c * pow(g(u, c + 1), 2);
  const real of_means = sqrt(2 * k) * sqrt(real(c)) * g(u, c) * sqrt(m2);
  real f, merges;
  if (acc == dtype::f32) {  // merged in f64
    f = of_means + sqrt(k + 1) * g(u64, 5 * levels + 7) * q * (1 + lanes);
    merges = g(u64, 2 * levels + 10);
  } else {  // with rounding errors
    const real by_a_merge = 24 * (k + 2) * u * u * exact_value(op_id::norm_inf, in);
    f = of_means + (2 * k * sqrt(2 * k) + sqrt(k) / 2) * sqrt(n) * by_a_merge;
    if (conversion_rounds(in.type, acc)) f += u * q;
    merges = 16 * pow((k + 2) * u, 2);
  }
  const real shifted = 2 * sqrt(m2) * f + f * f;
  return upwards(lanes * m2 + shifted + merges * (m2 + shifted));
}

// Of the square root of a number within `before` of exact.
real root_bound(const real& exact, const real& before) {
  return exact > before ? real(before / sqrt(exact)) : sqrt(before);
}

real variance_bound(const reduction& r, const elements& in) {
  const auto d = static_cast<std::size_t>(r.ddof());
  if (in.n <= d) return infinity;
  const real m2 = scaled_moment(2, in) / in.n, degrees = in.n - d, exact = m2 / degrees;
  const real of_m2 = second_moment_bound(r.acc(), in, m2) / degrees;
  // The quotient and the root are of twice double's precision.
  const auto divided = [](const real& value, const real& before) {
    return real(before + 16 * u64 * u64 * (value + before) + half_step(dtype::f64));
  };
  if (r.op() == op_id::var) return rounded(exact, divided(exact, of_m2), r.out(), true);
  const real root = sqrt(exact);
  return rounded(root, divided(root, root_bound(exact, of_m2)), r.out(), true);
}

// Of the sum of exp(x - max), relative to it.
real exponentials_bound(const reduction& r, const elements& in) {
  const real u = unit_roundoff(r.acc()), log_n = log(real(in.n));
  const std::uint64_t c = first_lane_size(in.n), h = folds_above_lane(in.n);
  const real left_out = in.n * ldexp(real(1), r.acc() == dtype::f32 ? -122 : -1019);
  return (1 + g(u, c - 1 + h + 2 * (h + 1))) * (1 + real(1.001) * u * log_n) - 1 + left_out;
}

real logsumexp_bound(const reduction& r, const elements& in) {
  const real of_sum = exponentials_bound(r, in);
  if (!(of_sum < 1)) return infinity;
  const real of_log = -log(1 - of_sum);
  real before = of_log + 5 * u64 * (log(real(in.n)) + of_log);
  if (conversion_rounds(r.in(), r.acc())) before += u64 * exact_value(op_id::norm_inf, in);
  return rounded(exact_value(r, in), before, r.out(), true);
}

real softmax_denominator_bound(const reduction& r, const elements& in) {
  const real exact = exact_value(r, in);
  real of_sum = exponentials_bound(r, in);
  // Two converted numbers make an exponent.
  if (conversion_rounds(r.in(), r.acc()))
    of_sum += (1 + of_sum) * (exp(2 * u64 * exact_value(op_id::norm_inf, in)) - 1);
  return rounded(exact, exact * of_sum, r.out(), true);
}

real mean_bound(const reduction& r, const elements& in) {
  const bounded_sum s = sum_of(r, in, terms_of(r.op(), r.in(), r.acc()));
  const real n = r.op() == op_id::nanmean ? count_numbers(in) : in.n;
  return rounded(s.exact / n, s.bound / n, r.out(), true);
}

real sum_bound(const reduction& r, const elements& in) {
  if (!is_float(r.acc())) return correctly_rounded(exact_value(r, in), r.out());
  const bounded_sum s = sum_of(r, in, terms_of(r.op(), r.in(), r.acc()));
  const bool narrower = is_narrower(r.out(), r.acc());
  if (!narrower && r.method() != method_id::kahan) return s.bound;
  return rounded(s.exact, s.bound, r.out(), true);
}

real norm_inf_bound(const reduction& r, const elements& in) {
  const bool converts = conversion_rounds(r.in(), r.acc());
  if (!converts && holds(r.out(), is_float(r.in()) ? r.in() : r.acc())) return 0;
  const real value = exact_value(r, in);
  return rounded(value, converts ? real(u64 * value) : real(0), r.out(), true);
}

real no_error(const reduction&, const elements&) { return 0; }
real no_bound(const reduction&, const elements&) { return infinity; }

// Null for an op that is forgotten.
constexpr auto bound_of(op_id op) -> real (*)(const reduction&, const elements&) {
  if (rounds_nothing(op)) return no_error;
  switch (op) {
    case op_id::sum:
    case op_id::nansum:
    case op_id::sum_squares:
    case op_id::norm_l1:
    case op_id::dot:
    case op_id::squared_distance: return sum_bound;
    case op_id::mean:
    case op_id::nanmean:
    case op_id::mse:
    case op_id::mae: return mean_bound;
    case op_id::prod: return prod_bound;
    case op_id::norm_l2: return norm_l2_bound;
    case op_id::norm_inf: return norm_inf_bound;
    case op_id::var:
    case op_id::std: return variance_bound;
    case op_id::logsumexp: return logsumexp_bound;
    case op_id::softmax_denominator: return softmax_denominator_bound;
    case op_id::cosine: return cosine_bound;
    case op_id::skewness:
    case op_id::kurtosis: return no_bound;
    default: return nullptr;
  }
}
static_assert(std::ranges::all_of(all_ops, [](op_id op) { return bound_of(op) != nullptr; }),
              "an operation without its bound");

}  // namespace

real error_bound(const reduction& r, const elements& in) {
  if (in.n == 0) return 0;
  if (r.method() == method_id::exact) return correctly_rounded(exact_value(r, in), r.out());
  return bound_of(r.op())(r, in);
}

// ---- Anybody else's

namespace {

// In no order does an element pass through more additions than the first one does left to right.
reduction in_any_order(op_id op, dtype acc, dtype out, const elements& in) {
  return make_reduction(op, method_id::sequential, in.type, acc, out);
}

real any_order_sum(op_id op, dtype acc, dtype out, const elements& in) {
  if (!is_float(acc)) return 0;  // modulo 2^bits, of however many bits
  return error_bound(in_any_order(op, acc, out, in), in);
}

// A sum that is rounded to the output type, divided, and rounded again.
real any_order_mean(op_id op, dtype acc, dtype out, const elements& in) {
  const reduction r = in_any_order(op, acc, out, in);
  const bounded_sum s = sum_of(r, in, terms_of(r.op(), r.in(), r.acc()));
  const real n = r.op() == op_id::nanmean ? count_numbers(in) : in.n;
  return rounded(s.exact / n, rounded(s.exact, s.bound, r.out(), true) / n, r.out(), true);
}

real any_order_norm(op_id, dtype acc, dtype out, const elements& in) {
  const reduction r = is_float(in.type) ? in_any_order(op_id::sum_squares, acc, out, in)
                                        : in_any_order(op_id::norm_l2, acc, out, in);
  const bounded_sum s = sum_of(r, in, terms_of(op_id::norm_l2, in.type, acc));
  const real before = rounded(s.exact, s.bound, out, true);
  return rounded(sqrt(s.exact), root_bound(s.exact, before), out, true);
}

real any_order_variance(op_id op, dtype acc, dtype out, const elements& in) {
  const real u = unit_roundoff(acc), eta = ldexp(real(1), format_of(acc).min_exponent);
  const real n = in.n, m2 = scaled_moment(2, in) / n, exact = m2 / n;
  const bounded_sum s =
      sum_of(in_any_order(op_id::mean, acc, acc, in), in, terms_of(op_id::mean, in.type, acc));
  const real of_mean = s.bound / n + u * (abs(s.exact) + s.bound) / n + eta;
  real shifted = n * of_mean * of_mean;
  if (conversion_rounds(in.type, acc)) {
    const real f = u * sqrt(sum_exactly(term::square, in).sum);
    shifted += 2 * sqrt(m2 + shifted) * f + f * f;
  }
  const real two_passes = shifted + g(u, in.n + 3) * (m2 + shifted) + 2 * n * eta;
  const real merged = plain_moment_bound(acc, 1, in.n, in, m2);
  const real of_m2 = std::max(two_passes, merged);
  const real before = rounded(exact, of_m2 / n + u * (m2 + of_m2) / n + eta, out, true);
  return op == op_id::var ? before : rounded(sqrt(exact), root_bound(exact, before), out, true);
}

real any_order_cosine(op_id, dtype acc, dtype out, const elements& in) {
  const reduction r = in_any_order(op_id::cosine, acc, out, in);
  const real u = unit_roundoff(acc), eta = ldexp(real(1), format_of(acc).min_exponent);
  summed product = terms_of(op_id::cosine, in.type, acc);
  product.how.lanes_scaled = false;
  real norms = 1, t = 0;
  for (const void* data : {in.x, in.y}) {
    const bounded_sum squares =
        sum_of(r, {in.type, data, nullptr, in.n}, {term::square, term::square, product.how});
    // PyTorch takes a norm for 1e-8 at least.
    if (!(squares.exact > 1e-15)) return infinity;
    norms *= sqrt(squares.exact);
    t = std::max(t, relative_root(squares.bound / squares.exact, u, 2));
  }
  if (!(t < 1)) return infinity;
  const exact_sum dot = sum_exactly(term::product, in);
  const real shrunk = (1 - t) * (1 - t), n = in.n;
  const real relative = (1 + g(u, in.n + 4)) / shrunk - 1;
  return rounded(dot.sum / norms,
                 relative * dot.sum_abs / norms + 4 * n * eta * (1 / norms + 1) / shrunk, out,
                 true);
}

// As max + log(sum(exp(x - max))); their exp and log are supposed to be within 4 u. A term is off
// by u |x - max| and 4 u, a sum by n u, a logarithm by that and by 4 u of itself.
real any_order_logsumexp(op_id, dtype acc, dtype out, const elements& in) {
  real least = 0, most = 0, largest = 0;
  for (std::size_t i = 0; i < in.n; ++i) {
    const real v =
        value_of(load_scalar(in.type, static_cast<const std::byte*>(in.x) + i * size_of(in.type)));
    if (!isfinite(v)) return infinity;
    least = i == 0 ? v : std::min(least, v);
    most = i == 0 ? v : std::max(most, v);
    largest = std::max(largest, real(abs(v)));
  }
  const real n = in.n, u = unit_roundoff(acc);
  return rounded(exact_value(op_id::logsumexp, in),
                 u * (n + 10 + (most - least) + 8 * (2 * largest + log(n))), out, true);
}

// Of those whose bound is the same in every order.
real only_bound(op_id op, dtype acc, dtype out, const elements& in) {
  return error_bound(make_reduction(op, {}, in.type, acc, out), in);
}

real no_error(op_id, dtype, dtype, const elements&) { return 0; }
real no_bound(op_id, dtype, dtype, const elements&) { return infinity; }

// Null for an op that is forgotten.
constexpr auto any_order_bound_of(op_id op) -> real (*)(op_id, dtype, dtype, const elements&) {
  if (rounds_nothing(op)) return no_error;
  switch (op) {
    case op_id::norm_inf:
    case op_id::prod: return only_bound;
    case op_id::sum:
    case op_id::nansum:
    case op_id::sum_squares:
    case op_id::norm_l1:
    case op_id::dot:
    case op_id::squared_distance: return any_order_sum;
    case op_id::mean:
    case op_id::nanmean:
    case op_id::mse:
    case op_id::mae: return any_order_mean;
    case op_id::norm_l2: return any_order_norm;
    case op_id::var:
    case op_id::std: return any_order_variance;
    case op_id::cosine: return any_order_cosine;
    case op_id::skewness:
    case op_id::kurtosis:
    case op_id::softmax_denominator: return no_bound;
    case op_id::logsumexp: return any_order_logsumexp;
    default: return nullptr;
  }
}
static_assert(std::ranges::all_of(all_ops,
                                  [](op_id op) { return any_order_bound_of(op) != nullptr; }),
              "an operation without its bound in any order");

}  // namespace

real any_order_bound(op_id op, dtype acc, dtype out, const elements& in) {
  if (in.n == 0) return 0;
  if (is_float(acc) && unit_roundoff(acc) > unit_roundoff(dtype::f32)) return infinity;
  return any_order_bound_of(op)(op, acc, out, in);
}

}  // namespace bitfold::accuracy
