#include <bitfold/rows.hpp>

#include <iostream>
#include <vector>

int main() {
  using namespace bitfold;
  std::vector<float> x{1, 2, 3, 4, 0, -1, -2, -3}, y(8), alone(4);
  const rows two{.type = dtype::f32, .count = 2, .n = 4, .x = x.data()};
  cpu::apply(row_function::softmax, two,
             y.data());  // cuda::apply, in device memory, writes the same bits
  std::cout << y[3] << " " << y[4] << "\n";

  rows second = two;  // by itself it has the bits that it has in company
  second.count = 1;
  second.x = x.data() + 4;
  cpu::apply(row_function::softmax, second, alone.data());
  return alone[0] == y[4] ? 0 : 1;
}
