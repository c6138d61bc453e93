// Exact sums against big integers, added up and rounded here by the definitions of the formats; and
// every kernel against the deposit of one term.
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <numeric>
#include <random>

#include <boost/multiprecision/cpp_int.hpp>

#include <bitfold/accumulator.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include "catch.hpp"
#include "cpu/exact.hpp"
#include "exact_data.hpp"
#include "main.hpp"

using namespace bitfold;
using namespace bitfold::test;
using boost::multiprecision::cpp_int;
using exact::term;

namespace {

// ---- The truth: integers in units of 2^-unit, and what is no number beside them -----------------

constexpr int unit = 2200;

struct truth {
  cpp_int value = 0;                                                          // times 2^unit
  bool nan = false, plus = false, minus = false, any = false, other = false;  // other: not -0

  bool is_nan() const { return nan || (plus && minus); }
  bool finite() const { return !nan && !plus && !minus; }
};

struct number {
  cpp_int value = 0;  // times 2^(unit / 2)
  bool nan = false, infinite = false, negative = false;
};

template <class T>
number read(T x) {
  number r;
  if constexpr (is_float(dtype_of<T>)) {
    constexpr int digits = std::is_same_v<T, float16>    ? 10
                           : std::is_same_v<T, bfloat16> ? 7
                           : sizeof(T) == 4              ? 23
                                                         : 52;
    constexpr int width = 8 * sizeof(T), exponents = 1 << (width - 1 - digits);
    const std::uint64_t bits = bits_of(x);
    const int e = static_cast<int>(bits >> digits) & (exponents - 1);
    const std::uint64_t fraction = bits & ((1ull << digits) - 1);
    r.negative = bits >> (width - 1);
    r.nan = e == exponents - 1 && fraction;
    r.infinite = e == exponents - 1 && !fraction;
    if (e < exponents - 1) {
      const std::uint64_t m = fraction + (e ? 1ull << digits : 0);
      r.value = cpp_int(m) << (std::max(e, 1) - (exponents / 2 - 1) - digits + unit / 2);
    }
    if (r.negative) r.value = -r.value;
  } else {
    r.value = cpp_int(x) << (unit / 2);
    r.negative = r.value < 0;
  }
  return r;
}

// Adds a term by what IEEE 754 says of the operations that make it.
template <class T>
void add(truth& s, term what, T x, T y) {
  number a = read(x), b = read(y);
  if (what == term::square) b = a;
  if (what == term::number && a.nan) a = {};
  if (what == term::magnitude) a = {abs(a.value), a.nan, a.infinite, false};
  const bool pair = exact::inputs(what) == 2 || what == term::square;
  cpp_int v;
  bool nan = a.nan || (pair && b.nan), infinite = a.infinite || (pair && b.infinite),
       negative = a.negative;
  if (what == term::square || what == term::product) {
    negative = a.negative != b.negative;
    nan |=
        (a.infinite && b.value == 0 && !b.infinite) || (b.infinite && a.value == 0 && !a.infinite);
    v = a.value * b.value;
  } else if (what == term::difference || what == term::squared_difference) {
    negative = false;
    nan |= a.infinite && b.infinite && a.negative == b.negative;
    v = a.value - b.value;
    if (v < 0) v = -v;
    v *= what == term::difference ? cpp_int(1) << (unit / 2) : v;
  } else {
    v = a.value << (unit / 2);
  }
  s.any = true;
  if (nan)
    s.nan = true;
  else if (infinite)
    (negative ? s.minus : s.plus) = true;
  else {
    if constexpr (!is_float(dtype_of<T>)) negative = false;  // no -0
    s.other |= !(negative && v == 0);
    s.value += v;
  }
}

// |value| 2^-unit / by, or its square root, to nearest even: by a search over all bit patterns.
std::uint64_t round_bits(dtype t, cpp_int value, const cpp_int& by, bool root) {
  const int digits = t == dtype::f16 ? 10 : t == dtype::bf16 ? 7 : t == dtype::f32 ? 23 : 52;
  const int width = 8 * static_cast<int>(size_of(t)), bias = (1 << (width - 2 - digits)) - 1;
  const std::uint64_t infinity = static_cast<std::uint64_t>(2 * bias + 1) << digits;
  // m 2^e compared with the exact value
  const auto compare = [&](std::uint64_t m, int e) {
    cpp_int left = root ? cpp_int(m) * m * by : cpp_int(m) * by, right = value;
    const int shift = (root ? 2 * e : e) + unit;
    if (shift >= 0)
      left <<= shift;
    else
      right <<= -shift;
    return left.compare(right);
  };
  const auto significand = [&](std::uint64_t bits) {
    return (bits & ((1ull << digits) - 1)) + (bits >> digits ? 1ull << digits : 0);
  };
  const auto exponent = [&](std::uint64_t bits) {
    return std::max(static_cast<int>(bits >> digits), 1) - bias - digits;
  };
  std::uint64_t low = 0, high = infinity;  // the largest pattern that is not above the value
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (compare(significand(middle), exponent(middle)) <= 0 ? low : high) = middle;
  }
  const int half = compare(2 * significand(low) + 1, exponent(low) - 1);
  return half < 0 || (half == 0 && (low & 1)) ? low + 1 : low;
}

