// Row functions on the CPU: what rows.hpp says, to the bit.
#include <cfenv>
#include <atomic>
#include <limits>
#include <thread>

#include "catch.hpp"
#include "cpu/conversions.hpp"
#include "main.hpp"
#include "row_cases.hpp"

using namespace bitfold;
using test::forced_target;
using test::row_case;
using test::sanitized;

namespace {

row_case done(row_case c, int threads) {
  const rows of =
      c.on(c.x.data(), c.y.data(), c.w.data(), c.b.data(), c.mean.data(), c.rstd.data());
  cpu::apply(c.f, of, c.out.data(), {.threads = threads, .target = forced_target});
  return c;
}

}  // namespace

TEST_CASE("rows: bits are those of the definition, whatever the threads") {
  for (const row_function f : test::all_row_functions)
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
      for (const test::kind k : test::all_kinds)
        for (const std::size_t n : {1, 2, 31, 33, 256, 257, 1000, 2049}) {
          const std::size_t count = n == 257 ? 40 : n == 1000 ? 19 : 3;
          const row_case c =
              test::make_row_case(f, type, k, count, n, n + static_cast<std::uint64_t>(k));
          const row_case want = test::done_by_the_book(c);
          for (const int threads : {1, 3}) {
            INFO(c.describe() << " " << name(k) << " " << threads);
            const row_case got = done(c, threads);
            CHECK(got.out == want.out);
            CHECK(got.mean == want.mean);
            CHECK(got.rstd == want.rstd);
          }
        }
}

// By instructions of the processor, where it has them.
TEST_CASE("halves become floats, and floats halves, as arith has it") {
  const auto by = cpu::conversions_for<float16>(forced_target);
  std::vector<float16> halves(65536 + 3);  // and a few that fill no vector
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size());
  by.widen(halves.data(), halves.size(), floats.data(), cpu::far_ahead);
  bool same = true;
  for (std::size_t i = 0; i < halves.size(); ++i)
    same = same && arith::bit_cast<std::uint32_t>(floats[i]) ==
                       arith::bit_cast<std::uint32_t>(arith::widen<float>(halves[i]));
  CHECK(same);
  // Floats of every sign and exponent, about each number of bits that halves have, and ties.
  floats.clear();
  for (std::uint32_t high = 0; high < 1 << 20; high += sanitized ? 17 : 1)
    for (const std::uint32_t low : {0x000u, 0x001u, 0x800u, 0xfffu})
      floats.push_back(arith::bit_cast<float>(high << 12 | low));
  halves.resize(floats.size());
  by.round(floats.data(), floats.size(), halves.data(), cpu::far_ahead);
  for (std::size_t i = 0; i < halves.size(); ++i)
    same = same && halves[i].bits == arith::round_to<float16>(floats[i]).bits;
  CHECK(same);
}

TEST_CASE("rows that lie across have the bits of others, whatever the threads") {
  for (const row_function f : test::all_functions_across)
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
      for (const test::kind k : test::all_kinds)
        for (const std::size_t inner : {1, 6, 1500}) {
          const row_case rows = test::done_by_the_book(test::make_row_case(
              f, type, k, 2 * inner, inner < 100 ? 300 : 33, static_cast<std::uint64_t>(k)));
          const test::across_case c = test::laid_across(rows, inner);
          for (const int threads : {1, 3}) {
            INFO(rows.describe() << " " << name(k) << " " << inner << " " << threads);
            std::vector<std::byte> out = c.x;  // in place
            cpu::apply(f,
                       rows_across{type, c.outer, c.n, inner, out.data(), c.y.data(),
                                   c.first.data(), c.second.data()},
                       out.data(), {.threads = threads, .target = forced_target});
            CHECK(out == c.out);
          }
        }
}

TEST_CASE("rows that lie across: what is refused") {
  const float some[4] = {};
  float out[4];
  const auto says = [&](const char* argument, row_function f, const rows_across& of, void* to) {
    CHECK_THROWS_WITH(cpu::apply(f, of, to), Catch::Matchers::StartsWith(argument));
  };
  const row_function softmax = row_function::softmax;
  says("type: ", softmax, {dtype::i32, 1, 2, 2, some, nullptr, some, some}, out);
  says("f: ", row_function::layer_norm, {dtype::f32, 1, 2, 2, some, nullptr, some, some}, out);
  says("x: ", softmax, {dtype::f32, std::size_t{1} << 59, 4, 2, some, nullptr, some, some}, out);
  says("x: ", softmax, {dtype::f32, 1, 2, 2, nullptr, nullptr, some, some}, out);
  says("y: ", row_function::softmax_backward, {dtype::f32, 1, 2, 2, some, nullptr, some}, out);
  says("first: ", softmax, {dtype::f32, 1, 2, 2, some, nullptr, nullptr, some}, out);
  says("second: ", softmax, {dtype::f32, 1, 2, 2, some, nullptr, some}, out);
  says("out: ", softmax, {dtype::f32, 1, 2, 2, some, nullptr, some, some}, nullptr);
  cpu::apply(softmax, rows_across{dtype::f32, 0, 2, 2, nullptr}, nullptr);  // nothing to do
}

