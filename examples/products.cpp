#include <bitfold/matmul.hpp>

#include <iostream>
#include <vector>

int main() {
  using namespace bitfold;
  const std::int64_t m = 8, k = 300, n = 5;
  std::vector<float> x(m * k), w(k * n), bias(n, 1), y(m * n), row(n);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;
  const view a = row_major(dtype::f32, x.data(), {m, k});
  const view b = row_major(dtype::f32, w.data(), {k, n});
  const view added = row_major(dtype::f32, bias.data(), {n});

  // The weights' integers are made once for many products.
  const matrix_product product = make_matrix_product(dtype::f32);
  const cpu::prepared weights(product, cpu::side::right, b);
  cpu::matmul(product, a, weights, added, y.data());  // y has matmul_extents(a, b): 8 and 5
  std::cout << y[0] << " " << y[m * n - 1] << "\n";

  // Row 6 alone has the bits that it has among the others.
  cpu::matmul(product, sliced(a, 0, 6, 1), b, added, row.data());
  for (std::size_t j = 0; j < row.size(); ++j)
    if (row[j] != y[6 * n + j]) return 1;
}
