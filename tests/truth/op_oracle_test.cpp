// The oracle of every operation against definitions, by hand and in fractions.
#include "ops.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::float_types, test::scalar_of;

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
      {op_id::logsumexp,
       {1, 2, 3, 10},
       {},
       10 + std::log1p(std::exp(-9) + std::exp(-8) + std::exp(-7))},
      {op_id::softmax_denominator,
       {1, 2, 3, 10},
       {},
       1 + std::exp(-9) + std::exp(-8) + std::exp(-7)},
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
