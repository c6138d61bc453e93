// Bounds beside results: what does not move them, and what they say where there is nothing to say.
// That they hold is tested against MPFR, in tests/truth/op_bounds_test.cpp.
#include <bitfold/bound.hpp>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "control_word.hpp"
#include "data.hpp"
#include "main.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

const double inf = std::numeric_limits<double>::infinity();

std::vector<reduction> bounded_reductions(dtype t, int inputs) {
  std::vector<reduction> list;
  for (const reduction& r : test::reductions_of_all_ops(t))
    if (has_error_bound(r.op(), r.method()) && info(r.op()).inputs == inputs) list.push_back(r);
  return list;
}

bool same(const std::vector<bounded>& a, const std::vector<bounded>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const bounded& p, const bounded& q) {
    return p.value == q.value && p.bound == q.bound;
  });
}

template <class T>
bounded of(op_id op, const std::vector<T>& x, std::optional<method_id> m = {},
           std::optional<dtype> out = {}) {
  const void* y = info(op).inputs == 2 ? x.data() : nullptr;
  return cpu::reduce_with_bound(make_reduction(op, m, dtype_of<T>, {}, out), x.data(), y, x.size());
}

}  // namespace

TEST_CASE("bounds: alone or with others, no target, thread, place or environment moves them") {
  const std::size_t n = test::small_sizes() ? 280'000 : 700'000;
  for (dtype t : test::types({dtype::bf16, dtype::f64, dtype::i16}, {dtype::f32, dtype::u64}))
    for (int inputs : {1, 2}) {
      const auto x = test::make_data(t, test::kind::near_one, n, 1);
      auto other = test::make_data(t, test::kind::near_one, n, 2);
      other.insert(other.begin(), std::byte{});  // at an odd address
      const std::byte* y = inputs == 2 ? other.data() + 1 : nullptr;
      const auto all = bounded_reductions(t, inputs);
      const auto want = cpu::reduce_with_bounds(all, x.data(), y, n,
                                                {.threads = 1, .target = cpu::target::scalar});
      for (int threads : {1, 3, 0}) {
        CAPTURE(name(t), inputs, threads);
        CHECK(same(cpu::reduce_with_bounds(all, x.data(), y, n,
                                           {.threads = threads, .target = forced_target}),
                   want));
      }
      std::fesetround(FE_DOWNWARD);
      test::flush();
      const auto elsewhere = cpu::reduce_with_bounds(all, x.data(), y, n);
      test::set_control_word(test::default_control);
      std::fesetround(FE_TONEAREST);
      CHECK(same(elsewhere, want));
      std::vector<scalar> values(all.size());
      cpu::reduce(all, x.data(), y, n, values);
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].method() == method_id::sequential) continue;
        const bounded alone = cpu::reduce_with_bound(all[k], x.data(), y, n);
        INFO(test::describe(all[k], n));
        CHECK(want[k].value == values[k]);
        CHECK(alone.value == want[k].value);
        CHECK(alone.bound == want[k].bound);
        CHECK(want[k].bound < inf);
      }
    }
}

