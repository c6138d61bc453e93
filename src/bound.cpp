#include <bitfold/bound.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include <bitfold/reduce.hpp>

#include "fp_environment.hpp"
#include "terms_bound.hpp"

namespace bitfold {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- What is summed beside the results ----------------------------------------------------------

// Elements as doubles: i64 and u64 rounded, all others exactly.
template <class T, bool Two>
struct stored_at {
  const void *x, *y;
  static double element(const void* from, order::index i) {
    T e;
    std::memcpy(&e, static_cast<const std::byte*>(from) + i * sizeof e, sizeof e);
    return arith::widen<double>(e);
  }
  auto operator()(order::index i) const {
    if constexpr (Two)
      return fold::pair_of<double>{element(x, i), element(y, i)};
    else
      return element(x, i);
  }
};

struct of_numbers {
  struct state {
    double sum;
    std::uint64_t count;
  };
  static state start(double x) { return x == x ? state{std::fabs(x), 1} : state{0, 0}; }
  static state merge(state a, state b) { return {a.sum + b.sum, a.count + b.count}; }
  static state finish(state s) { return s; }
};
struct of_products {
  struct state {
    double xy, xx, yy;
  };
  static state start(double x, double y) { return {std::fabs(x * y), x * x, y * y}; }
  static state merge(state a, state b) { return {a.xy + b.xy, a.xx + b.xx, a.yy + b.yy}; }
  static state finish(state s) { return s; }
};
// |x| + |y|, and its square.
struct of_extents {
  struct state {
    double sum, squares;
  };
  static state start(double x, double y) {
    const double e = std::fabs(x) + std::fabs(y);
    return {e, e * e};
  }
  static state merge(state a, state b) { return {a.sum + b.sum, a.squares + b.squares}; }
  static state finish(state s) { return s; }
};

struct magnitudes {
  double norm_l1 = 0;
  of_numbers::state numbers{};
  of_products::state products{};
  of_extents::state extents{};
};

enum class needs { nothing, norm_l1, numbers, products, extents };

constexpr std::optional<needs> needs_at_most(op_id op) {
  switch (op) {
    case op_id::sum:
    case op_id::mean: return needs::norm_l1;
    case op_id::nansum:
    case op_id::nanmean: return needs::numbers;
    case op_id::dot:
    case op_id::cosine: return needs::products;
    case op_id::mse:
    case op_id::mae: return needs::extents;
    // Of one sign, so that the result tells.
    case op_id::sum_squares:
    case op_id::norm_l1:
    case op_id::norm_l2:
    case op_id::norm_inf:
    case op_id::squared_distance: return needs::nothing;
    default: break;
  }
  if (rounds_nothing(op) || !has_error_bound(op)) return needs::nothing;
  return {};
}
static_assert(std::ranges::all_of(all_ops, [](op_id op) { return needs_at_most(op).has_value(); }),
              "an operation is forgotten");

needs needs_of(const reduction& r) {
  if (!is_float(r.acc()) || r.method() == method_id::exact) return needs::nothing;
  const needs needed = *needs_at_most(r.op());
  if (needed == needs::numbers && !is_float(r.in())) return needs::norm_l1;
  if (needed == needs::extents && !detail::conversion_rounds(r.in(), r.acc()))
    return needs::nothing;
  return needed;
}

bool any_needs(std::span<const reduction> reductions, needs what) {
  return std::any_of(reductions.begin(), reductions.end(),
                     [&](const reduction& r) { return needs_of(r) == what; });
}

// `reductions` and, at the end, what bitfold has an operation for.
std::vector<reduction> with_norm(std::span<const reduction> reductions) {
  std::vector<reduction> list(reductions.begin(), reductions.end());
  for (const reduction& r : reductions)
    if (!has_error_bound(r.op(), r.method()))
      throw error(errc::usage, "bound: " + std::string(name(r.op())) + " has none");
  if (any_needs(reductions, needs::norm_l1))
    list.push_back(make_reduction(op_id::norm_l1, {}, reductions[0].in(), dtype::f64, dtype::f64));
  return list;
}

// Runs p, together with the sums that `reductions` needs and bitfold has no operation for.
void run(cpu::pass p, std::span<const reduction> reductions, const void* x, const void* y,
         std::span<scalar> out, magnitudes& sums, const cpu::options& opts) {
  if (reductions.empty()) return;
  visit(reductions[0].in(), [&]<class T>(std::type_identity<T>) {
    const stored_at<T, false> one{x, y};
    const stored_at<T, true> two{x, y};
    std::vector<cpu::own_fold> own;
    if (p.n > 0) {
      if constexpr (!std::is_integral_v<T>)
        if (any_needs(reductions, needs::numbers))
          own.push_back(detail::own_fold_of<of_numbers>(one, &sums.numbers));
      if (any_needs(reductions, needs::products))
        own.push_back(detail::own_fold_of<of_products>(two, &sums.products));
      if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
        if (any_needs(reductions, needs::extents))
          own.push_back(detail::own_fold_of<of_extents>(two, &sums.extents));
    }
    p.own_folds = own;
    p.element_bytes = sizeof(T) * (y ? 2 : 1);
    cpu::reduce(p, out, opts);
  });
}

// ---- Numbers that are rounded upwards -----------------------------------------------------------

double next_up(double x) { return std::nextafter(x, infinity); }

// At least the number >= 0 that it stands for, which it is itself where that is 0.
struct upper {
  double v = 0;
  constexpr explicit upper(double x) : v(x) {}
};
upper operator+(upper a, upper b) {
  return a.v == 0 ? b : b.v == 0 ? a : upper(next_up(a.v + b.v));
}
upper operator*(upper a, upper b) {
  return a.v == 0 || b.v == 0 ? upper(0) : upper(next_up(a.v * b.v));
}
/// Over a number that is `low` at least; infinite where that says nothing.
upper over(upper a, double low) {
  return !(low > 0) ? upper(infinity) : a.v == 0 ? a : upper(next_up(a.v / low));
}
upper root(upper a) { return a.v == 0 ? a : upper(next_up(std::sqrt(a.v))); }
upper larger(upper a, upper b) { return a.v < b.v ? b : a; }
/// At most a - b.
double less(double a, upper b) { return b.v == 0 ? a : std::nextafter(a - b.v, -infinity); }
/// (1 + a) (1 + b) - 1.
upper compound(upper a, upper b) { return a + b + a * b; }

/// (1 + u)^k - 1: below k u / (1 - k u), and g(2 k) = 2 g(k) + g(k)^2.
upper g(double u, std::uint64_t k) {
  const upper ku = upper(static_cast<double>(k)) * upper(u);
  if (ku.v <= 0x1p-10) return over(ku, less(1, ku));
  const upper half = g(u, k / 2 + k % 2);
  return compound(half, half);
}

struct format {
  double u, eta;  // the unit roundoff, the smallest subnormal
  double limit;   // finite values are below
};
format format_of(dtype t) {
  switch (t) {
    case dtype::f16: return {0x1p-11, 0x1p-24, 0x1p16};
    case dtype::bf16: return {0x1p-8, 0x1p-133, 0x1p128};
    case dtype::f32: return {0x1p-24, 0x1p-149, 0x1p128};
    default: return {0x1p-53, 0x1p-1074, infinity};
  }
}
constexpr double u64 = 0x1p-53;
constexpr upper half_step_f64(0x1p-1074);

// ---- Bounds -------------------------------------------------------------------------------------

class bounding {
 public:
  bounding(const reduction& r, std::size_t n, double value, const magnitudes& sums)
      : r_(r), n_(n), count_(static_cast<double>(n)), value_(std::fabs(value)), sums_(sums) {}

