// Sorting by kernels on demand, and what needs it: reductions by key and count_distinct; on an
// emulated GPU or a real one, with the CPU's bits.
#include <algorithm>
#include <array>
#include <bitfold/cpu.hpp>
#include <chrono>
#include <bitfold/cuda/distinct.hpp>
#include <bitfold/cuda/sort.hpp>
#include <map>
#include <numeric>
#include <optional>

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"

#include "gpu/launcher.hpp"
#include "gpu/output_plan.hpp"
#include "gpu/sort.hpp"

using namespace bitfold;

namespace {

// ---- The sort -----------------------------------------------------------------------------------

enum class keys_like { random, few, equal, ascending, descending };

std::uint64_t key_like(keys_like what, std::size_t i, std::size_t n, test::random_bits& next) {
  switch (what) {
    case keys_like::random: return next();
    case keys_like::few: return (next() & 1) * 0x8123456789abcdefu;
    case keys_like::equal: return 0x1122334455667788u;
    case keys_like::ascending: return i * (~std::uint64_t{0} / (n + 1));
    case keys_like::descending: break;
  }
  return (n - i) * 0x0000000100000001u;
}

/// Keys and values one behind the other, as words of the sizes asked for.
struct words {
  std::size_t bytes;
  std::vector<std::uint64_t> all;
  std::vector<std::byte> packed(std::size_t more = 0) const {
    std::vector<std::byte> out(all.size() * bytes + more, std::byte{0xab});
    for (std::size_t i = 0; i < all.size(); ++i)
      std::memcpy(out.data() + i * bytes, &all[i], bytes);
    return out;
  }
};

void check_sort(const gpu::sorting& what, keys_like like) {
  INFO("keys of " << what.key_bytes << " bytes, values of " << what.value_bytes
                  << ", n = " << what.n << ", bits " << what.first_bit << " + " << what.bits
                  << ", kind " << static_cast<int>(like));
  test::random_bits next{what.n + 31};
  words keys{what.key_bytes, {}}, values{what.value_bytes, {}};
  for (std::size_t i = 0; i < what.n; ++i) {
    keys.all.push_back(key_like(like, i, what.n, next));
    if (what.key_bytes == 4) keys.all.back() &= 0xffffffffu;
    values.all.push_back(i);
  }
  const std::size_t room = gpu::rounded_up(8 * what.n + 16);
  gpu::plan plan;
  const auto buffer = [&](std::size_t k) { return gpu::in_workspace(k * room); };
  const gpu::sorted made = gpu::add_sort(
      plan, what, {{buffer(0), buffer(1)}, {buffer(2), buffer(3)}}, 4 * room, test::numbers());
  const std::size_t bytes = made.end;
  const test::device_memory workspace(std::vector<std::uint8_t>(bytes + 16, 0xab));
  auto* const begin = workspace.as<std::byte>();
  std::ranges::copy(keys.packed(), begin);
  std::ranges::copy(values.packed(), begin + 2 * room);
  gpu::run(plan, {nullptr, nullptr, nullptr, begin, nullptr}, nullptr);
  test::wait_for();

  const std::uint64_t mask =
      (what.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << what.bits) - 1) << what.first_bit;
  std::vector<std::size_t> order(what.n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return keys.all[i] & mask; });
  words sorted_keys{what.key_bytes, {}}, sorted_values{what.value_bytes, {}};
  for (const std::size_t i : order) {
    sorted_keys.all.push_back(keys.all[i]);
    sorted_values.all.push_back(values.all[i]);
  }
  const auto same = [&](const words& right, gpu::place at) {
    const auto wanted = right.packed(8);  // nothing is written behind them
    return std::memcmp(wanted.data(), begin + at.bytes, wanted.size()) == 0;
  };
  CHECK(same(sorted_keys, made.at.keys[0]));
  if (what.value_bytes > 0) CHECK(same(sorted_values, made.at.values[0]));
  CHECK(std::all_of(begin + bytes, begin + bytes + 16,
                    [](std::byte b) { return b == std::byte{0xab}; }));
}

