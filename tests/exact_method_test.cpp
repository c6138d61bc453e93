// Method exact: the engine, the reference and an accumulator that is fed in pieces agree, whatever
// the order, the split, the threads and the company.
#include <bitfold/accumulator.hpp>
#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/totals.hpp>

#include <cmath>
#include <set>

#include "catch.hpp"
#include "exact_data.hpp"
#include "main.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

using test::random_bits;

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(arith::widen<double>(x));
}

// The result of an operation, from accumulators that its definition in docs/operations.md is
// written down with. Pieces of random lengths go to three of them, which are merged.
template <class T>
class by_accumulators {
 public:
  by_accumulators(const std::vector<T>& x, const std::vector<T>& y, std::uint64_t seed)
      : n_(x.size()) {
    random_bits next{seed};
    all sums[3];
    for (std::size_t i = 0; i < n_;) {
      const std::size_t here = std::min<std::size_t>(next() % (next() % 4 ? 40 : 3000), n_ - i);
      sums[next() % 3].add(std::span(x).subspan(i, here), std::span(y).subspan(i, here));
      i += here;
    }
    of_ = sums[2];
    of_.merge(sums[0]);
    of_.merge(sums[1]);
  }

  template <class Out>
  Out result(op_id op, std::uint64_t ddof) const {
    if constexpr (std::is_integral_v<Out> <= std::is_integral_v<T>) switch (op) {
        case op_id::sum: return of_.x.template round<Out>();
        case op_id::nansum: return of_.numbers.template round<Out>();
        case op_id::sum_squares: return of_.squares.template round<Out>();
        case op_id::dot: return of_.products.template round<Out>();
        case op_id::squared_distance: return of_.squared_differences.template round<Out>();
        default: break;
      }
    if constexpr (!std::is_integral_v<Out>) switch (op) {
        case op_id::mean: return of_.x.template round_quotient<Out>(n_);
        case op_id::nanmean: return of_.numbers.template round_quotient<Out>(of_.count);
        case op_id::norm_l1: return of_.magnitudes.template round<Out>();
        case op_id::norm_l2: return of_.squares.template round_root<Out>();
        case op_id::var: return round_variance<T, Out>(of_.x, of_.squares, n_, ddof);
        case op_id::std: return round_deviation<T, Out>(of_.x, of_.squares, n_, ddof);
        case op_id::mse: return of_.squared_differences.template round_quotient<Out>(n_);
        case op_id::mae: return of_.differences.template round_quotient<Out>(n_);
        default: break;
      }
    FAIL("no exact form of " << name(op));
    return {};
  }

 private:
  struct all {
    accumulator<T> x, numbers, magnitudes, differences;
    product_accumulator<T> squares, products, squared_differences;
    std::uint64_t count = 0;

    void add(std::span<const T> a, std::span<const T> b) {
      x.add(a);
      magnitudes.add_magnitudes(a);
      squares.add_squares(a);
      products.add_products(a, b);
      squared_differences.add_squared_differences(a, b);
      for (std::size_t i = 0; i < a.size(); ++i) {
        numbers.add(is_nan(a[i]) ? T{} : a[i]);
        count += !is_nan(a[i]);
        exact::deposit<exact::term::difference>(differences.value(), a[i], b[i]);
      }
    }
    void merge(const all& o) {
      x.merge(o.x);
      numbers.merge(o.numbers);
      magnitudes.merge(o.magnitudes);
      differences.merge(o.differences);
      squares.merge(o.squares);
      products.merge(o.products);
      squared_differences.merge(o.squared_differences);
      count += o.count;
    }
  };
  std::size_t n_;
  all of_;
};

// Every reduction of T by method exact: operations, output types, two ddofs.
template <class T>
std::vector<reduction> exact_reductions() {
  std::vector<reduction> list;
  for (const op_info& op : all_op_infos) {
    if (!op.has_exact) continue;
    const bool moments = op.id == op_id::var || op.id == op_id::std;
    for (const dtype out : all_dtypes) {
      const bool integer = op.types == typing::additive && !is_float(dtype_of<T>);
      if (!integer && !is_float(out)) continue;
      for (const int ddof : {0, 3})
        if (ddof == 0 || moments)
          list.push_back(make_reduction(op.id, method_id::exact, dtype_of<T>, {}, out, ddof));
    }
  }
  return list;
}