  upper bound() const {
    if (r_.method() == method_id::exact) return one_rounding();
    switch (r_.op()) {
      case op_id::norm_l2: return norm();
      case op_id::norm_inf: return largest();
      case op_id::cosine: return cosine();
      case op_id::mean:
      case op_id::mse:
      case op_id::mae: return mean(count_);
      case op_id::nanmean:
        return mean(is_float(r_.in()) ? static_cast<double>(sums_.numbers.count) : count_);
      default: return sum();
    }
  }

 private:
  static detail::terms_error<upper> terms(method_id m, std::size_t n, upper size,
                                          const detail::term_arithmetic& arithmetic, dtype acc) {
    const format f = format_of(acc);
    return detail::terms_bound(m, n, size, arithmetic, upper(f.u), upper(f.eta),
                               [&](std::uint64_t k) { return g(f.u, k); });
  }
  detail::terms_error<upper> terms(upper size, const detail::term_arithmetic& arithmetic) const {
    return terms(*r_.method(), n_, size, arithmetic, r_.acc());
  }
  detail::term_arithmetic arithmetic() const {
    return detail::arithmetic_of(r_.op(), r_.in(), r_.acc());
  }

  // Terms that are not negative add up to S, and S is off by at most its error bound, a S + b for
  // some a and b: so that S is at most (sum + b) / (1 - a), and 1 / S at most (1 + a) / (sum - b).
  static upper recovered(upper sum, const detail::terms_error<upper>& relative,
                         const detail::terms_error<upper>& absolute) {
    return over(sum + absolute.bound, less(1, relative.bound));
  }
  // The true sum behind one that was computed beside the result: in f64, by tree.
  struct true_sum {
    upper magnitude, inverse;
  };
  true_sum from_computed(double sum, detail::term_arithmetic arithmetic) const {
    arithmetic.scaled = r_.in() != dtype::f64;  // no product of narrower ones underflows
    arithmetic.lanes_scaled = false;
    const auto relative = terms(method_id::tree, n_, upper(1), arithmetic, dtype::f64);
    const auto absolute = terms(method_id::tree, n_, upper(0), arithmetic, dtype::f64);
    return {recovered(upper(sum), relative, absolute),
            over(upper(1) + relative.bound, less(sum, absolute.bound))};
  }

