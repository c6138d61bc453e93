// Every operation on the CPU: the reference's bits, alone and with others in one pass, and what the
// documents promise of special values.
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include <limits>

#include <tbb/task.h>
#include <tbb/task_group.h>

#include "catch.hpp"
#include "companies.hpp"
#include "main.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

scalar run(const reduction& r, const std::byte* x, const std::byte* y, std::size_t n,
           int threads = 1) {
  return cpu::reduce(r, x, info(r.op()).inputs == 2 ? y : nullptr, n,
                     {.threads = threads, .target = forced_target});
}

void compare(const reduction& r, const std::byte* x, const std::byte* y, std::size_t n,
             int threads = 1) {
  const scalar want = reference(r, x, info(r.op()).inputs == 2 ? y : nullptr, n);
  const scalar got = run(r, x, y, n, threads);
  if (got != want) {
    INFO(test::describe(r, n) << " threads=" << threads << ": got " << to_hex(got) << ", want "
                              << to_hex(want));
    CHECK(got == want);
  }
}

}  // namespace

TEST_CASE(
    "ops: every operation, type, method and accumulator gives the reference's bits, alone and in "
    "company",
    "[kernels]") {
  for (dtype t : all_dtypes)
    for (test::kind k : {test::kind::special, test::kind::near_one}) {
      const auto x = test::make_data(t, k, 18'000, 1), y = test::make_data(t, k, 18'000, 2);
      for (const auto& [first, n] : test::stretches()) {
        if (test::sanitized && n > 5 * order::leaf + 77) continue;
        for (const int inputs : {1, 2})
          for (const auto& all : test::companies(t, inputs, n == 0)) {
            const std::byte* const data[] = {x.data() + first * size_of(t),
                                             inputs == 2 ? y.data() + first * size_of(t) : nullptr};
            std::vector<scalar> together(all.size());
            cpu::reduce(all, data[0], data[1], n, together,
                        {.threads = 1, .target = forced_target});
            for (std::size_t i = 0; i < all.size(); ++i) {
              const scalar want = reference(all[i], data[0], data[1], n),
                           alone = run(all[i], data[0], data[1], n);
              if (alone == want && together[i] == want) continue;
              INFO(test::describe(all[i], n)
                   << " of " << all.size() << " " << test::name(k) << " first=" << first);
              CHECK(to_hex(alone) == to_hex(want));
              CHECK(to_hex(together[i]) == to_hex(want));
            }
          }
      }
    }
  SUCCEED();
}

TEST_CASE("ops: starts at any byte", "[kernels]") {
  test::random_bits next{3};
  for (dtype t : all_dtypes)
    for (int round = 0; round < 3; ++round) {
      const std::size_t n = next() % 1500 + 1, skip = next() % 63 + 1;
      const auto data = test::make_data(t, test::kind::near_one, 2 * n, next());
      std::vector<std::byte> moved(data.size() + 64);
      std::memcpy(moved.data() + skip, data.data(), data.size());
      for (const reduction& r : test::reductions_of_all_ops(t))
        compare(r, moved.data() + skip, moved.data() + skip + n * size_of(t), n);
    }
  SUCCEED();
}