std::size_t tile_of(std::size_t key_bytes, std::size_t value_bytes) {
  const auto& lines = test::numbers().sorts;
  return gpu::tile_of(*std::ranges::find_if(lines, [&](const gpu::sort_line& l) {
    return key_bytes <= l.key && value_bytes <= l.value;
  }));
}

}  // namespace

TEST_CASE("a sort is stable, of any keys and lengths", "[racecheck]") {
  using enum keys_like;
  for (const std::size_t n : {0, 1, 2, 33, 1000}) check_sort({4, 4, n, 0, 32}, random);
  check_sort({4, 1, 5000, 3, 17}, few);
  check_sort({8, 8, 2000, 0, 64}, random);
  check_sort({8, 0, 400, 30, 12}, descending);
  check_sort({4, 2, tile_of(4, 2), 0, 9}, random);
  check_sort({4, 4, tile_of(4, 4) + 1, 0, 9}, random);
  check_sort({4, 4, 3 * tile_of(4, 4) + 1, 0, 32}, random);
  check_sort({4, 0, 2 * tile_of(4, 0) + 77, 0, 17}, random);
  check_sort({8, 0, 2 * tile_of(8, 0) - 1, 5, 20}, descending);
  check_sort({8, 4, tile_of(8, 4) + 1, 40, 24}, ascending);
  check_sort({4, 8, 2 * tile_of(4, 8) + 500, 3, 11}, few);
  check_sort({4, 1, tile_of(4, 1) + 1000, 0, 8}, equal);
  check_sort({4, 2, tile_of(4, 2) + 1000, 24, 8}, random);
  check_sort({4, 4, 20000, 0, 16, 0}, random);  // with the counts of very many
}

TEST_CASE("a sort is stable, of any keys and lengths: all sizes", "[.all]") {
  using enum keys_like;
  for (const std::size_t key : {4, 8})
    for (const std::size_t value : {0, 1, 2, 4, 8})
      for (const keys_like like : {random, few, equal, ascending, descending})
        for (const std::size_t tile = tile_of(key, value);
             const std::size_t n : {tile / 70, tile, tile + 1, 3 * tile + 50}) {
          check_sort({key, value, n, 0, static_cast<int>(8 * key)}, like);
          check_sort({key, value, n, 7, 13}, like);
        }
}

// For a real GPU, where tiles wait for each other; an emulated one takes an hour.
TEST_CASE("a sort of many tiles is stable, again and again", "[.][many]") {
  using enum keys_like;
  for (int again = 0; again < 5; ++again)
    for (const keys_like like : {random, few, equal, ascending}) {
      check_sort({4, 4, (1 << 22) + 123, 0, 32}, like);
      check_sort({4, 0, (1 << 22) + 123, 0, 17}, like);
      check_sort({8, 4, (1 << 21) + 5, 0, 64}, like);
      check_sort({4, 8, (1 << 21) + 5, 0, 24, 0}, like);
    }
}

TEST_CASE("each pass of a sort leaves the next one's words of tiles at 0") {
  // Elsewhere nobody would see it: blocks that begin one after the other have always spoken.
  const std::size_t n = 2 * tile_of(4, 0) + 77;
  gpu::plan plan;
  const gpu::sorted made =
      gpu::add_sort(plan, {4, 0, n, 0, 16}, {{gpu::in_workspace(0), gpu::in_workspace(4 * n)}, {}},
                    8 * n, test::numbers());
  REQUIRE(plan.steps.size() == 4);
  std::optional<gpu::place> words;
  for (const auto& a : std::get<gpu::pass>(plan.steps[2]).with.addresses())
    if (a.at == offsetof(cuda::sort_step, next_status)) words = a.to;
  REQUIRE(words);
  plan.steps.pop_back();
  const test::device_memory workspace(std::vector<std::uint8_t>(made.end, 0xff));
  gpu::run(plan, {nullptr, nullptr, nullptr, workspace.p, nullptr}, nullptr);
  test::wait_for();
  const auto* const begin = workspace.as<std::uint8_t>() + words->bytes;
  CHECK(std::all_of(begin, begin + 3 * cuda::digits * 4, [](std::uint8_t b) { return b == 0; }));
}

