// Exact sums, and what is made of them, against MPFR.
#include <algorithm>
#include <cmath>
#include <random>

#include <bitfold/accumulator.hpp>
#include <bitfold/cpu.hpp>

#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "catch.hpp"
#include "exact_data.hpp"
#include "main.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

template <class Out>
void check(op_id op, Out got, const accuracy::elements& in, int ddof = 0) {
  const scalar want = accuracy::round_correctly(accuracy::exact_value(op, in, ddof), dtype_of<Out>);
  CAPTURE(name(op), name(dtype_of<Out>), ddof);
  CHECK(bits_of(got) == want.bits);
}

template <class T, class Out>
void check_all(const std::vector<T>& x, const std::vector<T>& y) {
  const std::uint64_t n = x.size();
  const accuracy::elements one{dtype_of<T>, x.data(), nullptr, n},
      two{dtype_of<T>, x.data(), y.data(), n};
  accumulator<T> sum, numbers, magnitudes, differences;
  product_accumulator<T> squares, products, distances;
  sum.add(x);
  exact::deposit(exact::term::number, dtype_of<T>, x.data(), nullptr, n, &numbers.value());
  exact::deposit(exact::term::difference, dtype_of<T>, x.data(), y.data(), n, &differences.value());
  magnitudes.add_magnitudes(x);
  squares.add_squares(x);
  products.add_products(x, y);
  distances.add_squared_differences(x, y);
  check(op_id::sum, sum.template round<Out>(), one);
  check(op_id::mean, sum.template round_quotient<Out>(n), one);
  check(op_id::nansum, numbers.template round<Out>(), one);
  check(op_id::norm_l1, magnitudes.template round<Out>(), one);
  check(op_id::mae, differences.template round_quotient<Out>(n), two);
  check(op_id::sum_squares, squares.template round<Out>(), one);
  check(op_id::norm_l2, squares.template round_root<Out>(), one);
  check(op_id::dot, products.template round<Out>(), two);
  check(op_id::squared_distance, distances.template round<Out>(), two);
  check(op_id::mse, distances.template round_quotient<Out>(n), two);
  for (const int ddof : {0, 1}) {
    const auto by = static_cast<std::uint64_t>(ddof);
    check(op_id::var, round_variance<T, Out>(sum, squares, n, by), one, ddof);
    check(op_id::std, round_deviation<T, Out>(sum, squares, n, by), one, ddof);
  }
}

}  // namespace

TEST_CASE("exact operations are MPFR's values, rounded once") {
  for_each_type([]<class T>(std::type_identity<T>) {
    for (const std::size_t n : {2, 19, 1500}) {
      const auto arrays = hard_arrays<T>(n, 17);
      for (std::size_t a = 0; a < arrays.size(); ++a) {
        const auto& x = arrays[a].values;
        const auto& y = arrays[(a * 5 + 1) % arrays.size()].values;
        CAPTURE(name(dtype_of<T>), n, arrays[a].name);
        check_all<T, double>(x, y);
        if constexpr (is_float(dtype_of<T>)) check_all<T, T>(x, y);
      }
    }
  });
}

// ---- What the papers on exact sums try theirs with ----------------------------------------------

namespace {

// Sums of x, and of its products with y, by every target and in two orders.
template <class T>
void check_sums(const std::string& what, const std::vector<double>& from,
                const std::vector<double>& with = {}) {
  const std::size_t n = from.size();
  std::vector<T> x(n), y(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = arith::round_to<T>(from[i]);
    y[i] = with.empty() ? x[n - 1 - i] : arith::round_to<T>(with[i]);
  }
  for (const op_id op : {op_id::sum, op_id::mean, op_id::norm_l1, op_id::norm_l2, op_id::dot,
                         op_id::squared_distance}) {
    const accuracy::elements in{dtype_of<T>, x.data(), info(op).inputs == 2 ? y.data() : nullptr,
                                n};
    const scalar want = accuracy::round_correctly(accuracy::exact_value(op, in), dtype_of<T>);
    const reduction r = make_reduction(op, method_id::exact, dtype_of<T>);
    CAPTURE(what, name(op), name(dtype_of<T>), n);
    for (const auto target : cpu::available_targets())
      REQUIRE(cpu::reduce(r, in.x, in.y, n, {.target = target}) == want);
    auto back = x, back_y = y;
    std::reverse(back.begin(), back.end());
    std::reverse(back_y.begin(), back_y.end());
    std::rotate(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(n / 3), back.end());
    std::rotate(back_y.begin(), back_y.begin() + static_cast<std::ptrdiff_t>(n / 3), back_y.end());
    REQUIRE(cpu::reduce(r, back.data(), in.y ? back_y.data() : nullptr, n) == want);
  }
}

std::uint64_t bits_of_sum(double x) {
  return bits_of(std::isnan(x) ? arith::canonical_nan<double> : x);
}

}  // namespace