TEST_CASE("rows: many long rows on several threads, and in place") {
  for (const row_function f : test::all_row_functions)
    for (const dtype type : {dtype::f16, dtype::f32})
      for (const std::size_t n : {20, 4096}) {
        const row_case c = test::make_row_case(f, type, test::kind::near_one, 300, n, 1);
        const row_case want = done(c, 1);
        CHECK(done(c, 0).out == want.out);
        row_case same = c;
        const rows of = same.on(same.x.data(), same.y.data(), same.w.data(), same.b.data(),
                                same.mean.data(), same.rstd.data());
        cpu::apply(f, of, same.x.data());
        CHECK(same.x == want.out);
      }
}

TEST_CASE("rows: on a caller's own threads") {
  static std::atomic<unsigned> asked;
  const cpu::team team = [](void (*body)(void*), void* argument, unsigned threads, unsigned) {
    asked = threads;
    std::vector<std::jthread> others;
    for (unsigned k = 1; k < threads; ++k) others.emplace_back(body, argument);
    body(argument);
  };
  for (const row_function f : test::all_row_functions) {
    const row_case c = test::make_row_case(f, dtype::f32, test::kind::near_one, 300, 512, 1),
                   want = done(c, 1);
    const cpu::on_team with(team);
    asked = 0;
    CHECK(done(c, 3).out == want.out);
    CHECK(asked == 3);
    asked = 0;
    CHECK(done(c, 1).out == want.out);
    const cpu::on_team without(nullptr);
    CHECK(done(c, 3).out == want.out);
    CHECK(asked == 0);
  }
  const std::vector<float> x(1 << 20, 1.0f);
  const cpu::on_team with(team);
  const auto sum = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  CHECK(cpu::reduce(sum, x.data(), x.size(), {.threads = 4, .target = forced_target}) ==
        cpu::reduce(sum, x.data(), x.size(), {.threads = 1, .target = forced_target}));
}

TEST_CASE("rows: what softmax makes of infinities and of far elements") {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const auto softmax = [](std::vector<float> x, row_function f = row_function::softmax) {
    cpu::apply(f, {dtype::f32, 1, x.size(), x.data()}, x.data(),
               {.threads = 0, .target = forced_target});
    return x;
  };
  CHECK(softmax({-inf, 0, -inf}) == std::vector<float>{0, 1, 0});
  CHECK(softmax({-inf, 0, 0}, row_function::log_softmax)[0] == -inf);
  for (const auto& x : {std::vector{-inf, -inf}, std::vector{inf, 0.0f}, std::vector{0.0f, nan}})
    for (const row_function f : {row_function::softmax, row_function::log_softmax})
      for (const float v : softmax(x, f)) CHECK(std::bit_cast<std::uint32_t>(v) == 0x7fc00000u);
  CHECK(softmax({0, -1000})[1] == 0);
  CHECK(softmax({0, -100})[1] == 3.783506e-44f);  // exp(-100), rounded to a subnormal number
}

TEST_CASE("rows: exp of each element, whatever the rows") {
  const float inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x{0, -0.0f, -inf, inf, nan, -1000, 1000, -100}, y(x.size());
  cpu::apply(row_function::exp, {dtype::f32, 4, 2, x.data()}, y.data(),
             {.threads = 0, .target = forced_target});
  CHECK(std::bit_cast<std::uint32_t>(y[4]) == 0x7fc00000u);
  y[4] = x[4] = 0;
  CHECK(y == std::vector<float>{1, 1, 0, inf, 0, 0, inf, 3.783506e-44f});
  const row_case c =
      test::make_row_case(row_function::exp, dtype::f16, test::kind::special, 1, 20'001, 1);
  row_case cut = c;
  cut.count = 20'001, cut.n = 1;
  CHECK(done(cut, 3).out == done(c, 1).out);
  const std::size_t n = (std::size_t{1} << 24) + 5;  // more than a row of the others may have
  std::vector<float> much(n);
  for (std::size_t i = 0; i < n; ++i) much[i] = static_cast<float>(i % 1000) * -0.1f;
  std::vector<float> few(much.begin(), much.begin() + 1000);
  cpu::apply(row_function::exp, {dtype::f32, 1, n, much.data()}, much.data(),
             {.threads = 0, .target = forced_target});
  cpu::apply(row_function::exp, {dtype::f32, 1, few.size(), few.data()}, few.data(),
             {.threads = 1, .target = forced_target});
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) wrong += much[i] != few[i % 1000];
  CHECK(wrong == 0);
}

