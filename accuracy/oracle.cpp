#include "oracle.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>

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

bool counts(double x) { return x != 0 && std::isfinite(x); }

// An MPFR number as narrow as exactness allows, for speed.
class number {
 public:
  explicit number(mpfr_prec_t bits, int zero_sign = +1) {
    mpfr_init2(value_, bits);
    mpfr_set_zero(value_, zero_sign);
  }
  number(const number&) = delete;
  ~number() { mpfr_clear(value_); }
  operator mpfr_ptr() { return value_; }

 private:
  mpfr_t value_;
};

// Element i, exactly.
void load(mpfr_ptr to, dtype t, const void* data, std::size_t i) {
  static_assert(sizeof(long) == 8);
  const std::uint64_t bits = load_bits(t, data, i);
  require_exact(is_float(t)        ? mpfr_set_d(to, decode(t, bits), nearest)
                : is_signed_int(t) ? mpfr_set_si(to, sign_extended(t, bits), nearest)
                                   : mpfr_set_ui(to, bits, nearest));
}

// Of the finite elements that are not 0: all are multiples of 2^low and below 2^high.
bit_range range_of(const elements& in) {
  if (!is_float(in.type)) return {0, 64};
  bit_range all{std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  for (const void* data : {in.x, in.y})
    for (std::size_t i = 0; data && i < in.n; ++i)
      if (const double x = decode(in.type, load_bits(in.type, data, i)); counts(x)) {
        const bit_range r = bits_of(in.type, x);
        all = {std::min(all.low, r.low), std::max(all.high, r.high)};
      }
  return all.low < all.high ? all : bit_range{0, 1};
}

// Precision at which sums of n terms are exact that are polynomials of this degree, homogeneous and
// with coefficients whose magnitudes add up to at most 16, in the elements.
mpfr_prec_t sufficient_precision(const elements& in, int degree) {
  const bit_range r = range_of(in);
  return degree * (r.high - r.low) + std::bit_width(in.n) + 4;
}

real widened(mpfr_srcptr x) {
  real r;
  require_exact(mpfr_set(r.backend().data(), x, nearest));
  return r;
}

// The exact sum of the terms that make(t, x, y) puts into t for each element.
template <class Make>
exact_sum sum_terms(const elements& in, int degree, Make make) {
  const mpfr_prec_t bits = sufficient_precision(in, degree);
  // -0 changes no sum of floats.
  number sum(bits, in.n > 0 && is_float(in.type) ? -1 : +1), sum_abs(bits), t(bits), x(64), y(64);
  for (std::size_t i = 0; i < in.n; ++i) {
    load(x, in.type, in.x, i);
    if (in.y) load(y, in.type, in.y, i);
    require_exact(make(t, x, y));
    require_exact(mpfr_add(sum, sum, t, nearest));
    require_exact(mpfr_abs(t, t, nearest));
    require_exact(mpfr_add(sum_abs, sum_abs, t, nearest));
  }
  return {widened(sum), widened(sum_abs)};
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

exact_sum sum_exactly(term what, const elements& in) {
  switch (what) {
    case term::element:
      return sum_terms(in, 1,
                       [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr) { return mpfr_set(t, x, nearest); });
    case term::number:
      return sum_terms(in, 1, [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr) {
        return mpfr_nan_p(x) ? (mpfr_set_zero(t, +1), 0) : mpfr_set(t, x, nearest);
      });
    case term::magnitude:
      return sum_terms(in, 1,
                       [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr) { return mpfr_abs(t, x, nearest); });
    case term::square:
      return sum_terms(in, 2,
                       [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr) { return mpfr_sqr(t, x, nearest); });
    case term::product:
      return sum_terms(
          in, 2, [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr y) { return mpfr_mul(t, x, y, nearest); });
    case term::difference:
      return sum_terms(in, 1, [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr y) {
        require_exact(mpfr_sub(t, x, y, nearest));
        return mpfr_abs(t, t, nearest);
      });
    case term::squared_difference:
      return sum_terms(in, 2, [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr y) {
        require_exact(mpfr_sub(t, x, y, nearest));
        return mpfr_sqr(t, t, nearest);
      });
    case term::extent:
      return sum_terms(in, 1, [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr y) {
        require_exact(mpfr_abs(x, x, nearest));
        require_exact(mpfr_abs(y, y, nearest));
        return mpfr_add(t, x, y, nearest);
      });
    case term::squared_extent:
      return sum_terms(in, 2, [](mpfr_ptr t, mpfr_ptr x, mpfr_ptr y) {
        require_exact(mpfr_abs(x, x, nearest));
        require_exact(mpfr_abs(y, y, nearest));
        require_exact(mpfr_add(t, x, y, nearest));
        return mpfr_sqr(t, t, nearest);
      });
  }
  throw std::logic_error("oracle: no such term");
}

exact_sum sum_exactly(dtype type, const void* data, std::size_t n) {
  return sum_exactly(term::element, {type, data, nullptr, n});
}

exact_dot dot_exactly(dtype type, const void* x, const void* y, std::size_t n) {
  if (!is_float(type)) throw std::logic_error("oracle: not a float type");
  const exact_sum s = sum_exactly(term::product, {type, x, y, n});
  return {s.sum, s.sum_abs};
}

real exact_dot::condition() const {
  if (dot_abs == 0) return 2;
  return 2 * dot_abs / abs(dot);
}

std::size_t count_numbers(const elements& in) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.n; ++i)
    count += !is_float(in.type) || !std::isnan(decode(in.type, load_bits(in.type, in.x, i)));
  return count;
}

