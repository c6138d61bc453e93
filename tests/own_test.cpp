// bitfold::reduce: operations of the caller's own, transforms, and several at once, on the CPU.
#include <bitfold/reduce.hpp>
#include <bitfold/reference.hpp>

#include <limits>

#include "catch.hpp"
#include "main.hpp"
#include "tests/own_data.hpp"

using namespace bitfold;
using test::by_hand;
using test::same_memory;

namespace {

cpu::options with(int threads) { return {.threads = threads, .target = test::forced_target}; }

template <class T>
scalar as_scalar(T v) {
  return load_scalar(dtype_of<T>, &v);
}

}  // namespace

TEST_CASE("own: operations of the caller's own follow the canonical order") {
  for (std::size_t n : test::boundary_lengths()) {
    if (n == 0) continue;
    const test::own_data d(n);
    const auto z = reduce(with(1), d.z, complex_sum{});
    CHECK(same_memory(
        z, complex_sum::finish(by_hand<complex_sum>(n, [&](auto i) { return d.z[i]; }))));
    const auto m = reduce(with(1), transform(keep_masked{}, d.x, d.y, d.mask), weighted_mean{});
    CHECK(same_memory(m, test::given(weighted_mean::finish(by_hand<weighted_mean>(n, [&](auto i) {
                        return keep_masked{}(d.x[i], d.y[i], d.mask[i]);
                      })))));
    const auto t = reduce(with(1), pairs(d.x, d.y), top_label{});
    CHECK(same_memory(
        t, by_hand<test::top_pair>(n, [&](auto i) { return std::pair(d.x[i], d.y[i]); })));
    std::vector<double> made(n);
    for (std::size_t i = 0; i < n; ++i) made[i] = log_likelihood{}(d.x[i], d.y[i]);
    const double l =
        reduce(with(1), transform(log_likelihood{}, d.x, d.y), ops::sum.by<method_id::kahan>());
    CHECK(as_scalar(l) ==
          reference(make_reduction(op_id::sum, method_id::kahan, dtype::f64), made.data(), n));
  }
}

TEST_CASE("own: no thread count and no company moves a bit") {
  const std::size_t n = 1'234'567;
  const test::own_data d(n);
  const auto z = reduce(with(1), d.z, complex_sum{});
  const auto t = reduce(with(1), pairs(d.x, d.y), top_label{});
  const auto s = reduce(with(1), d.x, ops::var);
  for (int threads : {1, 2, 3, 7, 64, 0}) {
    INFO("threads=" << threads);
    CHECK(same_memory(reduce(with(threads), d.z, complex_sum{}), z));
    const auto [top, dot, mse, again] =
        reduce(with(threads), pairs(d.x, d.y), top_label{}, ops::dot.by<method_id::kahan>(),
               ops::mse.as<double>(), top_label{});
    CHECK(same_memory(top, t));
    CHECK(same_memory(again, t));
    CHECK(as_scalar(dot) == reference(make_reduction(op_id::dot, method_id::kahan, dtype::f32),
                                      d.x.data(), d.y.data(), n));
    CHECK(as_scalar(mse) ==
          reference(make_reduction(op_id::mse, method_id::tree, dtype::f32, {}, dtype::f64),
                    d.x.data(), d.y.data(), n));
    const auto [v, most, where] = reduce(with(threads), d.x, ops::var, ops::max, ops::argmax);
    CHECK(same_memory(v, s));
    CHECK(most == d.x[static_cast<std::size_t>(where)]);
    // The same values by way of a transform.
    const auto same = [](float x) { return x; };
    const auto [v2, most2, where2] =
        reduce(with(threads), transform(same, d.x), ops::var, ops::max, ops::argmax);
    CHECK(same_memory(v, v2));
    CHECK(same_memory(most, most2));
    CHECK(where == where2);
    const auto [s3, top3, v3, d3] =
        reduce(with(threads), transform(same, d.x), ops::sum.by<method_id::exact>(), ops::max,
               ops::var.by<method_id::exact>().ddof(1), ops::count_distinct);
    CHECK(as_scalar(s3) ==
          reference(make_reduction(op_id::sum, method_id::exact, dtype::f32), d.x.data(), n));
    CHECK(as_scalar(v3) ==
          reference(make_reduction(op_id::var, method_id::exact, dtype::f32, {}, {}, 1), d.x.data(),
                    n));
    CHECK(top3 == most);
    CHECK(reduce(with(threads), transform(same, d.x), ops::sum.by<method_id::exact>()) == s3);
    CHECK(d3 == reduce(d.x, ops::count_distinct));
    // What is not in the canonical order, too.
    const auto [left_to_right, different] =
        reduce(with(threads), transform(same, d.x), ops::sum.by<method_id::sequential>(),
               ops::count_distinct);
    CHECK(as_scalar(left_to_right) ==
          reference(make_reduction(op_id::sum, method_id::sequential, dtype::f32), d.x.data(), n));
    CHECK(different == reduce(d.x, ops::count_distinct));
  }
}