template <class T>
scalar expected(const by_accumulators<T>& from, const reduction& r) {
  return visit(r.out(), [&]<class Out>(std::type_identity<Out>) {
    const Out v = from.template result<Out>(r.op(), static_cast<std::uint64_t>(r.ddof()));
    return load_scalar(r.out(), &v);
  });
}

const void* second(const reduction& r, const void* y) {
  return info(r.op()).inputs == 2 ? y : nullptr;
}

void same(scalar got, scalar want, const reduction& r, std::size_t n, const std::string& what) {
  if (got == want) return;
  INFO(test::describe(r, n) << " " << what << ": got " << to_hex(got) << ", want " << to_hex(want));
  CHECK(got == want);
}

template <class T>
void shuffle_together(std::vector<T>& x, std::vector<T>& y, std::uint64_t seed) {
  random_bits next{seed};
  for (std::size_t i = x.size(); i > 1; --i) {
    const std::size_t k = next() % i;
    std::swap(x[i - 1], x[k]);
    std::swap(y[i - 1], y[k]);
  }
}

}  // namespace

TEST_CASE("exact: every operation, type and output type, on data that is hard on sums",
          "[kernels]") {
  test::for_each_type([]<class T>(std::type_identity<T>) {
    const auto reductions = exact_reductions<T>();
    for (const std::size_t n : {1, 2, 16, 17, 700, 5000}) {
      const auto xs = test::hard_arrays<T>(n, n), ys = test::hard_arrays<T>(n, n + 1);
      for (std::size_t k = 0; k < xs.size(); ++k) {
        const auto &x = xs[k].values, &y = ys[(k * 7 + n) % ys.size()].values;
        const by_accumulators<T> from(x, y, k);
        for (const reduction& r : reductions) {
          const scalar want = expected(from, r);
          same(cpu::reduce(r, x.data(), second(r, y.data()), n,
                           {.threads = 1, .target = forced_target}),
               want, r, n, xs[k].name);
          if (r.out() == dtype_of<T> || r.out() == dtype::f64)
            same(reference(r, x.data(), second(r, y.data()), n), want, r, n,
                 xs[k].name + ", reference");
        }
      }
    }
  });
}

// Most of these are exact in doubles, and many of the hard ones are not.
TEST_CASE("exact: sums of many short outputs", "[kernels]") {
  test::for_each_type([]<class T>(std::type_identity<T>) {
    for (const std::size_t n : {1, 2, 7, 16, 17, 33, 64, 65, 700, 4096, 4097}) {
      auto rows = test::hard_arrays<T>(n, n);
      [[maybe_unused]] random_bits next{n};
      for (int k = 0; k < 9; ++k) {
        rows.push_back({"ordinary", std::vector<T>(n)});
        auto& row = rows.back().values;
        if constexpr (!std::is_integral_v<T>)
          for (T& x : row)
            x = arith::round_to<T>(static_cast<double>(static_cast<std::int32_t>(next())) *
                                   0x1p-31);
      }
      // What one lane of a vector alone loses; ahead of others, behind which it is not tried.
      auto& lane = rows.insert(rows.begin(), {"one lane", std::vector<T>(n)})->values;
      if constexpr (!std::is_integral_v<T>)
        for (std::size_t i = 1; i < n; i += 32)
          lane[i] = arith::round_to<T>(i % 64 == 33 ? 1.0 : i % 128 == 1 ? 0x1p100 : -0x1p100);
      const std::size_t count = rows.size();
      std::vector<T> x, transposed(n * count);
      for (const auto& row : rows) x.insert(x.end(), row.values.begin(), row.values.end());
      for (std::size_t i = 0; i < x.size(); ++i) transposed[i % n * count + i / n] = x[i];
      const auto extent = [](std::size_t k) { return static_cast<std::int64_t>(k); };
      const view as_rows = row_major(dtype_of<T>, x.data(), {extent(count), extent(n)}),
                 as_columns = row_major(dtype_of<T>, transposed.data(), {extent(n), extent(count)});
      for (const dtype out : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype_of<T>}) {
        const reduction r = make_reduction(op_id::sum, method_id::exact, dtype_of<T>, {}, out);
        for (const int axis : {1, 0}) {
          std::vector<std::byte> got(count * size_of(out));
          cpu::reduce(r, axis == 1 ? as_rows : as_columns, {&axis, 1}, got.data(),
                      {.threads = 1, .target = forced_target});
          for (std::size_t k = 0; k < count; ++k)
            same(load_scalar(out, &got[k * size_of(out)]),
                 expected(by_accumulators<T>(rows[k].values, rows[k].values, k), r), r, n,
                 rows[k].name + (axis == 1 ? ", a row" : ", a column"));
        }
      }
    }
  });
}