template <class Out>
std::uint64_t rounded(const truth& s, const cpp_int& by = 1, bool root = false) {
  const dtype t = dtype_of<Out>;
  const std::uint64_t sign = 1ull << (8 * sizeof(Out) - 1);
  if (s.is_nan() || by == 0) return bits_of(arith::canonical_nan<Out>);
  if (s.plus) return bits_of(arith::round_to<Out>(HUGE_VAL));
  if (root && (s.minus || s.value < 0)) return bits_of(arith::canonical_nan<Out>);
  if (s.minus) return bits_of(arith::round_to<Out>(-HUGE_VAL));
  if (s.value == 0) return s.any && !s.other ? sign : 0;
  return round_bits(t, abs(s.value), by, root) | (s.value < 0 ? sign : 0);
}

template <class S>
cpp_int value_of(const S& s) {
  cpp_int v = 0;
  for (int i = S::words - 1; i >= 0; --i) v = (v << 64) + s.w[i];
  if (s.w[S::words - 1] >> 63) v -= cpp_int(1) << (64 * S::words);
  return v << (S::low + unit);
}

exact::kind kind_of(const truth& s) {
  if (s.is_nan()) return exact::kind::nan;
  if (s.plus) return exact::kind::plus_infinity;
  if (s.minus) return exact::kind::minus_infinity;
  return s.other ? exact::kind::finite : s.any ? exact::kind::minus_zero : exact::kind::empty;
}

template <class F>
void for_each_float(F f) {
  f(std::type_identity<float16>());
  f(std::type_identity<bfloat16>());
  f(std::type_identity<float>());
  f(std::type_identity<double>());
}

template <class F>
void for_each_term(F f) {
  using enum term;
  f(std::integral_constant<term, element>());
  f(std::integral_constant<term, exact::term::number>());
  f(std::integral_constant<term, magnitude>());
  f(std::integral_constant<term, difference>());
  f(std::integral_constant<term, square>());
  f(std::integral_constant<term, product>());
  f(std::integral_constant<term, squared_difference>());
}

template <class S>
bool same_value(const S& a, const S& b) {
  return a.kind() == b.kind() && (!a.is_finite() || std::equal(a.w, a.w + S::words, b.w));
}

template <class T>
std::vector<T> reversed(const std::vector<T>& v) {
  return {v.rbegin(), v.rend()};
}

void check_rounding(const truth& s, const auto& sum, std::uint64_t n) {
  for_each_float([&]<class Out>(std::type_identity<Out>) {
    CAPTURE(name(dtype_of<Out>));
    CHECK(bits_of(exact::round<Out>(sum)) == rounded<Out>(s));
    CHECK(bits_of(exact::round_quotient<Out>(sum, n)) == rounded<Out>(s, n));
    CHECK(bits_of(exact::round_root<Out>(sum)) == rounded<Out>(s, 1, true));
  });
}

// A sum of one number, m 2^e, of any term's degree.
template <class T, int Degree = 1>
exact::sum<T, Degree> sum_of_one(std::uint64_t m, int e, bool negative = false) {
  exact::sum<T, Degree> s;
  s.flags = exact::something_else;
  s.deposit(m, e - exact::sum<T, Degree>::low, negative);
  return s;
}

}  // namespace

TEST_CASE("a deposit is exact, and what it adds up to is rounded once") {
  for_each_type([]<class T>(std::type_identity<T>) {
    for (const std::size_t n : {0, 1, 2, 3, 17}) {
      const auto xs = hard_arrays<T>(n, 1), ys = hard_arrays<T>(n, 2);
      for (std::size_t k = 0; k < xs.size(); ++k)
        for_each_term([&]<term What>(std::integral_constant<term, What>) {
          const auto& [what, x] = xs[k];
          const std::vector<T>& y = ys[(k * 7 + n) % ys.size()].values;
          truth s;
          exact::sum_of<T, What> sum;
          for (std::size_t i = 0; i < n; ++i) {
            add(s, What, x[i], y[i]);
            exact::deposit<What>(sum, x[i], y[i]);
          }
          CAPTURE(name(dtype_of<T>), n, what, static_cast<int>(What));
          REQUIRE(sum.kind() == kind_of(s));
          if (s.finite()) REQUIRE(value_of(sum) == s.value);
          REQUIRE(sum.is_zero() == (s.finite() && s.value == 0));
          check_rounding(s, sum, n);
        });
    }
  });
}

