// Sums of products and addends as the CPU's kernels round them.
#include <bitfold/product_sum.hpp>

#include <cmath>
#include <cstring>
#include <random>

#include "catch.hpp"
#include "main.hpp"

#include "cpu/products.hpp"

using namespace bitfold;
using namespace bitfold::test;

// Of a row at a time, as kernels have it: sums of all lengths, some of which a float's neighbour or
// a tie is next to, or that cancel.
TEST_CASE("sums with addends are rounded once, whatever they are beside") {
  const cpu::product_kernels kernels = cpu::find_product_kernels(forced_target);
  std::mt19937_64 random(45);
  constexpr std::size_t n = 37;
  std::int64_t high[n], low[n];
  int exponents[n];
  double addends[n], sums[n];
  int differ = 0;
  for (int round = 0; round < (sanitized ? 300 : 20000); ++round) {
    for (std::size_t c = 0; c < n; ++c) {
      exponents[c] = -static_cast<int>(random() % 60);
      auto sum = static_cast<__int128>(static_cast<std::int64_t>(random())) << 16 >> random() % 80;
      const auto of_24 = [&](std::uint64_t x) { return static_cast<double>(x % (1 << 24)); };
      const int place = static_cast<int>(random() % 60);
      addends[c] = std::ldexp(of_24(random()) - 0x1p23, place + exponents[c]);
      if (round % 2 && random() % 8 == 0) {  // the sum is next to a number of 25 bits, or is it
        const double grid = std::ldexp(2 * of_24(random()) + 1, place),
                     rest = grid - std::ldexp(addends[c], -exponents[c]);
        if (std::abs(rest) < 0x1p78)
          sum = static_cast<__int128>(rest) + static_cast<int>(random() % 5) - 2;
      }
      high[c] = static_cast<std::int64_t>(sum >> 32);
      low[c] = static_cast<std::int64_t>(sum & 0xffffffff);
    }
    kernels.with_addends(high, low, n, exponents, addends, sums);
    for (const dtype out : {dtype::f16, dtype::bf16, dtype::f32})
      visit(out, [&]<class Out>(std::type_identity<Out>) {
        if constexpr (!std::is_integral_v<Out>) {
          Out got[n];
          kernels.round(out)(sums, n, got);
          for (std::size_t c = 0; c < n; ++c) {
            product::exact_sum exact(exponents[c]);
            exact.add((static_cast<__int128>(high[c]) << 32) + low[c], 0);
            exact.add(addends[c]);
            const Out want = exact.round<Out>();
            differ += std::memcmp(&got[c], &want, sizeof want) != 0;
          }
        }
      });
  }
  CHECK(differ == 0);
}
