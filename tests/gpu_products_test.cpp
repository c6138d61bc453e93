// Products of matrices on a GPU: the CPU's bits, which products_test.cpp holds to big integers.
#include <dlfcn.h>

#include <algorithm>
#include <bitfold/cuda/products.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "array_on_gpu.hpp"
#include "catch.hpp"
#include "contractions.hpp"
#include "gpu_kernels.hpp"

#include "dispatch.hpp"
#include "gpu/explain.hpp"
#include "gpu/launcher.hpp"
#include "gpu/product_tiles.hpp"
#include "gpu/products.hpp"
#include "products.hpp"

using namespace bitfold;
using test::array_on_gpu;

namespace {

/// An array in row-major order whose last two axes change places where it is transposed.
struct matrices {
  dtype type;
  std::vector<std::int64_t> extents;  ///< as a product sees them
  bool transposed = false;
  std::int64_t gap = 0;    ///< elements between rows
  std::size_t off = 0;     ///< elements from an aligned address
  std::int64_t times = 0;  ///< the same so often along another axis, if that is any
  std::vector<std::byte> bytes{};

  std::int64_t pitch() const { return extents[extents.size() - (transposed ? 2 : 1)] + gap; }
  std::size_t size() const {
    std::int64_t n = pitch();
    const std::size_t along = extents.size() - (transposed ? 2 : 1);
    for (std::size_t k = 0; k < extents.size(); ++k)
      if (k != along) n *= extents[k];
    return static_cast<std::size_t>(n);
  }
  view at(const void* data) const {
    view v{type, data, static_cast<int>(extents.size()), {}, {}};
    std::int64_t step = 1;
    for (int k = v.rank - 1; k >= 0; --k) {
      const int axis = transposed && k >= v.rank - 2 ? 2 * v.rank - 3 - k : k;
      const auto i = static_cast<std::size_t>(axis);
      v.extent[i] = extents[i];
      v.stride[i] = step;
      step *= k == v.rank - 1 ? pitch() : extents[i];
    }
    return times == 0 ? v : repeated(v);
  }
  view repeated(view v) const {
    for (int k = v.rank; k > 0; --k) {
      v.extent[k] = v.extent[k - 1];
      v.stride[k] = v.stride[k - 1];
    }
    v.extent[0] = times;
    v.stride[0] = 0;
    ++v.rank;
    return v;
  }
};

/// `equal`: whose lower digits are -128, so that sums of their products grow fastest.
enum class values { ordinary, outliers, any, with_specials, equal, near_a_tie, large };

void fill(matrices& m, values how, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  m.bytes.resize(m.size() * size_of(m.type));
  visit(m.type, [&]<class T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < m.size(); ++i) {
      T x{};
      if constexpr (std::is_integral_v<T>) {
        x = static_cast<T>(random());
      } else {
        double d = normal(random);
        if (how == values::outliers && random() % 64 == 0) d *= 1000;
        if (how == values::any) d = std::ldexp(d, static_cast<int>(random() % 2000) - 1000);
        if (how == values::with_specials && random() % 97 == 0)
          d = random() % 3 == 0 ? std::nan("") : random() % 2 ? INFINITY : -INFINITY;
        if (random() % 17 == 0) d = random() % 2 ? 0.0 : -0.0;
        if (how == values::equal) d = 129.0 / 128;
        if (how == values::near_a_tie) d = i % 9 == 8 ? 0x1p-14 : 1;
        if (how == values::large) d = 0x1.5p27;
        x = arith::round_to<T>(d);
      }
      std::memcpy(m.bytes.data() + i * sizeof(T), &x, sizeof x);
    }
  });
}

struct product_case {
  matrices a, b;
  std::optional<matrices> addend{};
  values how = values::ordinary;
  std::optional<values> addend_how{};  ///< if it is another
  std::optional<method_id> method{};
  std::optional<dtype> out{};
  std::optional<int> bits{};
  std::size_t memory = cuda::default_product_memory;
};

// Of a product as it is planned that way.
void check_way(const matrix_product& p, const detail::product_layout& l,
               const detail::addend_layout* added, std::size_t memory, gpu::product_way way,
               const std::vector<std::byte>& want,
               const gpu::device_facts& on = gpu::facts_of_current_device()) {
  const array_on_gpu out(std::vector<std::byte>(want.size()), p.out());
  const gpu::plan made = gpu::plan_product({p, l, added, out.at()}, memory, on, way);
  const array_on_gpu workspace(std::vector<std::byte>(made.workspace), dtype::f64);
  gpu::run(made, {.workspace = workspace.at()}, nullptr);
  test::wait_for();
  INFO(gpu::explain(made, gpu::facts_of_current_device()));
  test::check_same("out", out.contents(), want);
  (void)workspace.contents();
}

