#include "inputs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <bitfold/arith.hpp>

#include "oracle.hpp"

namespace bitfold::accuracy {

std::uint64_t random_source::bits() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double random_source::uniform() { return std::ldexp(static_cast<double>(bits() >> 11), -53); }

double random_source::normal() {
  std::int64_t sum = -(6ll << 48);
  for (int i = 0; i < 12; ++i) sum += static_cast<std::int64_t>(bits() >> 16);
  return std::ldexp(static_cast<double>(sum), -48);
}

int random_source::below(int k) {
  return static_cast<int>((bits() >> 33) * static_cast<std::uint64_t>(k) >> 31);
}

namespace {

using values = std::vector<double>;

// n values, value i being f(random, i).
template <class F>
values generate(std::size_t n, std::uint64_t seed, F f) {
  random_source random(seed);
  values x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = f(random, i);
  return x;
}

values uniform(std::size_t n, std::uint64_t seed) {
  return generate(n, seed, [](random_source& r, std::size_t) { return r.uniform(); });
}

double two_to(int e) { return std::ldexp(1.0, e); }

template <int Power10>
values cancel(std::size_t n, std::uint64_t seed, dtype t) {
  double condition = 1;
  for (int i = 0; i < Power10; ++i) condition *= 10;
  return cancellation(n, seed, t, condition);
}

constexpr std::array<input, 21> inputs{{
    {"uniform", "uniform in [0, 1)",
     [](std::size_t n, std::uint64_t seed, dtype) { return uniform(n, seed); }},
    {"uniform-signed", "uniform in [-1, 1)",
     [](std::size_t n, std::uint64_t seed, dtype) {
       return generate(n, seed, [](auto& r, std::size_t) { return 2 * r.uniform() - 1; });
     }},
    {"normal", "standard normal, as twelve uniforms minus 6",
     [](std::size_t n, std::uint64_t seed, dtype) {
       return generate(n, seed, [](auto& r, std::size_t) { return r.normal(); });
     }},
    {"positive", "uniform in [1, 2)",
     [](std::size_t n, std::uint64_t seed, dtype) {
       return generate(n, seed, [](auto& r, std::size_t) { return 1 + r.uniform(); });
     }},
    {"spread", "positive, bell-shaped in the exponent over 60 binades (30 for f16)",
     [](std::size_t n, std::uint64_t seed, dtype t) {
       return generate(n, seed, [t](auto& r, std::size_t) {
         const int e = r.below(16) + r.below(16) + r.below(16) + r.below(16) - 30;
         return (1 + r.uniform()) * two_to(t == dtype::f16 ? (e - 2) / 2 : e);
       });
     }},
    {"alternating", "1000 and more, with alternating signs",
     [](std::size_t n, std::uint64_t seed, dtype) {
       return generate(
           n, seed, [](auto& r, std::size_t i) { return (i % 2 ? -1 : 1) * (1000 + r.uniform()); });
     }},
    {"relu", "the positive part of a normal: half zeros",
     [](std::size_t n, std::uint64_t seed, dtype) {
       return generate(n, seed, [](auto& r, std::size_t) { return std::max(0.0, r.normal()); });
     }},
    {"gradients", "heavy tails: a normal over a uniform, times 2^-10",
     [](std::size_t n, std::uint64_t seed, dtype) {
       return generate(n, seed, [](auto& r, std::size_t) {
         const double numerator = r.normal();  // the two draws in a defined order
         return numerator / (r.uniform() + two_to(-20)) * two_to(-10);
       });
     }},
    {"sorted-up", "uniform in [0, 1), smallest first",
     [](std::size_t n, std::uint64_t seed, dtype) {
       values x = uniform(n, seed);
       std::sort(x.begin(), x.end());
       return x;
     }},
    {"sorted-down", "uniform in [0, 1), largest first",
     [](std::size_t n, std::uint64_t seed, dtype) {
       values x = uniform(n, seed);
       std::sort(x.rbegin(), x.rend());
       return x;
     }},
    {"stagnation", "one value so large that adding any of the others, all 1, does not change it",
     [](std::size_t n, std::uint64_t, dtype t) {
       // 1 is half an ulp of 2^24 in f32 (2^53 in f64), a tie that goes to even. f16 holds both
       // only after a shift.
       const int shift = t == dtype::f16 ? -12 : 0;
       values x(n, two_to(shift));
       if (n > 0) x[0] = two_to((t == dtype::f64 ? 53 : 24) + shift);
       return x;
     }},
    {"absorption", "1e20, many times 1e-20, -1e20 (f16: 6e4 and 6e-8)",
     [](std::size_t n, std::uint64_t, dtype t) {
       values x(n, t == dtype::f16 ? 6e-8 : 1e-20);
       const double large = t == dtype::f16 ? 6e4 : 1e20;
       if (n > 1) x.front() = large, x.back() = -large;
       return x;
     }},
    {"drops", "1000 and many times 1e-3",
     [](std::size_t n, std::uint64_t, dtype) {
       values x(n, 1e-3);
       if (n > 0) x[0] = 1000;
       return x;
     }},
    {"tenths", "0.1 everywhere",
     [](std::size_t n, std::uint64_t, dtype) { return values(n, 0.1); }},
    {"anderson", "uniform in [0, 1) minus their mean (Anderson, SIAM J. Sci. Comput. 20, 1999)",
     [](std::size_t n, std::uint64_t seed, dtype) {
       values x = uniform(n, seed);
       double sum = 0;
       for (double v : x) sum += v;
       for (double& v : x) v -= sum / static_cast<double>(n);
       return x;
     }},
    {"subnormal", "up to 255 times the smallest subnormal, with either sign",
     [](std::size_t n, std::uint64_t seed, dtype t) {
       const double unit = two_to(format_of(t).min_exponent);
       return generate(n, seed, [=](auto& r, std::size_t) { return (r.below(511) - 255) * unit; });
     }},
    {"condition-1e4", "cancellation with condition number 1e4", cancel<4>},
    {"condition-1e8", "cancellation with condition number 1e8 (f16: 2^26)", cancel<8>},
    {"condition-1e16", "cancellation with condition number 1e16 (f16: 2^26)", cancel<16>},
    {"condition-1e24", "cancellation with condition number 1e24 (f16: 2^26)", cancel<24>},
    {"condition-1e40", "cancellation with condition number 1e40 (f16: 2^26)", cancel<40>},
}};

}  // namespace

std::span<const input> all_inputs() { return inputs; }

std::vector<std::byte> pack(std::span<const double> values, dtype type) {
  std::vector<std::byte> out(values.size() * size_of(type));
  visit(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const T v = arith::round_to<T>(values[i]);
        std::memcpy(out.data() + i * sizeof v, &v, sizeof v);
      }
    }
  });
  return out;
}

