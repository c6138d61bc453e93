// The inputs against what they claim.
#include <map>
#include <set>

#include "sums.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

TEST_CASE("inputs: the generator's bits are pinned", "[truth][inputs]") {
  random_source random(0);
  CHECK(random.bits() == 0xe220a8397b1dcdaf);  // the published first outputs for seed 0
  CHECK(random.bits() == 0x6e789e6aa1b965f4);
  CHECK(random.uniform() == (0x06c45d188009454f >> 11) / 0x1p53);
}

TEST_CASE("inputs: every one has its size, is finite and repeats", "[truth][inputs]") {
  std::set<std::string_view> names;
  for (const input& in : all_inputs()) {
    CAPTURE(in.name);
    CHECK(names.insert(in.name).second);
    for (dtype t : float_types) {
      CAPTURE(name(t));
      for (std::size_t n : {0u, 1u, 2u, 1000u}) {
        const auto x = in.make(n, 7, t);
        REQUIRE(x.size() == n);
        CHECK((x == in.make(n, 7, t)));  // in brackets: not worth printing
        const exact_sum s = sum_exactly(t, pack(x, t).data(), n);
        CHECK(isfinite(s.sum));  // in particular, nothing overflows the type
      }
    }
  }
}

TEST_CASE("inputs: the same bits on every platform", "[truth][inputs]") {
  const std::map<std::string_view, std::uint64_t> golden{
      {"uniform", 0x1fb380cccfc0ec57},        {"uniform-signed", 0x42e2f2cfc24f89f8},
      {"normal", 0x94c7e568e3073f3f},         {"positive", 0x8902de944308b57a},
      {"log-normal", 0x7658354740ea010c},     {"alternating", 0x36ceb4f0658742bb},
      {"relu", 0x03a46adb77ec4040},           {"gradients", 0x23217c8ed4445bdf},
      {"sorted-up", 0xa88a4ec5de45ad13},      {"sorted-down", 0x51bdc8b7b858c6df},
      {"stagnation", 0xefe64926ca609631},     {"absorption", 0xe1400332bc31c40d},
      {"drops", 0x3712e4f777947bfd},          {"overflow", 0x64078d6627f51559},
      {"underflow", 0x1cc710b91124a517},      {"tenths", 0xdd369487cc4da115},
      {"anderson", 0x436733e458bcf6df},       {"subnormal", 0x5f7904b1ea3fd8e5},
      {"condition-1e4", 0xb436f4c7aad81e8f},  {"condition-1e8", 0xe39c256179581987},
      {"condition-1e16", 0x3a5e878917396385}, {"condition-1e24", 0x847f5db0bd82641f},
      {"condition-1e40", 0x626aead8e6a2345b}};
  const auto add = [](std::uint64_t& hash, const std::vector<double>& x, dtype t) {  // FNV-1a
    for (std::byte b : pack(x, t)) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
  };
  for (const input& in : all_inputs()) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (dtype t : float_types) add(hash, in.make(1000, 7, t), t);
    CAPTURE(in.name);
    REQUIRE(golden.contains(in.name));
    CHECK(hash == golden.at(in.name));
  }
  CHECK(golden.size() == all_inputs().size());
  std::uint64_t hash = 0xcbf29ce484222325;
  for (dtype t : float_types)
    for (double c : {10.0, 1e16, 1e40}) {
      const dot_input in = dot_cancellation(1000, 7, t, c);
      add(hash, in.x, t);
      add(hash, in.y, t);
    }
  CHECK(hash == 0x248e32cddf3e9def);
}