real scaled_moment(int k, const elements& in) {
  // With s_j the sum of x^j, n^k m_k is the sum over j of binomial(k, j) (-s_1)^(k - j) n^(j - 1)
  // s_j, with s_0 = n. It is below 16 n^k max^k.
  const bit_range r = range_of(in);
  const mpfr_prec_t bits = k * (r.high - r.low + std::bit_width(in.n)) + 8;
  number s1(bits), s2(bits), s3(bits), s4(bits), x(64), power(bits);
  for (std::size_t i = 0; i < in.n; ++i) {
    load(x, in.type, in.x, i);
    require_exact(mpfr_set(power, x, nearest));
    int j = 1;
    for (mpfr_ptr s : {mpfr_ptr(s1), mpfr_ptr(s2), mpfr_ptr(s3), mpfr_ptr(s4)}) {
      require_exact(mpfr_add(s, s, power, nearest));
      if (j++ == k) break;
      require_exact(mpfr_mul(power, power, x, nearest));
    }
  }
  number sum(bits), part(bits);
  const auto add = [&](long factor, int ns, int s1s, mpfr_ptr s) {  // factor n^ns s1^s1s s
    require_exact(mpfr_set(part, s, nearest));
    require_exact(mpfr_mul_si(part, part, factor, nearest));
    for (; ns > 0; --ns) require_exact(mpfr_mul_ui(part, part, in.n, nearest));
    for (; s1s > 0; --s1s) require_exact(mpfr_mul(part, part, s1, nearest));
    require_exact(mpfr_add(sum, sum, part, nearest));
  };
  switch (k) {
    case 2: add(1, 1, 0, s2), add(-1, 0, 1, s1); break;
    case 3: add(1, 2, 0, s3), add(-3, 1, 1, s2), add(2, 0, 2, s1); break;
    case 4: add(1, 3, 0, s4), add(-4, 2, 1, s3), add(6, 1, 2, s2), add(-3, 0, 3, s1); break;
    default: throw std::logic_error("oracle: no such moment");
  }
  real result;  // rounded here, at 4318 bits
  mpfr_set(result.backend().data(), sum, nearest);
  return result;
}