TEST_CASE("ops: no thread count moves a bit, and several in one pass have the bits of each alone") {
  for (dtype t : test::types({dtype::f16, dtype::f64, dtype::i16}, {dtype::f32, dtype::u64})) {
    const std::size_t n = (std::size_t{5} << (test::small_sizes() ? 18 : 20)) / size_of(t) + 1234;
    const auto x = test::make_data(t, test::kind::near_one, n, 3),
               y = test::make_data(t, test::kind::near_one, n, 4);
    for (int inputs : {1, 2}) {
      std::vector<reduction> all;
      for (const reduction& r : test::reductions_of_all_ops(t))
        if (info(r.op()).inputs == inputs) all.push_back(r);
      std::vector<scalar> alone, together(all.size());
      for (const reduction& r : all) {
        alone.push_back(run(r, x.data(), y.data(), n));
        if (r.method() == method_id::pairwise || !r.method()) {
          INFO(test::describe(r, n));
          if (r.in() != dtype::f16)
            CHECK(alone.back() == reference(r, x.data(), inputs == 2 ? y.data() : nullptr, n));
        }
      }
      for (const int threads : test::thread_counts())
        for (std::size_t count : {n, std::size_t{700}}) {
          cpu::reduce(all, x.data(), inputs == 2 ? y.data() : nullptr, count, together,
                      {.threads = threads, .target = forced_target});
          for (std::size_t k = 0; k < all.size(); ++k) {
            INFO(test::describe(all[k], count) << " threads=" << threads);
            const scalar want = count == n ? alone[k] : run(all[k], x.data(), y.data(), count);
            if (together[k] != want) CHECK(to_hex(together[k]) == to_hex(want));
          }
        }
    }
  }
}

TEST_CASE("count_distinct: of all there are, and of many") {
  const auto count = [](dtype t, const void* x, std::size_t n, int threads) {
    const cpu::options opts{.threads = threads, .target = forced_target};
    return cpu::reduce(make_reduction(op_id::count_distinct, {}, t), x, n, opts).bits;
  };
  std::vector<std::uint16_t> halves(3 << 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i * 40503);
  // A shuffle of 0, 1, ..., each twice.
  const std::size_t n = test::small_sizes() ? 200'000 : 2'000'000;
  std::vector<std::uint64_t> words(n);
  for (std::size_t i = 0; i < n; ++i) words[i] = i * 0x9e3779b1 % n / 2;
  std::vector<std::uint32_t> floats(words.begin(), words.end());
  for (std::uint32_t& f : floats) f |= 0x3f000000u;
  for (int threads : {1, 2, 7, 0}) {
    CAPTURE(threads);
    // But for one NaN, and for -0.
    CHECK(count(dtype::f16, halves.data(), halves.size(), threads) == 65536 - (2 * 1023 - 1) - 1);
    CHECK(count(dtype::bf16, halves.data(), halves.size(), threads) == 65536 - (2 * 127 - 1) - 1);
    CHECK(count(dtype::i16, halves.data(), halves.size(), threads) == 65536);
    CHECK(count(dtype::u8, halves.data(), 2 * halves.size(), threads) == 256);
    CHECK(count(dtype::u64, words.data(), n, threads) == n / 2);
    CHECK(count(dtype::f32, floats.data(), n, threads) == n / 2);
    std::uint64_t inside = 0;
    tbb::task_group group;
    group.run_and_wait([&] {
      tbb::task::current_context()->cancel_group_execution();
      inside = count(dtype::u64, words.data(), n, threads);
    });
    CHECK(inside == n / 2);
  }
}

TEST_CASE("logsumexp: lanes of -inf, and elements far apart", "[kernels]") {
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    const std::size_t longest = 5 * order::leaf + 77;
    auto few = test::make_data(t, test::kind::near_one, longest, 5);
    const auto wide = test::make_data(t, test::kind::any_bits, longest, 6);
    const scalar minus_inf = reference(make_reduction(op_id::logsumexp, {}, t), nullptr, 0);
    for (std::size_t i = 0; i < longest; ++i)
      if (i % 37) store_scalar(minus_inf, few.data() + i * size_of(t));
    for (std::size_t n : test::boundary_lengths()) {
      if (n > longest) continue;
      const reduction r = make_reduction(op_id::logsumexp, {}, t);
      compare(r, few.data(), nullptr, n);
      compare(r, wide.data(), nullptr, n);
      const scalar s = run(r, few.data(), nullptr, n);
      if (n) CHECK(to_string(s).find_first_not_of("-.e0123456789") == std::string::npos);  // finite
    }
  }
}