// ---- Reductions ---------------------------------------------------------------------------------

namespace {

/// Room for results, with something behind it that nobody writes.
struct result_room {
  std::size_t outputs, each;
  test::device_memory memory;
  std::vector<void*> out;
  result_room(std::size_t reductions, std::size_t of)
      : outputs(of),
        each((8 * of + 8 + 15) / 16 * 16),
        memory(std::vector<std::uint8_t>(reductions * each, 0xab)) {
    for (std::size_t k = 0; k < reductions; ++k) out.push_back(memory.as<std::byte>() + k * each);
  }
  /// Those of reduction k, in hexadecimal.
  std::vector<std::string> of(std::size_t k, dtype t) const {
    const auto* const begin = static_cast<const std::uint8_t*>(out[k]);
    std::vector<std::string> got;
    for (std::size_t o = 0; o < outputs; ++o)
      got.push_back(to_hex(load_scalar(t, begin + o * size_of(t))));
    CHECK(std::all_of(begin + outputs * size_of(t), begin + each,
                      [](std::uint8_t b) { return b == 0xab; }));
    return got;
  }
};

void run(const gpu::plan& plan, gpu::addresses at, const result_room& results) {
  const test::device_memory workspace(std::vector<std::uint8_t>(plan.workspace + 16, 0xcd));
  at.workspace = workspace.p;
  at.results = results.out.data();
  gpu::run(plan, at, nullptr);
  test::wait_for();
  const auto* const end = workspace.as<std::uint8_t>() + plan.workspace;
  CHECK(std::all_of(end, end + 16, [](std::uint8_t b) { return b == 0xcd; }));
}

alignas(16) constexpr std::byte somewhere{};  // elements of plans that nobody runs

reduction distinct_of(dtype t) { return make_reduction(op_id::count_distinct, {}, t); }

/// Elements of which most are equal to others, and some are nan, inf, -0 or 0.
std::vector<std::byte> some_equal(dtype t, std::size_t n, std::uint64_t seed) {
  const std::size_t size = size_of(t);
  const std::size_t different = n / 20 + 300;
  std::vector<std::byte> from = test::make_data(t, test::kind::special, different, seed),
                         all(n * size);
  test::random_bits next{seed};
  for (std::size_t i = 0; i < n; ++i)
    std::memcpy(all.data() + i * size,
                from.data() + next() % different % (1 + next() % different) * size, size);
  return all;
}

// ---- By key ----

gpu::plan plan_by_key(std::span<const reduction> all, std::size_t n, std::size_t outputs) {
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  gpu::plan plan;
  const auto value = two ? std::nullopt : std::optional(t);
  const auto keys =
      gpu::add_keys(plan, gpu::keys_in_a_row(n, outputs), value, outputs, {}, 256, test::numbers());
  cuda::output_elements from = cuda::elements_of_lists(t, two, n, outputs);
  from.placed = two;
  gpu::problem asked{all, n, true, &from};
  asked.offsets = keys.offsets;
  (two ? asked.places : asked.x) = two ? keys.places : keys.x;
  asked.workspace = keys.end;
  std::vector<std::size_t> folds, counts;
  for (std::size_t k = 0; k < all.size(); ++k)
    (all[k].op() == op_id::count_distinct ? counts : folds).push_back(k);
  if (!folds.empty()) gpu::add_folds(plan, asked, folds, {}, test::numbers());
  if (!counts.empty()) gpu::add_distinct(plan, asked, counts, test::this_gpu());
  return plan;
}

void check_by_key(const std::vector<reduction>& all, std::size_t n, std::size_t outputs) {
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  INFO(test::describe(all[0], n) << ", " << outputs << " outputs");
  test::random_bits next{n + outputs};
  const std::vector<std::byte> first = some_equal(t, n, 7), second = some_equal(t, n, 8);
  std::vector<std::int64_t> keys, named;
  std::vector<std::byte> first_named, second_named;  // elements whose key names an output
  for (std::size_t i = 0; i < n; ++i) {
    // Not all outputs have elements.
    auto key = static_cast<std::int64_t>(next() % outputs * (next() % 5 > 0));
    if (i % 50 == 7) key = i % 100 == 7 ? -1 : static_cast<std::int64_t>(outputs + next() % 3);
    keys.push_back(key);
    if (key < 0 || key >= static_cast<std::int64_t>(outputs)) continue;
    named.push_back(key);
    const auto at = static_cast<std::ptrdiff_t>(i * size_of(t)),
               end = at + static_cast<std::ptrdiff_t>(size_of(t));
    first_named.insert(first_named.end(), first.begin() + at, first.begin() + end);
    second_named.insert(second_named.end(), second.begin() + at, second.begin() + end);
  }
  const test::device_memory x(first), y(second), list(keys);
  const result_room results(all.size(), outputs), right(all.size(), outputs);
  run(plan_by_key(all, n, outputs), {x.p, two ? y.p : nullptr, list.p}, results);
  cpu::reduce_by_key(all, first_named.data(), two ? second_named.data() : nullptr, named, outputs,
                     right.out);
  for (std::size_t k = 0; k < all.size(); ++k)
    CHECK(results.of(k, all[k].out()) == right.of(k, all[k].out()));
}

// ---- count_distinct ----

gpu::plan plan_distinct(std::span<const reduction> all, std::size_t n,
                        const cuda::output_elements* from,
                        std::size_t elements_of_set = std::size_t{1} << 25) {
  gpu::problem asked{all, n, false, from};
  asked.workspace = 512;
  std::vector<std::size_t> which(all.size());
  std::iota(which.begin(), which.end(), 0);
  gpu::plan plan;
  gpu::add_distinct(plan, asked, which, test::this_gpu(), elements_of_set);
  return plan;
}

void check_distinct(dtype t, std::size_t n, std::size_t from) {
  INFO(name(t) << ", n = " << n);
  const reduction all[] = {distinct_of(t), distinct_of(t)};
  const test::device_memory there(some_equal(t, n + from, n));
  const std::byte* const x = there.as<std::byte>() + from * size_of(t);
  const result_room results(2, 1);
  run(plan_distinct(all, n, nullptr), {x}, results);
  const std::string right = to_hex(cpu::reduce(all[0], x, n));
  CHECK(results.of(0, dtype::i64) == std::vector{right});
  CHECK(results.of(1, dtype::i64) == std::vector{right});
}

/// Of these elements, from each of a few places on.
template <class T>
void check_distinct_values(const std::vector<T>& all, std::size_t last_from = 1) {
  const reduction r = distinct_of(dtype_of<T>);
  const test::device_memory there(all);
  for (std::size_t from = 0; from <= std::min(last_from, all.size()); ++from) {
    const std::size_t n = all.size() - from;
    INFO(name(dtype_of<T>) << ", n = " << n << ", from " << from);
    const result_room results(1, 1);
    run(plan_distinct({&r, 1}, n, nullptr), {there.as<T>() + from}, results);
    CHECK(results.of(0, dtype::i64) == std::vector{to_hex(cpu::reduce(r, all.data() + from, n))});
  }
}

/// n different patterns, or all there are again and again; in no order.
template <class T>
std::vector<T> different(std::size_t n, std::uint64_t step = 0x9e3779b97f4a7c15u) {
  std::vector<T> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = i * step + 5;
    std::memcpy(&all[i], &bits, sizeof(T));
  }
  return all;
}