TEST_CASE("bounds: where the result is exact, or is not finite") {
  using enum op_id;
  using floats = std::vector<float>;
  const float largest = std::numeric_limits<float>::max();
  for (op_id op : all_ops) {
    if (!has_error_bound(op)) continue;
    CAPTURE(name(op));
    const bool exact = !info(op).takes_method && op != norm_inf;
    for (float special :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const bool left_out = (op == nansum || op == nanmean) && special != special;
      CHECK((of(op, floats{1, special, 2}).bound < inf) == (exact || left_out));
    }
    // Integers that add as integers, and elements that are kept.
    if (info(op).types != typing::real && info(op).types != typing::wide)
      CHECK(of(op, std::vector<std::int32_t>{1 << 30, 3, -7, 1 << 30, 1 << 30}).bound == 0);
    if (info(op).empty != if_empty::refused)
      CHECK(of(op, floats{}).bound == (info(op).empty == if_empty::nan ? inf : 0));
  }
  for (op_id op : {sum, mean, nansum, nanmean, dot, cosine, norm_inf}) {
    CAPTURE(name(op));
    if (op != cosine) CHECK(of(op, floats(300, 0)).bound == 0);
    CHECK(of(op, floats(300, 1)).bound < 1e-4 * (op == dot || op == sum || op == nansum ? 300 : 1));
  }
  CHECK(of(cosine, floats(300, 0)).bound == inf);
  CHECK(of(sum, floats{largest}).bound == 0);
  CHECK(of(sum, floats{largest, largest}).bound == inf);
  // There a compensation may be lost.
  CHECK(of(sum, floats{largest, -1}, method_id::kahan).bound == inf);
  // Squares that f32 does not hold, and those that f64, in which the bound is computed, does not.
  const float large = 1e30f, small = 1e-5f;
  const bounded kept =
      cpu::reduce_with_bound(make_reduction(cosine, {}, dtype::f32), &large, &small, 1);
  CHECK(to_string(kept.value) == "1");
  CHECK(kept.bound < 1e-6);
  const double larger = 1e200;
  const bounded lost =
      cpu::reduce_with_bound(make_reduction(cosine, {}, dtype::f64), &larger, &larger, 1);
  CHECK(to_string(lost.value) == "1");
  CHECK(lost.bound == inf);
  // A rounding to the output type alone.
  const bounded third = of(sum, floats{1 / 3.0f}, {}, dtype::f16);
  CHECK(third.bound > 0x1p-14);
  CHECK(third.bound < 0x1p-12);
  CHECK(of(sum, std::vector<std::int64_t>{(1 << 24) + 1}, {}, dtype::f32).bound >= 1);
  CHECK(of(norm_inf, std::vector<std::int64_t>{(1ll << 53) + 1}).bound >= 1);
}

TEST_CASE("bounds: by method exact, of the rounding alone") {
  for (op_id op : all_ops) {
    if (!info(op).has_exact) continue;
    CAPTURE(name(op));
    for (float special :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const bool left_out = (op == op_id::nansum || op == op_id::nanmean) && special != special;
      CHECK((of(op, std::vector<float>{1, special, 2}, method_id::exact).bound < inf) == left_out);
    }
    const bounded one =
        of(op, std::vector<float>{1.5f, 1e30f, 0x1p-149f, -1e30f}, method_id::exact);
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(one.value.bits));
    CHECK(one.bound >= 0x1p-149 / 2);
    CHECK(one.bound <= std::max(std::fabs(static_cast<double>(value)) * 0x1.1p-24, 0x1.1p-150));
    CHECK(of(op, std::vector<float>{}, method_id::exact).bound ==
          (info(op).empty == if_empty::nan ? inf : 0));
  }
  CHECK(of(op_id::sum, std::vector<std::int64_t>{INT64_MAX, 1}, method_id::exact).bound == 0);
  CHECK(
      of(op_id::sum, std::vector<std::int64_t>{INT64_MAX, 2}, method_id::exact, dtype::f64).bound >=
      1);
}

TEST_CASE("bounds: an operation that has none is refused by name") {
  const float x[2] = {1, 2};
  for (op_id op : all_ops) {
    if (has_error_bound(op)) continue;
    const reduction all[] = {make_reduction(op_id::sum, {}, dtype::f32),
                             make_reduction(op, {}, dtype::f32)};
    const std::string message = "bound: " + std::string(name(op)) + " has none";
    CHECK_THROWS_WITH(cpu::reduce_with_bounds(all, x, nullptr, 2), message);
    CHECK_THROWS_WITH(cuda::reduce_host_with_bounds(all, x, nullptr, 2), message);
  }
  CHECK(cpu::reduce_with_bounds({}, x, nullptr, 2).empty());
}
