// bitfold/testing.hpp comes with the package, and its header is enough.
#include <bitfold/testing.hpp>

#if defined(CONSUMER_HAS_ASSERTS) && defined(NDEBUG)
#error "bitfold chose its consumer's build type"
#endif

static_assert(bitfold::testing::ulp_distance(1.0f, 1.0000001f) == 1);
static_assert(!bitfold::testing::same_bits(0.0, -0.0));

// Whoever links bitfold compiles without contraction: 0.1 * 10 is 1 only where the product is
// rounded.
#include <cstdlib>

namespace {
const volatile double tenth = 0.1, ten = 10, minus_one = -1;
[[maybe_unused]] const bool rounded = [] {
  const double a = tenth, b = ten, c = minus_one;
  if (a * b + c != 0) std::abort();
  return true;
}();
}  // namespace