void check_distinct_of_axes(dtype t, const std::vector<std::int64_t>& extents,
                            const std::vector<std::int64_t>& strides, const std::vector<int>& axes,
                            std::size_t first) {
  INFO(name(t) << ", " << extents[0] << " x " << extents[1] << " ..., strides " << strides[0]);
  std::size_t n = 100 + first;
  for (std::size_t k = 0; k < extents.size(); ++k)
    n += static_cast<std::size_t>(std::max<std::int64_t>(extents[k] - 1, 0) * strides[k]);
  const test::device_memory there(some_equal(t, n, n));
  view v{t, there.as<std::byte>() + first * size_of(t), static_cast<int>(extents.size())};
  std::copy(extents.begin(), extents.end(), v.extent.begin());
  std::copy(strides.begin(), strides.end(), v.stride.begin());
  const detail::layout l = detail::layout_of(v, nullptr, axes);
  const cuda::output_elements from = cuda::elements_of(l);
  const reduction r = distinct_of(t);
  const result_room results(1, l.outputs), right(1, l.outputs);
  cpu::reduce({&r, 1}, v, nullptr, axes, right.out);
  run(plan_distinct({&r, 1}, l.n, &from), {l.x}, results);
  CHECK(results.of(0, dtype::i64) == right.of(0, dtype::i64));
  // Several sets, the last one smaller.
  run(plan_distinct({&r, 1}, l.n, &from, l.n * (l.outputs / 2)), {l.x}, results);
  CHECK(results.of(0, dtype::i64) == right.of(0, dtype::i64));
}

