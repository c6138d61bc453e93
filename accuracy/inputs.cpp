#include "inputs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <bitfold/formats.hpp>

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

// Wide enough for the sums below, which is checked at every addition, and faster than real.
using wide = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<150>,
                                           boost::multiprecision::et_off>;

// An exact sum as it grows.
class running_total {
 public:
  void add(double v) { exactly(mpfr_add_d(raw(), raw(), v, MPFR_RNDN)); }
  void add_product(double a, double b) {
    exactly(mpfr_set_d(product_.backend().data(), a, MPFR_RNDN));
    exactly(mpfr_mul_d(product_.backend().data(), product_.backend().data(), b, MPFR_RNDN));
    exactly(mpfr_add(raw(), raw(), product_.backend().data(), MPFR_RNDN));
  }
  const wide& value() const { return total_; }

 private:
  static void exactly(int ternary) {
    if (ternary != 0) throw std::logic_error("inputs: a sum that must be exact was rounded");
  }
  mpfr_ptr raw() { return total_.backend().data(); }

  wide total_ = 0, product_;
};

// x rounded to a float type, by way of double, and cut off where the type has room left for a few
// additions: an f16 cannot cancel a long sum in one step.
double rounded(const wide& x, dtype t) {
  const double largest = two_to(format_of(t).max_exponent - 1);
  const double d = std::clamp(mpfr_get_d(x.backend().data(), MPFR_RNDN), -largest, largest);
  return visit(t, [d]<class T>(std::type_identity<T>) -> double {
    if constexpr (std::is_integral_v<T>)
      throw std::logic_error("inputs: not a float type");
    else
      return arith::widen<double>(arith::round_to<T>(d));
  });
}

// All vectors in the same random order.
template <class... Values>
void shuffle(random_source& random, Values&... x) {
  for (std::size_t i = std::max({x.size()...}); i > 1; --i) {
    const auto j = static_cast<std::size_t>(random.below(static_cast<int>(i)));
    (std::swap(x[i - 1], x[j]), ...);
  }
}

// The largest condition number whose cancellation f16 has room for.
constexpr double f16_condition = 0x1p26;

template <int Power10>
values cancel(std::size_t n, std::uint64_t seed, dtype t) {
  double condition = 1;
  for (int i = 0; i < Power10; ++i) condition *= 10;
  return cancellation(n, seed, t, condition);
}