TEST_CASE("variance and standard deviation are rounded once") {
  for_each_type([]<class T>(std::type_identity<T>) {
    for (const std::size_t n : {0, 1, 2, 3, 10, 100})
      for (const auto& [what, x] : hard_arrays<T>(n, 3)) {
        truth s, squares, variance;
        exact::sum<T, 1> sum;
        exact::sum<T, 2> sum2;
        for (const T v : x) {
          add(s, term::element, v, v);
          add(squares, term::square, v, v);
          exact::deposit<term::element>(sum, v);
          exact::deposit<term::square>(sum2, v);
        }
        for (const std::size_t ddof : {std::size_t{0}, std::size_t{1}, n}) {
          variance.any = variance.other = true;
          variance.nan = !s.finite() || n == 0;
          variance.plus = false;
          variance.value = (squares.value * n) - ((s.value * s.value) >> unit);
          if (n <= ddof) (variance.value == 0 ? variance.nan : variance.plus) = true;
          const cpp_int by = n <= ddof ? cpp_int(1) : cpp_int(n) * (n - ddof);
          CAPTURE(name(dtype_of<T>), n, what, ddof);
          for_each_float([&]<class Out>(std::type_identity<Out>) {
            CHECK(bits_of(exact::round_variance<Out>(sum, sum2, n, ddof)) ==
                  rounded<Out>(variance, by));
            CHECK(bits_of(exact::round_deviation<Out>(sum, sum2, n, ddof)) ==
                  rounded<Out>(variance, by, true));
          });
        }
      }
  });
}

TEST_CASE("a variance of 2^60 elements") {
  const float most = std::numeric_limits<float>::max();
  accumulator<float> sum;
  product_accumulator<float> squares;
  sum.add(most).add(-most);
  squares.add_square(most).add_square(most);
  for (int i = 1; i < 60; ++i) {
    sum.merge(accumulator<float>(sum));
    squares.merge(product_accumulator<float>(squares));
  }
  const std::uint64_t n = 1ull << 60;
  CHECK(round_variance<float, double>(sum, squares, n) == static_cast<double>(most) * most);
  CHECK(round_deviation<float, double>(sum, squares, n) == most);
}

TEST_CASE("ties around every exponent, of every output type") {
  // Sums of f64 reach every exponent of every type, and products go far below the smallest
  // subnormals.
  for_each_float([]<class Out>(std::type_identity<Out>) {
    using R = exact::range<Out>;
    for (int e = R::low - 2; e <= R::high; ++e)
      for (const bool negative : {false, true}) {
        // 2^e and the next number above it, and what lies half way; likewise below 2^e.
        const int last = std::max(e - R::mantissa, R::low);
        for (const int step : {last - 1, last - 2}) {
          if (step < -1074 || e > 1023) continue;
          for (const int beside : {-2, -1, 0, 1, 2}) {
            truth s{(cpp_int(1) << (e + unit)) + (cpp_int(1) << (step + unit)) +
                        beside * (cpp_int(1) << (unit - 2148)),
                    false,
                    false,
                    false,
                    true,
                    true};
            if (e < -1074) s.value -= cpp_int(1) << (e + unit);
            if (negative) s.value = -s.value;
            auto sum = sum_of_one<double, 2>(1, step, negative);
            if (e >= -1074) sum.merge(sum_of_one<double, 2>(1, e, negative));
            for (int i = 0; i < std::abs(beside); ++i) sum.deposit(1, 0, (beside < 0) != negative);
            CAPTURE(name(dtype_of<Out>), e, step, beside, negative);
            REQUIRE(value_of(sum) == s.value);
            REQUIRE(bits_of(exact::round<Out>(sum)) == rounded<Out>(s));
          }
        }
      }
  });
}

TEST_CASE("a division and a root see the last bit that they drop") {
  random_bits next{5};
  for (int i = 0; i < 300; ++i) {
    // n times, and the square of, a number half way between two doubles; or a little more or less.
    // That may show in the rest of the division, in that of the root, or far below.
    const std::uint64_t odd = (1ull << 53) + (next() >> 11) * 2 + 1, n = next() >> (i % 63) | 1;
    for (const int at : {-10, -20, -21, -120, -2148})
      for (const int beside : {-1, 0, 1}) {
        const auto near = [&](std::uint64_t a, std::uint64_t b) {
          truth s{cpp_int(a) * b, false, false, false, true, true};
          s.value = (s.value << unit) + (cpp_int(beside) << (unit + at));
          auto sum = sum_of_one<double, 2>(0, 0);
          sum.deposit(exact::wide{a} * b, -sum.low, false);
          if (beside) sum.deposit(1, at - sum.low, beside < 0);
          REQUIRE(value_of(sum) == s.value);
          return std::pair(s, sum);
        };
        const auto [s, sum] = near(odd, n);
        REQUIRE(bits_of(exact::round_quotient<double>(sum, n)) == rounded<double>(s, n));
        const auto [t, tie] = near(odd, 1ull << i % 64);
        REQUIRE(bits_of(exact::round<double>(tie)) == rounded<double>(t));
        const auto [q, square] = near(odd, odd);
        REQUIRE(bits_of(exact::round_root<double>(square)) == rounded<double>(q, 1, true));
      }
  }
}

