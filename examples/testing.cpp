#include <bitfold/cpu.hpp>
#include <bitfold/testing_catch2.hpp>

#include <vector>

using namespace bitfold::testing;

TEST_CASE("the sum is what it always was") {
  const std::vector<float> x(1'000'000, 0.1f);
  const bitfold::scalar sum = bitfold::cpu::sum<float>(x);
  const bitfold::scalar recorded{bitfold::dtype::f32, 0x47c35001};
  CHECK_THAT(sum, HasBitsOf(recorded));  // on failure: both values, their bits, how many ulps apart
  CHECK_THAT(100000.02f, WithinUlpsOf(100000.0f, 3));
}

TEST_CASE("two ways to the same numbers") {
  const std::vector<float> a{1, 2, 3}, b{1, 2, 3};
  CHECK(first_difference(a, b) == std::nullopt);  // else the index
  CHECK_THAT(a, HasBitsOf(b));                    // the same, and shows what differs
  CHECK(ulp_distance(1.0f, 1.0000001f) == 1);
}