void check_product(product_case c, std::uint64_t seed = 1) {
  fill(c.a, c.how, seed);
  fill(c.b, c.how, seed + 1);
  if (c.addend) fill(*c.addend, c.addend_how.value_or(c.how), seed + 2);
  const matrix_product p = make_matrix_product(c.a.type, c.method, c.out, c.bits);
  const view a = c.a.at(c.a.bytes.data()), b = c.b.at(c.b.bytes.data());
  std::size_t n = size_of(p.out());
  for (const std::int64_t e : matmul_extents(a, b)) n *= static_cast<std::size_t>(e);
  std::vector<std::byte> want(n);
  std::optional<view> addend;
  if (c.addend) {
    addend = c.addend->at(c.addend->bytes.data());
    cpu::matmul(p, a, b, *addend, want.data());
  } else {
    cpu::matmul(p, a, b, want.data());
  }
  const array_on_gpu there_a(c.a.bytes, c.a.type, c.a.off), there_b(c.b.bytes, c.b.type, c.b.off),
      out(std::vector<std::byte>(n), p.out());
  const view x = c.a.at(there_a.at()), y = c.b.at(there_b.at());
  std::optional<array_on_gpu> there_addend;
  if (c.addend) {
    there_addend.emplace(c.addend->bytes, c.addend->type);
    addend = c.addend->at(there_addend->at());
  }
  const view* const added = addend ? &*addend : nullptr;
  INFO(name(c.a.type) << " to " << name(p.out()) << ", of " << c.a.extents.size() << " axes");
  const detail::product_layout l = detail::layout_of(x, y);
  const std::size_t results = l.results.size() * l.a.vectors * l.b.vectors;
  // An emulated GPU's tiles take seconds for what is larger.
  const bool is_long = test::is_emulated() && (results * l.a.n > 1u << 20 || l.a.n > 1u << 14),
             is_fixed = !p.method() && is_float(p.in());
  if (!is_long || !is_fixed) {
    const std::size_t size = cuda::matmul_workspace_bytes(p, x, y, added, c.memory);
    const array_on_gpu workspace(std::vector<std::byte>(size), dtype::f64);
    cuda::matmul(p, x, y, added, out.at(), workspace.at(), size);
    test::wait_for();
    test::check_same("out", out.contents(), want);
    (void)workspace.contents();
  }
  if (!is_fixed || results == 0) return;
  std::optional<detail::addend_layout> places;
  if (added) places = detail::layout_of(*added, l);
  for (const auto way : {gpu::product_way::tiles, gpu::product_way::library}) {
    if (way == gpu::product_way::tiles && is_long) continue;
    check_way(p, l, places ? &*places : nullptr, c.memory, way, want);
  }
}

void by_each_algorithm(product_case c, void (*take)(std::size_t), std::size_t (*most)()) {
  fill(c.a, c.how, 1);
  fill(c.b, c.how, 2);
  const matrix_product p = make_matrix_product(c.a.type);
  const view a = c.a.at(c.a.bytes.data()), b = c.b.at(c.b.bytes.data());
  std::size_t n = size_of(p.out());
  for (const std::int64_t e : matmul_extents(a, b)) n *= static_cast<std::size_t>(e);
  std::vector<std::byte> want(n);
  cpu::matmul(p, a, b, want.data());
  const array_on_gpu there_a(c.a.bytes, c.a.type), there_b(c.b.bytes, c.b.type);
  const detail::product_layout l = detail::layout_of(c.a.at(there_a.at()), c.b.at(there_b.at()));
  for (std::size_t k = 0; k < std::max<std::size_t>(most(), 1); ++k) {
    take(k);
    INFO("algorithm " << k << " of " << most());
    check_way(p, l, nullptr, c.memory, gpu::product_way::library, want);
  }
}

matrices of(dtype type, std::vector<std::int64_t> extents, bool transposed = false,
            std::int64_t gap = 0, std::size_t off = 0, std::int64_t times = 0) {
  return {type, std::move(extents), transposed, gap, off, times};
}

}  // namespace

TEST_CASE("products on a GPU have the CPU's bits: types and layouts", "[racecheck]") {
  std::size_t place = 0;
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::f16, dtype::f64}) {
    std::size_t k = place++;
    for (const product_case& c : {
             product_case{of(t, {33, 200}), of(t, {200, 40})},
             product_case{of(t, {33, 201}, false, 3, 1), of(t, {201, 37}, true, 5, 1)},
             product_case{of(t, {1, 64}), of(t, {64, 1})},
             product_case{of(t, {32, 136}, true), of(t, {136, 24}, true), of(t, {24})},
             product_case{of(t, {64}), of(t, {64, 9})},
             product_case{of(t, {5, 0}), of(t, {0, 3})},
         })
      if (test::takes_kernels(k++, 2)) check_product(c);
  }
}

