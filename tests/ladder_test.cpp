// Every rung of the ladder gives the right sum at every length: integers wrapping, floats exactly
// where every order is exact and within the bound of a plain sum elsewhere; it writes only to its
// result and its workspace.
#include "bench/ladder/ladder.hpp"

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"

#include <cmath>
#include <set>
#include <stdexcept>

#include <cuda_runtime_api.h>

using namespace bitfold;

namespace {

using test::device_memory;

enum class kind { words, small_integers, uniform };

// n words: i32 of every bit pattern; floats that are small integers, so that no order rounds (their
// sum stays below 2^24); floats uniform in [0, 1), as multiples of 2^-24.
std::vector<std::uint32_t> make(kind k, std::size_t n) {
  test::random_bits random{7};
  std::vector<std::uint32_t> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto word = static_cast<std::uint32_t>(random() >> 32);
    float f = 0;
    if (k == kind::small_integers)
      f = i < 1 << 20 ? static_cast<float>(word % 8) : static_cast<float>(word % 32 == 0);
    else if (k == kind::uniform)
      f = static_cast<float>(word >> 8) * 0x1p-24f;
    if (k == kind::words)
      x[i] = word;
    else
      std::memcpy(&x[i], &f, sizeof f);
  }
  return x;
}

// The sum of the first n, in the plainest way: modulo 2^32, or in units of 2^-24, exactly.
std::uint64_t exact(kind k, const std::vector<std::uint32_t>& x, std::size_t from, std::size_t to,
                    std::uint64_t sum) {
  for (std::size_t i = from; i < to; ++i) {
    float f;
    std::memcpy(&f, &x[i], sizeof f);
    sum += k == kind::words ? x[i] : static_cast<std::uint64_t>(f * 0x1p24);
  }
  return sum;
}

bool right(kind k, std::uint32_t got, std::uint64_t want, std::size_t n) {
  if (k == kind::words) return got == static_cast<std::uint32_t>(want);
  float f;
  std::memcpy(&f, &got, sizeof f);
  const double sum = static_cast<double>(want) * 0x1p-24;
  if (k == kind::small_integers) return f == sum;
  // Higham, Accuracy and Stability, section 4.2: any order of n - 1 additions, all terms positive.
  const double nu = static_cast<double>(n - 1) * 0x1p-24;
  return std::abs(f - sum) <= nu / (1 - nu) * sum;
}

// Increasing.
std::vector<std::size_t> lengths(int largest) {
  std::set<std::size_t> out{1, 2, 3, 4, 5, 31, 32, 33, 1000};
  for (int k = 8; k <= largest; ++k)
    for (std::size_t d : {0, 1, 2}) out.insert((std::size_t{1} << k) - 1 + d);
  out.insert((std::size_t{1} << largest) + 3);
  return {out.begin(), out.end()};
}

// Runs a rung in memory that is full of NaN and surrounded by canaries; "" or what is wrong.
std::string run(const ladder::rung& r, dtype t, const char* data, std::size_t n,
                device_memory& workspace, std::uint32_t& result) {
  constexpr std::size_t guard = 256;
  static const std::vector<char> canary(guard, '\xab');
  const std::size_t bytes = ladder::workspace_bytes(r, t, n);
  device_memory out(2 * guard + 4);
  char* const work = workspace.as<char>() + guard;
  cudaMemset(out.p, 0xab, 2 * guard + 4);
  cudaMemset(out.as<char>() + guard, 0xff, 4);
  cudaMemset(workspace.p, 0xab, guard);
  cudaMemset(work, 0xff, bytes);
  cudaMemset(work + bytes, 0xab, guard);
  ladder::prepare(r, t, data, n, work, nullptr);
  ladder::launch(r, t, data, n, out.as<char>() + guard, work, nullptr);
  std::vector<char> seen(guard);
  for (const char* p :
       {out.as<char>(), out.as<char>() + guard + 4, workspace.as<char>(), work + bytes}) {
    if (cudaMemcpy(seen.data(), p, guard, cudaMemcpyDeviceToHost) != cudaSuccess)
      return cudaGetErrorString(cudaGetLastError());
    if (seen != canary) return "wrote outside its memory";
  }
  cudaMemcpy(&result, out.as<char>() + guard, 4, cudaMemcpyDeviceToHost);
  return "";
}