void check_distinct_of_segments(dtype t, const std::vector<std::int64_t>& lengths,
                                std::int64_t before, std::int64_t behind) {
  std::vector<std::int64_t> offsets{before};
  for (const std::int64_t n : lengths) offsets.push_back(offsets.back() + n);
  const auto n = static_cast<std::size_t>(offsets.back() + behind);
  INFO(name(t) << ", " << lengths.size() << " segments of " << n << " elements");
  const test::device_memory x(some_equal(t, n, 9)), list(offsets);
  const cuda::output_elements from = cuda::elements_of_lists(t, false, n, lengths.size());
  const reduction r = distinct_of(t);
  const result_room results(1, lengths.size()), right(1, lengths.size());
  run(plan_distinct({&r, 1}, n, &from), {x.p, nullptr, list.p}, results);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const scalar wanted =
        cpu::reduce(r, x.as<std::byte>() + static_cast<std::size_t>(offsets[s]) * size_of(t),
                    static_cast<std::size_t>(lengths[s]));
    store_scalar(wanted, static_cast<std::byte*>(right.out[0]) + 8 * s);
  }
  CHECK(results.of(0, dtype::i64) == right.of(0, dtype::i64));
}

std::vector<std::int64_t> some_lengths(int count) {
  test::random_bits next{5};
  std::vector<std::int64_t> lengths;
  for (int k = 0; k < count; ++k)
    lengths.push_back(next() % 4 == 0 ? 0 : static_cast<std::int64_t>(next() % 40));
  return lengths;
}

}  // namespace

TEST_CASE("by key, on demand, has the CPU's bits", "[racecheck]") {
  const reduction sum = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  check_by_key({sum, distinct_of(dtype::f32)}, 5000, 300);
  check_by_key({sum}, 9000, 3);
  check_by_key({make_reduction(op_id::max, {}, dtype::u8)}, 3000, 8);
  check_by_key({make_reduction(op_id::sum, method_id::tree, dtype::f64)}, 100, 70000);
  check_by_key({sum}, 0, 7);
  check_by_key({make_reduction(op_id::dot, method_id::tree, dtype::f16)}, 5000, 300);
}

TEST_CASE("by key, on demand, has the CPU's bits: all types", "[.all]") {
  for (const dtype t : all_dtypes)
    for (const std::size_t n : {100, 20000})
      for (const std::size_t outputs : {1, 255, 256, 2000}) {
        check_by_key({make_reduction(op_id::sum, method_id::tree, t), distinct_of(t)}, n, outputs);
        check_by_key({make_reduction(op_id::dot, method_id::tree, t)}, n, outputs);
      }
}

