// CPU engine = reference, to the bit, with one target forced (see main.hpp).
#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/rows.hpp>
#include <bitfold/totals.hpp>

#include <tbb/parallel_for.h>
#include <tbb/task.h>
#include <tbb/task_group.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <climits>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "catch.hpp"
#include "control_word.hpp"
#include "cpu/task.hpp"
#include "data.hpp"
#include "main.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

void compare(const reduction& r, const std::byte* data, std::size_t n, int threads,
             const std::string& what) {
  const scalar want = reference(r, data, n);
  const scalar got = cpu::reduce(r, data, n, {.threads = threads, .target = forced_target});
  if (got != want) {
    INFO(test::describe(r, n) << " threads=" << threads << " " << what << ": got " << to_hex(got)
                              << ", want " << to_hex(want));
    REQUIRE(got == want);
  }
}

}  // namespace

TEST_CASE("the kernel that ran is the one that was asked for", "[kernels]") {
  const std::vector<float> x(10'000'000, 1.0f);
  const reduction r = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  for (int threads : {1, 3}) {
    cpu::reduce(r, x.data(), x.size(), {.threads = threads, .target = forced_target});
    CHECK(cpu::last_target() == forced_target);
  }
}

TEST_CASE("every type, method and boundary gives the reference's bits", "[kernels]") {
  for (dtype t : all_dtypes)
    for (test::kind k : test::all_kinds) {
      const auto data = test::make_data(t, k, 20'000, 1);
      for (std::size_t n : test::boundary_lengths())
        for (const reduction& r : test::all_reductions(t)) {
          // tests/exact_method_test.cpp has the other output types.
          if (r.method() == method_id::exact && r.out() != t && r.out() != dtype::f64) continue;
          compare(r, data.data() + n % 3 * size_of(t), n, 1, test::name(k));
        }
    }
  SUCCEED();
}

TEST_CASE("random lengths and unaligned starts, to the byte", "[kernels]") {
  test::random_bits next{7};
  for (dtype t : all_dtypes)
    for (int round = 0; round < 60; ++round) {
      const std::size_t n = next() % 9'000, offset = next() % 64;
      const auto data = test::make_data(t, test::kind::special, n, next());
      std::vector<std::byte> moved(data.size() + 64);
      if (n) std::memcpy(moved.data() + offset, data.data(), data.size());
      for (const auto& m : all_methods)
        compare(make_reduction(op_id::sum, m.id, t), moved.data() + offset, n, 1, "offset");
    }
  SUCCEED();
}

TEST_CASE("no thread count moves a bit") {
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64})
    for (test::kind k : {test::kind::near_one, test::kind::special}) {
      // Long enough for dozens of chunks at every thread count.
      const std::size_t longest =
          (std::size_t{test::small_sizes() ? 4u : 40u} << 20) / size_of(t) + 12'345;
      const auto data = test::make_data(t, k, longest, 2);
      const auto lengths = k == test::kind::near_one ? std::vector{longest, longest / 3}
                                                     : std::vector{longest - order::leaf - 1};
      for (std::size_t n : lengths)
        for (const auto& m : all_methods) {
          if (m.ordering == ordering::independent) continue;  // tests/exact_method_test.cpp has it
          const reduction r = make_reduction(op_id::sum, m.id, t);
          const scalar want = reference(r, data.data(), n);
          for (const int threads : test::thread_counts()) {
            INFO(test::describe(r, n) << " threads=" << threads << " " << test::name(k));
            const scalar got =
                cpu::reduce(r, data.data(), n, {.threads = threads, .target = forced_target});
            if (got != want) REQUIRE(to_hex(got) == to_hex(want));
          }
        }
    }
  SUCCEED();
}

