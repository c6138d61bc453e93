// Products: bitfold's, and the loops that people write. (Libraries' are beside their sums.)
#include <array>
#include <cstring>

#include <bitfold/arith.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/formats.hpp>

#include <fmt/format.h>

#include "../contestant.hpp"

namespace bitfold::accuracy {
namespace {

view matrix_of(dtype t, const void* data, std::size_t rows, std::size_t columns, bool by_columns) {
  const auto m = static_cast<std::int64_t>(rows), n = static_cast<std::int64_t>(columns);
  return by_columns ? permuted(row_major(t, data, {n, m}), std::array{1, 0})
                    : row_major(t, data, {m, n});
}

class bitfold_product final : public product_contestant {
 public:
  explicit bitfold_product(const matrix_product& p) : product_contestant(info_of(p)) {
    const auto targets = cpu::available_targets();
    const auto add = [this](cpu::target t, int threads, bool timed) {
      const int count = threads ? threads : all_cores();
      ways_.push_back({threads, t});
      labels_.push_back({fmt::format("{}, {} thread{}", cpu::name(t), count, count == 1 ? "" : "s"),
                         timed, threads});
    };
    add(targets.back(), 0, true);
    if (all_cores() > 1) add(targets.back(), 1, true);
    for (cpu::target t : targets)
      for (int threads : {1, 2, 3, 4})
        if (threads != 1 || t != targets.back()) add(t, threads, false);
  }
  std::vector<variation> variations() const override { return labels_; }
  std::vector<std::byte> run(const array_view& x, const product_shape& s,
                             std::size_t way) override {
    const auto* right = static_cast<const std::byte*>(x.data) + s.rows * s.inner * size_of(x.type);
    std::vector<std::byte> out(s.outputs() * size_of(info.out));
    cpu::matmul(*info.promise, matrix_of(x.type, x.data, s.rows, s.inner, s.left_by_columns),
                matrix_of(x.type, right, s.inner, s.columns, s.right_by_columns), out.data(),
                ways_[way]);
    return out;
  }

 private:
  static entry_info<matrix_product> info_of(const matrix_product& p) {
    const std::string method(product_method_name(p.method())), in(name(p.in())), out(name(p.out()));
    const std::string acc =
        p.method() && *p.method() != method_id::exact
            ? std::string(name(make_reduction(op_id::dot, *p.method(), p.in(), {}, p.out()).acc()))
            : std::string("exact");
    return {
        .id = fmt::format("bitfold/matmul/{}/{}/{}/cpu", method, in, out),
        .name = "bitfold matmul " + method,
        .family = "bitfold",
        .device = "cpu",
        .about = p.method()
                     ? fmt::format("each element is dot by method {} of its row and column", method)
                     : fmt::format("exact sums of integers of {} bits, rounded once", p.bits()),
        .in = p.in(),
        .acc = acc,
        .out = p.out(),
        .promise = p};
  }
  std::vector<cpu::options> ways_;
  std::vector<variation> labels_;
};

// Elements of type T, multiplied and added in A, from left to right.
template <class T, class A>
class loop final : public product_contestant {
 public:
  loop()
      : product_contestant({.id = fmt::format("plain/matmul/{}", name(dtype_of<T>)),
                            .name = "plain loops",
                            .family = "plain",
                            .device = "cpu",
                            .about = fmt::format("for (p : inner) sum += a[i][p] * b[p][j], with "
                                                 "sum in {}",
                                                 name(dtype_of<A>)),
                            .in = dtype_of<T>,
                            .acc = std::string(name(dtype_of<A>)),
                            .out = dtype_of<T>}) {}
  std::vector<std::byte> run(const array_view& x, const product_shape& s, std::size_t) override {
    const T* a = static_cast<const T*>(x.data);
    const T* b = a + s.rows * s.inner;
    const std::size_t a_row = s.left_by_columns ? 1 : s.inner,
                      a_next = s.left_by_columns ? s.rows : 1,
                      b_column = s.right_by_columns ? s.inner : 1,
                      b_next = s.right_by_columns ? 1 : s.columns;
    std::vector<std::byte> out(s.outputs() * sizeof(T));
    for (std::size_t i = 0; i < s.rows; ++i)
      for (std::size_t j = 0; j < s.columns; ++j) {
        A sum = 0;
        for (std::size_t p = 0; p < s.inner; ++p)
          sum += arith::widen<A>(a[i * a_row + p * a_next]) *
                 arith::widen<A>(b[j * b_column + p * b_next]);
        const T rounded = arith::round_to<T>(sum);
        std::memcpy(&out[(i * s.columns + j) * sizeof rounded], &rounded, sizeof rounded);
      }
    return out;
  }
};

}  // namespace

void add_products(contestants& c) {
  for (dtype t : all_dtypes) {
    if (!is_float(t)) continue;
    c.products.push_back(std::make_unique<bitfold_product>(make_matrix_product(t)));
    for (const method_id m : {method_id::tree, method_id::kahan, method_id::exact})
      c.products.push_back(std::make_unique<bitfold_product>(make_matrix_product(t, m)));
  }
  c.products.push_back(std::make_unique<loop<float, float>>());
  c.products.push_back(std::make_unique<loop<double, double>>());
  c.products.push_back(std::make_unique<loop<float16, float>>());
  c.products.push_back(std::make_unique<loop<bfloat16, float>>());
}

}  // namespace bitfold::accuracy
