#include "oracle.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

namespace bitfold::accuracy {
namespace {

constexpr mpfr_rnd_t nearest = MPFR_RNDN;

void require_exact(int ternary) {
  if (ternary != 0) throw std::logic_error("oracle: a sum that must be exact was rounded");
}

std::uint64_t exponent_mask(dtype t) {
  const int stored = format_of(t).precision - 1;
  return (1ull << (8 * static_cast<int>(size_of(t)) - 1 - stored)) - 1;
}

std::uint64_t infinity_bits(dtype t) { return exponent_mask(t) << (format_of(t).precision - 1); }

std::uint64_t sign_bit(dtype t) { return 1ull << (8 * size_of(t) - 1); }

// The value of a float's bits, by the definition of the format.
double decode(dtype t, std::uint64_t bits) {
  const float_format f = format_of(t);
  const int stored = f.precision - 1;
  const std::uint64_t fraction = bits & ((1ull << stored) - 1);
  const auto biased = static_cast<int>(bits >> stored & exponent_mask(t));
  double magnitude;
  if (biased == static_cast<int>(exponent_mask(t)))
    magnitude = fraction ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  else if (biased == 0)
    magnitude = std::ldexp(static_cast<double>(fraction), f.min_exponent);
  else
    magnitude =
        std::ldexp(static_cast<double>(fraction | 1ull << stored), f.min_exponent + biased - 1);
  return bits & sign_bit(t) ? -magnitude : magnitude;
}

std::uint64_t load_bits(dtype t, const void* data, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(data) + i * size_of(t), size_of(t));
  return bits;
}

std::int64_t sign_extended(dtype t, std::uint64_t bits) {
  const int unused = 64 - 8 * static_cast<int>(size_of(t));
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

// The exponents of the lowest and of the one above the highest bit that a finite x of type t may
// have.
struct bit_range {
  int low, high;
};
bit_range bits_of(dtype t, double x) {
  const float_format f = format_of(t);
  const int e = std::ilogb(x);
  return {std::max(e - (f.precision - 1), f.min_exponent), e + 1};
}

// Precision, in bits, at which every partial sum of n terms is exact. range_of(i) are the bits of
// term i; nothing for one that is zero or not finite. The terms are multiples of 2^low and below
// 2^high, so their sums are below n 2^high.
template <class RangeOf>
mpfr_prec_t sufficient_precision(std::size_t n, RangeOf range_of) {
  int low = std::numeric_limits<int>::max(), high = std::numeric_limits<int>::min();
  for (std::size_t i = 0; i < n; ++i)
    if (const std::optional<bit_range> r = range_of(i)) {
      low = std::min(low, r->low);
      high = std::max(high, r->high);
    }
  return low < high ? high - low + std::bit_width(n) : 2;
}

bool counts(double x) { return x != 0 && std::isfinite(x); }

// mpfr_float is the type whose precision can be chosen: as narrow as exactness allows, for speed.
using narrow = boost::multiprecision::mpfr_float;

mpfr_ptr zero_of(narrow& x, mpfr_prec_t bits, int sign) {
  const mpfr_ptr raw = x.backend().data();
  mpfr_set_prec(raw, bits);
  mpfr_set_zero(raw, sign);
  return raw;
}

real widened(mpfr_srcptr x) {
  real r;
  require_exact(mpfr_set(r.backend().data(), x, nearest));
  return r;
}

}  // namespace

float_format format_of(dtype t) {
  switch (t) {
    case dtype::f16: return {11, -24, 16};
    case dtype::bf16: return {8, -133, 128};
    case dtype::f32: return {24, -149, 128};
    case dtype::f64: return {53, -1074, 1024};
    default: throw std::logic_error("oracle: not a float type");
  }
}

real unit_roundoff(dtype t) { return ldexp(real(1), -format_of(t).precision); }

real value_of(scalar v) {
  if (is_float(v.type)) return decode(v.type, v.bits);
  if (is_signed_int(v.type)) return sign_extended(v.type, v.bits);
  return v.bits;
}

real exact_sum::condition() const {
  if (sum_abs == 0) return 1;
  return sum_abs / abs(sum);
}

exact_sum sum_exactly(dtype type, const void* data, std::size_t n) {
  static_assert(sizeof(long) == 8);
  const mpfr_prec_t bits =
      !is_float(type) ? 64 + std::bit_width(n)
                      : sufficient_precision(n, [&](std::size_t i) -> std::optional<bit_range> {
                          const double x = decode(type, load_bits(type, data, i));
                          return counts(x) ? std::optional(bits_of(type, x)) : std::nullopt;
                        });
  narrow sum_at, abs_at;
  // -0 changes no sum of floats.
  const mpfr_ptr sum = zero_of(sum_at, bits, n > 0 && is_float(type) ? -1 : +1);
  const mpfr_ptr sum_abs = zero_of(abs_at, bits, +1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t x = load_bits(type, data, i);
    if (is_float(type)) {
      const double d = decode(type, x);
      require_exact(mpfr_add_d(sum, sum, d, nearest));
      require_exact(mpfr_add_d(sum_abs, sum_abs, std::fabs(d), nearest));
    } else if (is_signed_int(type)) {
      const std::int64_t k = sign_extended(type, x);
      const auto magnitude = static_cast<std::uint64_t>(k);
      require_exact(mpfr_add_si(sum, sum, k, nearest));
      require_exact(mpfr_add_ui(sum_abs, sum_abs, k < 0 ? 0 - magnitude : magnitude, nearest));
    } else {
      require_exact(mpfr_add_ui(sum, sum, x, nearest));
      require_exact(mpfr_add_ui(sum_abs, sum_abs, x, nearest));
    }
  }
  return {widened(sum), widened(sum_abs)};
}

real exact_dot::condition() const {
  if (dot_abs == 0) return 2;
  return 2 * dot_abs / abs(dot);
}

exact_dot dot_exactly(dtype type, const void* x, const void* y, std::size_t n) {
  if (!is_float(type)) throw std::logic_error("oracle: not a float type");
  const auto pair = [&](std::size_t i) {
    return std::pair(decode(type, load_bits(type, x, i)), decode(type, load_bits(type, y, i)));
  };
  const mpfr_prec_t bits = sufficient_precision(n, [&](std::size_t i) -> std::optional<bit_range> {
    const auto [a, b] = pair(i);
    if (!counts(a) || !counts(b)) return std::nullopt;
    const bit_range ra = bits_of(type, a), rb = bits_of(type, b);
    return bit_range{ra.low + rb.low, ra.high + rb.high};
  });
  narrow dot_at, abs_at, product_at;
  const mpfr_ptr dot = zero_of(dot_at, bits, n > 0 ? -1 : +1);
  const mpfr_ptr dot_abs = zero_of(abs_at, bits, +1);
  const mpfr_ptr product = zero_of(product_at, 2 * 53, +1);
  for (std::size_t i = 0; i < n; ++i) {
    const auto [a, b] = pair(i);
    require_exact(mpfr_set_d(product, a, nearest));
    require_exact(mpfr_mul_d(product, product, b, nearest));
    require_exact(mpfr_add(dot, dot, product, nearest));
    require_exact(mpfr_abs(product, product, nearest));
    require_exact(mpfr_add(dot_abs, dot_abs, product, nearest));
  }
  return {widened(dot), widened(dot_abs)};
}

// An op without its oracle does not compile.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
real exact_value(op_id op, dtype type, const void* data, std::size_t n) {
  switch (op) {
    case op_id::sum: return sum_exactly(type, data, n).sum;
    default: break;
  }
  throw std::logic_error("oracle: no such op");
}
#pragma GCC diagnostic pop

namespace {
// log2 of the spacing of float type t at x
int ulp_exponent(const real& x, dtype t) {
  const float_format f = format_of(t);
  if (x == 0) return f.min_exponent;
  const auto e = static_cast<int>(mpfr_get_exp(x.backend().data()));  // |x| is in [2^(e-1), 2^e)
  return std::max(f.min_exponent, e - f.precision);
}
}  // namespace

real ulp(const real& x, dtype t) {
  return is_float(t) ? ldexp(real(1), ulp_exponent(x, t)) : real(1);
}

scalar round_correctly(const real& x, dtype t) {
  const int stored = format_of(t).precision - 1;
  const mpfr_srcptr raw = x.backend().data();
  if (mpfr_nan_p(raw)) return {t, infinity_bits(t) | 1ull << (stored - 1)};
  const std::uint64_t sign = mpfr_signbit(raw) ? sign_bit(t) : 0;
  if (mpfr_inf_p(raw)) return {t, sign | infinity_bits(t)};
  const int exponent = ulp_exponent(x, t);
  real count;  // |x| in ulps, to nearest even
  const mpfr_ptr k = count.backend().data();
  require_exact(mpfr_mul_2si(k, raw, -exponent, nearest));
  require_exact(mpfr_abs(k, k, nearest));
  mpfr_rint(k, k, nearest);
  // Bits count ulps upwards from zero, 2^stored to a binade; the binades before this one hold the
  // rest. A count of 2^precision runs into the next binade by itself.
  const auto binades_below = static_cast<std::uint64_t>(exponent - format_of(t).min_exponent);
  if (binades_below >= exponent_mask(t)) return {t, sign | infinity_bits(t)};
  const std::uint64_t bits = (binades_below << stored) + mpfr_get_ui(k, nearest);
  return {t, sign | std::min(bits, infinity_bits(t))};
}

namespace {
double error_in(scalar result, const real& exact, const real& unit) {
  const real got = value_of(result);
  if (!isfinite(got) || !isfinite(exact)) {
    const bool same = isnan(exact) ? isnan(got)
                      : isfinite(exact) && is_float(result.type)
                          ? got == value_of(round_correctly(exact, result.type))
                          : got == exact;
    return same ? 0.0 : std::numeric_limits<double>::infinity();
  }
  const real error = abs(got - exact);
  return error == 0 ? 0.0 : static_cast<double>(real(error / unit));
}
}  // namespace

double error_in_ulps(scalar result, const real& exact) {
  return error_in(result, exact, isfinite(exact) ? ulp(exact, result.type) : real(1));
}

double relative_error(scalar result, const real& exact) {
  return error_in(result, exact, abs(exact));
}

}  // namespace bitfold::accuracy
