// Products of matrices and sums over ranks in the suite: measures by hand, wrong contestants
// exposed, right ones not.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include <bitfold/cpu.hpp>

#include "accuracy/inputs.hpp"
#include "accuracy/products.hpp"
#include "accuracy/report.hpp"
#include "accuracy/suite.hpp"
#include "accuracy/suite/studies.hpp"
#include "catch.hpp"
#include "product_truth.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;

namespace {

using bytes = std::vector<std::byte>;

template <class T>
bytes bytes_of(const std::vector<T>& x) {
  bytes out(x.size() * sizeof(T));
  std::memcpy(out.data(), x.data(), out.size());
  return out;
}

template <class Promise>
entry_info<Promise> info_of_test(std::optional<Promise> promise, std::string acc = "") {
  return {.id = "suspect",
          .name = "suspect",
          .family = "test",
          .device = "cpu",
          .about = "for this test",
          .in = dtype::f32,
          .acc = std::move(acc),
          .out = dtype::f32,
          .promise = promise};
}

// Gives what it is made with, or what a function makes of a call.
class made_product final : public product_contestant {
 public:
  using call = std::function<bytes(const array_view&, const product_shape&, std::size_t way)>;
  made_product(call f, std::optional<matrix_product> promise = {}, std::string acc = "")
      : product_contestant(info_of_test(promise, std::move(acc))), f_(std::move(f)) {}
  std::vector<variation> variations() const override {
    return {{"1 thread", true, 1}, {"2 threads", false, 2}};
  }
  bytes run(const array_view& x, const product_shape& s, std::size_t way) override {
    return f_(x, s, way);
  }