TEST_CASE("inputs: what each one claims", "[truth][inputs]") {
  const std::size_t n = 20000;
  const auto make = [&](std::string_view wanted, dtype t = dtype::f32) {
    for (const input& in : all_inputs())
      if (in.name == wanted) return in.make(n, 5, t);
    throw std::logic_error("no such input");
  };
  const auto mean = [&](const std::vector<double>& x, auto f) {
    double sum = 0;
    for (double v : x) sum += f(v);
    return sum / static_cast<double>(x.size());
  };
  const auto identity = [](double v) { return v; };
  const auto square = [](double v) { return v * v; };
  const auto between = [](const std::vector<double>& x, double low, double high) {
    return std::all_of(x.begin(), x.end(), [=](double v) { return v >= low && v < high; });
  };
  CHECK(between(make("uniform"), 0, 1));
  CHECK(mean(make("uniform"), identity) == Approx(0.5).margin(0.02));
  CHECK(between(make("uniform-signed"), -1, 1));
  CHECK(mean(make("uniform-signed"), identity) == Approx(0).margin(0.02));
  CHECK(between(make("positive"), 1, 2));
  CHECK(mean(make("normal"), identity) == Approx(0).margin(0.03));
  CHECK(mean(make("normal"), square) == Approx(1).margin(0.05));
  CHECK(mean(make("relu"), [](double v) { return v == 0 ? 1.0 : 0.0; }) ==
        Approx(0.5).margin(0.02));
  CHECK(between(make("relu"), 0, 6));
  const auto exponent = [](double v) { return static_cast<double>(std::ilogb(v)); };
  for (dtype t : float_types) {
    const auto x = make("log-normal", t);
    const double scale = t == dtype::f16 ? 0.5 : 1;
    CHECK(between(x, std::ldexp(1, t == dtype::f16 ? -16 : -30),
                  std::ldexp(1, t == dtype::f16 ? 15 : 31)));
    CHECK(mean(x, exponent) == Approx(t == dtype::f16 ? -1 : 0).margin(0.5));
    // Four times uniform in 0 .. 15 has variance 4 (16^2 - 1) / 12 = 85.
    CHECK(mean(x, [&](double v) { return square(exponent(v) / scale); }) ==
          Approx(85).epsilon(0.05));
  }
  const auto alternating = make("alternating");
  for (std::size_t i = 0; i < n; ++i)
    if (const double v = i % 2 ? -alternating[i] : alternating[i]; v < 1000 || v >= 1001)
      FAIL_CHECK("alternating: " << v);
  CHECK(mean(make("tenths"), [](double v) { return v == 0.1; }) == 1);
  const auto up = make("sorted-up"), down = make("sorted-down");
  CHECK(std::is_sorted(up.begin(), up.end()));
  CHECK(std::is_sorted(down.rbegin(), down.rend()));
  CHECK(up.front() < up.back());
  CHECK(down.front() > down.back());
  const auto gradients = make("gradients");
  const double largest = *std::max_element(gradients.begin(), gradients.end());
  CHECK(largest > 100 * mean(gradients, [](double v) { return std::fabs(v); }));
  for (dtype t : float_types) {
    CAPTURE(name(t));
    const auto x = make("stagnation", t);
    const dtype acc = t == dtype::f64 ? dtype::f64 : dtype::f32;
    // Sequential summation returns the large value: each of the others is lost.
    CHECK(value_of(reduce(method_id::sequential, t, acc, acc, pack(x, t))) == real(x[0]));
    CHECK(sum_exactly(t, pack(x, t).data(), n).condition() == 1);
    const auto subnormal = make("subnormal", t);
    CHECK(between(subnormal, -255.5 * std::ldexp(1, format_of(t).min_exponent),
                  255.5 * std::ldexp(1, format_of(t).min_exponent)));
    CHECK(sum_exactly(t, pack(subnormal, t).data(), n).condition() > 10);
    CHECK(sum_exactly(t, pack(make("absorption", t), t).data(), n).condition() > 1e6);
    CHECK(sum_exactly(t, pack(make("anderson", t), t).data(), n).condition() > 1e3);
  }
}

TEST_CASE("inputs: the lecture's cases", "[truth][inputs]") {
  const auto find = [](std::string_view wanted) {
    for (const input& in : all_inputs())
      if (in.name == wanted) return in;
    throw std::logic_error("no such input");
  };
  // Ten small ones, then two large ones that cancel: what is left depends on where one begins.
  const auto x = find("absorption").make(12, 1, dtype::f64);
  std::vector<double> expected(12, 1e-20);
  expected[10] = 1e20, expected[11] = -1e20;
  CHECK(x == expected);
  double left = 0, right = 0;
  for (double v : x) left += v;
  for (auto v = x.rbegin(); v != x.rend(); ++v) right += *v;
  CHECK(left == 0);
  CHECK(right == Approx(1e-19));
  // 1000 + 1e-3: f16 has no room for it, f32 has.
  const auto y = find("drops").make(2, 1, dtype::f16);
  CHECK(y == std::vector<double>{1000, 1e-3});
  const auto halves = pack(y, dtype::f16);
  CHECK(to_string(reduce(method_id::tree, dtype::f16, dtype::f32, dtype::f16, halves)) == "1000");
  CHECK(to_string(reduce(method_id::tree, dtype::f16, dtype::f32, dtype::f32, halves)) ==
        "1000.001");
}

