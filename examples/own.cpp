#include <bitfold/reduce.hpp>

#include <iostream>
#include <vector>

#include "own_ops.hpp"

int main() {
  using namespace bitfold;
  const std::size_t n = 1'000'000;
  std::vector<float> x(n), w(n);
  std::vector<std::uint8_t> mask(n);
  std::vector<complex> z(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = 1.0f / static_cast<float>(i + 1);
    w[i] = static_cast<float>(i % 7);
    mask[i] = i % 3 != 0;
    z[i] = {x[i], -w[i]};
  }
  const auto [total, average, top] = reduce(x, ops::sum, ops::mean, ops::max);  // one pass
  std::cout << total << " " << average << " " << top << "\n";
  const complex s = reduce(z, complex_sum{});
  std::cout << s.re << " " << s.im << "\n";
  std::cout << reduce(transform(keep_masked{}, x, w, mask), weighted_mean{}) << "\n";
  std::cout << reduce(transform(log_likelihood{}, x, w), ops::sum.by<method_id::kahan>()) << "\n";
  const auto [label, product] = reduce(pairs(x, w), top_label{}, ops::dot);
  std::cout << label.label << " " << product << "\n";
}