TEST_CASE("exact: no elements") {
  test::for_each_type([]<class T>(std::type_identity<T>) {
    const by_accumulators<T> from({}, {}, 1);
    for (const reduction& r : exact_reductions<T>()) {
      same(cpu::reduce(r, nullptr, 0, {.target = forced_target}), expected(from, r), r, 0, "");
      same(reference(r, nullptr, 0), expected(from, r), r, 0, "reference");
    }
  });
}

TEST_CASE("exact: no order, thread count or company moves a bit") {
  std::size_t place = test::narrower;  // of a type: of floats each with one kind of data, and of
                                       // narrower vectors with the other
  const auto check = [&]<class T>(std::type_identity<T>) {
    const std::size_t n = (std::size_t{test::small_sizes() ? 5u : 12u} << 18) / sizeof(T) + 4321;
    const bool is_of_floats = is_float(dtype_of<T>);
    std::size_t k = place++;
    for (const char* kind : {"any finite", "near one", "any"}) {
      if ((std::string_view(kind) == "any") == is_of_floats) continue;
      if (is_of_floats && !test::takes(k++, 2)) continue;
      auto x = test::hard_arrays<T>(n, 5, {kind}).at(0).values,
           y = test::hard_arrays<T>(n, 6, {kind}).at(0).values;
      const by_accumulators<T> from(x, y, 9);
      for (int inputs : {1, 2}) {
        // In one pass: exact ones, ordered ones, and a sort.
        const std::set few{op_id::sum, op_id::dot, op_id::max, op_id::var, op_id::count_distinct};
        std::vector<reduction> together;
        for (const op_info& op : all_op_infos)
          if (op.inputs == inputs)
            for (const auto m : methods_of(op.id))
              if (m == method_id::exact || (few.contains(op.id) && m != method_id::sequential))
                together.push_back(make_reduction(op.id, m, dtype_of<T>));
        const std::size_t half = n / 2;
        std::vector<scalar> ordered;
        for (const reduction& r : together)
          ordered.push_back(r.method() == method_id::exact
                                ? expected(from, r)
                                : cpu::reduce(r, x.data(), second(r, y.data()), half,
                                              {.threads = 1, .target = forced_target}));
        for (const int threads : test::thread_counts()) {
          const cpu::options opts{.threads = threads, .target = forced_target};
          const std::string what = std::string(kind) + " threads=" + std::to_string(threads);
          for (std::size_t k = 0; k < together.size(); ++k)
            if (together[k].method() == method_id::exact)
              same(cpu::reduce(together[k], x.data(), second(together[k], y.data()), n, opts),
                   ordered[k], together[k], n, what);
          std::vector<scalar> got(together.size());
          cpu::reduce(together, x.data(), inputs == 2 ? y.data() : nullptr, half, got, opts);
          for (std::size_t k = 0; k < together.size(); ++k)
            if (together[k].method() != method_id::exact)
              same(got[k], ordered[k], together[k], half, what + " together");
          cpu::reduce(together, x.data(), inputs == 2 ? y.data() : nullptr, n, got, opts);
          for (std::size_t k = 0; k < together.size(); ++k)
            if (together[k].method() == method_id::exact)
              same(got[k], ordered[k], together[k], n, what + " together");
        }
      }
      for (int round = 0; round < 2; ++round) {
        shuffle_together(x, y, static_cast<std::uint64_t>(round));
        for (const reduction& r : exact_reductions<T>())
          if (r.out() == dtype::f32)
            same(cpu::reduce(r, x.data(), second(r, y.data()), n, {.target = forced_target}),
                 expected(from, r), r, n, std::string(kind) + ", shuffled");
      }
    }
  };
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i16, dtype::u64})
    visit(t, check);
}