// The vectors of xsum-check.c of his program: here each with both signs, alone and many times.
TEST_CASE("Neal 2015: the vectors of his tests") {
  const double big = std::numeric_limits<double>::max(), tiny = 5e-324, normal = 0x1p-1022,
               below = normal - tiny;
  const double last = 0x1p-52, inf = HUGE_VAL, nan = NAN;
  struct vector {
    std::vector<double> terms;
    double sum;
    int most;  // times
  };
  std::vector<vector> all;
  for (const double x :
       {0.0, 1.0, 0.1, 2.0, 3.1, 2.3e10, 3.2e-10, 123e123, 54.11e-150, 0x1p128 + 0x1p75,
        0x1p128 - 0x1p75, big, normal, below, tiny, 1.23e-309, 4.57e-314, 9.7e-322})
    all.push_back({{x}, x, sanitized ? 12 : 20});
  const std::pair<double, double> pairs[] = {{1, 2},
                                             {0.1, 12.2},
                                             {1, -0.0},
                                             {0.0, -0.0},
                                             {-13.1, 0},
                                             {12.1, -11.3},
                                             {11.3, -12.1},
                                             {1.234567e14, 9.87654321},
                                             {1.234567e14, -9.87654321},
                                             {3.1e200, 1.7e-100},
                                             {3.1e200, -1.7e-100},
                                             {1.7e-100, 3.1e200},
                                             {1.7e-100, -3.1e200},
                                             {1, last},
                                             {1, last / 2},
                                             {1, last / 2 + last / 4096},
                                             {1, last / 2 + last * 0x1p-40},
                                             {1, last / 2 - last / 4096},
                                             {1 + last, last / 2},
                                             {1 + last, last / 2 - last * last},
                                             {tiny, 7.1},
                                             {tiny, -7.1},
                                             {7.1, tiny},
                                             {-7.1, tiny},
                                             {below, tiny},
                                             {below, -tiny},
                                             {tiny, tiny},
                                             {tiny, -tiny},
                                             {below, normal},
                                             {normal, below},
                                             {4.57e-314, 9.7e-322},
                                             {-4.57e-314, 9.7e-322},
                                             {4.57e-321, 9.7e-322},
                                             {-4.57e-321, 9.7e-322},
                                             {2, -2 * (1 + last)},
                                             {big, big},
                                             {big, big * last / 2},
                                             {inf, 123},
                                             {inf, -inf},
                                             {nan, 123},
                                             {123, nan}};
  for (const auto& [x, y] : pairs) all.push_back({{x, y}, x + y, 0});
  const vector longer[] = {
      {{big, tiny, -big}, tiny, 0},
      {{tiny, normal, -tiny}, normal, 0},
      {{12345.6, normal, -12345.6}, normal, 0},
      {{12345.6, below, -12345.6}, below, 0},
      {{2, -2 * (1 + last), last / 8}, -2 * last + last / 8, 0},
      {{1, 2, 3}, 6, 0},
      {{12, 3.5, 2}, 17.5, 0},
      {{3423.34e12, -93.431, -3432.1e11}, 3080129999999906.5, 0},
      {{432457232.34, 0.3432445, -3433452433}, -3000995200.3167553, 0},
      {{big, big, big, big, big, big, -big, -big, -big, -big}, inf, 13},
      {{big, big, big, big, 0.125, 0.125, -big, -big, -big, -big}, 0.25, 13},
      {{2 * (1 + last), -2, -last, -last, 0, 0, 0, 0, 0, 0}, 0, 13},
      {{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}, 1111111111, 13},
      {{1.234e88, -93.3e-23, 994.33, 1334.3, 457.34, -1.234e88, 93.3e-23, -994.33, -1334.3,
        -457.34},
       0,
       13},
      {{1, -23, 456, -78910, 1112131415, -161718192021, 22232425262728, -2930313233343536,
        373839404142434445.0, -46474849505152535455.0},
       -46103918342424313856.0,
       13},
      {{2342423.3423, 34234.450, 945543.4, 34345.34343, 1232.343, 0.00004343, 43423.0, -342344.8343,
        -89544.3435, -34334.3},
       2934978.4009734304,
       13},
      {{0.9101534, 0.9048397, 0.4036596, 0.1460245, 0.2931254, 0.9647649, 0.1125303, 0.1574193,
        0.6522300, 0.7378597},
       5.2826068,
       13},
      {{428.366070546, 707.3261930632, 103.29267289, 9040.03475821, 36.2121638, 19.307901408,
        1.4810709160, 8.077159101, 1218.907244150, 778.068267017},
       12341.0735011012,
       13},
      {{1.1e-322, 5.3443e-321, -9.343e-320, 3.33e-314, 4.41e-322, -8.8e-318, 3.1e-310, 4.1e-300,
        -4e-300, 7e-307},
       1.0000070031003328e-301,
       13}};
  all.insert(all.end(), std::begin(longer), std::end(longer));
  const reduction r = make_reduction(op_id::sum, method_id::exact, dtype::f64);
  for (vector v : all)
    for (int sign = 0; sign < 2; ++sign) {
      for (const int log2 : {0, v.most}) {
        std::vector<double> x;
        for (int i = 0; i < 1 << log2; ++i) x.insert(x.end(), v.terms.begin(), v.terms.end());
        CAPTURE(v.terms, log2);
        for (const auto target : cpu::available_targets()) {
          const scalar got = cpu::reduce(r, x.data(), nullptr, x.size(), {.target = target});
          REQUIRE(got.bits == bits_of_sum(std::ldexp(v.sum, log2)));
        }
      }
      for (double& x : v.terms) x = -x;
      v.sum = v.sum == 0 && v.terms.size() > 1 ? 0.0 : -v.sum;
    }
  // One accumulator added to another, and many times.
  accumulator<double> a, b, c, d;
  a.add(std::vector{3.7e20, 888.8, 4.1e20});
  b.add(std::vector{1234.5, -4.1e20, -3.7e20, -888.8});
  CHECK(a.merge(b).round() == 1234.5);
  c.add(std::vector{3.5, 888.75, 4.125});
  for (int i = 0; i < 1000; ++i) d.merge(c);
  c.subtract(c).subtract(std::vector{3.5, 888.75, 4.125});
  for (int i = 0; i < 1000; ++i) d.merge(c);
  CHECK(d.add(1234.5).round() == 1234.5);
}