TEST_CASE("products on a GPU have the CPU's bits: values", "[racecheck]") {
  std::size_t place = 0;
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::f16, dtype::f64})
    for (const values how : {values::outliers, values::any, values::with_specials})
      for (std::uint64_t seed = 1; seed < 4; ++seed) {
        if (!test::takes_kernels(place++, 2)) continue;
        check_product({of(t, {19, 70}), of(t, {70, 23}), {}, how}, seed);
        check_product({of(t, {19, 70}), of(t, {70, 23}), of(t, {19, 23}), how}, seed);
      }
}

TEST_CASE("products on a GPU have the CPU's bits: several matrices") {
  const dtype t = dtype::f32;
  check_product({of(t, {3, 2, 9, 40}), of(t, {3, 2, 40, 7})});
  check_product({of(t, {3, 9, 40}), of(t, {40, 7}), of(t, {7})});        // rows of one
  check_product({of(t, {9, 40}), of(t, {3, 40, 7}), of(t, {3, 9, 1})});  // columns of one
  check_product({of(t, {3, 1, 9, 40}), of(t, {2, 40, 7}, true)});        // each is of several
  check_product({of(t, {1, 9, 40}), of(t, {3, 40, 7}), of(t, {3, 1, 7})});
}

TEST_CASE("products on a GPU have the CPU's bits: one matrix of several results") {
  const auto same = [](std::vector<std::int64_t> extents, std::int64_t times) {
    return of(dtype::f32, std::move(extents), false, 0, 0, times);
  };
  check_product({same({9, 40}, 3), of(dtype::f32, {40, 7})});
  check_product({same({9, 40}, 3), same({40, 7}, 3), of(dtype::f32, {3, 9, 7})});
  check_product({same({2, 9, 40}, 3), of(dtype::f32, {2, 40, 7})});
}

TEST_CASE("products on a GPU have the CPU's bits: as many elements as sums of 32 bits take") {
  for (const std::int64_t n : {cuda::max_products_of_digits, cuda::max_products_of_digits + 56}) {
    product_case c{of(dtype::bf16, {2, n}), of(dtype::bf16, {n, 3}, true)};
    for (const int bits : {8, 16}) {
      c.bits = bits;
      for (const values how : {values::ordinary, values::equal}) {
        const bool is_longer = n != cuda::max_products_of_digits;
        if (!test::takes_kernels(is_longer + (bits == 8) + (how == values::equal), 2)) continue;
        c.how = how;
        check_product(c);
      }
    }
  }
}

TEST_CASE("products on a GPU have the CPU's bits: in parts, of any size of workspace") {
  for (const std::size_t memory : {std::size_t{0}, std::size_t{1} << 18, std::size_t{1} << 20}) {
    product_case c{of(dtype::f32, {130, 2100}), of(dtype::f32, {2100, 150}), of(dtype::f32, {150})};
    c.memory = memory;
    check_product(c);
    product_case several{of(dtype::f32, {5, 70, 40}), of(dtype::f32, {5, 40, 90}, true)};
    several.memory = memory;
    check_product(several);
    product_case half{of(dtype::bf16, {130, 300}), of(dtype::bf16, {300, 150})};
    half.memory = memory;
    check_product(half);
  }
}

TEST_CASE("products on a GPU have the CPU's bits: bits, output types, other methods, integers") {
  const auto with = [](dtype t, std::optional<dtype> out, std::optional<int> bits,
                       std::optional<method_id> method = {}) {
    product_case c{of(t, {9, 50}), of(t, {50, 8})};
    c.out = out;
    c.bits = bits;
    c.method = method;
    check_product(c);
  };
  with(dtype::bf16, dtype::f32, 18);
  with(dtype::bf16, dtype::bf16, 8);
  with(dtype::f32, dtype::f64, 35);
  with(dtype::f32, dtype::f32, 16);
  with(dtype::f32, {}, {}, method_id::tree);
  with(dtype::bf16, {}, {}, method_id::exact);
  with(dtype::i32, {}, {});
}

namespace {
// An emulated GPU's kernels take a second each to compile. What f16 has of its own others see.
std::vector<dtype> some_types() {
  std::vector<dtype> types{dtype::f32, dtype::bf16};
  if (test::whole() || !test::is_emulated()) types.push_back(dtype::f16);
  return types;
}
}  // namespace