TEST_CASE("Math.sumPrecise's vectors of test262, and math.fsum's of CPython") {
  const double inf = HUGE_VAL;
  struct vector {
    std::vector<double> in;
    double out;
  };
  std::vector<vector> all{
      {{1, 2, 3}, 6},
      {{1e308}, 1e308},
      {{1e308, -1e308}, 0},
      {{0.1}, 0.1},
      {{0.1, 0.1}, 0.2},
      {{0.1, -0.1}, 0},
      {{1e308, 1e308, 0.1, 0.1, 1e30, 0.1, -1e30, -1e308, -1e308}, 0.30000000000000004},
      {{1e30, 0.1, -1e30}, 0.1},
      {{8.98846567431158e+307, 8.988465674311579e+307, -1.7976931348623157e+308},
       9.9792015476736e+291},
      {{-5.630637621603525e+255, 9.565271205476345e+307, 2.9937604643020797e+292},
       9.565271205476347e+307},
      {{6.739986666787661e+66, 2, -1.2689709186578243e-116, 1.7046015739467354e+308,
        -9.979201547673601e+291, 6.160926733208294e+307, -3.179557053031852e+234,
        -7.027282978772846e+307, -0.7500000000000001},
       1.61796594939028e+308},
      {{0.31150493246968836, -8.988465674311582e+307, 1.8315037361673755e-270, -15.999999999999996,
        2.9999999999999996, 7.345200721499384e+164, -2.033582473639399, -8.98846567431158e+307,
        -3.5737295155405993e+292, 4.13894772383715e-124, -3.6111186457260667e-35,
        2.387234887098013e+180, 7.645295562778372e-298, 3.395189016861822e-103,
        -2.6331611115768973e-149},
       -inf},
      {{-1.1442589134409902e+308, 9.593842098384855e+138, 4.494232837155791e+307,
        -1.3482698511467367e+308, 4.494232837155792e+307},
       -1.5936821971565685e+308},
      {{-1.1442589134409902e+308, 4.494232837155791e+307, -1.3482698511467367e+308,
        4.494232837155792e+307},
       -1.5936821971565687e+308},
      {{9.593842098384855e+138, -6.948356297254111e+307, -1.3482698511467367e+308,
        4.494232837155792e+307},
       -1.5936821971565685e+308},
      {{-2.534858246857893e+115, 8.988465674311579e+307, 8.98846567431158e+307},
       1.7976931348623157e+308},
      {{1.3588124894186193e+308, 1.4803986201152006e+223, 6.741349255733684e+307}, inf},
      {{6.741349255733684e+307, 1.7976931348623155e+308, -7.388327292663961e+41}, inf},
      {{-1.9807040628566093e+28, 1.7976931348623157e+308, 9.9792015476736e+291},
       1.7976931348623157e+308},
      {{-1.0214557991173964e+61, 1.7976931348623157e+308, 8.98846567431158e+307,
        -8.988465674311579e+307},
       1.7976931348623157e+308},
      {{1.7976931348623157e+308, 7.999999999999999, -1.908963895403937e-230,
        1.6445950082320264e+292, 2.0734856707605806e+205},
       inf},
      {{6.197409167220438e-223, -9.979201547673601e+291, -1.7976931348623157e+308}, -inf},
      {{4.49423283715579e+307, 8.944251746776101e+307, -0.0002441406250000001,
        1.1752060710043817e+308, 4.940846717201632e+292, -1.6836699406454528e+308},
       8.353845887521184e+307},
      {{8.988465674311579e+307, 7.999999999999998, 7.029158107234023e-308, -2.2303483759420562e-172,
        -1.7976931348623157e+308, -8.98846567431158e+307},
       -1.7976931348623157e+308},
      {{8.98846567431158e+307, 8.98846567431158e+307}, inf},
  };
  REQUIRE(all.size() == 25);
  const auto p = [](int e) { return std::ldexp(1.0, e); };
  all.insert(all.end(), {{{}, 0},
                         {{0}, 0},
                         {{1e100, 1, -1e100, 1e-100, 1e50, -1, -1e50}, 1e-100},
                         {{p(53), -0.5, -p(-54)}, p(53) - 1},
                         {{p(53), 1, p(-100)}, p(53) + 2},
                         {{p(53) + 10, 1, p(-100)}, p(53) + 12},
                         {{p(53) - 4, 0.5, p(-54)}, p(53) - 3},
                         {{1e16, 1, 1e-16}, 10000000000000002.0},
                         {{1e16 - 2, 1 - p(-53), -(1e16 - 2), -(1 - p(-53))}, 0},
                         {{1, inf}, inf},
                         {{inf, -inf}, NAN},
                         {{NAN, 1}, NAN}});
  vector harmonic{{}, 0x1.df11f45f4e61ap+2}, alternating{{}, -0x1.62a2af1bd3624p-1},
      resizing{{}, 0x1.5555555555555p+970};
  for (int n = 1; n <= 1000; ++n) {
    harmonic.in.push_back(1.0 / n);
    alternating.in.push_back((n % 2 ? -1.0 : 1.0) / n);
  }
  for (int n = -1074; n < 972; n += 2) resizing.in.push_back(p(n) - p(n + 50) + p(n + 52));
  resizing.in.push_back(-p(1022));
  all.insert(all.end(), {harmonic, alternating, resizing});
  for (const auto& v : all) {
    CAPTURE(v.in);
    accumulator<double> one, all_at_once;
    for (const double x : v.in) one.add(x);
    all_at_once.add(v.in);
    for (const double got : {one.round(), all_at_once.round()})
      CHECK(bits_of(got) == bits_of(std::isnan(v.out) ? arith::canonical_nan<double> : v.out));
  }
}

