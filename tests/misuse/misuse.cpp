// What does not compile, each for one reason that is given in one line: that of the comment before.
#include <bitfold/reduce.hpp>

#include <functional>
#include <list>
#include <string>
#include <vector>

using namespace bitfold;

const std::vector<float> x(3), y(3);
const std::vector<double> wide(3);
const std::vector<std::int64_t> offsets{0, 3};
std::vector<double> doubles(1);
template <class T>
std::vector<T> make() {
  return {};
}
float twice(float v) { return 2 * v; }

struct no_merge {
  static float start(float v) { return v; }
  static float finish(float s) { return s; }
};
struct no_finish {
  static float start(float v) { return v; }
  static float merge(float a, float b) { return a + b; }
};
struct of_strings {
  static int start(std::string) { return 0; }
  static int merge(int a, int b) { return a + b; }
  static int finish(int s) { return s; }
};

void whole() {
  // this is no operation: one of bitfold's is ops::sum
  auto a = reduce(x, [](float s, float t) { return s + t; });
  // this is no operation: one of bitfold's is ops::sum
  float b = reduce(x, twice);
  // this is no operation: one of bitfold's is ops::sum
  auto [c, d] = reduce(x, ops::sum, std::plus<>());
  // options go first
  auto [e, f] = reduce(x, ops::sum, ops::max, cpu::options{.threads = 2});
  // options go first
  auto g = reduce(wide, cpu::options{}, ops::sum);
  // two arrays go as one input
  auto h = reduce(x, y, ops::dot);
  // an operation of two inputs takes pairs
  auto i = reduce(x, ops::dot);
  // an operation of two inputs takes pairs
  auto j = reduce(pairs(x, y), ops::sum, ops::dot);
  // this operation has no merge
  auto k = reduce(x, no_merge{});
  // this operation has no finish
  auto l = reduce(x, no_finish{});
  // the start of this operation does not take an element of this input
  auto m = reduce(x, of_strings{});
  // the input is a contiguous range
  auto n = reduce(std::list<float>(), ops::sum);
  // the input is a contiguous range
  auto o = reduce(std::vector<bool>(3), ops::any);
  // reduce wants an operation
  auto p = reduce(x);
  // this operation takes arrays of
  auto q = reduce(std::vector<std::string>(), ops::sum);
}

void sources() {
  // a source keeps no copy of an array
  auto a = pairs(make<float>(), x);
  // a source keeps no copy of an array
  auto b = transform(twice, x, make<float>());
  // a source keeps no copy of an array
  auto c = indexed(make<float>());
  // a source keeps no copy of an array
  auto d = in_order(make<double>());
  // a source keeps no copy of an array
  auto e = row_major(make<int>(), {3});
  // pairs takes two arrays of one element type
  auto f = pairs(x, wide);
  // it is in_order\(indexed\(x\)\)
  auto g = indexed(in_order(x));
}

void arrays() {
  const auto matrix = row_major(x, {1, 3});
  // of a view it is reduce\(view, axes
  auto a = reduce(matrix, ops::sum);
  // of a view it is reduce\(view, axes
  auto b = reduce(matrix, ops::sum, axes{1});
  // axes are of row_major
  auto c = reduce(x, axes{0}, ops::sum);
  // view_of<float>\(x\) has one
  auto d = reduce(row_major(dtype::f32, x.data(), {3}), axes{0}, ops::sum);
  // segments and keys are of a contiguous range
  auto e = reduce(matrix, by_segment{offsets}, ops::sum);
  // there are bitfold's operations \(ops::sum\) only
  auto f = reduce(matrix, axes{1}, no_finish{});
  // an operation of two inputs takes pairs
  auto g = reduce(matrix, axes{1}, ops::dot);
  // reduce wants an operation
  auto h = reduce(matrix, axes{1});
  // into\(\) takes a range for each operation
  reduce(matrix, axes{1}, into(doubles), ops::sum);
  // into\(\) takes a range for each operation
  reduce(matrix, axes{1}, into(doubles, doubles), ops::sum.as<double>());
  // into\(\) takes a range for each operation
  reduce(matrix, axes{1}, into(wide), ops::sum.as<double>());
  // and into\(\) behind that
  reduce(matrix, axes{1}, ops::sum, into(doubles));
  // what outputs are of goes right behind the input
  auto i = reduce(x, ops::sum, by_segment{offsets});
}