namespace {

const real not_a_number = std::numeric_limits<double>::quiet_NaN();

real element(const elements& in, std::size_t i) {
  return value_of({in.type, load_bits(in.type, in.x, i)});
}

// IEEE 754-2019, 9.6: -0 is below +0.
bool is_below(const real& a, const real& b) { return a < b || (a == b && signbit(a) > signbit(b)); }

void require_some(const elements& in) {
  if (in.n == 0) throw std::logic_error("oracle: of no elements this is not defined");
}

enum class nans { win, are_ignored };

real extreme(const elements& in, bool largest, nans how) {
  require_some(in);
  real best = not_a_number;
  for (std::size_t i = 0; i < in.n; ++i) {
    const real x = element(in, i);
    if (isnan(x)) {
      if (how == nans::win) return x;
    } else if (isnan(best) || (largest ? is_below(best, x) : is_below(x, best))) {
      best = x;
    }
  }
  return best;
}

real place(const elements& in, bool largest) {
  require_some(in);
  for (std::size_t i = 0; i < in.n; ++i)
    if (isnan(element(in, i))) return i;
  std::size_t best = 0;
  for (std::size_t i = 1; i < in.n; ++i)
    if (largest ? element(in, i) > element(in, best) : element(in, i) < element(in, best)) best = i;
  return best;
}

real largest_magnitude(const elements& in) {
  real most = 0;
  for (std::size_t i = 0; i < in.n; ++i) {
    const real x = abs(element(in, i));
    if (isnan(x)) return x;
    if (x > most) most = x;
  }
  return most;
}

std::size_t count_nonzero(const elements& in) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.n; ++i) count += element(in, i) != 0;  // NaN is not 0
  return count;
}

// -0 is 0, and all NaNs are one value.
std::size_t count_distinct(const elements& in) {
  std::set<double> floats;
  std::set<std::uint64_t> integers;
  bool any_nan = false;
  for (std::size_t i = 0; i < in.n; ++i) {
    const std::uint64_t bits = load_bits(in.type, in.x, i);
    if (!is_float(in.type))
      integers.insert(bits);
    else if (const double x = decode(in.type, bits); std::isnan(x))
      any_nan = true;
    else
      floats.insert(x);
  }
  return floats.size() + integers.size() + any_nan;
}

// The largest element, and the sum of exp(x - that), 1 where it is not finite. Off by some 2^-1200:
// what is below exp(-1000) of the largest element's share counts as nothing.
struct shifted_exponentials {
  real most = -std::numeric_limits<double>::infinity(), sum = 1;
};
shifted_exponentials exponentials(const elements& in) {
  shifted_exponentials s;
  for (std::size_t i = 0; i < in.n; ++i) {
    const real x = element(in, i);
    if (isnan(x)) return {x, 1};
    if (x > s.most) s.most = x;
  }
  if (!isfinite(s.most)) return s;
  number sum(1250), t(1250), x(64);
  for (std::size_t i = 0; i < in.n; ++i) {
    load(x, in.type, in.x, i);
    mpfr_sub(t, x, s.most.backend().data(), nearest);  // exact above -1000
    if (mpfr_cmp_si(t, -1000) < 0) continue;
    mpfr_exp(t, t, nearest);
    mpfr_add(sum, sum, t, nearest);
  }
  s.sum = widened(sum);
  return s;
}
real log_sum_exp(const elements& in) {
  const auto s = exponentials(in);
  return isfinite(s.most) ? real(s.most + log(s.sum)) : s.most;
}
real softmax_denominator(const elements& in) {
  if (in.n == 0) return 0;
  const auto s = exponentials(in);
  return isfinite(s.most) ? s.sum : real(std::numeric_limits<double>::quiet_NaN());
}