TEST_CASE("count_distinct on demand has the CPU's counts", "[racecheck]") {
  check_distinct(dtype::f32, 9001, 1);
  check_distinct(dtype::f16, 3000, 1);
  check_distinct(dtype::i64, 1, 0);
  check_distinct_of_axes(dtype::f32, {30, 50}, {60, 1}, {1}, 1);
  check_distinct_of_axes(dtype::f32, {70, 40}, {40, 1}, {0}, 0);
  check_distinct_of_axes(dtype::f64, {3, 1000}, {1000, 1}, {1}, 0);
  check_distinct_of_axes(dtype::u8, {3, 4, 5}, {20, 5, 1}, {0, 2}, 0);
  check_distinct_of_axes(dtype::i32, {3, 0}, {1, 1}, {1}, 0);
  check_distinct_of_segments(dtype::f32, {5, 0, 0, 33, 900, 3000, 1, 0}, 3, 40);
  check_distinct_of_segments(dtype::f64, {5, 0, 33, 2000, 1}, 0, 1);
  check_distinct_of_segments(dtype::f64, {2500, 3, 0, 2000, 1}, 0, 1);
  check_distinct_of_segments(dtype::f16, some_lengths(100), 2, 0);
  check_distinct_of_segments(dtype::f16, {0, 0}, 0, 0);
}

TEST_CASE("count_distinct of few elements, and of small ones, sorts nothing") {
  const auto steps = [](dtype t, std::size_t n) {
    const reduction r = distinct_of(t);
    return plan_distinct({&r, 1}, n, nullptr).steps.size();
  };
  for (const dtype t : all_dtypes) {
    const std::size_t few = (std::size_t{32} << 10) / size_of(t);
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, few}) CHECK(steps(t, n) == 1);
    CHECK(cuda::slots_of_table(few, size_of(t)) > few + few / 3);
    CHECK((steps(t, few + 1) == 1) == (size_of(t) <= 2));
    CHECK((steps(t, std::size_t{1} << 40) == 2) == (size_of(t) <= 2));
  }
}

TEST_CASE("count_distinct of few elements has the CPU's counts", "[racecheck]") {
  for (const std::size_t n : {1, 2, 3, 32, 1023, 1025, 4097, 8191, 8192, 8193}) {
    check_distinct(dtype::f32, n, 1);
    check_distinct(dtype::u64, n, 0);
  }
  check_distinct(dtype::f64, 4096, 1);
  check_distinct(dtype::f64, 4097, 1);
  // All different, in the order of their numbers, far from each other, or all in upper bits.
  check_distinct_values(different<std::int32_t>(8192));
  check_distinct_values(different<std::int32_t>(8192, 1));
  check_distinct_values(different<std::uint32_t>(8192, std::uint64_t{1} << 19));
  check_distinct_values(different<std::uint64_t>(4096));
  check_distinct_values(different<std::uint64_t>(4096, std::uint64_t{1} << 52));
  check_distinct_values(different<float>(8000));
  // All the same; and what marks a slot that is free.
  check_distinct_values(std::vector<float>(8192, 1.5f));
  check_distinct_values(std::vector<std::int32_t>(8192, -1));
  check_distinct_values(std::vector<std::int64_t>{-1, 7, -1, 8, 0, 7});
  check_distinct_values(std::vector<std::uint32_t>{~0u, 0, ~0u - 1});
  // Nans are one, and so are -0 and +0.
  const float nan = std::bit_cast<float>(0xffffffffu), other = std::bit_cast<float>(0x7f800001u);
  check_distinct_values(std::vector<float>{nan, other, -0.0f, 0.0f, -nan, 1, -1, INFINITY}, 8);
  check_distinct_values(std::vector<double>{0.0, -0.0, nan, -double{nan}, 1e-320, -1e-320}, 6);
}

