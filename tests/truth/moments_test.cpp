// Means, moments and norms in hard places.
#include "ops.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::float_types, test::scalar_of;

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
    CHECK(relative_error(run(r, in), exact_value(r, in)) < 2e-16);
    CHECK(error_bound(r, in) < 1e-13);
  }
  for (op_id op : {op_id::skewness, op_id::kurtosis}) {
    const reduction r = make_reduction(op, {}, dtype::f64);
    CHECK(abs(value_of(run(r, in)) - exact_value(r, in)) < 1e-14);
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

namespace {

double value(scalar v) { return static_cast<double>(value_of(v)); }

// What NumPy does: the mean, rounded, then the mean of the squared differences from it, both in T
// by pairwise sums.
template <class T>
double two_pass_variance(const std::vector<double>& x) {
  const auto sum = [](auto self, std::size_t first, std::size_t n, auto term) -> T {
    if (n > 8) return self(self, first, n / 2, term) + self(self, first + n / 2, n - n / 2, term);
    T s = term(first);
    for (std::size_t i = 1; i < n; ++i) s += term(first + i);
    return s;
  };
  const T n = static_cast<T>(x.size());
  const T mean = sum(sum, 0, x.size(), [&](std::size_t i) { return static_cast<T>(x[i]); }) / n;
  return sum(sum, 0, x.size(),
             [&](std::size_t i) {
               const T d = static_cast<T>(x[i]) - mean;
               return d * d;
             }) /
         n;
}

}  // namespace

TEST_CASE("moments: variances are at least as accurate as by two passes", "[truth][ops]") {
  random_source random(43);
  const std::pair<double, double> places[] = {{0, 1}, {100, 0.01}, {1e4, 1}, {1, 1}, {-3e6, 2}};
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    double ours = 0, theirs = 0, worst = 0;
    int rounds = 0;
    for (const auto& [mean, deviation] : places)
      for (std::size_t n : {3u, 10u, 33u, 100u, 257u, 1000u, 32768u})
        for (int round = 0; round < 6; ++round) {
          std::vector<double> x(n);
          for (double& v : x)
            v = value(round_correctly(real(mean + deviation * random.normal()), t));
          const auto packed = pack(x, t);
          const reduction r = make_reduction(op_id::var, {}, t);
          const real exact = exact_value(r, as_elements(t, packed));
          if (!(exact > 0) || !(abs(exact) < ldexp(real(1), format_of(t).max_exponent - 1)))
            continue;
          const auto ulps = [&](scalar v) { return error_in_ulps(v, exact); };
          const double theirs_now =
              t == dtype::f64 ? two_pass_variance<double>(x) : two_pass_variance<float>(x);
          const double mine = ulps(run(r, as_elements(t, packed)));
          worst = std::max(worst, mine);
          ours += mine;
          theirs += ulps(round_correctly(real(theirs_now), t));
          ++rounds;
        }
    CAPTURE(name(t), rounds, ours / rounds, theirs / rounds, worst);
    CHECK(rounds > 60);
    CHECK(ours <= theirs);
    CHECK(worst < 1);
    CHECK(ours / rounds < 0.35);
  }
  // Hard by hand.
  const auto var = [](const std::vector<double>& x) {
    return run(make_reduction(op_id::var, {}, dtype::f32), x);
  };
  CHECK(var({16777214, 16777215, 16777216}) == double{2 / 3.0f});
  CHECK(run(make_reduction(op_id::var, {}, dtype::f64), {0x1p53 - 2, 0x1p53 - 1, 0x1p53}) ==
        2 / 3.0);
}