// Integers: modulo 2^64, their product having 64 n bits.
real product(const elements& in) {
  real p = 1;
  for (std::size_t i = 0; i < in.n; ++i) {
    p *= element(in, i);
    if (!is_float(in.type)) p = fmod(p, ldexp(real(1), 64));
  }
  return p;
}

// Over no elements 0 / 0, which is NaN.
real quotient(const real& a, const real& b) {
  real q;
  mpfr_div(q.backend().data(), a.backend().data(), b.backend().data(), nearest);
  return q;
}

real variance(const elements& in, int ddof) {
  const std::size_t d = std::min(static_cast<std::size_t>(ddof), in.n);
  return quotient(scaled_moment(2, in), real(in.n) * (in.n - d));
}

real cosine(const elements& in) {
  const elements x{in.type, in.x, nullptr, in.n}, y{in.type, in.y, nullptr, in.n};
  return quotient(sum_exactly(term::product, in).sum,
                  sqrt(sum_exactly(term::square, x).sum) * sqrt(sum_exactly(term::square, y).sum));
}

}  // namespace

// An op without its oracle does not compile.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
real exact_value(op_id op, const elements& in, int ddof) {
  const auto sum = [&](term t) { return sum_exactly(t, in).sum; };
  const auto mean = [&](term t) { return quotient(sum(t), in.n); };
  switch (op) {
    case op_id::sum: return sum(term::element);
    case op_id::nansum: return sum(term::number);
    case op_id::prod: return product(in);
    case op_id::mean: return mean(term::element);
    case op_id::nanmean: return quotient(sum(term::number), count_numbers(in));
    case op_id::min: return extreme(in, false, nans::win);
    case op_id::max: return extreme(in, true, nans::win);
    case op_id::nanmin: return extreme(in, false, nans::are_ignored);
    case op_id::nanmax: return extreme(in, true, nans::are_ignored);
    case op_id::argmin: return place(in, false);
    case op_id::argmax: return place(in, true);
    case op_id::any: return count_nonzero(in) > 0;
    case op_id::all: return count_nonzero(in) == in.n;
    case op_id::count_nonzero: return count_nonzero(in);
    case op_id::count_distinct: return count_distinct(in);
    case op_id::sum_squares: return sum(term::square);
    case op_id::norm_l1: return sum(term::magnitude);
    case op_id::norm_l2: return sqrt(sum(term::square));
    case op_id::norm_inf: return largest_magnitude(in);
    case op_id::var: return variance(in, ddof);
    case op_id::std: return sqrt(variance(in, ddof));
    case op_id::skewness: return quotient(scaled_moment(3, in), pow(sqrt(scaled_moment(2, in)), 3));
    case op_id::kurtosis: return quotient(scaled_moment(4, in), pow(scaled_moment(2, in), 2)) - 3;
    case op_id::logsumexp: return log_sum_exp(in);
    case op_id::softmax_denominator: return softmax_denominator(in);
    case op_id::dot: return sum(term::product);
    case op_id::squared_distance: return sum(term::squared_difference);
    case op_id::mse: return mean(term::squared_difference);
    case op_id::mae: return mean(term::difference);
    case op_id::cosine: return cosine(in);
  }
  throw std::logic_error("oracle: no such op");
}
#pragma GCC diagnostic pop

real exact_value(op_id op, dtype type, const void* data, std::size_t n) {
  return exact_value(op, {type, data, nullptr, n});
}

real exact_value(const reduction& r, const elements& in) {
  const real exact = exact_value(r.op(), in, r.ddof());
  const bool wraps =
      info(r.op()).types == typing::additive && !is_float(r.in()) && r.method() != method_id::exact;
  return wraps ? value_of(round_correctly(exact, r.acc())) : exact;
}

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
  if (!is_float(t)) {
    const real modulus = ldexp(real(1), 8 * static_cast<int>(size_of(t)));
    real rest = fmod(x, modulus);
    if (rest < 0) rest += modulus;
    return {t, static_cast<std::uint64_t>(rest)};
  }
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
