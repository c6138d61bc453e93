#include <bitfold/reduce.hpp>

#include <iostream>
#include <numeric>
#include <vector>

// The function x -> a x + b; first f, then g.
struct line {
  double a, b;
};
struct compose {
  static line start(line f) { return f; }
  static line merge(line f, line g) { return {g.a * f.a, g.a * f.b + g.b}; }
  static line finish(line f) { return f; }
};

// The last element.
struct last {
  using state = bitfold::indexed_value<int>;
  static state start(state x) { return x; }
  static state merge(state a, state b) { return a.index > b.index ? a : b; }
  static int finish(state x) { return x.value; }
};

// Not to be relied on: b's last element is the last one of both only where b lies right of a, as it
// does up to 32 elements.
struct last_of_b {
  static int start(int x) { return x; }
  static int merge(int, int b) { return b; }
  static int finish(int x) { return x; }
};

int main() {
  using namespace bitfold;
  std::vector<int> x(40);
  std::iota(x.begin(), x.end(), 0);
  std::vector<line> lines;
  double value = 0;  // what becomes of 0
  for (const int i : x) {
    lines.push_back({0.5, static_cast<double>(i)});
    value = 0.5 * value + i;
  }
  std::cout << reduce(in_order(lines), compose{}).b << " = " << value << "\n";
  std::cout << reduce(indexed(x), last{}) << " = " << reduce(in_order(x), last_of_b{}) << " = "
            << x.back() << "\n";
  // But these are 60 and 31.
  std::cout << reduce(lines, compose{}).b << " and " << reduce(x, last_of_b{}) << "\n";
  if (reduce(in_order(lines), compose{}).b != value) return 1;
  return reduce(indexed(x), last{}) == x.back() ? 0 : 1;
}