#if defined(__linux__)
TEST_CASE("more than 2^33 elements") {
  // Kernels are given no more than 2^30 elements at once, so one target is enough: the fastest.
  if (test::sanitized || forced_target != cpu::available_targets().back()) return;
  // Pages that are never written all share one page of zeros, so this takes next to no memory.
  const std::size_t n = (std::size_t{1} << 33) + 3;
  void* memory =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  madvise(memory, n, MADV_HUGEPAGE);  // where there are such pages: a fiftieth of the faults
  auto* p = static_cast<std::uint8_t*>(memory);
  p[0] = 1, p[(std::size_t{1} << 32) + 7] = 2, p[n - 1] = 4;
  const reduction r = make_reduction(op_id::sum, method_id::tree, dtype::u8);
  CHECK(to_string(cpu::reduce(r, p, n, {.target = forced_target})) == "7");
  // What counts elements, or where they are, in one pass over all that 32 bits do not count.
  const std::size_t counted = (std::size_t{1} << 32) + 1000;
  p[(std::size_t{1} << 32) + 7] = 9;
  p[counted - 1] = 4;
  std::vector<reduction> all;
  for (const op_id op :
       {op_id::argmax, op_id::count_nonzero, op_id::mean, op_id::var, op_id::skewness})
    all.push_back(make_reduction(op, {}, dtype::u8));
  std::vector<scalar> got(all.size());
  cpu::reduce(all, p, nullptr, counted, got, {.target = forced_target});
  CHECK(to_string(got[0]) == std::to_string((std::size_t{1} << 32) + 7));
  CHECK(to_string(got[1]) == "3");
  const auto count = static_cast<double>(counted), m = 14 / count;
  CHECK(to_hex(got[2]) == to_hex(scalar{dtype::f64, arith::bit_cast<std::uint64_t>(m)}));
  const auto moment = [&](int power) {  // of the three numbers, the rest zeros
    double sum = (count - 3) * std::pow(-m, power);
    for (const double x : {1.0, 9.0, 4.0}) sum += std::pow(x - m, power);
    return sum / count;
  };
  const auto value = [](const scalar& s) { return arith::bit_cast<double>(s.bits); };
  CHECK(value(got[3]) == Approx(moment(2)).epsilon(1e-12));
  CHECK(value(got[4]) == Approx(moment(3) / std::pow(moment(2), 1.5)).epsilon(1e-12));
  munmap(memory, n);
}
#endif

TEST_CASE("any number of threads may be asked for") {
  const reduction r = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  const std::vector<float> x(1 << 20, 0.1f);
  CHECK(cpu::reduce(r, x.data(), x.size(), {.threads = INT_MAX, .target = forced_target}) ==
        reference(r, x.data(), x.size()));
}

TEST_CASE("calls from many threads at once") {
  const auto data = test::make_data(dtype::f32, test::kind::near_one, 3'000'000, 5);
  const reduction r = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  const scalar want = reference(r, data.data(), 3'000'000);
  std::vector<std::thread> pool;
  std::vector<int> wrong(8, 0);
  for (int i = 0; i < 8; ++i)
    pool.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k)
        wrong[i] += cpu::reduce(r, data.data(), 3'000'000,
                                {.threads = i % 3, .target = forced_target}) != want;
    });
  for (auto& t : pool) t.join();
  for (int w : wrong) CHECK(w == 0);
}

TEST_CASE("a caller's cancelled tasks cancel nothing here") {
  const std::vector<float> ones(1'000'000, 1.0f);
  const auto sum = [&](int threads) {
    return to_string(
        cpu::sum<float>(ones, method_id::tree, {.threads = threads, .target = forced_target}));
  };
  for (int threads : {0, 2, 3}) {
    std::string inside;
    tbb::task_group group;
    group.run_and_wait([&] {
      tbb::task::current_context()->cancel_group_execution();
      inside = sum(threads);
    });
    CHECK(inside == "1e+06");
  }
  // Where one iteration throws, those that return are right.
  std::atomic<int> wrong = 0, right = 0;
  for (int round = 0; round < 50; ++round) {
    const auto body = [&](int i) {
      if (i == 40) throw std::runtime_error("one of the caller's");
      ++(sum(i % 3) == "1e+06" ? right : wrong);
    };
    CHECK_THROWS_AS(tbb::parallel_for(0, 64, body), std::runtime_error);
  }
  CHECK(wrong == 0);
  CHECK(right > 0);
}

TEST_CASE("while it waits, it runs none of its caller's tasks") {
  const std::vector<float> ones(1'000'000, 1.0f);
  for (int threads : {0, 2, 3}) {
    thread_local int depth = 0;
    std::atomic<int> deepest = 0;
    tbb::parallel_for(0, 200, [&](int) {
      if (++depth > 1) deepest = depth;
      cpu::sum<float>(ones, method_id::tree, {.threads = threads, .target = forced_target});
      --depth;
    });
    CHECK(deepest == 0);
  }
}