TEST_CASE("products on a GPU in tiles have the CPU's bits: shapes, parts of rows") {
  std::size_t place = 0;
  for (const dtype t : some_types()) {
    std::size_t k = place++;
    for (const product_case& c : {
             product_case{of(t, {3, 2100}), of(t, {2100, 130})},        // a wide tile
             product_case{of(t, {130, 1030}, true), of(t, {1030, 5})},  // a high one
             product_case{of(t, {20, 1100}), of(t, {1100, 33}, true), of(t, {20, 1})},
             product_case{of(t, {70, 110}), of(t, {110, 65}, true), of(t, {70, 1})},
             product_case{of(t, {20, 24}), of(t, {24, 260}, true)},  // digits with zeros behind
         })
      if (test::takes_kernels(k++, 2)) check_product(c);
  }
  // Each shape of blocks for long and for short vectors, of two, three and four digits.
  for (const std::int64_t n : {100, 300, 600})
    for (const int bits : {16, 24, 28}) {
      product_case one_part{of(dtype::f32, {20, n}), of(dtype::f32, {n, 40}),
                            of(dtype::f32, {20, 1})};
      one_part.bits = bits;
      one_part.how = values::with_specials;
      check_product(one_part);
    }
  // Beside an addend that is far larger: next to a tie.
  product_case beside{of(dtype::bf16, {5, 9}), of(dtype::bf16, {9, 5}, true),
                      of(dtype::f32, {5, 1})};
  beside.out = dtype::f32;
  beside.how = values::near_a_tie;
  beside.addend_how = values::large;
  check_product(beside);
  product_case few{of(dtype::f32, {5, 3000}), of(dtype::f32, {3000, 3})};
  for (const int bits : {8, 11, 24, 30, 32}) {
    few.bits = bits;
    few.how = values::outliers;
    check_product(few);
  }
}

namespace {

// Planned each of these ways, besides the one that is fastest.
void check_contraction(dtype t, const test::contraction& c, values how,
                       std::vector<gpu::product_way> ways = {gpu::product_way::tiles,
                                                             gpu::product_way::library}) {
  const std::size_t size = size_of(t);
  const auto memory_of = [&](std::uint64_t seed) {
    matrices m = of(t, {20000});
    fill(m, how, seed);
    return m.bytes;
  };
  const std::vector<std::byte> x = memory_of(1), y = memory_of(2), z = memory_of(3);
  const test::copies rows(c.a, c.batch, t, x), columns(c.b, c.batch, t, y);
  const matrix_product p = make_matrix_product(t);
  std::vector<std::byte> want(static_cast<std::size_t>(std::max(rows.batch, columns.batch) *
                                                       rows.vectors * columns.vectors) *
                              size);
  const view bias = row_major(t, z.data(), {rows.vectors, 1});
  if (c.with_addend)
    cpu::matmul(p, rows.as_rows(), columns.as_columns(), bias, want.data());
  else
    cpu::matmul(p, rows.as_rows(), columns.as_columns(), want.data());
  const array_on_gpu there_x(x, t), there_y(y, t), there_z(z, t),
      out(std::vector<std::byte>(want.size()), t);
  const view bias_there = row_major(t, there_z.at(), {rows.vectors, 1});
  const view *const addend = c.with_addend ? &bias_there : nullptr, left = c.a.at(t, there_x.at()),
                    other = c.b.at(t, there_y.at());
  REQUIRE(cuda::can_contract(p, left, other, c.axes()));
  const std::size_t bytes = cuda::contract_workspace_bytes(p, left, other, c.axes(), addend);
  const array_on_gpu workspace(std::vector<std::byte>(bytes), dtype::f64);
  cuda::contract(p, left, other, c.axes(), addend, out.at(), workspace.at(), bytes);
  test::wait_for();
  test::check_same("out", out.contents(), want);
  (void)workspace.contents();
  const detail::product_layout l = detail::layout_of(left, other, c.axes());
  std::optional<detail::addend_layout> added;
  if (addend) added = detail::layout_of(*addend, l);
  for (const gpu::product_way way : ways)
    for (const std::size_t memory : {cuda::default_product_memory, std::size_t{1} << 16})
      check_way(p, l, added ? &*added : nullptr, memory, way, want);
  // As for a GPU of one processor, whose threads take several results each.
  gpu::device_facts small = gpu::facts_of_current_device();
  small.processors = 1;
  check_way(p, l, added ? &*added : nullptr, cuda::default_product_memory,
            gpu::product_way::fastest, want, small);
}

}  // namespace

