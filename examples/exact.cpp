#include <bitfold/accumulator.hpp>
#include <bitfold/bound.hpp>
#include <bitfold/totals.hpp>

#include <iostream>
#include <vector>

int main() {
  using namespace bitfold;
  const std::vector<float> a{1e20f, 1, -1e20f}, b{0.1f, 0.2f, 0.3f};

  // A sum as a value: pieces in any order, subtracted again, stored as bytes and resumed.
  accumulator<float> sum;
  sum.add(b).add(a).subtract(std::span<const float>(b));
  const auto resumed = accumulator<float>::from_bytes(sum.to_bytes());
  std::cout << resumed.round() << "\n";  // 1: nothing was lost beside 1e20

  // Several results of what comes in pieces.
  totals of_all({make_reduction(op_id::sum, method_id::exact, dtype::f32),
                 make_reduction(op_id::norm_l2, method_id::exact, dtype::f32)});
  of_all.add<float>(b);
  of_all.add<float>(a);
  std::cout << of_all.result(0) << " " << of_all.result(1) << " of " << of_all.count() << "\n";

  // By another method, with a bound of its error for these elements.
  const auto tree = cpu::reduce_with_bound(make_reduction(op_id::sum, {}, dtype::f32), a.data(), 3);
  std::cout << tree.value << ", off by at most " << tree.bound << "\n";
  return resumed == accumulator<float>().add(a) && resumed.round() == 1 ? 0 : 1;
}