// The data of xsum-time.c, by which he measures: u exp(30 v) of uniform u and v, then the same with
// the other sign.
TEST_CASE("Neal 2015: numbers, and their negatives mirrored or shuffled") {
  std::mt19937_64 random(1);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (const std::size_t n : {2, 10, 100, 1001, 10'000}) {
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n / 2; ++i) {
      x[i] = std::exp(30 * uniform()) * uniform();
      x[n - 1 - i] = -x[i];
    }
    check_sums<double>("mirrored", x);
    std::shuffle(x.begin(), x.end(), random);
    CHECK(bits_of(accumulator<double>().add(x).round()) == 0);
    check_sums<double>("shuffled", x);
    check_sums<float>("shuffled", x);
  }
}

// The four kinds of data of "Algorithm 908", of all bits in the significand and exponents `spread`
// apart.
TEST_CASE("Zhu and Hayes 2010: well-conditioned, random, Anderson's, and a sum of zero") {
  std::mt19937_64 random(2);
  const auto check = [&]<class T>(std::type_identity<T>, std::initializer_list<int> spreads) {
    for (const int spread : spreads)
      for (const std::size_t n : {100, 4096})
        for (int kind = 1; kind <= 4; ++kind) {
          std::vector<double> x(n);
          double sum = 0;
          for (std::size_t i = 0; i < n; ++i) {
            const double m = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
            x[i] = std::ldexp(
                m, static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2);
            if (kind == 4 && i % 2) x[i] = -x[i - 1];
            if ((kind == 2 || kind == 3) && random() & 1) x[i] = -x[i];
            sum += x[i];
          }
          if (kind == 3)
            for (double& v : x) v -= sum / static_cast<double>(n);
          std::shuffle(x.begin(), x.end(), random);
          if (kind == 4) CHECK(bits_of(accumulator<double>().add(x).round()) == 0);
          check_sums<T>("kind " + std::to_string(kind) + " spread " + std::to_string(spread), x);
        }
  };
  check(std::type_identity<double>(), {1, 10, 100, 500, 1000, 2000});
  check(std::type_identity<float>(), {10, 100, 250});
  check(std::type_identity<bfloat16>(), {10, 100, 250});
  check(std::type_identity<float16>(), {10, 28});
}