 private:
  call f_;
};

// By a method, whatever layout.
bytes multiplied(const matrix_product& p, const array_view& x, const product_shape& s) {
  const auto matrix = [&](const void* data, std::size_t rows, std::size_t columns, bool by) {
    const auto m = static_cast<std::int64_t>(rows), n = static_cast<std::int64_t>(columns);
    return by ? permuted(row_major(x.type, data, {n, m}), std::array{1, 0})
              : row_major(x.type, data, {m, n});
  };
  bytes out(s.outputs() * size_of(p.out()));
  cpu::matmul(p, matrix(x.data, s.rows, s.inner, s.left_by_columns),
              matrix(static_cast<const std::byte*>(x.data) + s.rows * s.inner * size_of(x.type),
                     s.inner, s.columns, s.right_by_columns),
              out.data());
  return out;
}

const matrix_product fixed = make_matrix_product(dtype::f32);
const matrix_product tree = make_matrix_product(dtype::f32, method_id::tree);

// 2 x 2 x 2: rows (1, 2) and (3, -3), columns (1, 1/2) and (1, 1): 2, 3, 3/2 and 0.
const product_input by_hand{"by-hand", "", false,
                            [](std::size_t, std::size_t, std::uint64_t, dtype) {
                              return factors{2, {1, 2, 3, -3}, {1, 0.5, 1, 1}};
                            }};
product_row measured(const product_input& in, std::vector<float> results, std::string acc = "") {
  made_product c([&](auto&&...) { return bytes_of(results); }, {}, std::move(acc));
  const report_rows rows = run_products({&c}, in, {2, 2, 2}, dtype::f32, 1);
  REQUIRE(rows.products.size() == 1);
  return rows.products[0];
}

template <class Row>
bool has_finding(const std::vector<Row>& findings, std::string_view kind, std::string_view where) {
  return std::any_of(findings.begin(), findings.end(), [&](const Row& f) {
    return f.contestant == "suspect" && f.kind == kind && f.where.find(where) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("products: errors by hand") {
  const product_row right = measured(by_hand, {2, 3, 1.5f, 0});
  CHECK(right.elements == 4);
  CHECK(right.ulps == 0);
  CHECK(right.relative == 0);
  CHECK_FALSE(right.bound_ratio);
  // 2 |a|.|b| / |a.b| is 2, 2, 2 * 4.5 / 1.5 and infinite: half are no more than 2, 2, 6.
  CHECK(right.condition == 6);

  // Off by 1 ulp of 2 and by 3 of 3; and by something where the truth is 0.
  const float u = 0x1p-22f;
  const product_row off = measured(by_hand, {2 + u, 3 - 3 * u, 1.5f, 0});
  CHECK(off.ulps == 3);
  CHECK(off.ulps_median == 1);
  CHECK(off.relative == 0x1p-22);         // 3 u over 1 * 1 + 2 * 1
  CHECK(off.relative_median == 0x1p-23);  // u over 1 * 1 + 2 * 1/2
  CHECK(off.overflows == 0);
  CHECK(measured(by_hand, {2, 3, 1.5f, 0x1p-20f}).relative == 0x1p-20 / 6);
  CHECK(off.digest != right.digest);

  // (1 + u)^2 - 1 of |a|.|b| by additions in any order, and one rounded product more.
  const product_row bounded = measured(by_hand, {2 + u, 3, 1.5f, 0}, "f32");
  REQUIRE(bounded.bound_ratio);
  CHECK(*bounded.bound_ratio > 0x1p-22 / (2 * 3.01 * 0x1p-24));
  CHECK(*bounded.bound_ratio < 0x1p-22 / (2 * 0.99 * 0x1p-24));

  const product_row wrong = measured(by_hand, {INFINITY, 3, 1.5f, 0});
  CHECK(std::isinf(wrong.ulps));
  CHECK(std::isinf(wrong.relative));
  CHECK(wrong.overflows == 1);

  // On the diagonal: 2 and 0.
  product_input diagonal = by_hand;
  diagonal.diagonal = true;
  const product_row few = measured(diagonal, {2 + u, 3 - 3 * u, 1.5f, 0});
  CHECK(few.elements == 2);
  CHECK(few.ulps == 1);
}

TEST_CASE("products: what `fixed` takes, by hand and by big integers") {
  const float row[] = {1, 0.3f, 2.5f / 64, -3.5f / 64, 0};
  const fixed_vector v = fixed_elements(dtype::f32, row, 5, 8);  // L = 126, and the unit 1/64
  CHECK(v.elements == std::vector<double>{1, 19. / 64, 2. / 64, -4. / 64, 0});
  CHECK(v.largest == 1);
  const float tight[] = {126, 1, 127, 1};
  CHECK(fixed_elements(dtype::f32, tight, 2, 8).elements == std::vector<double>{126, 1});
  CHECK(fixed_elements(dtype::f32, tight + 2, 2, 8).elements ==
        std::vector<double>{128, 0});  // 63.5 and 0.5 units of 2
  const double tiny[] = {0x1p-1074, 0x3p-1074};
  CHECK(fixed_elements(dtype::f64, tiny, 2, 58).elements == std::vector<double>{tiny, tiny + 2});
  const float zero[] = {-0.0f}, one[] = {1};
  CHECK(fixed_product(fixed_elements(dtype::f32, zero, 1, 28),
                      fixed_elements(dtype::f32, one, 1, 28), dtype::f32)
            .bits == 0);
  const double none[] = {0, -0.0};
  CHECK(fixed_elements(dtype::f64, none, 2, 58).largest == 0);

  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const product_input& in : all_product_inputs()) {
      CAPTURE(name(t), in.name);
      const std::size_t n = 301;
      const int bits = product_bits(t);
      const factors f = in.make(1, n, 7, t);
      const bytes a = pack(f.rows, t), b = pack(f.columns, t);
      const auto integers = [&](const bytes& x) {
        std::vector<std::uint64_t> each(n);
        for (std::size_t i = 0; i < n; ++i) each[i] = load_scalar(t, &x[i * size_of(t)]).bits;
        return test::fixed(t, each, bits);
      };
      CHECK(fixed_product(fixed_elements(t, a.data(), n, bits),
                          fixed_elements(t, b.data(), n, bits), t)
                .bits == test::fixed_product(integers(a), integers(b), t));
    }
}

TEST_CASE("products: the bound of `fixed`, by hand") {
  const float row[] = {1, 2}, column[] = {1, 0.5f};
  const double l = std::ldexp(63, 21);
  // (N |a| + M |b|) / L + k M N / L^2, and half an ulp of what that may be.
  const double before = (1 * 3 + 2 * 1.5) / l + 2. * 2 * 1 / (l * l);
  const double bound =
      static_cast<double>(fixed_bound(fixed_elements(dtype::f32, row, 2, 28),
                                      fixed_elements(dtype::f32, column, 2, 28), dtype::f32, 2));
  CHECK(std::fabs(bound / (before + 0x1p-24 * (2 + before)) - 1) < 1e-12);
  const float large[] = {3e38f};
  const fixed_vector v = fixed_elements(dtype::f32, large, 1, 28);
  CHECK(isinf(fixed_bound(v, v, dtype::f32, real(3e38) * 3e38)));
  const float least[] = {0x1p-100f};
  const fixed_vector w = fixed_elements(dtype::f32, least, 1, 28);
  CHECK(fixed_bound(w, w, dtype::f32, ldexp(real(1), -200)) >= ldexp(real(1), -150));
}

TEST_CASE("products: condition numbers are what the input says") {
  for (dtype t : {dtype::f32, dtype::f64})
    for (const product_input& in : all_product_inputs()) {
      if (!in.diagonal) continue;
      CAPTURE(name(t), in.name);
      const std::size_t n = 1003;
      const factors f = in.make(2, n, 1, t);
      const double wanted = std::stod(std::string(in.name.substr(in.name.find('-') + 1)));
      for (std::size_t i = 0; i < 2; ++i) {
        const auto part = [&](const std::vector<double>& x) { return pack({&x[i * n], n}, t); };
        const auto condition = static_cast<double>(
            dot_exactly(t, part(f.rows).data(), part(f.columns).data(), n).condition());
        CHECK(condition > wanted / 2);
        CHECK(condition < wanted * 2);
      }
    }
}

TEST_CASE("products: one who keeps its promise, and who does not") {
  const auto run = [](made_product::call f) {
    made_product c(std::move(f), fixed);
    return run_products({&c}, all_product_inputs()[0], {3, 200, 4}, dtype::f32, 1);
  };
  CHECK(run([](auto& x, auto& s, auto) { return multiplied(fixed, x, s); }).findings.empty());
  const report_rows other = run([](auto& x, auto& s, auto) { return multiplied(tree, x, s); });
  CHECK(has_finding(other.findings, "bits",
                    "products: normal f32[3 x 200 x 4], seed 1, element 0, 0"));
  CHECK_FALSE(has_finding(other.findings, "bound", ""));
  const report_rows far = run([](auto& x, auto& s, auto) {
    bytes out = multiplied(fixed, x, s);
    float last;
    std::memcpy(&last, &out[11 * sizeof last], sizeof last);
    last *= 1.0001f;
    std::memcpy(&out[11 * sizeof last], &last, sizeof last);
    return out;
  });
  CHECK(has_finding(far.findings, "bound", "element 2, 3"));
  CHECK(far.findings.size() == 2);
  // A peer may fail; bitfold may not.
  const auto fails = [](auto&&...) -> bytes { throw error(errc::bad_input, "no"); };
  CHECK_THROWS_AS(run(fails), error);
  made_product peer(fails);
  const report_rows failed = run_products({&peer}, by_hand, {2, 2, 2}, dtype::f32, 1);
  CHECK(failed.products.empty());
  REQUIRE(failed.failures.size() == 1);
  CHECK(failed.failures[0].why == "no");
}

TEST_CASE("products: threads, batches and layouts that show in the bits are exposed") {
  const product_shape s{20, 300, 3};
  const auto run = [&](made_product::call f, std::optional<matrix_product> promise = {}) {
    made_product c(std::move(f), promise);
    report_rows rows = run_product_bits(c, s, 1, 2);
    REQUIRE(rows.product_bits.size() == 1);
    return rows;
  };
  const auto right = [](auto& x, auto& of, auto) { return multiplied(fixed, x, of); };
  const report_rows kept = run(right, fixed);
  CHECK(kept.findings.empty());
  const product_bits_row& row = kept.product_bits[0];
  CHECK(row.ways == 2);
  CHECK(row.batches == 4);  // 1, 2, 3 and 16 of 20
  CHECK(row.layouts == 4);
  for (auto count : {row.way_results, row.batch_results, row.layout_results}) CHECK(count == 1);
  CHECK_FALSE(row.changed);
  CHECK(row.equal == std::optional(true));
  CHECK_FALSE(run(right).product_bits[0].equal);

  const auto shows = [&](auto where) {
    return run(
        [where](auto& x, auto& of, std::size_t way) {
          return multiplied(where(of, way) ? tree : fixed, x, of);
        },
        fixed);
  };
  const report_rows ways = shows([](auto&, std::size_t way) { return way == 1; });
  CHECK(ways.product_bits[0].way_results == 2);
  CHECK(ways.product_bits[0].batch_results == 1);
  CHECK(ways.product_bits[0].equal == std::optional(false));
  CHECK(has_finding(ways.findings, "bits", "2 threads, element 0, 0"));
  const report_rows batch = shows([](auto& of, std::size_t) { return of.rows >= 3; });
  CHECK(batch.product_bits[0].batch_results == 2);
  CHECK(batch.product_bits[0].changed == std::optional<std::uint64_t>(3));
  CHECK(batch.product_bits[0].way_results == 1);
  CHECK(has_finding(batch.findings, "bits", "the first 3 rows"));
  const report_rows layout = shows([](auto& of, std::size_t) { return of.right_by_columns; });
  CHECK(layout.product_bits[0].layout_results == 2);
  CHECK(has_finding(layout.findings, "bits", "A by rows, B by columns"));
}

TEST_CASE("ranks: what the models add, by hand") {
  const float e = 0x1p-24f;  // half an ulp of 1
  // Contributions to two sums: 1, e, e, e, and those of 0.
  const std::vector<float> x{1, 0, e, 0, e, 0, e, 0};
  contestants who;
  add_ranks(who);
  const auto first = [&](const char* id, std::size_t ranks) {
    for (const auto& c : who.ranks)
      if (c->info.id == id) {
        const bytes out = c->run({dtype::f32, x.data(), x.size(), 1}, 4, ranks);
        float sums[2];
        REQUIRE(out.size() == sizeof sums);
        std::memcpy(sums, out.data(), sizeof sums);
        CHECK(sums[1] == 0);
        return sums[0];
      }
    FAIL(id);
    return 0.f;
  };
  for (const char* model : {"plain/ranks/ring/f32", "plain/ranks/doubling/f32"}) {
    CHECK(first(model, 1) == 1);          // each e is lost
    CHECK(first(model, 2) == 1 + 2 * e);  // 1 and 2 e
  }
  // Shares of 1, 1 and 2. The ring begins with rank 1: (e + 2 e) + 1, to even.
  CHECK(first("plain/ranks/ring/f32", 3) == 1 + 4 * e);
  CHECK(first("plain/ranks/doubling/f32", 3) == 1 + 2 * e);  // (1 + e) + 2 e
  // 1, e, e and e: the first half goes around from rank 0 or 1.
  CHECK(first("plain/ranks/doubling/f32", 4) == 1 + 2 * e);
  for (std::size_t ranks : {1, 2, 3, 4}) {
    CHECK(first("bitfold/ranks/tree/f32/f32/f32/cpu", ranks) == 1 + 2 * e);
    CHECK(first("bitfold/ranks/exact/f32/exact/f32/cpu", ranks) == 1 + 4 * e);  // 1 + 3 e, to even
  }
}

TEST_CASE("ranks: who changes with their number is counted, and exposed where it promises") {
  class by_ranks final : public rank_contestant {
   public:
    explicit by_ranks(std::optional<reduction> promise) : rank_contestant(info_of_test(promise)) {}
    bytes run(const array_view& x, std::size_t count, std::size_t ranks) override {
      const std::size_t n = x.n / count;
      bytes out(n * sizeof(float));
      cpu::reduce(make_reduction(op_id::sum, method_id::tree, dtype::f32),
                  row_major(dtype::f32, x.data,
                            {static_cast<std::int64_t>(count), static_cast<std::int64_t>(n)}),
                  {0}, out.data());
      if (ranks == 4) out[4] ^= std::byte{1};  // the second sum
      return out;
    }
  };
  const reduction promised = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  for (const auto& promise : {std::optional<reduction>(), std::optional(promised)}) {
    by_ranks c(promise);
    const report_rows rows = run_ranks({&c}, input_named("normal"), dtype::f32, 24, 50, 1);
    REQUIRE(rows.ranks.size() == 5);
    for (const rank_row& row : rows.ranks) {
      CHECK(row.changed == (row.ranks == 4));
      CHECK(row.contributions == 24);
      CHECK(row.results == 50);
      CHECK(row.bound_ratio.has_value() == promise.has_value());
    }
    CHECK(rows.findings.size() == promise.has_value());
    if (promise) CHECK(has_finding(rows.findings, "bits", "4 ranks, result 1"));
  }
}

TEST_CASE("products in a report, on a GPU: bitfold keeps its promises there", "[cuda]") {
  contestants who;
  add_products(who, false, true);
  CHECK(who.products.size() == 4 * 4);  // types, and ways
  std::size_t rows = 0;
  for (const auto& c : who.products) {
    CAPTURE(c->info.id);
    const report_rows found = run_product_bits(*c, {20, 70, 9}, 1, 1);
    CHECK(found.findings.empty());
    CHECK(found.failures.empty());
    rows += found.product_bits.size();
  }
  CHECK(rows == who.products.size());
}

TEST_CASE("products and ranks in a report: bitfold keeps its promises, beside others") {
  contestants who;
  add_products(who, true, false);
  add_ranks(who);
  json report = start_report(who, {}, "a test");
  std::set<std::string> keys;
  for (const unit& u : plan(who, {})) {
    CHECK(keys.insert(u.key).second);
    for (const char* key : {"products/f32/dots-1e8", "products/f64/outlier-column",
                            "products/bf16/normal", "product_bits/bitfold/matmul/fixed/f16/f16/cpu",
                            "ranks/f32/normal", "ranks/bf16/gradients"})
      if (u.key == key) add_rows(report, u.run());
  }
  add_headlines(report);
  CHECK(report["findings"].empty());
  CHECK(report["failures"].empty());
  CHECK(report["headlines"][1]["value"] == "42 of 42");  // products by 4 ways, sums over ranks by 3
  CHECK(report["products"].size() == 3 * (4 + 1));
  CHECK(report["product_bits"].size() == 1);
  CHECK(report["ranks"].size() == 2 * 5 * (3 + 2));
  for (const json& row : report["products"]) {
    CAPTURE(row.dump());
    CHECK(number(row["bound_ratio"]) <= 1);
    if (row["contestant"].get<std::string>().find("/exact/") != std::string::npos)
      CHECK(row["ulps"] <= 0.5);
  }
  std::map<std::string, std::uint64_t> changed;
  for (const json& row : report["ranks"])
    changed[row["contestant"].get<std::string>()] += row["changed"].get<std::uint64_t>();
  for (const auto& [id, count] : changed) {
    CAPTURE(id);
    CHECK((count == 0) == id.starts_with("bitfold/"));
  }
  for (const json& c : report["contestants"]) {
    CHECK(c["main"] == false);
    CHECK((c["op"] == "matmul" || c["op"] == "all_reduce"));
  }
  const std::string shown = summary(report);
  for (const char* line :
       {"Products, f32: largest error over |a|.|b|, and in ulps", "Products, f16: bits and speed",
        "  bitfold matmul fixed                    same            same            same\n",
        "Ranks, bf16: sums with other bits than on one rank, of all inputs"})
    CHECK(shown.find(line) != std::string::npos);

  // Two runs: what is promised is compared.
  CHECK_FALSE(compare(report, report).worse);
  for (const char* list : {"products", "ranks"}) {
    json other = report;
    other[list][0]["digest"] = "0";
    CHECK(compare(report, other).worse);
    other[list][0]["digest"] = report[list][0]["digest"];
    for (json& row : other[list])
      if (row["contestant"].get<std::string>().starts_with("plain/")) row["digest"] = "0";
    CHECK_FALSE(compare(report, other).worse);
  }
}