TEST_CASE("count_distinct of 1 or 2 bytes has the CPU's counts", "[racecheck]") {
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::i8, dtype::u16})
    for (const std::size_t n : {1, 7, 17, 1000, 16385, 50000}) check_distinct(t, n, n % 5);
  // From anywhere, with a few elements ahead of and behind what is read 16 bytes at once.
  check_distinct_values(different<std::uint8_t>(45), 45);
  check_distinct_values(different<std::int16_t>(30), 30);
  // All that there are, by one block and by several, of which the last lacks some.
  for (const std::size_t n : {10000, 65536, 65536 + 4097}) {
    check_distinct_values(different<type_of<dtype::f16>>(n), 3);
    check_distinct_values(different<type_of<dtype::bf16>>(n));
    check_distinct_values(different<std::int16_t>(n));
    check_distinct_values(different<std::int8_t>(n));
  }
  check_distinct_values(std::vector<std::int16_t>(100000, -1));
  check_distinct_values(std::vector<std::uint8_t>(100000, 0));
  // Nans are one, and so are -0 and +0.
  std::vector<std::uint16_t> bits{0xffff, 0x7c01, 0x7fc1, 0xffc0, 0x8000, 0x7c00, 0xfc00, 0xff80};
  const auto check_bits = [&]<class T>(T) {
    std::vector<T> all(bits.size());
    std::memcpy(all.data(), bits.data(), 2 * all.size());
    check_distinct_values(all, 6);
  };
  for (int again = 0; again < 2; ++again) {
    check_bits(type_of<dtype::f16>{});
    check_bits(type_of<dtype::bf16>{});
    bits.insert(bits.end(), 40000, 0);
    bits.insert(bits.end(), {0xffff, 0x8001});
  }
}

TEST_CASE("count_distinct on demand has the CPU's counts: all types", "[.all]") {
  for (const dtype t : all_dtypes) {
    for (const std::size_t n : {1, 31, 1000, 20000}) check_distinct(t, n, 1);
    for (const std::int64_t n : {1, 33, 2000}) {
      check_distinct_of_axes(t, {11, n}, {n + 3, 1}, {1}, 1);
      check_distinct_of_axes(t, {n, 37}, {37, 1}, {0}, 0);
      check_distinct_of_axes(t, {5, 3, n}, {3 * n, n, 1}, {0, 2}, 1);
      check_distinct_of_axes(t, {1, n}, {n, 2}, {1}, 0);
    }
    check_distinct_of_segments(t, {5, 0, 0, 33, 900, 3000, 1, 0}, 3, 40);
    check_distinct_of_segments(t, some_lengths(2000), 0, 0);
    check_distinct_of_segments(t, {7}, 0, 0);
  }
}

TEST_CASE("count_distinct of too many segments is refused; many outputs are sorted set by set") {
  const reduction r = distinct_of(dtype::f32);
  cuda::output_elements from =
      cuda::elements_of_lists(dtype::f32, false, 1000, (std::size_t{1} << 32) - 1);
  CHECK_THROWS_AS(plan_distinct({&r, 1}, 1000, &from), error);
  const view v = row_major(dtype::f32, &somewhere, {1 << 12, 1 << 20});
  from = cuda::elements_of(detail::layout_of(v, nullptr, std::array{1}));
  const gpu::plan plan = plan_distinct({&r, 1}, 1 << 20, &from);
  CHECK(plan.workspace < std::size_t{600} << 20);
  CHECK(plan.steps.size() == 1 + (1 << 7) * (1 + 1 + 5 + 1));
}