constexpr std::array<input, 23> inputs{{
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
    {"log-normal", "positive, bell-shaped in the exponent over 60 binades (30 for f16)",
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
    {"absorption",
     "ten times 1e-20, 1e20 and -1e20 (f16: 6e-8 and 6e4), from GPU MODE lecture 9; repeated",
     [](std::size_t n, std::uint64_t, dtype t) {
       values x(n, t == dtype::f16 ? 6e-8 : 1e-20);
       const double large = t == dtype::f16 ? 6e4 : 1e20;
       for (std::size_t i = 11; i < n; i += 12) x[i - 1] = large, x[i] = -large;
       return x;
     }},
    {"drops", "1000 and many times 1e-3; two values of it in f16 are the same lecture's",
     [](std::size_t n, std::uint64_t, dtype) {
       values x(n, 1e-3);
       if (n > 0) x[0] = 1000;
       return x;
     }},
    {"overflow",
     "large values, then their negatives: partial sums leave the range, the sum does not",
     [](std::size_t n, std::uint64_t seed, dtype t) {
       const double unit = two_to(format_of(t).max_exponent - 5);
       values x = generate(n, seed, [=](auto& r, std::size_t) { return unit * (1 + r.uniform()); });
       for (std::size_t i = 0; i < n / 2; ++i) x[n - 1 - i] = -x[i];
       if (n > 1) x[n - 1] /= 2;  // or the sum would be 0 for even n
       return x;
     }},
    {"underflow",
     "normal values in pairs with subnormal differences: flushing to zero loses the sum",
     [](std::size_t n, std::uint64_t seed, dtype t) {
       const float_format f = format_of(t);
       const double smallest_normal = two_to(f.min_exponent + f.precision - 1);
       double below = 0;
       return generate(n, seed, [=](auto& r, std::size_t i) mutable {
         if (i % 2) return -below * smallest_normal;
         below = 1 + r.uniform();
         return (below + r.uniform() / 16) * smallest_normal;
       });
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
    for (std::size_t i = 0; i < values.size(); ++i) {
      T v;
      if constexpr (std::is_integral_v<T>)
        v = static_cast<T>(values[i]);
      else
        v = arith::round_to<T>(values[i]);
      std::memcpy(out.data() + i * sizeof v, &v, sizeof v);
    }
  });
  return out;
}

std::vector<double> cancellation(std::size_t n, std::uint64_t seed, dtype type, double condition) {
  random_source random(seed);
  if (type == dtype::f16) condition = std::min(condition, f16_condition);
  const int binades = std::ilogb(condition);
  int high = std::min(binades / 2, 100);
  if (type == dtype::f16)  // room for its digits below 2^(high - binades), and for the last value
    high = std::min({high, 9, 14 + binades - static_cast<int>(std::bit_width(n))});
  const int low = high - binades;
  const std::size_t half = n / 2;
  running_total sum, sum_abs;
  std::vector<double> x(n);
  const auto set = [&](std::size_t i, const wide& v) {
    x[i] = rounded(v, type);
    sum.add(x[i]);
    sum_abs.add(std::fabs(x[i]));
  };
  for (std::size_t i = 0; i < half; ++i) {
    const double v = 2 * random.uniform() - 1;
    set(i, v * two_to(i == 0 ? high : low + random.below(binades + 1)));
  }
  for (std::size_t i = half; i + 1 < n; ++i) {
    const double v = 2 * random.uniform() - 1;
    const auto down = static_cast<int>((i - half) * static_cast<std::size_t>(binades) / (n - half));
    set(i, v * two_to(high - down) - sum.value());
  }
  if (n > 0) {
    // The last value also counts in sum|x|, hence the -1; the maximum serves a condition near 1.
    const wide target = n > 1 ? sum_abs.value() / std::max(condition - 1, 0.5) : wide(1);
    set(n - 1, target - sum.value());
  }
  shuffle(random, x);
  return x;
}

dot_input dot_cancellation(std::size_t n, std::uint64_t seed, dtype type, double condition) {
  random_source random(seed);
  if (type == dtype::f16) condition = std::min(condition, f16_condition);
  // Of the factors; their products have twice that.
  const int binades = (std::ilogb(condition) + 1) / 2, high = binades / 2, low = high - binades;
  const std::size_t half = n / 2;
  running_total dot, dot_abs;
  dot_input in{values(n), values(n)};
  const auto set = [&](std::size_t i, double x, const wide& y) {
    in.x[i] = rounded(x, type);
    in.y[i] = rounded(y, type);
    dot.add_product(in.x[i], in.y[i]);
    dot_abs.add_product(std::fabs(in.x[i]), std::fabs(in.y[i]));
  };
  // With either sign, and never so small that dividing by it could matter.
  const auto factor = [&](int e) {
    const double v = random.uniform() - 0.5;
    return (v < 0 ? v - 0.5 : v + 0.5) * two_to(e);
  };
  for (std::size_t i = 0; i < half; ++i) {
    const int e = i == 0 ? high : low + random.below(binades + 1);
    const double x = factor(e);
    set(i, x, factor(e));
  }
  for (std::size_t i = half; i + 1 < n; ++i) {
    const auto down = static_cast<int>((i - half) * static_cast<std::size_t>(binades) / (n - half));
    const double x = factor(high - down), wanted = factor(2 * (high - down));
    set(i, x, (wanted - dot.value()) / rounded(x, type));
  }
  if (n > 0) {
    // Likewise: the last product counts in sum|xy|, twice.
    const wide target = n > 1 ? 2 * dot_abs.value() / std::max(condition - 2, 1.0) : wide(1);
    const double x = two_to(std::ilogb(static_cast<double>(target)) / 2);
    set(n - 1, x, (target - dot.value()) / x);
  }
  shuffle(random, in.x, in.y);
  return in;
}

exact_input small_integers(std::size_t n, std::uint64_t seed, bool negative) {
  random_source random(seed);
  exact_input out{std::vector<double>(n), 0};
  if (n == 0) return out;
  for (std::size_t i = 0; i + 1 < n && negative; i += 2) {
    out.x[i] = (random.below(3) + 1) * (random.below(2) ? 1 : -1);
    out.x[i + 1] = -out.x[i];
  }
  for (int k = 0; k < 60; ++k) out.x[random.bits() % n] = random.below(4);
  out.x.back() = 3;
  out.x.front() = 2;
  for (double v : out.x) out.sum += v;
  return out;
}

}  // namespace bitfold::accuracy