#if defined(__linux__)
TEST_CASE("different thread counts at once leave the program's stderr alone") {
  const std::string path = "cpu_test_stderr." + std::to_string(getpid());
  std::fflush(stderr);
  const int saved = dup(2), file = open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
  dup2(file, 2);
  const std::vector<float> ones(2'000'000, 1.0f);
  std::vector<std::thread> pool;
  for (int i = 0; i < 4; ++i)
    pool.emplace_back([&, i] {
      for (int k = 0; k < 30; ++k)
        cpu::sum<float>(ones, method_id::tree, {.threads = 20 + 7 * i + k % 5});
    });
  for (auto& t : pool) t.join();
  std::fflush(stderr);
  dup2(saved, 2);
  close(saved);
  std::ifstream in(path);
  const std::string said((std::istreambuf_iterator<char>(in)), {});
  close(file);
  unlink(path.c_str());
  CHECK(said.empty());
}
#endif

TEST_CASE("the caller's floating-point environment does not show and is left as it was") {
  const std::size_t n = test::small_sizes() ? 600'000 : 3'000'000;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    // Subnormals among them, in input and result.
    auto data = test::make_data(t, test::kind::near_one, n, 9);
    const auto tiny = test::make_data(t, test::kind::any_bits, n, 9);
    for (std::size_t i = 0; i < n; i += 3)
      std::memcpy(data.data() + i * size_of(t), tiny.data() + i * size_of(t), size_of(t));
    std::vector<std::byte> subnormals(1000 * size_of(t));
    for (std::size_t i = 0; i < 1000; ++i) subnormals[i * size_of(t)] = std::byte{3};
    for (const auto& m : all_methods)
      for (dtype out : {t, dtype::f64, dtype::f16}) {
        const reduction r = make_reduction(op_id::sum, m.id, t, {}, out);
        const scalar want = reference(r, data.data(), n);
        const scalar want_small = reference(r, subnormals.data(), 1000);
        CHECK(((want_small.bits << 1) != 0 || out == dtype::f16));
        for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST})
          for (std::uint64_t flush : {std::uint64_t{0}, test::flushing})
            for (int threads : {1, 3}) {
              std::fesetround(mode);
              const std::uint64_t before = test::control_word() | flush;
              test::set_control_word(before);
              const cpu::options opts{.threads = threads, .target = forced_target};
              const scalar got = cpu::reduce(r, data.data(), n, opts);
              const scalar small = cpu::reduce(r, subnormals.data(), 1000, opts);
              const scalar slow = reference(r, subnormals.data(), 1000);
              const std::uint64_t after = test::control_word();
              const int mode_after = std::fegetround();
              test::set_control_word(test::default_control);
              std::fesetround(FE_TONEAREST);
              INFO(test::describe(r, n) << " mode=" << mode << " flush=" << flush);
              if (after != before) CHECK(after == before);
              if (mode_after != mode) CHECK(mode_after == mode);
              if (got != want) REQUIRE(to_hex(got) == to_hex(want));
              if (small != want_small) REQUIRE(to_hex(small) == to_hex(want_small));
              if (slow != want_small) REQUIRE(to_hex(slow) == to_hex(want_small));
            }
      }
  }
  SUCCEED();
}

TEST_CASE(
    "the caller's floating-point environment does not show in columns, whose parts are put "
    "together") {
  constexpr std::int64_t n = 1 << 16, outputs = 16;
  const auto data =
      test::make_data(dtype::f32, test::kind::near_one, static_cast<std::size_t>(n * outputs), 9);
  const reduction all[] = {make_reduction(op_id::sum, method_id::tree, dtype::f32),
                           make_reduction(op_id::var, {}, dtype::f32)};
  const auto columns = [&](int threads) {
    std::vector<float> sums(outputs), variances(outputs);
    void* const out[] = {sums.data(), variances.data()};
    cpu::reduce(all, row_major(dtype::f32, data.data(), {n, outputs}), nullptr, std::array{0}, out,
                {.threads = threads, .target = forced_target});
    sums.insert(sums.end(), variances.begin(), variances.end());
    return sums;
  };
  const auto want = columns(1);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO})
    for (const int threads : {1, 3}) {
      std::feclearexcept(FE_ALL_EXCEPT);
      std::fesetround(mode);
      const auto got = columns(threads);
      const int after = std::fegetround(), raised = std::fetestexcept(FE_ALL_EXCEPT);
      std::fesetround(FE_TONEAREST);
      CHECK(after == mode);
      CHECK(raised == 0);
      CHECK((got == want));
    }
}

