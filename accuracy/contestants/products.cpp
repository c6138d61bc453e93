// Products: bitfold's, and the loops that people write. (Libraries' are beside their sums.)
#include <array>
#include <cstring>

#include <bitfold/arith.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/formats.hpp>
#include <bitfold/matmul.hpp>

#include <fmt/format.h>

#include "../contestant.hpp"
#include "device.hpp"
#include "gpu/devices.hpp"

namespace bitfold::accuracy {
namespace {

view matrix_of(dtype t, const void* data, std::size_t rows, std::size_t columns, bool by_columns) {
  const auto m = static_cast<std::int64_t>(rows), n = static_cast<std::int64_t>(columns);
  return by_columns ? permuted(row_major(t, data, {n, m}), std::array{1, 0})
                    : row_major(t, data, {m, n});
}

entry_info<matrix_product> info_of(const matrix_product& p, const char* device) {
  const std::string method(product_method_name(p.method())), in(name(p.in())), out(name(p.out()));
  const std::string acc =
      p.method() && *p.method() != method_id::exact
          ? std::string(name(make_reduction(op_id::dot, *p.method(), p.in(), {}, p.out()).acc()))
          : std::string("exact");
  return {
      .id = fmt::format("bitfold/matmul/{}/{}/{}/{}", method, in, out, device),
      .name = "bitfold matmul " + method,
      .family = "bitfold",
      .device = device,
      .about = p.method()
                   ? fmt::format("each element is dot by method {} of its row and column", method)
                   : fmt::format("exact sums of integers of {} bits, rounded once", p.bits()),
      .in = p.in(),
      .acc = acc,
      .out = p.out(),
      .promise = p};
}

class bitfold_product final : public product_contestant {
 public:
  explicit bitfold_product(const matrix_product& p) : product_contestant(info_of(p, "cpu")) {
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
  std::vector<cpu::options> ways_;
  std::vector<variation> labels_;
};

class on_gpu final : public product_contestant {
 public:
  explicit on_gpu(const matrix_product& p) : product_contestant(info_of(p, "cuda")) {}
  std::vector<variation> variations() const override {
    return {{"workspace of 1 GiB", true}, {"a small workspace", false}};
  }
  std::vector<std::byte> run(const array_view& x, const product_shape& s,
                             std::size_t way) override {
    const call c(info, x, s, way);
    c.enqueue({});
    std::vector<std::byte> out(s.outputs() * size_of(info.out));
    gpu::copy_to_host(out.data(), c.out, out.size());
    return out;
  }
  std::vector<double> seconds(const array_view& x, const product_shape& s, std::size_t way,
                              int times) override {
    const call c(info, x, s, way);
    return time_on_device([&](CUstream_st* on) { c.enqueue(on); }, times);
  }

 private:
  struct call {
    call(const entry_info<matrix_product>& i, const array_view& x, const product_shape& s,
         std::size_t way)
        : product(*i.promise) {
      const array_view there = on_device(x);
      const auto* right =
          static_cast<const std::byte*>(there.data) + s.rows * s.inner * size_of(x.type);
      a = matrix_of(x.type, there.data, s.rows, s.inner, s.left_by_columns);
      b = matrix_of(x.type, right, s.inner, s.columns, s.right_by_columns);
      workspace = cuda::matmul_workspace_bytes(product, a, b, nullptr,
                                               way == 0 ? cuda::default_product_memory : 1);
      const std::size_t for_results = (s.outputs() * size_of(i.out) + 255) / 256 * 256;
      out = static_cast<std::byte*>(scratch(for_results + workspace));
      behind = out + for_results;
    }
    void enqueue(CUstream_st* on) const {
      cuda::matmul(product, a, b, nullptr, out, behind, workspace, on);
    }
    const matrix_product& product;
    view a, b;
    std::size_t workspace;
    std::byte *out, *behind;
  };
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

void add_products(contestants& c, bool cpu, bool cuda) {
  const auto add = [&](const matrix_product& p) {
    if (cpu) c.products.push_back(std::make_unique<bitfold_product>(p));
    if (cuda) c.products.push_back(std::make_unique<on_gpu>(p));
  };
  for (dtype t : all_dtypes) {
    if (!is_float(t)) continue;
    add(make_matrix_product(t));
    for (const method_id m : {method_id::tree, method_id::kahan, method_id::exact})
      add(make_matrix_product(t, m));
  }
  if (!cpu) return;
  c.products.push_back(std::make_unique<loop<float, float>>());
  c.products.push_back(std::make_unique<loop<double, double>>());
  c.products.push_back(std::make_unique<loop<float16, float>>());
  c.products.push_back(std::make_unique<loop<bfloat16, float>>());
}

}  // namespace bitfold::accuracy