// `fit`: the array in memory of exactly its size, so that memcheck sees a read past its end.
void check_all(kind k, int largest, bool fit) {
  const auto all = lengths(largest);
  const dtype t = k == kind::words ? dtype::i32 : dtype::f32;
  const auto host = make(k, all.back() + (fit ? 0 : 64));
  device_memory data(4 * host.size()), workspace(8 * host.size() + (1 << 20));
  cudaMemcpy(data.p, host.data(), 4 * host.size(), cudaMemcpyHostToDevice);
  std::vector<std::uint64_t> want;
  std::size_t from = 0;
  for (std::size_t n : all) {
    want.push_back(exact(k, host, from, n, want.empty() ? 0 : want.back()));
    from = n;
  }
  for (const ladder::rung& r : ladder::all_rungs()) {
    std::string wrong;
    for (std::size_t i = 0; i < all.size() && wrong.empty(); ++i) {
      REQUIRE(ladder::supports(r, t, all[i]));
      device_memory own(fit ? 4 * all[i] : 16);
      if (fit) cudaMemcpy(own.p, data.p, 4 * all[i], cudaMemcpyDeviceToDevice);
      std::uint32_t got = 0;
      wrong = run(r, t, fit ? own.as<char>() : data.as<char>(), all[i], workspace, got);
      if (wrong.empty() && !right(k, got, want[i], all[i])) wrong = "wrong sum";
      if (!wrong.empty()) wrong += " at n = " + std::to_string(all[i]);
    }
    INFO(std::string(r.name) << " " << name(t));
    CHECK(wrong == "");
  }
}

}  // namespace

TEST_CASE("ladder: integer sums up to 2^28 + 3", "[ladder]") { check_all(kind::words, 28, false); }

TEST_CASE("ladder: float sums up to 2^28 + 3 that every order gives exactly", "[ladder]") {
  check_all(kind::small_integers, 28, false);
}

TEST_CASE("ladder: float sums within the bound of a plain sum", "[ladder]") {
  check_all(kind::uniform, 20, false);
}

// Short, for compute-sanitizer.
TEST_CASE("ladder: short arrays in memory of their own size", "[ladder][racecheck]") {
  check_all(kind::words, 14, true);
  check_all(kind::small_integers, 14, true);
}

TEST_CASE("ladder: the list and the refusals", "[ladder]") {
  const auto all = ladder::all_rungs();
  std::set<std::string_view> names;
  for (const auto& r : all) {
    names.insert(r.name);
    CHECK((!r.title.empty() && r.change.ends_with('.') && !r.source.empty()));
    CHECK(r.theirs.figure.empty() == r.theirs.where.empty());
  }
  CHECK(names.size() == all.size());
  CHECK(all.back().name == "bitfold-tree");
  device_memory memory(1 << 20);
  char* const work = memory.as<char>() + 4096;
  for (const auto& r : all) {
    for (const auto& [t, n] :
         {std::pair{dtype::f32, 0}, {dtype::i32, 0}, {dtype::f64, 5}, {dtype::i8, 5}}) {
      CHECK(!ladder::supports(r, t, n));
      CHECK_THROWS_AS(ladder::workspace_bytes(r, t, n), std::invalid_argument);
      CHECK_THROWS_AS(ladder::prepare(r, t, memory.p, n, work, nullptr), std::invalid_argument);
      CHECK_THROWS_AS(ladder::launch(r, t, memory.p, n, work, work, nullptr),
                      std::invalid_argument);
    }
    CHECK_THROWS_AS(
        ladder::launch(r, dtype::f32, memory.as<std::byte>() + 4, 5, work, work, nullptr),
        std::invalid_argument);
  }
  ladder::rung unknown = all.front();
  unknown.name = "no such rung";
  CHECK_THROWS_AS(ladder::launch(unknown, dtype::f32, memory.p, 5, work, work, nullptr),
                  std::invalid_argument);
}