TEST_CASE("no call leaves a flag of the floating-point environment") {
  const std::vector<double> doubles{3, 1e-310, 7.1, 1e300, 0.1};
  const std::vector<float> floats{3, 1e-40f, 7.1f, 1e30f, 0.1f};
  const std::size_t n = floats.size();
  const auto clean = [](const char* what, auto call) {
    std::feclearexcept(FE_ALL_EXCEPT);
    call();
    INFO(what);
    CHECK(std::fetestexcept(FE_ALL_EXCEPT) == 0);
  };
  for (const op_id op : all_ops)
    for (const auto method : methods_of(op))
      for (const dtype in : {dtype::f32, dtype::f64}) {
        CAPTURE(name(op), method ? name(*method) : "", name(in));
        const cpu::options opts{.target = forced_target};
        const reduction r = make_reduction(op, method, in);
        const void* const x =
            in == dtype::f32 ? static_cast<const void*>(floats.data()) : doubles.data();
        const void* const y = info(op).inputs == 2 ? x : nullptr;
        clean("flat", [&] { cpu::reduce(r, x, y, n, opts); });
        clean("reference", [&] { reference(r, x, y, n); });
        std::vector<double> results(n);
        void* const out[] = {results.data()};
        const view v = row_major(in, x, {static_cast<std::int64_t>(n)});
        const int axis[] = {0};
        clean("along an axis", [&] { cpu::reduce({&r, 1}, v, y ? &v : nullptr, axis, out, opts); });
        clean("along none", [&] {
          cpu::reduce({&r, 1}, v, y ? &v : nullptr, std::span<const int>(), out, opts);
        });
        const std::int64_t offsets[] = {0, 2, 5}, keys[] = {0, 1, 0, 1, 1};
        clean("segments", [&] { cpu::reduce_segments({&r, 1}, x, y, n, offsets, out, opts); });
        clean("by key", [&] { cpu::reduce_by_key({&r, 1}, x, y, keys, 2, out, opts); });
        if (has_error_bound(op, method.value_or(method_id::tree)))
          clean("with a bound", [&] { cpu::reduce_with_bound(r, x, y, n, opts); });
        if (method == method_id::exact) {
          totals t({r});
          clean("totals", [&] {
            t.add(x, y, n);
            t.result(0);
            if (has_error_bound(op, *method)) result_with_bound(t, 0);
          });
        }
      }
  std::vector<float> out(n);
  float mean, rstd;
  const rows of{.type = dtype::f32,
                .count = 1,
                .n = n,
                .x = floats.data(),
                .mean = &mean,
                .rstd = &rstd,
                .eps = 1e-5};
  for (const auto f : {row_function::softmax, row_function::log_softmax, row_function::exp,
                       row_function::layer_norm, row_function::rms_norm})
    clean("rows", [&] { cpu::apply(f, of, out.data()); });
}

TEST_CASE("no floating-point environment shows in a printed value") {
  // All 16-bit values, and many of 32 and 64 bits, subnormals among them.
  std::vector<scalar> values;
  for (dtype t : {dtype::f16, dtype::bf16})
    for (std::uint64_t bits = 0; bits < 65536; ++bits) values.push_back({t, bits});
  test::random_bits next{11};
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t bits = next();
    values.push_back({dtype::f32, bits >> 32 >> (i % 2 ? i % 24 : 0)});
    values.push_back({dtype::f64, bits >> (i % 2 ? i % 60 : 0)});
  }
  std::vector<std::string> want;
  for (scalar v : values) want.push_back(to_string(v));
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST})
    for (std::uint64_t flush : {std::uint64_t{0}, test::flushing}) {
      std::size_t different = 0;
      std::fesetround(mode);
      test::set_control_word(test::control_word() | flush);
      for (std::size_t i = 0; i < values.size(); ++i) different += to_string(values[i]) != want[i];
      test::set_control_word(test::default_control);
      std::fesetround(FE_TONEAREST);
      INFO("mode=" << mode << " flush=" << flush);
      CHECK(different == 0);
    }
}