  // What the terms' errors are proportional to, added up.
  upper size() const {
    const auto in_f64 = detail::arithmetic_of(r_.op(), r_.in(), dtype::f64);
    switch (needs_of(r_)) {
      case needs::norm_l1: return from_computed(sums_.norm_l1, in_f64).magnitude;
      case needs::numbers: return from_computed(sums_.numbers.sum, in_f64).magnitude;
      case needs::products: return from_computed(sums_.products.xy, in_f64).magnitude;
      case needs::extents:
        // Two elements are rounded, and their sum.
        return r_.op() == op_id::mae ? from_computed(sums_.extents.sum, {2}).magnitude
                                     : from_computed(sums_.extents.squares, {4, true}).magnitude;
      default: break;
    }
    upper sum = upper(value_) + rounding();
    if (divides()) sum = sum * upper(count_);
    return recovered(sum, terms(upper(1), arithmetic()), terms(upper(0), arithmetic()));
  }

  bool divides() const {
    return r_.op() == op_id::mean || r_.op() == op_id::nanmean || r_.op() == op_id::mse ||
           r_.op() == op_id::mae;
  }

  // The last rounding, to the output type: at most u of what it gives.
  upper rounding() const {
    if (divides() || format_of(r_.out()).u > format_of(r_.acc()).u) return one_rounding();
    // Two parts of the accumulator's type, or one.
    return r_.method() == method_id::kahan ? relative_rounding() : upper(0);
  }
  upper rounding_from_f64() const { return r_.out() == dtype::f64 ? upper(0) : one_rounding(); }
  upper relative_rounding() const { return upper(format_of(r_.out()).u) * upper(value_); }
  upper one_rounding() const {
    return larger(relative_rounding(), upper(format_of(r_.out()).eta) * upper(0.5));
  }

  // Of the terms' sum.
  upper before_rounding(upper size) const {
    const auto error = terms(size, arithmetic());
    // Plain sums that overflow are not finite. Error-free transformations are not free of errors
    // then.
    const bool fits =
        r_.method() != method_id::kahan || error.largest.v < format_of(r_.acc()).limit;
    return fits ? error.bound : upper(infinity);
  }

  upper sum() const {
    if (!is_float(r_.acc())) return relative_rounding();  // of an exact sum
    const upper s = size();
    return s.v == 0 ? s : before_rounding(s) + rounding();
  }
  upper mean(double count) const {
    const upper s = size();
    return s.v == 0 ? s : over(before_rounding(s), count) + rounding();
  }
  // Of the square root of a sum that is off by at most `relative` < 1 of itself, k roundings of
  // numbers like it included: |sqrt(1 + e) - 1| <= e / (1 + sqrt(1 - e)) <= e / (2 - e).
  static upper relative_root(upper relative, std::uint64_t k) {
    if (!(relative.v < 1)) return upper(infinity);
    return compound(over(relative, less(2, relative)), g(u64, k));
  }

  upper norm() const {
    detail::term_arithmetic squares = arithmetic();
    const bool scaled = r_.in() == dtype::f64;
    if (scaled)
      squares.scaled = true;
    else if (is_float(r_.in()))
      squares = {};  // exact in f64
    const upper relative = compound(terms(upper(1), squares).bound, upper(u64));
    const upper t = relative_root(relative, scaled ? 6 : 1);
    const upper last = rounding_from_f64() + (scaled ? half_step_f64 : upper(0));
    return t * over(upper(value_) + last, less(1, t)) + last;
  }

  upper largest() const {
    const dtype exact = is_float(r_.in()) ? r_.in() : r_.acc();
    const format source = format_of(exact), target = format_of(r_.out());
    const bool holds = target.u <= source.u && target.limit >= source.limit;
    const upper last = holds ? upper(0) : one_rounding();
    if (!detail::conversion_rounds(r_.in(), r_.acc())) return last;
    return upper(u64) * (upper(value_) + last) + last;
  }

