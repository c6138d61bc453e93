// Sorting by kernels on demand, and what needs it: reductions by key and count_distinct; on an
// emulated GPU or a real one, with the CPU's bits.
#include <algorithm>
#include <array>
#include <bitfold/cpu.hpp>
#include <chrono>
#include <numeric>
#include <set>

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"

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
  const gpu::sorted made =
      gpu::add_sort(plan, what, {{buffer(0), buffer(1)}, {buffer(2), buffer(3)}}, 4 * room);
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

}  // namespace

TEST_CASE("a sort is stable, of any keys and lengths") {
  using enum keys_like;
  for (const std::size_t n : {0, 1, 2, 33, 1000}) check_sort({4, 4, n, 0, 32}, random);
  check_sort({4, 4, 7680, 0, 9}, random);
  check_sort({4, 4, 3 * 7680 + 1, 0, 32}, random);
  check_sort({4, 0, 2 * 7680 + 77, 0, 17}, random);
  check_sort({8, 0, 2 * 4224 - 1, 5, 57}, descending);
  check_sort({8, 4, 4224 + 1, 0, 64}, ascending);
  check_sort({4, 8, 9000, 3, 11}, few);
  check_sort({4, 1, 9000, 0, 8}, equal);
  check_sort({4, 2, 9000, 24, 8}, random);
}

// ---- The real compiler, which needs no GPU ------------------------------------------------------

namespace {

/// Compiles a plan's kernels that are not in `done` for an architecture: how many, and the longest
/// time.
struct compilations {
  std::set<std::string> done;
  double slowest = 0;
  std::string which;
  void add(const gpu::plan& p, int architecture) {
    for (const gpu::step& s : p.steps) {
      const auto* const one = std::get_if<gpu::pass>(&s);
      if (!one) continue;
      const gpu::kernel_source source = gpu::source_of(one->what);
      if (!done.insert(source.expression + std::to_string(architecture)).second) continue;
      INFO(source.expression << " for sm_" << architecture);
      const auto begin = std::chrono::steady_clock::now();
      CHECK(gpu::compile(source, architecture / 10, architecture % 10).image.size() > 1000);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      if (time.count() > slowest) slowest = time.count(), which = source.expression;
    }
  }
};

}  // namespace

TEST_CASE("NVRTC compiles the sort and what needs it", "[.][nvrtc]") {
  compilations all;
  for (const int architecture : {90, 80, 86, 89, 100, 120})
    for (const std::size_t key : {4, 8})
      for (const std::size_t value : {0, 1, 2, 4, 8})
        for (const std::size_t n : {std::size_t{1000}, std::size_t{1} << 31}) {
          if (architecture != 90 && (value != 4 || n > 1000)) continue;
          gpu::plan plan;
          gpu::add_sort(plan, {key, value, n, 0, 8}, {}, 0);
          all.add(plan, architecture);
        }
  std::printf("%zu kernels, %.2f s the slowest: %s\n", all.done.size(), all.slowest,
              all.which.c_str());
}