TEST_CASE("special values, as docs/semantics.md has them", "[kernels]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::bit_cast<float>(0xffc12345u);
  const float big = std::numeric_limits<float>::max();
  const auto sum = [](std::vector<float> x, method_id m, dtype out = dtype::f32) {
    const auto s = cpu::reduce(make_reduction(op_id::sum, m, dtype::f32, {}, out), x.data(),
                               x.size(), {.target = forced_target});
    return to_string(s) + " " + to_hex(s);
  };
  for (const auto& m : all_methods) {
    INFO(m.name);
    CHECK(sum({}, m.id) == "0 00000000");
    CHECK(sum({-0.0f}, m.id) == "-0 80000000");
    CHECK(sum(std::vector<float>(1000, -0.0f), m.id) == "-0 80000000");
    CHECK(sum({-0.0f, 0.0f}, m.id) == "0 00000000");
    CHECK(sum({1.0f, -1.0f}, m.id) == "0 00000000");
    CHECK(sum({nan}, m.id) == "nan 7fc00000");
    CHECK(sum({1.0f, nan, inf}, m.id) == "nan 7fc00000");
    CHECK(sum({inf, 1.0f}, m.id) == "inf 7f800000");
    CHECK(sum({1.0f, -inf}, m.id) == "-inf ff800000");
    CHECK(sum({inf, -inf}, m.id) == "nan 7fc00000");
    CHECK(sum({big, big}, m.id) == "inf 7f800000");
    // An overflow in between is the order's.
    const bool exact = m.id == method_id::exact;
    CHECK(sum({big, big, -inf}, m.id) == (exact ? "-inf ff800000" : "nan 7fc00000"));
    CHECK(sum({big, big, -big}, m.id) == (exact ? "3.4028235e+38 7f7fffff" : "inf 7f800000"));
    CHECK(sum({65519.0f}, m.id, dtype::f16) == "65500 7bff");
    CHECK(sum({65520.0f}, m.id, dtype::f16) == "inf 7c00");
    CHECK(sum({nan}, m.id, dtype::f16) == "nan 7e00");
    CHECK(sum({nan}, m.id, dtype::bf16) == "nan 7fc0");
    CHECK(sum({nan}, m.id, dtype::f64) == "nan 7ff8000000000000");
    CHECK(sum({std::bit_cast<float>(1u), std::bit_cast<float>(2u)}, m.id).ends_with("00000003"));
  }
}

TEST_CASE("integers wrap modulo 2^64, whatever the method") {
  const std::vector<std::int64_t> x{INT64_MAX, 1, INT64_MAX, 3};
  const std::vector<std::uint8_t> y(1000, 255);
  for (const auto& m : all_methods) {
    CHECK(to_string(cpu::sum<std::int64_t>(x, m.id)) == "2");
    CHECK(to_string(cpu::sum<std::uint8_t>(y, m.id)) == "255000");
    const auto narrow = make_reduction(op_id::sum, m.id, dtype::u8, {}, dtype::u8);
    CHECK(to_string(cpu::reduce(narrow, y.data(), y.size())) == std::to_string(255000 % 256));
  }
}

TEST_CASE("bad arguments are refused by name") {
  const float x = 1;
  const auto r = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  const auto message = [](auto call) -> std::string {
    try {
      call();
    } catch (const error& e) {
      return e.code() == errc::usage ? e.what() : "wrong code";
    }
    return "not refused";
  };
  CHECK(message([&] { cpu::reduce(r, &x, 1, {.threads = -1}); }).find("threads") == 0);
  CHECK(message([&] { cpu::reduce(r, nullptr, 1); }).find("data") == 0);
  CHECK(message([&] {
          make_reduction(op_id::sum, method_id::tree, dtype::f64, dtype::f32);
        }).find("acc") == 0);
  CHECK(message([&] {
          make_reduction(op_id::sum, method_id::tree, dtype::f32, {}, dtype::i8);
        }).find("out") == 0);
  CHECK(message([&] { make_reduction(op_id::max, method_id::tree, dtype::f32); }) ==
        "method: max takes none");
  CHECK(message([&] { make_reduction(op_id::var, method_id::tree, dtype::f32); }) ==
        "method: var takes none but exact");
  CHECK(message([&] { make_reduction(op_id::max, method_id::exact, dtype::f32); }) ==
        "method: max has no exact form");
  CHECK(message([&] { make_reduction(op_id::sum, method_id::exact, dtype::f32, dtype::f64); }) ==
        "acc: method exact has no accumulator to choose");
  // Nobody but make_reduction makes one.
  STATIC_REQUIRE_FALSE(std::is_aggregate_v<reduction>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<reduction, op_id, method_id, dtype, dtype, dtype>);
  STATIC_REQUIRE_FALSE(std::is_default_constructible_v<reduction>);
}