std::vector<double> cancellation(std::size_t n, std::uint64_t seed, dtype type, double condition) {
  const auto rounded = [type](const real& v) {
    return static_cast<double>(value_of(round_correctly(v, type)));
  };
  random_source random(seed);
  if (type == dtype::f16) condition = std::min(condition, two_to(26));
  const int binades = std::ilogb(condition);
  // f16: room for the sum of the first half above 2^high, and for its digits below 2^low.
  const int high = std::min(binades / 2, type == dtype::f16 ? 9 : 100), low = high - binades;
  const std::size_t half = n / 2;
  real sum = 0, sum_abs = 0;
  std::vector<double> x(n);
  const auto set = [&](std::size_t i, double v) {
    x[i] = v;
    sum += v;
    sum_abs += std::fabs(v);
  };
  for (std::size_t i = 0; i < half; ++i) {
    const double v = 2 * random.uniform() - 1;
    set(i, rounded(v * two_to(i == 0 ? high : low + random.below(binades + 1))));
  }
  for (std::size_t i = half; i + 1 < n; ++i) {
    const double v = 2 * random.uniform() - 1;
    const auto down = static_cast<int>((i - half) * static_cast<std::size_t>(binades) / (n - half));
    set(i, rounded(v * two_to(high - down) - sum));
  }
  if (n > 0) {
    // The last value also counts in sum|x|, hence the -1; the maximum serves a condition near 1.
    const real target = n > 1 ? sum_abs / std::max(condition - 1, 0.5) : real(1);
    set(n - 1, rounded(target - sum));
  }
  for (std::size_t i = n; i > 1; --i)
    std::swap(x[i - 1], x[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  return x;
}

}  // namespace bitfold::accuracy