TEST_CASE("every kernel adds what deposits add", "[kernels]") {
  const cpu::target by = forced_target;
  for_each_type([&]<class T>(std::type_identity<T>) {
    std::vector<std::size_t> lengths{1,    7,    16,   17,   31,   100,  1023,
                                     1024, 1025, 2047, 2048, 2049, 5003, 40'000};
    for (const std::size_t n : lengths) {
      const auto arrays = hard_arrays<T>(n, n);
      for (std::size_t a = 0; a < arrays.size(); ++a)
        for_each_term([&]<term What>(std::integral_constant<term, What>) {
          if (n > 6000 && (exact::inputs(What) == 2 || sanitized)) return;
          const auto& x = arrays[a].values;
          // Paired with near one, itself, another hard one.
          for (const std::size_t b : {std::size_t{0}, a, (a * 7 + n) % arrays.size()}) {
            if (exact::inputs(What) == 1 && b != 0) continue;
            const auto& y = arrays[b].values;
            // At any address.
            std::vector<std::byte> px(n * sizeof(T) + 1), py(n * sizeof(T) + 1);
            std::memcpy(px.data() + 1, x.data(), n * sizeof(T));
            std::memcpy(py.data() + 1, y.data(), n * sizeof(T));
            exact::sum_of<T, What> want, got;
            for (std::size_t i = 0; i < n; ++i) exact::deposit<What>(want, x[i], y[i]);
            const auto run = cpu::find_depositor(by, {What, dtype_of<T>});
            REQUIRE(run({px.data() + 1, exact::inputs(What) == 2 ? py.data() + 1 : nullptr}, n,
                        &got) == by);
            CAPTURE(name(dtype_of<T>), n, arrays[a].name, arrays[b].name, static_cast<int>(What));
            REQUIRE(same_value(got, want));
          }
        });
    }
  });
}

TEST_CASE("what kernels hold back is spilled before it overflows", "[kernels]") {
  if (sanitized) return;
  const std::size_t n = (std::size_t{1} << 22) + 5;
  for_each_type([&]<class T>(std::type_identity<T>) {
    const auto largest = [] {
      if constexpr (is_float(dtype_of<T>))
        return make_float<T>(false, 2 * exact::range<T>::bias, ~0ull);
      else
        return std::numeric_limits<T>::max();
    }();
    // A wide range too, which goes other ways.
    std::vector<T> x(n, largest), y = x;
    if constexpr (is_float(dtype_of<T>))
      for (std::size_t i = 0; i < n; i += 500) y[i] = make_float<T>(true, 0, 1);
    for_each_term([&]<term What>(std::integral_constant<term, What>) {
      for (const auto* data : {&x, &y}) {
        if (What == term::squared_difference && sizeof(T) == 8)
          continue;  // takes long, and spills nothing more
        exact::sum_of<T, What> want, got;
        for (std::size_t i = 0; i < n; ++i) {
          if (bits_of((*data)[i]) == bits_of(largest)) continue;
          exact::deposit<What>(want, (*data)[i], (*data)[i]);
        }
        // largest, largest for all others: by doubling
        std::size_t count = static_cast<std::size_t>(std::count_if(
            data->begin(), data->end(), [&](T v) { return bits_of(v) == bits_of(largest); }));
        exact::sum_of<T, What> power;
        exact::deposit<What>(power, largest, largest);
        for (; count; count >>= 1) {
          if (count & 1) want.merge(power);
          power.merge(exact::sum_of<T, What>(power));
        }
        cpu::find_depositor(forced_target, {What, dtype_of<T>})({data->data(), data->data()}, n,
                                                                &got);
        CAPTURE(name(dtype_of<T>), static_cast<int>(What), data == &y);
        REQUIRE(same_value(got, want));
      }
    });
  });
}

TEST_CASE("cells have room for what they promise") {
  if (sanitized) return;
  const double largest = std::numeric_limits<double>::max();
  const auto fill = [](auto& c, std::size_t n, auto add) {
    for (std::size_t i = 0; i < n; ++i) {
      add(c);
      asm volatile("" ::"r"(&c) : "memory");
    }
  };
  exact::sum<double> got, want;
  exact::deposit<term::element>(want, largest);
  for (int i = 0; i < 28; ++i) want.merge(exact::sum<double>(want));
  static cpu::cells<double, 1> c;
  fill(c, std::size_t{1} << 28, [&](auto& to) { exact::deposit<term::element>(to, largest); });
  c.add_to(got);
  REQUIRE(same_value(got, want));

  const float top = std::numeric_limits<float>::max();
  static cpu::cells_by_exponent<float> e;
  static cpu::cells<float, 1> into;
  fill(e, e.max, [&](auto& to) { to.add(static_cast<std::uint32_t>(bits_of(-top))); });
  e.add_to(into);
  exact::sum<float> sum, one, all;
  into.add_to(sum);
  exact::deposit<term::element>(one, -top);
  for (std::size_t n = e.max; n; n >>= 1) {
    if (n & 1) all.merge(one);
    one.merge(exact::sum<float>(one));
  }
  REQUIRE(same_value(sum, all));

  const auto doubles = [&](auto& d) {
    cpu::cells<double, 1> to;
    fill(d, d.max, [&](auto& e) { e.add(static_cast<std::uint64_t>(bits_of(-largest))); });
    d.add_to(to);
    to.flags = exact::something_else;
    exact::sum<double> many, once;
    to.add_to(many);
    exact::deposit<term::element>(once, -largest);
    for (std::size_t n = d.max; n > 1; n >>= 1) once.merge(exact::sum<double>(once));
    REQUIRE(same_value(many, once));
  };
  static cpu::cells_of_doubles<0> apart;
  static cpu::cells_of_doubles<3> together;
  doubles(apart);
  doubles(together);
}

TEST_CASE("any order, any split, any grouping") {
  for_each_type([]<class T>(std::type_identity<T>) {
    std::mt19937_64 random(7);
    for (auto& [what, x] : hard_arrays<T>(3000, 9)) {
      accumulator<T> whole;
      whole.add(x);
      product_accumulator<T> squares;
      squares.add_squares(x);
      for (int round = 0; round < 4; ++round) {
        std::shuffle(x.begin(), x.end(), random);
        std::vector<accumulator<T>> parts;
        product_accumulator<T> products;
        for (std::size_t i = 0; i < x.size();) {
          const std::size_t n = std::min<std::size_t>(x.size() - i, random() % 700);
          parts.emplace_back().add(std::span(x).subspan(i, n));
          products.add_products(std::span(x).subspan(i, n), std::span(x).subspan(i, n));
          i += n;
        }
        std::shuffle(parts.begin(), parts.end(), random);
        while (parts.size() > 1) {
          const std::size_t i = random() % (parts.size() - 1);
          parts[i].merge(parts.back());
          parts.pop_back();
        }
        CAPTURE(name(dtype_of<T>), what);
        REQUIRE(parts[0].to_bytes() == whole.to_bytes());
        REQUIRE(products.to_bytes() == squares.to_bytes());
      }
      // What was added can be taken away again.
      accumulator<T> rest;
      rest.add(T{}).merge(whole).subtract(std::span(x).first(1000));
      accumulator<T> tail;
      tail.add(T{}).add(std::span(x).subspan(1000));
      const bool finite = whole.value().is_finite();
      if (finite) REQUIRE(rest.to_bytes() == tail.to_bytes());
    }
  });
}

TEST_CASE("zeros, infinities and NaN of an accumulator") {
  using A = accumulator<float>;
  const float inf = HUGE_VALF;
  CHECK(bits_of(A().round()) == 0);
  CHECK(A().is_zero());
  CHECK(bits_of(A().add(-0.0f).add(-0.0f).round()) == 0x80000000u);
  CHECK(bits_of(A().add(-0.0f).add(0.0f).round()) == 0);
  CHECK(bits_of(A().add(-3).add(3).round()) == 0);
  CHECK(bits_of(A().add(-0.0f).round_quotient(7)) == 0x80000000u);
  CHECK(bits_of(A().add(-0.0f).merge(A()).round()) == 0x80000000u);
  CHECK(bits_of(A().subtract(-0.0f).round()) == 0);
  CHECK(bits_of(A().subtract(0.0f).round()) == 0);
  CHECK(bits_of(A().add(-0.0f).subtract(-0.0f).round()) == 0);
  CHECK(A().add(inf).add(5).round() == inf);
  CHECK(A().subtract(inf).round() == -inf);
  CHECK(A().subtract(-inf).round() == inf);
  CHECK_FALSE(A().add(inf).is_zero());
  CHECK(bits_of(A().add(inf).subtract(inf).round()) == 0x7fc00000u);
  CHECK(bits_of(A().subtract(NAN).round()) == 0x7fc00000u);
  CHECK(bits_of(A().add(1).round_quotient(0)) == 0x7fc00000u);
  const float most = std::numeric_limits<float>::max();
  CHECK(A().add(most).add(most).subtract(most).round() == most);
  CHECK(A().add(most).add(most).round() == inf);
  CHECK(A().add(most).add(most).round<double>() == 2.0 * most);
}

TEST_CASE("accumulators compare by value") {
  using A = accumulator<double>;
  const double inf = HUGE_VAL, tiny = 5e-324;
  const auto of = [](std::initializer_list<double> x) {
    A a;
    for (double v : x) a.add(v);
    return a;
  };
  CHECK(of({}) == of({-0.0}));
  CHECK(of({0.0}) == of({1, -1}));
  CHECK(of({1e300, tiny}) > of({1e300}));
  CHECK(of({-1e300, -tiny}) < of({-1e300}));
  CHECK(of({-tiny}) < of({}));
  CHECK(of({inf}) > of({1e308, 1e308}));
  CHECK(of({-inf}) < of({-1e308, -1e308}));
  CHECK(of({inf, 3}) == of({inf}));
  CHECK_FALSE(of({NAN}) == of({NAN}));
  CHECK(of({NAN}).to_bytes() == of({NAN}).to_bytes());
  CHECK((of({NAN}) <=> of({1})) == std::partial_ordering::unordered);
  CHECK_FALSE(of({inf, -inf}) < of({1}));
}

TEST_CASE("integers: the true sum") {
  accumulator<std::int8_t> a;
  a.add(std::vector<std::int8_t>(1000, -128));
  CHECK(a.round<std::int64_t>() == -128'000);
  CHECK(a.round<std::int8_t>() == static_cast<std::int8_t>(-128'000));
  CHECK(a.fits<std::int64_t>());
  CHECK(a.fits<std::int32_t>());
  CHECK_FALSE(a.fits<std::int16_t>());
  CHECK_FALSE(a.fits<std::uint64_t>());
  CHECK(a.round<float>() == -128'000.0f);
  accumulator<std::uint64_t> u;
  u.add(~0ull);
  CHECK(u.fits<std::uint64_t>());
  CHECK_FALSE(u.fits<std::int64_t>());
  u.add(1);
  CHECK_FALSE(u.fits<std::uint64_t>());
  CHECK(u.round<std::uint64_t>() == 0);
  CHECK(u.round<double>() == 0x1p64);
  accumulator<std::int64_t> s;
  s.add(std::numeric_limits<std::int64_t>::min()).add(-1);
  CHECK_FALSE(s.fits<std::int64_t>());
  CHECK(s.add(1).fits<std::int64_t>());
  CHECK(s.round<std::int64_t>() == std::numeric_limits<std::int64_t>::min());

  // 0 times something negative is no -0, by whatever way it is added.
  const std::int32_t minus_five = -5, zero = 0;
  product_accumulator<std::int32_t> one, many;
  one.add_product(minus_five, zero);
  many.add_products({&minus_five, 1}, {&zero, 1});
  CHECK(one.to_bytes() == many.to_bytes());
  CHECK_FALSE(std::signbit(one.round<double>()));
  const auto dot = make_reduction(op_id::dot, method_id::exact, dtype::i32, {}, dtype::f64);
  CHECK(reference(dot, &minus_five, &zero, 1) == cpu::reduce(dot, &minus_five, &zero, 1));
}

TEST_CASE("an accumulator as bytes") {
  for_each_type([]<class T>(std::type_identity<T>) {
    const auto check = [](const auto& a) {
      const auto bytes = a.to_bytes();
      const auto back = std::remove_cvref_t<decltype(a)>::from_bytes(bytes);
      REQUIRE(back.to_bytes() == bytes);
      REQUIRE(same_value(back.value(), a.value()));
    };
    for (const std::size_t n : {0, 1, 2, 100})
      for (const auto& [what, x] : hard_arrays<T>(n, 11)) {
        accumulator<T> a;
        product_accumulator<T> p;
        a.add(x);
        p.add_squares(x);
        check(a);
        check(p);
      }
  });
  // Byte for byte what docs/exact.md says: 3 as a sum of f64, in units of 2^-50 in the limb from
  // 2^-50 on.
  const auto hex = [](const std::vector<std::byte>& bytes) {
    std::string s;
    for (const auto b : bytes) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(b));
      s += two;
    }
    return s;
  };
  CHECK(hex(accumulator<double>().add(3).to_bytes()) ==
        "6266787301030102ceffffff01000000000000000000"
        "0c00");
  CHECK(hex(accumulator<double>().add(-3).to_bytes()) ==
        "6266787301030102ceffffff01000000000000000000"
        "f4ff");
  CHECK(hex(accumulator<float>().to_bytes()) ==
        "6266787301020100"
        "0000000000000000");
  CHECK(hex(accumulator<float>().add(NAN).to_bytes()) ==
        "6266787301020105"
        "0000000000000000");

  const auto refused = [](std::vector<std::byte> bytes) {
    try {
      accumulator<double>::from_bytes(bytes);
    } catch (const error& e) {
      REQUIRE(e.code() == errc::bad_input);
      return std::string(e.what());
    }
    return std::string();
  };
  const auto good = accumulator<double>().add(1e300).add(1).to_bytes();
  const auto with = [&](std::size_t at, int b) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(b);
    return bytes;
  };
  const auto resized = [&](std::size_t n) {
    auto bytes = good;
    bytes.resize(n);
    return bytes;
  };
  CHECK(refused(good) == "");
  CHECK(refused({}).starts_with("accumulator: length: 0 bytes"));
  CHECK(refused(resized(15)).starts_with("accumulator: length: 15 bytes"));
  CHECK(refused(resized(good.size() - 1)).starts_with("accumulator: length:"));
  CHECK(refused(resized(good.size() + 1)).starts_with("accumulator: length:"));
  CHECK(refused(with(0, 'x')).starts_with("accumulator: magic:"));
  CHECK(refused(with(4, 2)).starts_with("accumulator: version: 2"));
  CHECK(refused(with(5, 2)).starts_with("accumulator: dtype: code 2"));
  CHECK(refused(with(6, 2)).starts_with("accumulator: degree: 2"));
  CHECK(refused(with(7, 6)).starts_with("accumulator: kind: code 6"));
  CHECK(refused(with(7, 5)).starts_with("accumulator: limbs: of what is not finite"));
  CHECK(refused(with(8, 0)).starts_with("accumulator: exponent:"));
  CHECK(refused(with(13, 1)).starts_with("accumulator: limbs: "));
  CHECK(refused(with(9, 0x7f)).starts_with("accumulator: exponent:"));
  auto untrimmed = good;  // a limb of zeros more
  untrimmed.resize(good.size() + 8);
  untrimmed[12] = static_cast<std::byte>(std::to_integer<int>(untrimmed[12]) + 1);
  CHECK(refused(untrimmed) == "accumulator: limbs: are not trimmed");
  auto empty = accumulator<double>().to_bytes();
  empty[8] = std::byte{1};
  CHECK(refused(empty) == "accumulator: exponent: is not 0, without limbs");
  for_each_type([]<class T>(std::type_identity<T>) {
    const auto check = []<class A>(A) {
      auto bytes = A().to_bytes();
      for (const int kind : {1, 3, 4, 5}) {
        CAPTURE(name(dtype_of<T>), kind);
        bytes[7] = static_cast<std::byte>(kind);
        if constexpr (std::is_integral_v<T>)
          CHECK_THROWS_WITH(A::from_bytes(bytes),
                            "accumulator: kind: code " + std::to_string(kind) +
                                " is that of no sum of " + std::string(name(dtype_of<T>)));
        else
          CHECK(A::from_bytes(bytes).to_bytes() == bytes);
      }
    };
    check(accumulator<T>());
    check(product_accumulator<T>());
  });
  // Whatever the bytes, there is a value that writes them or an error.
  random_bits next{13};
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = good;
    for (int k = 0; k < 1 + i % 3; ++k)
      bytes[next() % bytes.size()] = static_cast<std::byte>(next());
    if (refused(bytes).empty()) REQUIRE(accumulator<double>::from_bytes(bytes).to_bytes() == bytes);
  }
}

TEST_CASE("no rounding of an accumulator raises a flag of the caller's") {
  for_each_type([]<class T>(std::type_identity<T>) {
    for (const auto& [what, x] : hard_arrays<T>(5, 17)) {
      INFO(name(dtype_of<T>) << " " << what);
      std::feclearexcept(FE_ALL_EXCEPT);
      accumulator<T> a;
      product_accumulator<T> p;
      a.add(x).add(x[0]);
      p.add_squares(x).add_square(x[0]);
      const auto round_to = [&]<class Out>(Out) {
        volatile Out results[] = {
            a.template round<Out>(),           p.template round<Out>(),
            a.template round_quotient<Out>(7), p.template round_root<Out>(),
            round_variance<T, Out>(a, p, 10),  round_deviation<T, Out>(a, p, 10)};
        (void)results;
      };
      round_to(double{});
      round_to(float{});
      CHECK(std::fetestexcept(FE_ALL_EXCEPT) == 0);
    }
  });
}

TEST_CASE("spans of two lengths are refused") {
  const std::vector<float> x(3), y(2);
  REQUIRE_THROWS_AS(product_accumulator<float>().add_products(x, y), error);
}

namespace {
// The sum of two f16s is exact in double, and one rounding from there is right; two bf16s by
// TwoSum.
template <class T>
std::uint64_t pair_sum(T a, T b) {
  const double x = arith::widen<double>(a), y = arith::widen<double>(b);
  const auto [sum, error] = arith::two_sum(x, y);
  return bits_of(arith::round_sum_to<T>(sum, error));
}
template <class T>
void all_pairs(unsigned step) {
  std::uint64_t wrong = 0;
  for (unsigned a = 0; a < 65536; a += step)
    for (unsigned b = a; b < 65536; b += step) {
      exact::sum<T> s;
      const T x = from_bits<T>(a), y = from_bits<T>(b);
      exact::deposit<term::element>(s, x);
      exact::deposit<term::element>(s, y);
      wrong += bits_of(exact::round<T>(s)) != pair_sum(x, y);
    }
  CHECK(wrong == 0);
}
}  // namespace

TEST_CASE("pairs of f16 and of bf16") {
  all_pairs<float16>(sanitized ? 211 : 29);
  all_pairs<bfloat16>(sanitized ? 211 : 29);
}
TEST_CASE("all pairs of f16 and of bf16", "[.][all-pairs]") {
  all_pairs<float16>(1);
  all_pairs<bfloat16>(1);
}