TEST_CASE("exact: totals of pieces, and of totals") {
  test::for_each_type([]<class T>(std::type_identity<T>) {
    const std::size_t n = 200'000;
    for (const char* kind : {"any finite", "any", "any bits"}) {
      const auto xs = test::hard_arrays<T>(n, 11, {kind}), ys = test::hard_arrays<T>(n, 12, {kind});
      if (xs.empty()) continue;
      const std::vector<T>&x = xs[0].values, &y = ys[0].values;
      for (const int inputs : {1, 2}) {
        auto all = exact_reductions<T>();
        std::erase_if(all, [&](const reduction& r) { return info(r.op()).inputs != inputs; });
        std::vector<scalar> want(all.size());
        cpu::reduce(all, x.data(), inputs == 2 ? y.data() : nullptr, n, want,
                    {.target = forced_target});
        random_bits next{n};
        std::vector<totals> parts(3, totals(all));
        for (std::size_t i = 0; i < n;) {
          const std::size_t here = std::min<std::size_t>(next() % (next() % 8 ? 3000 : n), n - i);
          const cpu::options opts{.threads = static_cast<int>(next() % 4), .target = forced_target};
          totals& t = parts[next() % 3];
          const auto a = std::span(x).subspan(i, here), b = std::span(y).subspan(i, here);
          if (inputs == 1)
            t.template add<T>(a, opts);
          else
            t.template add<T>(a, b, opts);
          i += here;
        }
        parts[1].merge(parts[2]);
        parts[1].merge(totals(all));
        parts[1].merge(parts[0]);
        CHECK(parts[1].count() == n);
        for (std::size_t k = 0; k < all.size(); ++k) {
          same(parts[1].result(k), want[k], all[k], n, std::string(kind) + ", totals");
          const bounded b = result_with_bound(parts[1], k);
          CHECK(b.value == want[k]);
          CHECK(b.bound ==
                cpu::reduce_with_bound(all[k], x.data(), second(all[k], y.data()), n).bound);
        }
      }
    }
  });
}

TEST_CASE("exact: totals of nothing, and what they refuse") {
  using enum op_id;
  const reduction s = make_reduction(sum, method_id::exact, dtype::f32),
                  d = make_reduction(dot, method_id::exact, dtype::f32);
  totals t({s, make_reduction(mean, method_id::exact, dtype::f32)});
  CHECK(t.reductions()[0] == s);
  CHECK(t.count() == 0);
  CHECK(to_string(t.result(0)) == "0");
  CHECK(to_string(t.result(1)) == "nan");
  t.add(nullptr, nullptr, 0);
  CHECK_THROWS_WITH(totals({make_reduction(sum, method_id::tree, dtype::f32)}),
                    "reductions: sum is not by method exact");
  CHECK_THROWS_WITH(totals({s, d}), "reductions: of one input and of two inputs in one pass");
  CHECK_THROWS_WITH(totals({s, make_reduction(sum, method_id::exact, dtype::f64)}),
                    "reductions: of f32 and of f64 in one pass");
  const std::vector<float> x{1, 2, 4};
  t.add<float>(x);
  CHECK_THROWS_WITH(t.add<double>(std::vector<double>{1}),
                    "data: f64, but the reductions are of f32");
  CHECK_THROWS_WITH(t.add(nullptr, nullptr, 3), "data: null pointer with n > 0");
  CHECK_THROWS_WITH(t.add<float>(x, x), "y: sum takes one input");
  CHECK_THROWS_WITH(t.add(x.data(), nullptr, 3, {.threads = -1}), "threads: -1 is negative");
  CHECK_THROWS_WITH(t.merge(totals({s})), "totals: of other reductions");
  totals pairs({d});
  CHECK_THROWS_WITH(pairs.add<float>(x, std::span(x).first(2)), "y: not of the length of x");
  CHECK_THROWS_WITH(pairs.add<float>(x), "y: dot takes two inputs");
  CHECK(t.count() == 3);
  CHECK(to_string(t.result(0)) == "7");
}