TEST_CASE("inputs: overflow and underflow happen in their own type", "[truth][inputs]") {
  const std::size_t n = 1000;
  // Left to right in type t; `flush`: to zero, what is subnormal.
  const auto sum_in = [](dtype t, const std::vector<std::byte>& x, bool flush) {
    const float_format f = format_of(t);
    const real smallest_normal = ldexp(real(1), f.min_exponent + f.precision - 1);
    real s = 0;
    for (std::size_t i = 0; i < x.size(); i += size_of(t)) {
      s = value_of(round_correctly(s + value_of(load_scalar(t, &x[i])), t));
      if (flush && abs(s) < smallest_normal) s = 0;
    }
    return s;
  };
  for (const input& in : all_inputs())
    for (dtype t : float_types) {
      CAPTURE(name(t));
      if (in.name == "overflow") {
        const auto x = pack(in.make(n, 3, t), t);
        const exact_sum s = sum_exactly(t, x.data(), n);
        CHECK(isinf(sum_in(t, x, false)));
        CHECK(isfinite(value_of(round_correctly(s.sum, t))));
        CHECK(s.sum != 0);
        CHECK(s.condition() < 4 * n);
        const reduction wider = make_reduction(op_id::sum, method_id::tree, t, dtype::f64, t);
        if (t != dtype::f64) CHECK(error_in_ulps(reference(wider, x.data(), n), s.sum) <= 0.5);
        // In the canonical order, too, where the accumulator has no more range.
        const dtype acc = t == dtype::f64 ? dtype::f64 : dtype::f32;
        CHECK(isfinite(value_of(reduce(method_id::tree, t, acc, t, x))) == (t == dtype::f16));
      } else if (in.name == "underflow") {
        const auto x = pack(in.make(n, 3, t), t);
        const real exact = sum_exactly(t, x.data(), n).sum;
        const float_format f = format_of(t);
        for (std::size_t i = 0; i < x.size(); i += size_of(t))
          if (abs(value_of(load_scalar(t, &x[i]))) <
              ldexp(real(1), f.min_exponent + f.precision - 1))
            FAIL_CHECK("a subnormal");
        CHECK(abs(sum_in(t, x, false) - exact) < exact / 50);
        CHECK(abs(sum_in(t, x, true)) < exact / 10);
      }
    }
}

TEST_CASE("inputs: cancellation reaches the condition number asked for", "[truth][inputs]") {
  const auto check = [](std::size_t n, std::uint64_t seed, dtype t, double c) {
    const auto x = cancellation(n, seed, t, c);
    const auto packed = pack(x, t);
    // Nothing is lost when it is packed: the values are of type t already.
    for (std::size_t i = 0; i < std::min<std::size_t>(n, 1000); ++i)
      if (value_of(load_scalar(t, packed.data() + i * size_of(t))) != x[i]) FAIL("rounded");
    const real reached = sum_exactly(t, packed.data(), n).condition();
    CAPTURE(name(t), n, seed, c, static_cast<double>(reached));
    CHECK(reached >= c / 2);
    CHECK(reached <= c * 2);
  };
  for (dtype t : float_types) {
    for (double c = 1; c < 2e40; c *= 10)
      if (t != dtype::f16 || c <= 0x1p26)
        for (std::size_t n : {100u, 1000u, 5000u})
          for (std::uint64_t seed : {1u, 2u}) check(n, seed, t, c);
    for (double c : {1.0, 0x1p26, 1e40})
      if (t != dtype::f16 || c <= 0x1p26) check(200000, 3, t, c);
  }
  check(2000000, 10, dtype::f16, 0x1p26);  // half of it has a sum that is too large for f16
}

TEST_CASE("inputs: so does that of dot products", "[truth][inputs]") {
  const auto check = [](std::size_t n, std::uint64_t seed, dtype t, double c) {
    const dot_input in = dot_cancellation(n, seed, t, c);
    const auto x = pack(in.x, t), y = pack(in.y, t);
    for (std::size_t i = 0; i < std::min<std::size_t>(n, 1000); ++i)
      if (value_of(load_scalar(t, x.data() + i * size_of(t))) != in.x[i] ||
          value_of(load_scalar(t, y.data() + i * size_of(t))) != in.y[i])
        FAIL("rounded");
    const real reached = dot_exactly(t, x.data(), y.data(), n).condition();
    CAPTURE(name(t), n, seed, c, static_cast<double>(reached));
    CHECK(reached >= c / 2);
    CHECK(reached <= c * 2);
  };
  for (dtype t : float_types) {
    for (double c : {2.0, 4.0}) check(1000, 1, t, c);
    for (double c = 10; c < 2e40; c *= 10)
      if (t != dtype::f16 || c <= 0x1p26)
        for (std::size_t n : {100u, 1000u, 5000u})
          for (std::uint64_t seed : {1u, 2u}) check(n, seed, t, c);
    for (double c : {2.0, 0x1p26, 1e40})
      if (t != dtype::f16 || c <= 0x1p26) check(200000, 3, t, c);
  }
  for (std::size_t n : {0u, 1u, 2u, 3u}) {
    const dot_input in = dot_cancellation(n, 1, dtype::f32, 1e8);
    CHECK(in.x.size() == n);
    CHECK(in.y.size() == n);
  }
}