// By each_algorithm.cpp in the library's place, of which BITFOLD_CUBLASLT says where it is.
TEST_CASE("by each of the library's algorithms products on a GPU have the CPU's bits",
          "[.][algorithms]") {
  void* const library = dlopen(std::getenv("BITFOLD_CUBLASLT"), RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(library);
  const auto function = [&]<class F>(std::type_identity<F>, const char* called) {
    return reinterpret_cast<F*>(dlsym(library, called));
  };
  const auto take = function(std::type_identity<void(std::size_t)>{}, "each_algorithm_take");
  const std::type_identity<std::size_t()> number;
  const auto most = function(number, "each_algorithm_most"),
             taken = function(number, "each_algorithm_taken");
  REQUIRE((take && most && taken));
  const auto longer = static_cast<std::int64_t>(cuda::max_products_of_digits) + 100;
  for (product_case c : {
           product_case{of(dtype::f32, {64, 512}), of(dtype::f32, {512, 48}, true)},
           product_case{of(dtype::bf16, {33, 100}), of(dtype::bf16, {100, 17})},
           product_case{of(dtype::f64, {40, 300}), of(dtype::f64, {300, 72}), {}, values::outliers},
           product_case{of(dtype::f16, {5, 70, 96}), of(dtype::f16, {5, 96, 130})},
           product_case{of(dtype::f32, {9, longer}), of(dtype::f32, {longer, 8}, true)},
           product_case{
               of(dtype::bf16, {1500, 64}), of(dtype::bf16, {64, 1408}), {}, values::equal},
       })
    by_each_algorithm(c, take, most);
  std::printf("%zu algorithms\n", taken());
  CHECK(taken() > 10);
}

TEST_CASE("contractions on a GPU have the bits of products of copies", "[racecheck]") {
  for (const dtype t : some_types())
    for (const values how : {values::ordinary, values::with_specials})
      for (const test::contraction& c : test::contractions()) check_contraction(t, c, how);
  for (const test::contraction& c : test::contractions())
    check_contraction(dtype::f64, c, values::ordinary);
}

namespace {

/// Of any strides, among 20000 elements.
test::contracted_operand some_operand(std::mt19937_64& random, std::vector<std::int64_t> extents,
                                      int of_vectors) {
  test::contracted_operand x{std::move(extents), {}, 0, of_vectors};
  std::int64_t reach = 0;
  for (const std::int64_t n : x.extents) {
    const auto stride = static_cast<std::int64_t>(random() % 121) - 60;
    x.strides.push_back(stride);
    x.first += stride < 0 ? -stride * (n - 1) : 0;
    reach += std::abs(stride) * (n - 1);
  }
  REQUIRE(reach < 20000);
  return x;
}

}  // namespace

// Of more elements than sums of 32 bits have room for, which are listed and go in parts.
const test::contraction long_vectors{
    0, {{1, 363, 364}, {1, 27, 23}, 0, 1}, {{2, 363, 364}, {700, 27, 23}, 0, 1}, false};

TEST_CASE("contractions on a GPU: of any axes and strides") {
  check_contraction(dtype::f32, long_vectors, values::ordinary, {gpu::product_way::library});
  std::mt19937_64 random(11);
  for (int k = 0; k < (test::whole() ? 300 : 20); ++k) {
    const auto add_axes = [&](std::vector<std::int64_t>& to, int count, std::uint64_t most) {
      for (; count > 0; --count) to.push_back(static_cast<std::int64_t>(1 + random() % most));
    };
    const auto number = [&](int least, int most) {
      return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
    };
    std::vector<std::int64_t> batch, a, b, elements;
    add_axes(batch, number(0, 2), 4);
    const int of_a = number(0, 2), of_b = number(0, 2);
    add_axes(a = batch, of_a, 9);
    add_axes(b = batch, of_b, 25);
    add_axes(elements, number(1, 3), 12);
    for (std::vector<std::int64_t>* of : {&a, &b})
      of->insert(of->end(), elements.begin(), elements.end());
    const test::contraction c{static_cast<int>(batch.size()), some_operand(random, a, of_a),
                              some_operand(random, b, of_b), random() % 2 == 0};
    INFO("contraction " << k);
    const dtype type = std::array{dtype::f32, dtype::bf16, dtype::f64}[random() % 3];
    check_contraction(type, c, random() % 2 ? values::ordinary : values::with_specials);
  }
}

TEST_CASE("contractions on a GPU say what is wrong") {
  const matrix_product p = make_matrix_product(dtype::f32);
  const test::device_memory x(std::vector<float>(64));
  const view a = row_major(dtype::f32, x.p, {4, 4, 4}), b = row_major(dtype::f32, x.p, {2, 8}),
             wide = row_major(dtype::f64, x.p, {2, 16}), many = row_major(dtype::f32, x.p, {8, 8});
  CHECK(cuda::contract_workspace_bytes(p, row_major(dtype::f32, x.p, {4, 0}),
                                       row_major(dtype::f32, x.p, {0, 0}), {0, 1, 1}) == 0);
  CHECK_THROWS_AS(cuda::contract_workspace_bytes(p, a, b, {0, 1, 1}), error);  // 16 and 8
  CHECK_THROWS_AS(cuda::contract_workspace_bytes(p, a, b, {0, 3, 1}), error);
  CHECK_THROWS_AS(cuda::contract_workspace_bytes(p, a, b, {-1, 1, 1}), error);
  CHECK_THROWS_AS(cuda::contract_workspace_bytes(p, a, wide, {0, 1, 1}), error);
  view far = a;
  far.stride[2] = std::int64_t{1} << 30;
  CHECK_FALSE(cuda::can_contract(p, far, far, {0, 1, 1}));
  CHECK_THROWS_AS(cuda::contract_workspace_bytes(p, far, far, {0, 1, 1}), error);
  CHECK_THROWS_AS(cuda::contract(p, a, a, {0, 1, 1}, nullptr, nullptr, x.p, 1 << 20), error);
  CHECK_THROWS_AS(cuda::contract(p, many, many, {0, 1, 1}, nullptr, x.p, x.p, 0), error);
  const auto odd = static_cast<char*>(x.p) + 2;
  const view row = row_major(dtype::f32, odd, {1});
  CHECK_THROWS_WITH(cuda::contract_workspace_bytes(p, a, a, {0, 1, 1}, &row),
                    "addend: not aligned to its elements");
  CHECK_THROWS_WITH(cuda::contract(p, a, a, {0, 1, 1}, nullptr, odd, x.p, 1 << 20),
                    "out: not aligned to its elements");
}

TEST_CASE("products on a GPU say what is wrong, and do nothing for nothing") {
  const matrix_product p = make_matrix_product(dtype::f32);
  const test::device_memory x(std::vector<float>(12)), out(std::vector<float>(36, 7));
  const view a = row_major(dtype::f32, x.p, {6, 2}), b = row_major(dtype::f32, x.p, {2, 6}),
             none = row_major(dtype::f32, x.p, {2, 0}), h = row_major(dtype::f16, x.p, {2, 6});
  const std::size_t size = cuda::matmul_workspace_bytes(p, a, b);
  REQUIRE(size > 0);
  CHECK_THROWS_AS(cuda::matmul(p, a, b, nullptr, out.p, x.p, size - 256), error);
  CHECK_THROWS_AS(cuda::matmul(p, a, b, nullptr, nullptr, x.p, size), error);
  CHECK_THROWS_AS(cuda::matmul(p, a, h, nullptr, out.p, x.p, size), error);
  CHECK_THROWS_AS(cuda::matmul(p, a, a, nullptr, out.p, x.p, size), error);
  CHECK_THROWS_AS(cuda::matmul(p, a, b, &h, out.p, x.p, size), error);
  const auto odd = static_cast<char*>(out.p) + 2;
  const view row = row_major(dtype::f32, odd, {6});
  CHECK_THROWS_WITH(cuda::matmul(p, a, b, &row, out.p, x.p, size),
                    "addend: not aligned to its elements");
  CHECK_THROWS_WITH(cuda::matmul(p, a, b, nullptr, odd, x.p, size),
                    "out: not aligned to its elements");
  CHECK(cuda::matmul_workspace_bytes(p, a, none) == 0);
  cuda::matmul(p, a, none, nullptr, out.p, nullptr, 0);
  test::wait_for();
  CHECK(*out.as<float>() == 7);
}

TEST_CASE("a plan of a product keeps to its memory, and is explained") {
  const matrix_product p = make_matrix_product(dtype::f32);
  const view a = row_major(dtype::f32, &p, {8192, 4096}),
             b = row_major(dtype::f32, &p, {4096, 50257});
  const auto l = detail::layout_of(a, b);
  const gpu::device_facts& on = gpu::facts_of_current_device();
  for (const std::size_t memory :
       {std::size_t{1} << 28, std::size_t{1} << 30, std::size_t{1} << 40}) {
    const gpu::plan made = gpu::plan_product({p, l, nullptr, nullptr}, memory, on);
    CHECK(made.workspace <= memory);
    CHECK(gpu::plan_product({p, l, nullptr, nullptr}, made.workspace, on).workspace ==
          made.workspace);
  }
  // Few tiles share out their rows, in the workspace that is asked for as in any larger one.
  const view few = row_major(dtype::f32, &p, {5, 3000}),
             others = row_major(dtype::f32, &p, {3000, 3});
  const auto few_l = detail::layout_of(few, others);
  const auto planned = [&](std::size_t memory) {
    return gpu::plan_product({p, few_l, nullptr, nullptr}, memory, on, gpu::product_way::tiles);
  };
  const std::size_t asked_for = planned(1 << 30).workspace;
  // A block of tiles has no more shared memory than any GPU gives it.
  constexpr std::size_t least_shared_bytes = 99 << 10;
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32})
    for (const std::int64_t rows : {8, 64})
      for (const std::int64_t columns : {8, 24, 64})
        for (const std::int64_t n : {64, 300, 600}) {
          const auto layout =
              detail::layout_of(row_major(t, &p, {rows, n}), row_major(t, &p, {n, columns}));
          const gpu::plan of_tiles = gpu::plan_product(
              {make_matrix_product(t), layout, nullptr, nullptr}, 0, on, gpu::product_way::tiles);
          for (const auto& step : of_tiles.steps)
            if (const auto* some = std::get_if<gpu::pass>(&step))
              CHECK(some->shared_bytes <= least_shared_bytes);
        }
  CHECK(planned(1 << 30).steps.size() == 5);  // zeros, two of measures, tiles, sums
  CHECK(planned(asked_for).steps.size() == 5);
  CHECK(planned(asked_for - 1).steps.size() == 4);
  // Rows that are longer than sums of 32 bits go in parts: room for sums comes before digits that
  // are made ahead, and a workspace of the size that is asked for does.
  const view long_row = row_major(dtype::f32, &p, {1, 32800}),
             many = row_major(dtype::f32, &p, {32800, 9000});
  const auto long_row_l = detail::layout_of(long_row, many);
  const auto size_with = [&](std::size_t memory) {
    return gpu::plan_product({p, long_row_l, nullptr, nullptr}, memory, on, gpu::product_way::tiles)
        .workspace;
  };
  const std::size_t least = size_with(0), most = size_with(1 << 30);
  CHECK(least < most);
  for (const std::size_t memory : {least, (least + most) / 2, most - 1, most})
    CHECK(size_with(memory) <= memory);
  // What is noted of each row takes more than that.
  const view long_a = row_major(dtype::f32, &p, {std::int64_t{1} << 27, 3}),
             short_b = row_major(dtype::f32, &p, {3, 3});
  const auto long_l = detail::layout_of(long_a, short_b);
  const gpu::plan made = gpu::plan_product({p, long_l, nullptr, nullptr}, 1 << 30, on);
  CHECK(made.steps.size() < 10'000);
  CHECK(made.workspace < (std::size_t{1} << 30) * 5 / 2 + 1);
  CHECK(gpu::plan_product({p, long_l, nullptr, nullptr}, made.workspace, on).workspace ==
        made.workspace);
  // Little memory makes some thousand parts and no more, and goes to matrices rather than to the
  // library's algorithms.
  const matrix_product of_doubles = make_matrix_product(dtype::f64);
  const auto by_library = [&](const std::vector<std::int64_t>& a,
                              const std::vector<std::int64_t>& b, std::size_t memory) {
    const auto of = detail::layout_of(row_major(dtype::f64, &p, a), row_major(dtype::f64, &p, b));
    return gpu::plan_product({of_doubles, of, nullptr, nullptr}, memory, on,
                             gpu::product_way::library);
  };
  CHECK(by_library({8192, 8192}, {8192, 8192}, 1 << 20).steps.size() < 40'000);
  const auto batch = [&](std::size_t memory) {
    return by_library({20000, 8, 64}, {20000, 64, 8}, memory).steps.size();
  };
  CHECK(batch(12 << 20) < 2000);
  const std::string text = gpu::explain(
      gpu::plan_product({p, l, nullptr, nullptr}, -1, on, gpu::product_way::library), on);
  CHECK(text.find("cuBLASLt: int8 8192 x 4096 by 4096 x 50272, 9 times") != std::string::npos);
}

TEST_CASE("a plan of a product goes the way that is fastest, where there is that way") {
  const matrix_product p = make_matrix_product(dtype::f32);
  const gpu::device_facts& on = gpu::facts_of_current_device();
  const auto explained = [&](const gpu::plan& made) { return gpu::explain(made, on); };
  // Of patches of 3 x 3 by few filters digits take longer through memory than in tiles; by many
  // they are made once.
  const auto by_library = [&](std::int64_t filters) {
    const test::contracted_operand of_filters{{500, filters, 256, 3, 3}, {0, 2304, 9, 3, 1}, 0, 1},
        patches{{500, 14, 14, 256, 3, 3}, {65536, 16, 1, 256, 16, 1}, 0, 2};
    const auto l = detail::layout_of(of_filters.at(dtype::f32, &p), patches.at(dtype::f32, &p),
                                     test::contraction{1, of_filters, patches, false}.axes());
    const gpu::plan of_patches = gpu::plan_product({p, l, nullptr, nullptr}, 1 << 30, on);
    CHECK(of_patches.workspace <= std::size_t{1} << 30);
    return std::ranges::any_of(of_patches.steps, [](const auto& step) {
      return std::holds_alternative<gpu::integer_product>(step);
    });
  };
  CHECK(by_library(256));
  CHECK_FALSE(by_library(16));
  CHECK_FALSE(by_library(2));
  const auto long_l = detail::layout_of(long_vectors.a.at(dtype::f32, &p),
                                        long_vectors.b.at(dtype::f32, &p), long_vectors.axes());
  CHECK(explained(gpu::plan_product({p, long_l, nullptr, nullptr}, 1 << 30, on,
                                    gpu::product_way::library))
            .find("reduce_sums") != std::string::npos);
  // Few rows whose elements are further apart than 32 bits say.
  const matrix_product of_halves = make_matrix_product(dtype::f16);
  const view few_rows = row_major(dtype::f16, &p, {4, 16}),
             wide = row_major(dtype::f16, &p, {16, 1 << 28}),
             narrow = row_major(dtype::f16, &p, {16, 1 << 26});
  for (const auto& [columns, short_ones] : {std::pair{wide, false}, {narrow, true}}) {
    const auto l = detail::layout_of(few_rows, columns);
    const std::string text =
        explained(gpu::plan_product({of_halves, l, nullptr, nullptr}, 1 << 30, on));
    CHECK((text.find("multiply_short") != std::string::npos) == short_ones);
  }
  // Matrices that lie side by side; too few of them; and not quite side by side.
  const auto explained_of = [&](const test::contraction& c) {
    const auto l = detail::layout_of(c.a.at(dtype::f32, &p), c.b.at(dtype::f32, &p), c.axes());
    return explained(gpu::plan_product({p, l, nullptr, nullptr}, 1 << 30, on));
  };
  const auto has = [](const std::string& text, const char* kernel) {
    return text.find(kernel) != std::string::npos;
  };
  struct placed {
    std::int64_t count, stride;
    bool beside;
  };
  for (const placed& x : {placed{16, 1, true}, {15, 1, false}, {16, 2, false}}) {
    const std::string of_short = explained_of({2,
                                               {{6, x.count, 9}, {0, 9, 1}, 0, 0},
                                               {{6, x.count, 9}, {100, x.stride, 40}, 0, 0},
                                               false}),
                      of_long = explained_of({1,
                                              {{x.count, 5000}, {x.stride, 40}, 0, 0},
                                              {{x.count, 3, 5000}, {x.stride, 7, 40}, 0, 1},
                                              false});
    CHECK(has(of_short, "multiply_short_beside") == x.beside);
    CHECK(has(of_long, "multiply_few_beside") == x.beside);
    CHECK(has(of_long, "measure_few") == x.beside);
  }
  // Elements along several axes are measured together, too.
  CHECK(has(explained_of({1,
                          {{2, 70, 80}, {10000, 100, 1}, 0, 0},
                          {{2, 3, 3, 70, 80}, {10000, 100, 1, 100, 1}, 0, 2},
                          false}),
            "measure_few"));
}

TEST_CASE("NVRTC compiles kernels of products", "[.][nvrtc]") {
  if (!test::has_compiler()) return;
  const gpu::device_facts on = gpu::facts_of({9, 0});
  alignas(16) static const double somewhere = 0;
  int kernels = 0;
  test::sample_of_kernels sample;
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::f16, dtype::f64})
    for (const std::int64_t k : {128, 4096, 200000})
      for (const bool transposed : {false, true}) {
        const matrix_product p = make_matrix_product(t);
        view b = row_major(t, &somewhere, {k, 64});
        if (transposed) b.stride[0] = 1, b.stride[1] = k;
        const view a = row_major(t, &somewhere, {64, k}), c = row_major(t, &somewhere, {64});
        const detail::product_layout l = detail::layout_of(a, b);
        const detail::addend_layout added = detail::layout_of(c, l);
        const gpu::product_problem of{p, l, transposed ? &added : nullptr, nullptr};
        for (const gpu::kernel& one : gpu::kernels_of(gpu::plan_product(of, 1 << 30, on))) {
          if (!sample.takes(one)) continue;
          INFO(signature_of(one));
          CHECK(gpu::compile(gpu::source_of(one), 9, 0).image.size() > 1000);
          ++kernels;
        }
      }
  // Filters and patches of 3 x 3 of images of 8 channels, 10 x 10; one filter for each channel, and
  // its gradient.
  const test::contracted_operand patches{{4, 8, 8, 8, 3, 3}, {800, 10, 1, 100, 10, 1}, 0, 2},
      of_one_channel{{8, 8, 8, 3, 3}, {100, 10, 1, 10, 1}, 0, 2},
      met{{8, 3, 3, 100, 8, 8}, {100, 10, 1, 800, 10, 1}, 0, 2};
  const test::contraction all[] = {
      {1, {{4, 16, 8, 3, 3}, {0, 72, 9, 3, 1}, 0, 1}, patches, false},
      {1, {{8, 1, 3, 3}, {9, 0, 3, 1}, 0, 1}, of_one_channel, false},
      {1, {{8, 1, 100, 8, 8}, {9, 0, 800, 10, 1}, 0, 1}, met, false},
  };
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::f16, dtype::f64}) {
    const matrix_product p = make_matrix_product(t);
    for (const test::contraction& c : all) {
      const detail::product_layout l =
          detail::layout_of(c.a.at(t, &somewhere), c.b.at(t, &somewhere), c.axes());
      const gpu::product_problem some{p, l, nullptr, nullptr};
      for (const gpu::product_way way : {gpu::product_way::fastest, gpu::product_way::library})
        for (const gpu::kernel& k : gpu::kernels_of(gpu::plan_product(some, 1 << 30, on, way))) {
          if (!sample.takes(k)) continue;
          INFO(signature_of(k));
          CHECK(gpu::compile(gpu::source_of(k), 9, 0).image.size() > 1000);
          ++kernels;
        }
    }
  }
  std::printf("%d kernels of products\n", kernels);
}
