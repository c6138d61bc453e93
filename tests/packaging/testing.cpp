// bitfold/testing.hpp comes with the package, and its header is enough.
#include <bitfold/testing.hpp>

#if defined(CONSUMER_HAS_ASSERTS) && defined(NDEBUG)
#error "bitfold chose its consumer's build type"
#endif

static_assert(bitfold::testing::ulp_distance(1.0f, 1.0000001f) == 1);
static_assert(!bitfold::testing::same_bits(0.0, -0.0));
