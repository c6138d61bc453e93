// Kahan's sum of {1e8, 1, -1e8} from the headers alone: 1, or 0 where the compiler reassociates.
#include <bitfold/method.hpp>

int main(int, char** name) {
  using kahan = bitfold::method::kahan;
  const float one = **name ? 1 : 2;
  const auto s = kahan::add(kahan::add(kahan::start(1e8f), one), -1e8f);
  return kahan::round<float>(s) == 1 ? 0 : 1;
}