TEST_CASE("windows' results are moved to their places") {
  const auto check = []<class T>(T) {
    std::vector<T> from(12), to(40);
    std::iota(from.begin(), from.end(), T{1});
    detail::axes places;
    places.rank = 2;
    places.dims[0] = {3, 8, 0};
    places.dims[1] = {4, 2, 0};
    std::vector<T> right = to;
    for (std::size_t i = 0; i < 12; ++i) right[5 + i / 4 * 8 + i % 4 * 2] = from[i];
    const test::device_memory x(from), out(to);
    gpu::plan plan;
    gpu::add_scatter(plan, {gpu::base::x}, dtype_of<T>, places, 5, {gpu::base::result, 1});
    void* const results[] = {nullptr, out.p};
    gpu::run(plan, {x.p, nullptr, nullptr, nullptr, results}, nullptr);
    test::wait_for();
    CHECK(std::memcmp(out.p, right.data(), right.size() * sizeof(T)) == 0);
  };
  check(std::uint8_t{});
  check(std::int16_t{});
  check(float{});
  check(double{});
}

// ---- The real compiler, which needs no GPU ------------------------------------------------------

namespace {

/// Compiles a sample of plans' kernels for architectures: how many, and the longest time.
struct compilations {
  std::map<int, test::sample_of_kernels> samples;
  std::size_t compiled = 0;
  double slowest = 0;
  std::string which;
  void add(const gpu::plan& p, int architecture) {
    for (const gpu::step& s : p.steps) {
      if (!std::holds_alternative<gpu::pass>(s)) continue;
      const gpu::kernel_source source = gpu::source_of(std::get<gpu::pass>(s).what);
      if (!samples[architecture].takes(source)) continue;
      ++compiled;
      INFO(source.expression << " for sm_" << architecture);
      const auto begin = std::chrono::steady_clock::now();
      try {
        CHECK(gpu::compile(source, architecture / 10, architecture % 10).image.size() > 1000);
      } catch (const error& e) {  // an older NVRTC knows fewer
        INFO(e.what());
        CHECK(architecture > 90);
        CHECK(std::string_view(e.what()).find("does not know") != std::string_view::npos);
      }
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      if (time.count() > slowest) slowest = time.count(), which = source.expression;
    }
  }
};

}  // namespace

TEST_CASE("NVRTC compiles the sort and what needs it", "[.][nvrtc]") {
  if (!test::has_compiler()) return;
  compilations all;
  for (const int architecture : {90, 80, 120})
    for (const std::size_t key : {4, 8})
      for (const std::size_t value : {0, 1, 2, 4, 8})
        for (const std::size_t n : {std::size_t{1000}, std::size_t{100000}, std::size_t{1} << 31}) {
          if (architecture != 90 && (value != 4 || n > 100000)) continue;
          gpu::plan plan;
          gpu::add_sort(plan, {key, value, n, 0, 8}, {}, 0, test::numbers());
          all.add(plan, architecture);
        }
  for (const int architecture : {90, 80, 120})
    for (const dtype t : all_dtypes) {
      if (architecture != 90 && t != dtype::f32) continue;
      const reduction r = distinct_of(t);
      for (const std::size_t n : {1000, 100000})
        all.add(plan_distinct({&r, 1}, n, nullptr), architecture);
      for (const std::size_t outputs : {100, 1 << 30}) {
        cuda::output_elements from = cuda::elements_of_lists(t, false, 1000, outputs);
        all.add(plan_distinct({&r, 1}, 1000, &from), architecture);
        from = cuda::elements_of(detail::layout_of(
            row_major(t, &somewhere, {static_cast<std::int64_t>(outputs) >> 8, 300}), nullptr,
            std::array{1}));
        all.add(plan_distinct({&r, 1}, 1000, &from), architecture);
        gpu::plan plan;
        gpu::add_keys(plan, gpu::keys_in_a_row(1000, outputs), t, outputs, {}, 0, test::numbers());
        gpu::add_scatter(plan, {}, t, from.kept, 0, {});
        all.add(plan, architecture);
      }
    }
  std::printf("%zu kernels, %.2f s the slowest: %s\n", all.compiled, all.slowest,
              all.which.c_str());
}