  // With q the quotient of what was computed, D the error of dot over the norms, and t that of the
  // product of the norms relative to it: |q - exact| <= (D + |exact| t) / (1 - t), so that it is at
  // most (D + |q| t) / (1 - 2 t).
  upper cosine() const {
    const auto in_f64 = detail::arithmetic_of(r_.op(), r_.in(), dtype::f64);
    const true_sum xx = from_computed(sums_.products.xx, in_f64),
                   yy = from_computed(sums_.products.yy, in_f64),
                   xy = from_computed(sums_.products.xy, in_f64);
    const auto squares_x = terms(xx.magnitude, arithmetic()),
               squares_y = terms(yy.magnitude, arithmetic()),
               dot = terms(xy.magnitude, arithmetic());
    const upper vanishing =
        upper(count_) * upper(0x1p-100);  // what underflows where lanes are scaled
    const auto norm_error = [&](const detail::terms_error<upper>& e, upper inverse) {
      return relative_root(compound(e.bound * inverse + vanishing, upper(u64)), 1);
    };
    const upper t = compound(
        compound(norm_error(squares_x, xx.inverse), norm_error(squares_y, yy.inverse)), upper(u64));
    const upper inverse = root(xx.inverse) * root(yy.inverse);
    if (!(inverse.v < infinity) || !(t.v < 0.25)) return upper(infinity);
    const upper last = rounding_from_f64(), rounded = upper(value_) + last;
    const upper quotient_error = upper(u64) * rounded + half_step_f64, q = rounded + quotient_error;
    // dot is rounded to a double: by u64 of that, which over the norms is q (1 + t) at most.
    const upper d = dot.bound * inverse + vanishing + upper(u64) * (q + q * t);
    return over(d + q * t, less(1, t + t)) + quotient_error + last;
  }

  const reduction& r_;
  std::size_t n_;
  double count_, value_;
  const magnitudes& sums_;
};

BITFOLD_OPAQUE double bound_of(const reduction& r, std::size_t n, scalar value,
                               const magnitudes& sums) {
  if (rounds_nothing(r.op()) || !is_float(r.out())) return 0;
  const double v = visit(value.type, [&]<class T>(std::type_identity<T>) {
    T stored;
    store_scalar(value, &stored);
    return arith::widen<double>(stored);
  });
  if (!std::isfinite(v)) return infinity;
  if (n == 0) return 0;
  const double bound = bounding(r, n, v, sums).bound().v;
  return std::isnan(bound) ? infinity : bound;
}

std::vector<bounded> bounded_by(std::span<const reduction> reductions, std::size_t n,
                                const std::vector<scalar>& values, magnitudes sums) {
  const detail::fp_environment guard;
  if (values.size() > reductions.size()) store_scalar(values.back(), &sums.norm_l1);
  std::vector<bounded> results;
  for (std::size_t k = 0; k < reductions.size(); ++k)
    results.push_back({values[k], bound_of(reductions[k], n, values[k], sums)});
  return results;
}

}  // namespace

std::vector<bounded> cpu::reduce_with_bounds(std::span<const reduction> reductions, const void* x,
                                             const void* y, std::size_t n, const options& opts) {
  const std::vector<reduction> extended = with_norm(reductions);
  std::vector<scalar> values(extended.size());
  magnitudes sums;
  pass p;
  p.n = n;
  p.reductions = extended;
  p.x = x;
  p.y = y;
  run(p, reductions, x, y, values, sums, opts);
  return bounded_by(reductions, n, values, sums);
}

bounded cpu::reduce_with_bound(const reduction& r, const void* x, const void* y, std::size_t n,
                               const options& opts) {
  return reduce_with_bounds({&r, 1}, x, y, n, opts)[0];
}
bounded cpu::reduce_with_bound(const reduction& r, const void* data, std::size_t n,
                               const options& opts) {
  return reduce_with_bound(r, data, nullptr, n, opts);
}

bounded result_with_bound(const totals& sums, std::size_t k) {
  return bounded_by({&sums.reductions().at(k), 1}, sums.count(), {sums.result(k)}, magnitudes())[0];
}

std::vector<bounded> cuda::reduce_host_with_bounds(std::span<const reduction> reductions,
                                                   const void* x, const void* y, std::size_t n,
                                                   int device, const launch& shape) {
  const std::vector<scalar> values = reduce_host(with_norm(reductions), x, y, n, device, shape);
  magnitudes sums;
  cpu::pass p;
  p.n = n;
  run(p, reductions, x, y, {}, sums, {});
  return bounded_by(reductions, n, values, sums);
}

}  // namespace bitfold