TEST_CASE("moments: overflow only where the result does, and are of any scale", "[truth][ops]") {
  random_source random(44);
  for (dtype t : {dtype::bf16, dtype::f32, dtype::f64}) {
    const float_format f = format_of(t);
    const double largest = std::ldexp(2 - std::ldexp(2.0, -f.precision), f.max_exponent - 1);
    const auto of = [&](op_id op, const std::vector<double>& x) {
      return run(make_reduction(op, {}, t), x);
    };
    for (std::size_t n : {2u, 4u, 32u, 34u, 256u, 1000u, 5000u}) {
      std::vector<double> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = i % 2 ? largest : -largest;
      CAPTURE(name(t), n);
      CHECK(of(op_id::std, x) == largest);
      CHECK(of(op_id::var, x) == inf);
      CHECK(of(op_id::skewness, x) == 0);
      CHECK(std::abs(of(op_id::kurtosis, x) + 2) < 1e-15);
      // Scaled by a power of two, of elements from the smallest to the largest.
      for (double& v : x) v = value(round_correctly(real(1 + random.uniform()), t));
      const double std = of(op_id::std, x), skewness = of(op_id::skewness, x),
                   kurtosis = of(op_id::kurtosis, x);
      const int least = f.min_exponent + 2 * f.precision, step = t == dtype::f64 ? 37 : 5;
      for (int e = least; e < f.max_exponent - 1; e += step) {
        std::vector<double> y = x;
        for (double& v : y) v = std::ldexp(v, e);
        if (of(op_id::std, y) != std::ldexp(std, e)) FAIL_CHECK("std times 2^" << e);
        if (e > -900) {  // below, fourth powers of differences may leave the range of f64
          if (of(op_id::skewness, y) != skewness) FAIL_CHECK("skewness times 2^" << e);
          if (of(op_id::kurtosis, y) != kurtosis) FAIL_CHECK("kurtosis times 2^" << e);
        }
      }
      // Lanes of different scales.
      std::vector<double> mixed(n, 0.0);
      mixed[n / 2] = largest;
      const auto packed = pack(mixed, t);
      const reduction r = make_reduction(op_id::std, {}, t);
      CHECK(error_in_ulps(run(r, as_elements(t, packed)), exact_value(r, as_elements(t, packed))) <
            0.6);
    }
    CHECK(of(op_id::std, {largest, largest, largest}) == 0);
    CHECK(of(op_id::std, {0, 0, 0, 0}) == 0);
  }
}

TEST_CASE("cosine: at most 1, of elements of any size", "[truth][ops]") {
  random_source random(45);
  for (dtype t : {dtype::bf16, dtype::f32, dtype::f64}) {
    const float_format f = format_of(t);
    for (const auto& m : methods_of(op_id::cosine)) {
      const auto of = [&](const std::vector<double>& x, const std::vector<double>& y) {
        const auto a = pack(x, t), b = pack(y, t);
        return value(run(make_reduction(op_id::cosine, m, t, {}, dtype::f64),
                         elements{t, a.data(), b.data(), x.size()}));
      };
      for (std::size_t n : {1u, 2u, 33u, 300u}) {
        std::vector<double> x(n), y(n);
        for (std::size_t i = 0; i < n; ++i) {
          x[i] = value(round_correctly(real(random.normal()), t));
          y[i] = value(round_correctly(real(random.normal()), t));
        }
        CAPTURE(name(t), n);
        CHECK(of(x, x) <= 1);
        CHECK(of(x, x) > 1 - 1e-6);
        const double c = of(x, y);
        for (int e = f.min_exponent + 2 * f.precision + 10; e < f.max_exponent - 4;
             e += t == dtype::f64 ? 97 : 13) {
          std::vector<double> z = x;
          for (double& v : z) v = std::ldexp(v, e);
          if (of(z, y) != c || of(y, z) != c)
            FAIL_CHECK("times 2^" << e << ": " << of(z, y) << ", not " << c);
          CHECK(of(z, z) <= 1);
        }
      }
    }
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
  for (int ddof : {4, 5})
    CHECK(exact_value(op_id::var, as_elements(dtype::f64, packed), ddof) == inf);
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
    return state{static_cast<double>(m[1]), 0,
                 static_cast<double>(m[2]), 1,
                 static_cast<double>(m[3]), static_cast<double>(m[4])};
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
  CHECK(op::var_fold::finish<double>(
            op::wide_moments<double, 2>{0, 0, static_cast<double>(big - 1), 0, 1},
            fold::finish_parameters{big, 1}) == 1);
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