// ---- Golden bits --------------------------------------------------------------------------------
// One line for each case: what was reduced and the bits of the result. They are the promise of
// order version 1: if a line changes, the version must too. `cpu_tests "[write]"` writes the file
// anew.

namespace {

std::string golden_text(bool by_reference) {
  std::ostringstream out;
  out << "order_version " << order::version << "\n";
  for (dtype t : all_dtypes)
    for (test::kind k : test::all_kinds) {
      if (!is_float(t) && k != test::kind::any_bits) continue;
      for (std::size_t n : {1, 31, 33, 255, 257, 1000, 4097, 100'003}) {
        const auto data = test::make_data(t, k, n, n);
        for (const auto& m : all_methods)
          for (dtype acc : {dtype::f32, dtype::f64}) {
            if (m.ordering == ordering::independent) continue;  // no order's bits
            if (is_float(t) ? acc < t : acc == dtype::f64 || m.id != method_id::tree) continue;
            const auto r = make_reduction(op_id::sum, m.id, t,
                                          is_float(t) ? std::optional(acc) : std::nullopt);
            const scalar s = by_reference
                                 ? reference(r, data.data(), n)
                                 : cpu::reduce(r, data.data(), n, {.target = forced_target});
            out << name(t) << " " << test::name(k) << " " << n << " " << m.name << " "
                << name(r.acc()) << " " << to_hex(s) << "\n";
          }
      }
    }
  return out.str();
}

// Every other operation, by every method that it takes.
std::string golden_operations_text(bool by_reference) {
  std::ostringstream out;
  out << "order_version " << order::version << "\n";
  for (dtype t : all_dtypes)
    for (test::kind k : {test::kind::near_one, test::kind::any_bits}) {
      if (!is_float(t) && k != test::kind::any_bits) continue;
      for (std::size_t n : {1000, 4097}) {
        const auto x = test::make_data(t, k, n, n), other = test::make_data(t, k, n, n + 1);
        for (const reduction& r : test::reductions_of_all_ops(t)) {
          if (r.op() == op_id::sum && r.method() != method_id::exact) continue;  // above
          const std::byte* y = info(r.op()).inputs == 2 ? other.data() : nullptr;
          const scalar s = by_reference ? reference(r, x.data(), y, n)
                                        : cpu::reduce(r, x.data(), y, n, {.target = forced_target});
          out << name(t) << " " << test::name(k) << " " << n << " " << name(r.op());
          if (r.method()) out << " " << name(*r.method());
          out << " " << name(r.acc()) << " " << to_hex(s) << "\n";
        }
      }
    }
  return out.str();
}

void check_golden(const char* path, const std::string& by_engine, const std::string& by_reference) {
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)), {});
  std::istringstream want(golden), ours(by_engine), plain(by_reference);
  std::string w, o, p;
  int lines = 0;
  while (std::getline(want, w)) {
    ++lines;
    REQUIRE(std::getline(ours, o));
    REQUIRE(std::getline(plain, p));
    if (o != w || p != w)
      FAIL("golden: "
           << w << "\nengine: " << o << "\nreference: " << p
           << "\nIf an operation is new, cpu_tests \"[write]\" writes its lines, and git diff "
              "shows that the others stay.");
  }
  CHECK(lines > 500);
  CHECK_FALSE(std::getline(ours, o));
}

}  // namespace

TEST_CASE("golden bits") { check_golden(BITFOLD_GOLDEN, golden_text(false), golden_text(true)); }
TEST_CASE("golden bits of every operation") {
  check_golden(BITFOLD_GOLDEN_OPERATIONS, golden_operations_text(false),
               golden_operations_text(true));
}

// A filter by name takes hidden tests, too: this one has no word of those that it writes for.
TEST_CASE("rewrite the file", "[.][write]") {
  std::ofstream(BITFOLD_GOLDEN) << golden_text(true);
  std::ofstream(BITFOLD_GOLDEN_OPERATIONS) << golden_operations_text(true);
}