// The kinds of vectors by which the authors' ReproBLAS is tested (tests/common/test_util.c).
TEST_CASE("Demmel, Ahrens and Nguyen 2020: sines, numbers that grow, drop or are of a condition") {
  std::mt19937_64 random(3);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const double small = 0x1p-20, large = 0x1p20;
  for (const std::size_t n : {8, 1000, 4096}) {
    const auto make = [&](auto f) {
      std::vector<double> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = f(static_cast<double>(i) / static_cast<double>(n));
      return x;
    };
    const std::pair<const char*, std::vector<double>> all[] = {
        {"constant", make([](double) { return 0.1; })},
        {"rand", make([&](double) { return uniform(); })},
        {"2 rand - 1", make([&](double) { return 2 * uniform() - 1; })},
        {"rand + (rand - 1)", make([&](double) { return uniform() + (uniform() - 1); })},
        {"normal", make([&](double) {
           return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
         })},
        {"sine", make([](double at) { return std::sin(6.283185307179586 * at); })},
        {"small + grow big", make([&](double at) { return small + (large - small) * at; })},
        {"small + rand big",
         make([&](double) { return small + (large - small) * uniform() * (1 + 1e-9); })},
        {"rand, of a condition", accuracy::cancellation(n, 4, dtype::f64, 1e3)}};
    for (auto [what, x] : all) {
      check_sums<double>(what, x);
      check_sums<float>(what, x);
      for (std::size_t i = n / 2; i < n; ++i) x[i] *= 1e-12;
      check_sums<double>(std::string(what) + ", drop", x);
    }
    for (const double b : {HUGE_VAL, -HUGE_VAL, double{NAN}, std::numeric_limits<double>::max() / 2,
                           -std::numeric_limits<double>::max()})
      for (const double a : {0.0, HUGE_VAL, std::numeric_limits<double>::max()}) {
        auto x = all[1].second;
        x[n / 3] = a;
        x[n - 1] = b;
        check_sums<double>("rand and two large ones", x);
      }
  }
}

// Algorithm 6.1 of "Accurate sum and dot product" (SIAM J. Sci. Comput. 26(6), 2005); and as a sum,
// each product in two.
TEST_CASE("Ogita, Rump and Oishi 2005: dot products and sums of any condition") {
  for (const double condition : {1e8, 1e16, 1e32, 1e64, 1e100})
    for (const std::size_t n : {100, 1000}) {
      const auto [x, y] = accuracy::dot_cancellation(n, 5, dtype::f64, condition);
      const std::string what = "condition " + std::to_string(condition);
      check_sums<double>(what, x, y);
      std::vector<double> halves;
      for (std::size_t i = 0; i < n; ++i) {
        const auto p = arith::two_prod(x[i], y[i]);
        halves.insert(halves.end(), {p.sum, p.error});
      }
      check_sums<double>(what + ", as a sum", halves);
      CHECK(bits_of(accumulator<double>().add(halves).round()) ==
            bits_of(product_accumulator<double>().add_products(x, y).round()));
      check_sums<float>(what, accuracy::cancellation(n, 6, dtype::f32, std::min(condition, 1e40)));
    }
}