TEST_CASE("rows: gradients of parameters, and sums of rows") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const test::kind k : test::all_kinds) {
      for (const row_function f :
           {row_function::layer_norm_backward, row_function::rms_norm_backward})
        for (const auto& [count, n] :
             {std::pair<std::size_t, std::size_t>{0, 3}, {1, 21}, {7, 21}, {300, 21}, {530, 300}}) {
          row_case c = test::make_row_case(f, type, k, count, n, count);
          std::vector<std::byte> dw(n * size_of(type)), db(dw);
          const rows of =
              c.on(c.x.data(), c.y.data(), c.w.data(), c.b.data(), c.mean.data(), c.rstd.data());
          std::fesetround(FE_UPWARD);  // the caller's way of rounding is nobody's here
          cpu::parameter_gradients(f, of, dw.data(), c.is_centred() ? db.data() : nullptr,
                                   {.threads = 0, .target = forced_target});
          std::fesetround(FE_TONEAREST);
          test::with_float(type, [&]<class T, class A>(T, A) {
            const auto want = test::parameters_by_the_book<T, A>(c);
            INFO(c.describe());
            CHECK(dw == want[0]);
            if (c.is_centred()) CHECK(db == want[1]);
          });
        }
    }
}

TEST_CASE("rows: errors name the argument") {
  float x[4] = {1, 2, 3, 4}, out[4] = {}, one[2] = {};
  const rows good{dtype::f32, 2, 2, x, x, nullptr, nullptr, one, one, 0};
  const auto refused = [&](auto call, const std::string& what) {
    try {
      call();
      FAIL("no error: " << what);
    } catch (const error& e) {
      CHECK(e.code() == errc::usage);
      CHECK(std::string(e.what()).starts_with(what + ":"));
    }
    for (const float v : out) CHECK(v == 0);
  };
  const auto says = [&](row_function f, rows of, void* to, const std::string& what) {
    refused([&] { cpu::apply(f, of, to); }, what);
  };
  rows of = good;
  of.type = dtype::i32, says(row_function::softmax, of, out, "type");
  of = good, of.n = (std::size_t{1} << 24) + 1, says(row_function::softmax, of, out, "n");
  of = good, of.x = nullptr, says(row_function::softmax, of, out, "x");
  of = good, of.y = nullptr, says(row_function::softmax_backward, of, out, "y");
  of = good, of.rstd = nullptr, says(row_function::rms_norm, of, out, "rstd");
  of = good, of.mean = nullptr, says(row_function::layer_norm_backward, of, out, "mean");
  says(row_function::softmax, good, nullptr, "out");
  refused([&] { cpu::parameter_gradients(row_function::softmax, good, out, nullptr); }, "f");
  refused([&] { cpu::parameter_gradients(row_function::rms_norm_backward, good, out, out); }, "db");
  refused(
      [&] { cpu::parameter_gradients(row_function::rms_norm_backward, good, nullptr, nullptr); },
      "dw");
  void* const odd = reinterpret_cast<std::byte*>(x) + 2;
  of = good, of.x = odd, says(row_function::softmax, of, out, "x");
  of = good, of.y = odd, says(row_function::softmax_backward, of, out, "y");
  of = good, of.w = odd, says(row_function::rms_norm, of, out, "w");
  of = good, of.b = odd, says(row_function::layer_norm, of, out, "b");
  of = good, of.mean = odd, says(row_function::layer_norm, of, out, "mean");
  of = good, of.rstd = odd, says(row_function::rms_norm, of, out, "rstd");
  says(row_function::exp, good, odd, "out");
  constexpr auto norm = row_function::layer_norm_backward;
  refused([&] { cpu::parameter_gradients(norm, good, odd, nullptr); }, "out");
  refused([&] { cpu::parameter_gradients(norm, good, out, odd); }, "db");
  cpu::apply(row_function::softmax, {dtype::f32, 0, 5, nullptr}, nullptr);  // nothing to do
  cpu::apply(row_function::softmax, {dtype::f32, 5, 0, nullptr}, nullptr);
}
