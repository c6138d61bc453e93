// The order that the engines really add in, found by probing them, against the order that
// print_order says. And orders that differ, to see that the probe tells.
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include <cstring>
#include <vector>

#include "catch.hpp"
#include "probe_cases.hpp"

using namespace bitfold;
using namespace bitfold::probe;

namespace {

const auto by_reference = [](const reduction& r, const void* data, std::size_t n) {
  return reference(r, data, n);
};

auto by_cpu(cpu::options opts) {
  return [opts](const reduction& r, const void* data, std::size_t n) {
    return cpu::reduce(r, data, n, opts);
  };
}

auto in_a_batch_of_three(bool columns, cpu::options opts) {
  return in_a_batch(3, columns, [=](const reduction& r, const view& x, int axis, std::byte* out) {
    cpu::reduce(r, x, std::array{axis}, out, opts);
  });
}

}  // namespace

// ---- The probe itself ---------------------------------------------------------------------------

namespace {

// Sums of floats in orders that are not bitfold's.
double halving(std::span<const float> x) {
  std::vector<float> v(x.begin(), x.end());
  for (std::size_t half = v.size() / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) v[i] += v[i + half];
  return v[0];
}

double compensated_halving(std::span<const float> x) {
  std::vector<method::kahan::state<float>> v;
  for (float e : x) v.push_back(method::kahan::start(e));
  for (std::size_t half = v.size() / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) v[i] = method::kahan::merge(v[i], v[i + half]);
  return method::kahan::round<double>(v[0]);
}

double blocked(std::span<const float> x) {
  float total = 0;
  for (std::size_t b = 0; b < x.size(); b += 4) {
    float block = 0;
    for (std::size_t i = b; i < std::min(b + 4, x.size()); ++i) block += x[i];
    total += block;
  }
  return total;
}

double backwards(std::span<const float> x) {
  float total = 0;
  for (std::size_t i = x.size(); i > 0; --i) total += x[i - 1];
  return total;
}

// All at once, as a wide unit might: large terms cancel first, whatever their places.
double fused(std::span<const float> x) {
  std::vector<double> v(x.begin(), x.end());
  std::sort(v.begin(), v.end(), [](double a, double b) { return std::fabs(a) > std::fabs(b); });
  double total = 0;
  for (double e : v) total += e;
  return total;
}

}  // namespace

TEST_CASE("probe: finds orders that are known", "[probe]") {
  CHECK(tree_of_plain_sum<float>(halving, 8) == "(((0 4) (2 6)) ((1 5) (3 7)))");
  CHECK(tree_of_compensated_sum<float>(compensated_halving, 8) == "(((0 4) (2 6)) ((1 5) (3 7)))");
  CHECK(tree_of_plain_sum<float>(blocked, 10) == "(((((0 1) 2) 3) (((4 5) 6) 7)) (8 9))");
  CHECK(tree_of_plain_sum<float>(backwards, 4) == "(0 (1 (2 3)))");
  CHECK(tree_of_plain_sum<float>(halving, 8, {0, 1, 2, 6}) == "((0 (2 6)) 1)");
  CHECK(tree_of_compensated_sum<float>(compensated_halving, 8, {0, 1, 2, 6}) == "((0 (2 6)) 1)");
  CHECK_THROWS(tree_of_plain_sum<float>(fused, 3));
  CHECK_THROWS(tree_of_plain_sum<float>([](std::span<const float>) { return 0.5; }, 3));
  CHECK_THROWS(tree_of_compensated_sum<float>([](std::span<const float>) { return 0.5; }, 3));
}

TEST_CASE("probe: tells other orders from bitfold's", "[probe]") {
  const std::uint64_t n = 4 * order::leaf;
  const auto tree = [](auto f, std::uint64_t size) { return tree_of_plain_sum<float>(f, size); };
  for (method_id m : {method_id::tree, method_id::pairwise, method_id::sequential}) {
    CHECK(tree(halving, n) != expression(n, m));
    CHECK(tree(blocked, n) != expression(n, m));
    CHECK(tree(backwards, n) != expression(n, m));
  }
  CHECK(tree_of_compensated_sum<float>(compensated_halving, n) != expression(n, method_id::kahan));
  // The methods' orders differ where they should.
  CHECK(expression(n, method_id::tree) != expression(n, method_id::pairwise));
  CHECK(expression(n, method_id::tree) == expression(n, method_id::kahan));
}

TEST_CASE("probe: the order restricted to some elements", "[probe]") {
  for (method_id m : {method_id::tree, method_id::pairwise, method_id::kahan})
    for (std::uint64_t n : probe_sizes()) CHECK((expression(n, m, all_of(n)) == expression(n, m)));
  const std::uint64_t n = 2 * order::leaf, lane = order::lanes;
  // Lane 0 joins lane 1 before lane 2, and the leaves join last.
  CHECK(expression(n, method_id::tree, {1, 2, lane, n - 1}) ==
        "(((1 " + std::to_string(lane) + ") 2) " + std::to_string(n - 1) + ")");
}

// ---- The engines --------------------------------------------------------------------------------

TEST_CASE("probe: the reference adds in the printed order", "[probe]") {
  for (std::uint64_t n : probe_sizes()) check_all_types(by_reference, n);
}

TEST_CASE("probe: every CPU target adds in the printed order", "[probe]") {
  for (cpu::target t : cpu::available_targets())
    for (int threads : {1, 3}) {
      CAPTURE(cpu::name(t), threads);
      for (std::uint64_t n : probe_sizes()) check_all_types(by_cpu({threads, t}), n);
    }
}

TEST_CASE("probe: an output in a batch is added in the printed order", "[probe]") {
  for (const bool columns : {false, true})
    for (cpu::target t : cpu::available_targets()) {
      CAPTURE(cpu::name(t), columns);
      for (std::uint64_t n : {std::uint64_t{1}, std::uint64_t{33}, std::uint64_t{order::leaf + 1}})
        check_all_types(in_a_batch_of_three(columns, {1, t}), n);
      const std::uint64_t n = 40 * order::leaf + 17;  // several runs
      check_sample<float>(in_a_batch_of_three(columns, {3, t}), n, sample(n, 12, 2048));
      check_sample<double>(in_a_batch_of_three(columns, {1, t}), n, sample(n, 12, 2048));
    }
}

TEST_CASE("probe: threads keep the printed order", "[probe]") {
  // Long enough to be shared out among threads: a sample of elements, dense at the boundaries where
  // that can happen.
  const std::uint64_t n = (1u << 19) + 5 * order::leaf + 17;
  const int some = test::sanitized ? 8 : 64;
  const std::uint64_t step = test::sanitized ? 1u << 17 : 1u << 15;
  const indices kept = sample(n, some, step);
  for (cpu::target t : cpu::available_targets())
    for (int threads : {1, 2, 3}) {
      CAPTURE(cpu::name(t), threads);
      check_sample<float>(by_cpu({threads, t}), n, kept);
    }
  check_sample<double>(by_cpu({3, {}}), n, kept);
  check_sample<bfloat16>(by_cpu({3, {}}), 2 * n, sample(2 * n, some, 2 * step));
}
