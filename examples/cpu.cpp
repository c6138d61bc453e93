#include <bitfold/cpu.hpp>

#include <iostream>
#include <vector>

int main() {
  const std::vector<float> x(1'000'000, 0.1f);
  const bitfold::scalar sum = bitfold::cpu::sum(x);  // every core, the best SIMD target
  const bitfold::scalar kahan = bitfold::cpu::sum(x, bitfold::method_id::kahan);
  std::cout << sum << " " << to_hex(sum) << "\n" << kahan << "\n";
}