TEST_CASE("exact: whether an integer fits") {
  using enum op_id;
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  const auto fits = []<class T>(op_id op, const std::vector<T>& x, std::optional<dtype> out = {}) {
    totals t({make_reduction(op, method_id::exact, dtype_of<T>, {}, out)});
    info(op).inputs == 2 ? t.template add<T>(x, x) : t.template add<T>(x);
    return t.fits(0);
  };
  using longs = std::vector<std::int64_t>;
  CHECK(fits(sum, longs{largest, 1, -1}));
  CHECK_FALSE(fits(sum, longs{largest, 1}));
  CHECK(fits(sum, longs{-largest, -1}));
  CHECK_FALSE(fits(sum, longs{-largest, -2}));
  CHECK(fits(sum, longs{largest, 1}, dtype::u64));
  CHECK_FALSE(fits(sum, longs{-1}, dtype::u64));
  CHECK(fits(sum, longs{largest, largest}, dtype::f16));
  CHECK(fits(mean, longs{largest, largest}));
  CHECK(fits(sum, longs{200, 55}, dtype::u8));
  CHECK_FALSE(fits(sum, longs{200, 56}, dtype::u8));
  CHECK_FALSE(fits(sum, std::vector<std::uint64_t>{~0ull, 1}));
  CHECK(fits(sum_squares, longs{3'000'000'000}));
  CHECK_FALSE(fits(sum_squares, longs{3'037'000'500}));
  CHECK_FALSE(fits(dot, longs{3'037'000'500}));
  CHECK(fits(squared_distance, longs{3'037'000'500}));
  CHECK(fits(sum, longs{}));
  CHECK(fits(sum, std::vector<float>{std::numeric_limits<float>::infinity()}));
}

TEST_CASE("exact: what the true value is") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::bit_cast<float>(0xffc12345u);
  const float big = std::numeric_limits<float>::max();
  const auto run = []<class T>(op_id op, const std::vector<T>& x, const std::vector<T>& y = {},
                               std::optional<dtype> out = {}, int ddof = 0) {
    const reduction r = make_reduction(op, method_id::exact, dtype_of<T>, {}, out, ddof);
    return to_string(
        cpu::reduce(r, x.data(), second(r, y.data()), x.size(), {.target = forced_target}));
  };
  using floats = std::vector<float>;
  using doubles = std::vector<double>;
  using enum op_id;
  CHECK(run(sum, floats{big, big, -big}) == "3.4028235e+38");
  CHECK(run(mean, floats{big, big, big}) == "3.4028235e+38");
  CHECK(run(sum, floats{big, big}, {}, dtype::f64) == "6.805646932770577e+38");
  CHECK(run(sum, doubles{1, 1e100, 1, -1e100}) == "2");
  CHECK(run(mean, doubles{1, 1e100, 1, -1e100, 1}) == "0.6");
  CHECK(run(dot, doubles{1e200, 1, 1e200}, {1e200, 1, -1e200}) == "1");
  CHECK(run(norm_l2, doubles{3e-200, 4e-200}) == "5e-200");
  CHECK(run(norm_l2, floats{3, -4}) == "5");
  CHECK(run(var, floats{big, big, big}) == "0");
  CHECK(run(var, doubles{1e16, 1e16 + 2}) == "1");
  CHECK(run(op_id::std, doubles{1e16, 1e16 + 2, 1e16 + 4}, {}, {}, 1) == "2");
  CHECK(run(var, doubles{1, 2}, {}, {}, 2) == "inf");
  CHECK(run(var, doubles{1, 1}, {}, {}, 2) == "nan");
  CHECK(run(var, floats{1, inf}) == "nan");
  // (x - y)^2 as it is: x - y is not rounded first.
  CHECK(run(squared_distance, doubles{1e16, 1e16}, {-1, 1}) == "2e+32");
  CHECK(run(mae, doubles{1, -1}, {0x1p-60, -0x1p-60}) == "1");
  CHECK(run(sum, floats{nan, 1}) == "nan");
  CHECK(run(sum, floats{inf, -inf}) == "nan");
  CHECK(run(sum, floats{big, big, -inf}) == "-inf");
  CHECK(run(nansum, floats{nan, 1, inf}) == "inf");
  CHECK(run(nansum, floats{nan, -0.0f}) == "0");
  CHECK(run(nanmean, floats{nan, 1, nan, 2}) == "1.5");
  CHECK(run(nanmean, floats{nan, nan}) == "nan");
  CHECK(run(nanmean, floats{nan, inf}) == "inf");
  CHECK(run(sum, floats{-0.0f, -0.0f}) == "-0");
  CHECK(run(mean, floats{-0.0f, -0.0f}) == "-0");
  CHECK(run(sum, floats{-0.0f, 0.0f}) == "0");
  CHECK(run(norm_l1, floats{-0.0f}) == "0");
  CHECK(run(dot, floats{-0.0f}, {1}) == "-0");
  CHECK(run(dot, floats{0, 1}, {inf, 1}) == "nan");
  CHECK(run(mae, floats{inf}, {inf}) == "nan");
  CHECK(run(mse, floats{inf}, {-inf}) == "inf");
  // Integers: the true value where it goes to a float, modulo 2^bits where it does not.
  using longs = std::vector<std::int64_t>;
  using words = std::vector<std::uint64_t>;
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  CHECK(run(sum, longs{largest, largest, 2}) == "0");
  CHECK(run(sum, longs{largest, largest, 2}, {}, dtype::f64) == "18446744073709551616");
  CHECK(run(mean, longs{largest, largest, 2, 0}) == "4611686018427387904");
  CHECK(run(mean, longs{largest, largest - 1, largest, largest - 2}) == "9223372036854775808");
  CHECK(run(mean, words{~0ull, ~0ull, ~0ull}) == "18446744073709551616");
  CHECK(run(sum, words{~0ull, ~0ull}, {}, dtype::f32) == "3.689349e+19");
  CHECK(run(sum, std::vector<std::uint8_t>(1000, 255), {}, dtype::u8) ==
        std::to_string(255000 % 256));
  CHECK(run(sum_squares, longs{-largest, largest}, {}, dtype::f64) == "1.7014118346046923e+38");
  CHECK(run(squared_distance, longs{largest}, {-largest - 1}, dtype::f64) ==
        "3.402823669209385e+38");
  CHECK(run(mae, longs{largest}, {-largest - 1}) == "18446744073709551616");
  CHECK(run(norm_l2, words{~0ull}) == "18446744073709551616");
  CHECK(run(var, longs{largest, -largest - 1}) == "8.507059173023462e+37");
  CHECK(run(nanmean, longs{1, 2}) == "1.5");
}

TEST_CASE("exact: which operations have it") {
  for (const op_info& op : all_op_infos) {
    CAPTURE(op.name);
    const auto all = methods_of(op.id);
    CHECK(op.has_exact == (std::find(all.begin(), all.end(), method_id::exact) != all.end()));
    CHECK(op.takes_method != (all.front() == std::nullopt));
    for (const auto m : all) {
      const reduction r = make_reduction(op.id, m, dtype::f32);
      CHECK(r.method() == m);
      if (!m) CHECK(r == make_reduction(op.id, {}, dtype::f32));
    }
    if (!op.has_exact)
      CHECK_THROWS_WITH(make_reduction(op.id, method_id::exact, dtype::f32),
                        "method: " + std::string(op.name) + " has no exact form");
  }
}