TEST_CASE("own: what does not commute takes its elements in order") {
  for (std::size_t n : test::boundary_lengths()) {
    if (n == 0) continue;
    CAPTURE(n);
    const auto f = test::functions(n);
    CHECK(reduce(with(1), in_order(f), test::compose{}) == test::one_after_the_other(f));
  }
  const auto f = test::functions(1'234'567);
  const auto want = test::one_after_the_other(f);
  for (int threads : {1, 2, 3, 7, 0})
    CHECK(reduce(with(threads), in_order(f), test::compose{}) == want);
  // Without in_order, lanes are composed one by one: docs/own.md says so, and it stays the
  // canonical order.
  const auto few = test::functions(33);
  CHECK(reduce(std::span(few).first(32), test::compose{}) ==
        test::one_after_the_other({few.begin(), few.begin() + 32}));
  CHECK_FALSE(reduce(few, test::compose{}) == test::one_after_the_other(few));
  CHECK(reduce(few, test::compose{}) == by_hand<test::compose>(33, [&](auto i) { return few[i]; }));
}

TEST_CASE("own: an operation that asks for places has those of the array") {
  for (std::size_t n : test::boundary_lengths()) {
    if (n == 0) continue;
    CAPTURE(n);
    const test::own_data d(n);
    std::size_t last = n;
    while (last > 0 && d.x[last - 1] < 0) --last;
    const auto check = [&](auto&& input) {
      const auto got = reduce(with(1), input, test::last_positive{});
      CHECK(got.index + 1 == last);
      if (last > 0) CHECK(got.value == d.x[last - 1]);
    };
    check(indexed(d.x));
    check(in_order(indexed(d.x)));
    check(indexed(transform([](float x) { return x; }, d.x)));
  }
  const test::own_data d(2'000'000);
  const auto one = reduce(with(1), indexed(d.x), test::last_positive{});
  CHECK(reduce(with(3), indexed(d.x), test::last_positive{}) == one);
  const auto [twice, again] =
      reduce(with(2), indexed(d.x), test::last_positive{}, test::last_positive{});
  CHECK(twice == one);
  CHECK(again == one);
}

namespace {
// The number of elements by counts, which have to be right for every run that is merged.
struct counted {
  using state = std::uint64_t;
  static state start(float) { return 1; }
  static state add(state s, float) { return s + 1; }
  static state merge(state a, state b, fold::counts n) {
    return a == n.left && b == n.right ? a + b : 0;
  }
  static state finish(state s, std::uint64_t n) { return s == n ? s : 0; }
  static state empty() { return 7; }
};
}  // namespace

TEST_CASE("own: a merge is told how many elements each side has, and empty() answers for none") {
  for (std::size_t n : test::boundary_lengths()) {
    const std::vector<float> x(n);
    CHECK(reduce(with(1), x, counted{}) == (n ? n : 7));
  }
  const std::vector<float> x(3'000'001);
  CHECK(reduce(with(3), x, counted{}) == x.size());
  CHECK(std::get<1>(reduce(with(2), x, ops::sum, counted{})) == x.size());
}

TEST_CASE("own: a NaN that comes out is the canonical one") {
  const std::vector<float> x(10), none(10);
  const std::vector<std::uint8_t> mask(10);
  const double m = reduce(transform(keep_masked{}, x, none, mask), weighted_mean{});
  CHECK(same_memory(m, arith::canonical_nan<double>));
  // A masked NaN does not show.
  const std::vector<float> values{1, std::numeric_limits<float>::quiet_NaN(), 3}, ones(3, 1.0f);
  const std::vector<std::uint8_t> first_and_last{1, 0, 1};
  CHECK(reduce(transform(keep_masked{}, values, ones, first_and_last), weighted_mean{}) == 2);
}

TEST_CASE(
    "own: results have the types that make_reduction gives, for every operation and element type") {
  const auto check_type = []<class T>(std::type_identity<T>) {
#define BITFOLD_OP(name, inputs, ...)               \
  CHECK(dtype_of<default_output<op_id::name, T>> == \
        make_reduction(op_id::name, {}, dtype_of<T>).out());
    BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
  };
  for (dtype t : all_dtypes) visit(t, check_type);
  const std::vector<float16> h(10, float16{0x3c00});
  static_assert(std::is_same_v<decltype(reduce(h, ops::sum)), float16>);
  CHECK(reduce(h, ops::sum).bits == 0x4900);  // 10
  CHECK(reduce(transform([](float v) { return v + 1; }, h), ops::sum) == 20);
}

TEST_CASE("own: what cannot be done is refused by name") {
  const std::vector<float> none, x(3, 1.0f), y(4, 1.0f);
  const auto why = [](auto call) {
    try {
      call();
    } catch (const error& e) {
      CHECK(e.code() == errc::usage);
      return std::string(e.what());
    }
    return std::string("not refused");
  };
  CHECK(why([&] { (void)reduce(none, ops::max); }).find("n: ") == 0);
  CHECK(why([&] { (void)reduce(std::vector<complex>(), complex_sum{}); }).find("n: ") == 0);
  CHECK(why([&] { (void)pairs(x, y); }).find("inputs: ") == 0);
  CHECK(why([&] { (void)transform(log_likelihood{}, x, y); }).find("inputs: ") == 0);
  CHECK(why([&] { (void)reduce(x, ops::var.ddof(-1)); }).find("ddof: ") == 0);
}
