// Products of matrices on the CPU: the bits of the definition, for all types, shapes, layouts,
// batches and numbers of threads.
#include <bitfold/matmul.hpp>

#include <array>
#include <cfenv>
#include <fstream>
#include <numeric>
#include <sstream>

#include "catch.hpp"
#include "contractions.hpp"
#include "control_word.hpp"
#include "data.hpp"
#include "main.hpp"
#include "product_truth.hpp"
#include "refusals.hpp"

#include "cpu/products.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

constexpr dtype floats[] = {dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

cpu::options with(int threads) { return {.threads = threads, .target = forced_target}; }

std::uint64_t bits_at(dtype t, const void* p) {
  std::uint64_t b = 0;
  std::memcpy(&b, p, size_of(t));
  return b;
}

// Elements of a view by their indices.
std::uint64_t element(const view& x, const std::vector<std::int64_t>& at) {
  std::int64_t o = 0;
  for (int k = 0; k < x.rank; ++k) o += at[static_cast<std::size_t>(k)] * x.stride[k];
  return bits_at(x.type, static_cast<const std::byte*>(x.data) +
                             o * static_cast<std::int64_t>(size_of(x.type)));
}

/// How an operand lies in memory.
enum class lie { rows, transposed, backwards, gaps };
constexpr lie all_lies[] = {lie::rows, lie::transposed, lie::backwards, lie::gaps};

struct operand {
  std::vector<std::byte> bytes;
  view v{};
};
/// Elements of a kind, laid out in some way; the extents end with a matrix's.
operand make_operand(dtype t, kind what, const std::vector<std::int64_t>& extents, lie how,
                     std::uint64_t seed) {
  const std::int64_t gap = how == lie::gaps ? 3 : 1;
  std::int64_t n = gap;
  for (const std::int64_t e : extents) n *= e;
  operand o{make_data(t, what, static_cast<std::size_t>(n), seed), {}};
  o.v = {t, o.bytes.data(), static_cast<int>(extents.size()), {}, {}};
  std::vector<int> order(extents.size());
  std::iota(order.begin(), order.end(), 0);
  if (how == lie::transposed) std::reverse(order.begin(), order.end());
  std::int64_t stride = gap;
  for (std::size_t k = extents.size(); k-- > 0;) {
    const auto axis = static_cast<std::size_t>(order[k]);
    o.v.extent[axis] = extents[axis];
    o.v.stride[axis] = stride;
    stride *= extents[axis];
  }
  if (how == lie::backwards && n > 0) {
    o.v.data = o.bytes.data() + static_cast<std::size_t>(n - 1) * size_of(t);
    for (int k = 0; k < o.v.rank; ++k) o.v.stride[k] = -o.v.stride[k];
  }
  return o;
}

/// The rows of a, or the columns of b, of one matrix of a batch.
std::vector<fixed_vector> vectors_of(const view& x, std::vector<std::int64_t> batch, bool left,
                                     int bits) {
  const int of = x.rank - (left ? 2 : 1), along = x.rank - (left ? 1 : 2);
  std::vector<fixed_vector> all;
  batch.resize(static_cast<std::size_t>(x.rank));
  for (std::int64_t i = 0; i < x.extent[of]; ++i) {
    std::vector<std::uint64_t> one;
    for (std::int64_t p = 0; p < x.extent[along]; ++p) {
      batch[static_cast<std::size_t>(of)] = i;
      batch[static_cast<std::size_t>(along)] = p;
      one.push_back(element(x, batch));
    }
    all.push_back(fixed(x.type, one, bits));
  }
  return all;
}

/// All of a product by the definition; batches broadcast. `addends`: one for each result, or none.
std::vector<std::uint64_t> truth(const matrix_product& p, const view& a, const view& b,
                                 const std::vector<std::uint64_t>& addends = {}) {
  const std::vector<std::int64_t> extents = matmul_extents(a, b);
  const std::size_t batch_rank = extents.size() - 2;
  std::int64_t batches = 1;
  for (std::size_t k = 0; k < batch_rank; ++k) batches *= extents[k];
  std::vector<std::uint64_t> want;
  for (std::int64_t i = 0; i < batches; ++i) {
    const auto own = [&](const view& x) {
      std::vector<std::int64_t> at(static_cast<std::size_t>(x.rank - 2));
      std::int64_t rest = i;
      for (std::size_t k = 0; k < batch_rank; ++k) {
        const auto axis = static_cast<std::size_t>(batch_rank - 1 - k);
        const std::int64_t digit = rest % extents[axis];
        rest /= extents[axis];
        if (k < at.size()) {
          const std::size_t mine = at.size() - 1 - k;
          at[mine] = x.extent[mine] == 1 ? 0 : digit;
        }
      }
      return at;
    };
    const auto rows = vectors_of(a, own(a), true, p.bits()),
               columns = vectors_of(b, own(b), false, p.bits());
    for (const auto& row : rows)
      for (const auto& column : columns)
        want.push_back(
            fixed_product(row, column, p.out(), addends.empty() ? 0 : addends[want.size()]));
  }
  return want;
}

std::vector<std::uint64_t> product(const matrix_product& p, const view& a, const view& b,
                                   int threads, const view* addend = nullptr) {
  std::size_t n = 1;
  for (const std::int64_t e : matmul_extents(a, b)) n *= static_cast<std::size_t>(e);
  std::vector<std::byte> out(n * size_of(p.out()) + 8, std::byte{0xa5});
  if (addend)
    cpu::matmul(p, a, b, *addend, out.data(), with(threads));
  else
    cpu::matmul(p, a, b, out.data(), with(threads));
  for (std::size_t k = n * size_of(p.out()); k < out.size(); ++k) CHECK(out[k] == std::byte{0xa5});
  std::vector<std::uint64_t> got;
  for (std::size_t k = 0; k < n; ++k)
    got.push_back(bits_at(p.out(), out.data() + k * size_of(p.out())));
  return got;
}

/// Where they differ first, for a message.
std::string difference(const std::vector<std::uint64_t>& got,
                       const std::vector<std::uint64_t>& want) {
  if (got.size() != want.size()) return "sizes";
  for (std::size_t k = 0; k < got.size(); ++k)
    if (got[k] != want[k])
      return "element " + std::to_string(k) + ": " + std::to_string(got[k]) + " instead of " +
             std::to_string(want[k]);
  return "";
}

struct shape {
  std::int64_t m, k, n;
};
constexpr shape shapes[] = {{1, 1, 1},   {2, 3, 4},    {7, 1, 9},   {1, 65, 33}, {33, 64, 1},
                            {6, 31, 32}, {13, 40, 35}, {20, 9, 70}, {3, 513, 5}, {2, 1100, 3}};

}  // namespace

TEST_CASE("the bits of a product are those of big integers") {
  std::uint64_t seed = 1;
  for (const dtype t : floats)
    for (const kind what : all_kinds)
      for (const shape& s : shapes) {
        const lie left = all_lies[seed % 4], right = all_lies[seed / 4 % 4];
        const operand a = make_operand(t, what, {s.m, s.k}, left, seed),
                      b = make_operand(t, what, {s.k, s.n}, right, seed + 1000);
        const dtype out = floats[seed / 16 % 4];
        ++seed;
        INFO(name(t) << " " << test::name(what) << " " << s.m << "x" << s.k << "x" << s.n << " to "
                     << name(out) << " seed " << seed);
        const matrix_product p = make_matrix_product(t, {}, out), own = make_matrix_product(t);
        CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");
        CHECK(difference(product(own, a.v, b.v, 3), truth(own, a.v, b.v)) == "");
      }
}

TEST_CASE("any number of bits may be asked for") {
  for (const dtype t : floats)
    for (const int bits : {8, 9, 14, 16, 28, 29, 30, 31, 45, 57, 58}) {
      const operand a = make_operand(t, kind::any_bits, {5, 70}, lie::rows, 7),
                    b = make_operand(t, kind::near_one, {70, 6}, lie::rows, 8);
      const matrix_product p = make_matrix_product(t, {}, dtype::f64, bits);
      INFO(name(t) << " " << bits);
      CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");
    }
}

// Elements whose integers are the largest ones of both signs, or whose lower digit is (of 16 bits
// and of 58): sums are as large as they can be.
TEST_CASE("the longest sums of the largest integers") {
  const std::int64_t k = sanitized ? 3000 : 70000;
  for (const int bits : {16, 21, 28, 29, 30, 58})
    for (const double extreme :
         {63.0, -63.0, 62.75, 32255.0 / 512, 63.0 - std::ldexp(1.0, 29 - 1 - (58 - 7))}) {
      std::vector<double> x(static_cast<std::size_t>(k), extreme), y(x.size(), 63);
      x[0] = 63;  // the scale
      const view a = row_major(dtype::f64, x.data(), {1, k}),
                 b = row_major(dtype::f64, y.data(), {k, 1});
      const view c = row_major(dtype::f64, x.data(), {k, 1});
      const matrix_product p = make_matrix_product(dtype::f64, {}, {}, bits);
      INFO(bits << " bits, " << extreme);
      CHECK(difference(product(p, a, b, 1), truth(p, a, b)) == "");
      CHECK(difference(product(p, a, c, 1), truth(p, a, c)) == "");
    }
}

// As many rows, columns and terms as fill tiles, in which such products go where there are any.
TEST_CASE("whole tiles, of any number of bits") {
  const std::array<std::int64_t, 3> shapes[] = {{16, 32, 33}, {48, 32, 64}, {31, 64, 129}};
  for (const dtype t : floats)
    for (const int bits : {8, 9, 16, 17, 21, 22, 28, 29, 30, 58})
      for (const auto& [m, n, k] : shapes) {
        if (test::sanitized && m != 31) continue;
        const operand a = make_operand(t, kind::any_bits, {m, k}, lie::rows, 17),
                      b = make_operand(t, kind::near_one, {k, n}, lie::transposed, 18),
                      c = make_operand(t, kind::near_one, {k, n}, lie::rows, 19);
        const matrix_product p = make_matrix_product(t, {}, dtype::f64, bits);
        INFO(name(t) << " " << bits << " " << m);
        CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");
        CHECK(difference(product(p, a.v, c.v, 2), truth(p, a.v, c.v)) == "");
      }
}

TEST_CASE("the longest sums of the largest integers, in whole tiles") {
  const std::int64_t k = 5000, m = 32, n = 64;
  for (const int bits : {8, 16, 21, 28, 29, 30, 58})
    for (const double extreme : {63.0, -63.0, 63.0 - std::ldexp(1.0, 29 - 1 - (58 - 7))}) {
      std::vector<double> x(static_cast<std::size_t>(k), extreme), y(x.size(), 63);
      x[0] = 63;  // the scale
      view a = row_major(dtype::f64, x.data(), {1, k}), b = row_major(dtype::f64, y.data(), {k, 1});
      const matrix_product p = make_matrix_product(dtype::f64, {}, {}, bits);
      const auto one = truth(p, a, b);
      a.extent[0] = m;
      a.stride[0] = 0;
      b.extent[1] = n;
      b.stride[1] = 0;
      INFO(bits << " bits, " << extreme);
      const auto got = product(p, a, b, 1);
      CHECK(std::count(got.begin(), got.end(), one[0]) == m * n);
    }
}

// Of rows that are too long to be tried: no sum that kernels convert is too large for them.
TEST_CASE("kernels convert the sums of the longest rows that they are given") {
  const cpu::product_kernels kernels = cpu::find_product_kernels(forced_target);
  for (int bits = min_product_bits; bits <= cpu::digit_bits; ++bits)
    for (const int sign : {1, -1}) {
      const auto largest = static_cast<__int128>(std::ldexp(63.0, bits - 7));
      const __int128 sum =
          static_cast<__int128>(cpu::max_converted(bits)) * largest * largest * sign;
      const auto high = static_cast<std::int64_t>(sum >> 32),
                 low = static_cast<std::int64_t>(sum & 0xffffffff);
      const int exponent = 0;
      const double none = 0, want = static_cast<double>(sum);
      double nearest = 0, added = 0;
      kernels.as_nearest(&high, &low, 1, &exponent, nullptr, &nearest);
      kernels.with_addends(&high, &low, 1, &exponent, &none, &added);
      INFO(bits << " bits");
      CHECK(nearest == want);
      CHECK(std::abs(added - want) <= std::abs(want) * 0x1p-52);  // rounded to odd
    }
}

// A sum just above a tie, by less than the tie's 64th bit shows; and a tie, and just below. And by
// almost the last place of a double.
TEST_CASE("no bit of a sum is lost") {
  const std::int64_t n = 1 << 14;
  for (const dtype out : floats)
    for (const float sign : {1.0f, -1.0f})
      for (const float last : {1.0f, 0.0f, -1.0f, 0x1p14f - 1, 1 - 0x1p14f}) {
        std::vector<float> x(n + 2, 0x1p26f), y(n + 2, sign * 0x1p26f);  // 2^66, and
        const int half_unit = out == dtype::f64 ? 13 : 66 - format_of(out).p;
        x[n] = std::ldexp(1.0f, half_unit / 2);
        y[n] = sign * std::ldexp(1.0f, half_unit - half_unit / 2);  // half of its last place,
        x[n + 1] = last;
        y[n + 1] = sign;
        for (auto& v : x) v *= 0x1p-20f;  // (no overflow of f16)
        for (auto& v : y) v *= 0x1p-40f;
        const view a = row_major(dtype::f32, x.data(), {1, n + 2}),
                   b = row_major(dtype::f32, y.data(), {n + 2, 1});
        const matrix_product p = make_matrix_product(dtype::f32, {}, out);
        INFO(name(out) << " " << sign << " " << last);
        CHECK(difference(product(p, a, b, 1), truth(p, a, b)) == "");
      }
}

// Their scales are above 2^127, and of f64 above 2^1023.
TEST_CASE("rows and columns of subnormals") {
  for (const dtype t : floats) {
    const std::int64_t m = 7, k = 20, n = 40;
    operand small = make_operand(t, kind::near_one, {k, n}, lie::rows, 71),
            rows = make_operand(t, kind::near_one, {m, k}, lie::rows, 72);
    // Without their exponents, and with the largest ones.
    const float_format f = format_of(t);
    for (std::size_t at = 0; at < small.bytes.size(); at += size_of(t)) {
      std::uint64_t bits =
          bits_at(t, &small.bytes[at]) & ~(f.infinity() & ~((std::uint64_t{1} << (f.p - 1)) - 1));
      std::memcpy(&small.bytes[at], &bits, size_of(t));
    }
    for (std::size_t at = 0; at < rows.bytes.size(); at += size_of(t)) {
      std::uint64_t bits = bits_at(t, &rows.bytes[at]) + (f.infinity() >> 2);
      std::memcpy(&rows.bytes[at], &bits, size_of(t));
    }
    const matrix_product p = make_matrix_product(t, {}, dtype::f64);
    const int swap[] = {1, 0};
    INFO(name(t));
    CHECK(difference(product(p, rows.v, small.v, 1), truth(p, rows.v, small.v)) == "");
    const view left = permuted(small.v, swap), right = permuted(rows.v, swap);
    CHECK(difference(product(p, left, right, 1), truth(p, left, right)) == "");
  }
}

TEST_CASE("long rows") {
  for (const dtype t : floats) {
    const std::int64_t k = sanitized ? 2000 : 20011;
    const operand a = make_operand(t, kind::near_one, {2, k}, lie::gaps, 3),
                  b = make_operand(t, kind::near_one, {k, 3}, lie::rows, 4);
    const matrix_product p = make_matrix_product(t);
    CHECK(difference(product(p, a.v, b.v, 2), truth(p, a.v, b.v)) == "");
  }
}

// Of matrices of one row, or of one column, the other operand's integers are kept nowhere.
TEST_CASE("one row alone") {
  std::uint64_t seed = 1;
  for (const dtype t : floats)
    for (const kind what : {kind::near_one, kind::special})
      for (const std::int64_t k : {1, 2, 9, 33, 1100})
        for (const std::int64_t n : {1, 9, 33, 100}) {
          const lie how = all_lies[seed++ % 4];
          const operand a = make_operand(t, what, {2, 1, k}, lie::rows, seed),
                        b = make_operand(t, what, {2, k, n}, how, seed + 1000),
                        c = make_operand(floats[seed / 4 % 4], what, {n}, lie::rows, seed + 2000);
          const matrix_product p = make_matrix_product(t, {}, c.v.type);
          INFO(name(t) << " " << test::name(what) << " " << k << "x" << n << " seed " << seed);
          CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");
          std::vector<std::uint64_t> addends;
          for (std::int64_t i = 0; i < 2 * n; ++i) addends.push_back(element(c.v, {i % n}));
          CHECK(difference(product(p, a.v, b.v, 3, &c.v), truth(p, a.v, b.v, addends)) == "");
        }
}

// Longer than sums of 64 bits are exact for, of the largest integers.
TEST_CASE("one row alone, long") {
  const std::int64_t k = sanitized ? 9000 : 20000, n = 33;
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32})
    for (const int bits : {product_bits(t), 29})
      for (const lie how : {lie::rows, lie::transposed}) {
        operand a = make_operand(t, kind::near_one, {1, k}, lie::rows, 1),
                b = make_operand(t, kind::near_one, {k, n}, how, 2);
        const auto largest = static_cast<std::uint16_t>(t == dtype::f16 ? 0x53e0 : 0x427c);  // 63
        for (operand* const x : {&a, &b})
          for (std::size_t at = size_of(t) - 2; at < x->bytes.size(); at += size_of(t)) {
            std::memcpy(&x->bytes[at], &largest, sizeof largest);
            if (t == dtype::f32) std::memset(&x->bytes[at - 2], 0, 2);
          }
        const matrix_product p = make_matrix_product(t, {}, dtype::f64, bits);
        INFO(name(t) << " " << bits);
        CHECK(difference(product(p, a.v, b.v, 2), truth(p, a.v, b.v)) == "");
      }
}

// Where a scale changes: the others' last bits show which it is.
TEST_CASE("the largest element is 63 times a power of two, or just above") {
  for (const dtype t : floats)
    for (const std::int64_t m : {1, 7})
      for (const std::int64_t k : {9, 40})
        for (const lie how : {lie::rows, lie::transposed}) {
          const std::int64_t n = 70;
          operand a = make_operand(t, kind::near_one, {m, k}, lie::rows, 1),
                  b = make_operand(t, kind::near_one, {k, n}, how, 2);
          for (std::int64_t c = 0; c < n; ++c)
            visit(t, [&]<class T>(std::type_identity<T>) {
              if constexpr (!std::is_integral_v<T>) {
                std::uint64_t word = 0;
                const T largest = arith::round_to<T>(63.0);
                std::memcpy(&word, &largest, sizeof largest);
                word += static_cast<std::uint64_t>(c % 2);
                const std::int64_t at = c * b.v.stride[1] + c % k * b.v.stride[0];
                std::memcpy(&b.bytes[static_cast<std::size_t>(at) * sizeof(T)], &word, sizeof(T));
              }
            });
          const matrix_product p =
              make_matrix_product(t, {}, dtype::f64, t == dtype::f64 ? 50 : 12);
          INFO(name(t) << " " << m << "x" << k);
          CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");
        }
}

// With the exact sum of the products, in units of 2^(2 q), and the bound of docs/products.md times
// L^2, in the same units.
TEST_CASE("the error is within its bound") {
  for (const dtype t : floats)
    for (const kind what : {kind::near_one, kind::any_bits})
      for (const int bits : {product_bits(t), 12}) {
        const std::int64_t m = 4, k = 60, n = 5;
        const operand a = make_operand(t, what, {m, k}, lie::rows, 51),
                      b = make_operand(t, what, {k, n}, lie::rows, 52);
        const matrix_product p = make_matrix_product(t, {}, dtype::f64, bits);
        const auto got = product(p, a.v, b.v, 1);
        const auto rows = vectors_of(a.v, {}, true, bits),
                   columns = vectors_of(b.v, {}, false, bits);
        const auto size = [](const fixed_vector& v) {
          cpp_int most = 0, sum = 0;
          for (const element_value& e : v.elements) {
            most = std::max(most, cpp_int(abs(e.m)));
            sum += abs(e.m);
          }
          return std::array{most, sum};
        };
        for (std::size_t i = 0; i < got.size(); ++i) {
          const fixed_vector &row = rows[i / n], &column = columns[i % n];
          const auto [most_a, sum_a] = size(row);
          const auto [most_b, sum_b] = size(column);
          const cpp_int limit = cpp_int(63) << (bits - 7);
          cpp_int exact = 0;
          for (std::size_t e = 0; e < row.elements.size(); ++e)
            exact += row.elements[e].m * column.elements[e].m;
          const cpp_int bound = (most_b * sum_a + most_a * sum_b) * limit + k * most_a * most_b;
          // The result, and half a unit in its last place, in units of 2^-4000.
          const element_value c = value_of(dtype::f64, got[i]);
          if (c.infinite) continue;
          const int q = 2 * format_of(t).q;
          const cpp_int result = c.m << (4000 - 1074),
                        half_unit =
                            cpp_int(1)
                            << (4000 - 1075 +
                                std::max(0, c.m == 0
                                                ? 0
                                                : static_cast<int>(msb(cpp_int(abs(c.m)))) - 52));
          INFO(name(t) << " " << test::name(what) << " " << bits << " " << i);
          CHECK(abs(result - (exact << (4000 + q))) * limit * limit <=
                (bound << (4000 + q)) + half_unit * limit * limit);
        }
      }
}

TEST_CASE("the caller's floating-point environment does not show") {
  for (const dtype t : floats) {
    const operand a = make_operand(t, kind::any_bits, {5, 40}, lie::rows, 61),
                  b = make_operand(t, kind::special, {40, 5}, lie::rows, 62);
    const matrix_product p = make_matrix_product(t);
    const auto want = truth(p, a.v, b.v);
    std::fesetround(FE_UPWARD);
    test::flush();
    const auto got = product(p, a.v, b.v, 1);
    test::keep();
    std::fesetround(FE_TONEAREST);
    CHECK(difference(got, want) == "");
  }
}

TEST_CASE("no elements") {
  for (const dtype t : floats) {
    const matrix_product p = make_matrix_product(t);
    const operand none_a = make_operand(t, kind::near_one, {3, 0}, lie::rows, 1),
                  none_b = make_operand(t, kind::near_one, {0, 4}, lie::rows, 1);
    CHECK(product(p, none_a.v, none_b.v, 1) == std::vector<std::uint64_t>(12));  // +0
    const operand a = make_operand(t, kind::near_one, {0, 5}, lie::rows, 1),
                  b = make_operand(t, kind::near_one, {5, 4}, lie::rows, 1);
    CHECK(product(p, a.v, b.v, 1).empty());
    for (const auto& [m, n] : {std::array<std::int64_t, 2>{1, 4}, {3, 1}, {1, 1}, {16, 32}}) {
      const operand x = make_operand(t, kind::near_one, {m, 0}, lie::rows, 1),
                    y = make_operand(t, kind::near_one, {0, n}, lie::rows, 1),
                    added = make_operand(t, kind::near_one, {m, n}, lie::rows, 2);
      CHECK(difference(product(p, x.v, y.v, 1), truth(p, x.v, y.v)) == "");
      std::vector<std::uint64_t> want;
      for (std::size_t i = 0; i < static_cast<std::size_t>(m * n); ++i)
        want.push_back(bits_at(t, static_cast<const std::byte*>(added.v.data) + i * size_of(t)));
      CHECK(difference(product(p, x.v, y.v, 1, &added.v), want) == "");
    }
  }
}

TEST_CASE("batches broadcast, and arrays of one axis are rows or columns") {
  for (const dtype t : {dtype::bf16, dtype::f32, dtype::f64}) {
    const matrix_product p = make_matrix_product(t);
    const std::vector<std::array<std::vector<std::int64_t>, 2>> pairs{
        {{{3, 4, 5}, {5, 6}}},       {{{4, 5}, {3, 5, 6}}},          {{{3, 4, 5}, {3, 5, 6}}},
        {{{2, 1, 4, 5}, {3, 5, 6}}}, {{{1, 3, 4, 5}, {2, 1, 5, 6}}}, {{{2, 3, 1, 7}, {2, 3, 7, 1}}},
        {{{0, 4, 5}, {5, 6}}}};
    for (const auto& [x, y] : pairs)
      for (const lie how : all_lies) {
        const operand a = make_operand(t, kind::near_one, x, how, 11),
                      b = make_operand(t, kind::near_one, y, how, 12);
        INFO(name(t) << " " << x.size() << " " << y.size() << " " << static_cast<int>(how));
        CHECK(difference(product(p, a.v, b.v, 3), truth(p, a.v, b.v)) == "");
      }
    operand a = make_operand(t, kind::near_one, {2, 3, 4, 5}, lie::rows, 13);
    const operand b = make_operand(t, kind::near_one, {5, 6}, lie::rows, 14);
    a.v.stride[0] = 0;  // the same matrices twice
    CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");

    const operand row = make_operand(t, kind::near_one, {5}, lie::gaps, 15);
    const view as_row{t, row.v.data, 2, {1, 5}, {0, row.v.stride[0]}},
        as_column{t, row.v.data, 2, {5, 1}, {row.v.stride[0], 0}};
    CHECK(matmul_extents(row.v, b.v) == std::vector<std::int64_t>{6});
    CHECK(product(p, row.v, b.v, 1) == truth(p, as_row, b.v));
    CHECK(matmul_extents(a.v, row.v) == std::vector<std::int64_t>{2, 3, 4});
    CHECK(product(p, a.v, row.v, 1) == truth(p, a.v, as_column));
    CHECK(matmul_extents(row.v, row.v).empty());
    CHECK(product(p, row.v, row.v, 1) == truth(p, as_row, as_column));
  }
}

TEST_CASE("threads, neighbours and preparation do not show") {
  for (const dtype t : floats) {
    const std::int64_t m = 101, k = 300, n = 269;
    const operand a = make_operand(t, kind::special, {m, k}, lie::rows, 21),
                  b = make_operand(t, kind::special, {k, n}, lie::rows, 22);
    const matrix_product p = make_matrix_product(t);
    const auto want = product(p, a.v, b.v, 1);
    for (int threads = 2; threads <= 7; ++threads) CHECK(product(p, a.v, b.v, threads) == want);
    for (const std::int64_t row : {0, 50, 100}) {
      const auto alone = product(p, sliced(a.v, 0, row, 1), b.v, 1);
      CHECK(std::equal(alone.begin(), alone.end(), want.begin() + row * n));
    }
    const auto column = product(p, a.v, sliced(b.v, 1, 200, 1), 1);
    for (std::int64_t i = 0; i < m; ++i)
      CHECK(column[static_cast<std::size_t>(i)] == want[static_cast<std::size_t>(i * n + 200)]);

    const int swap[] = {1, 0};
    const auto transposed = product(p, permuted(b.v, swap), permuted(a.v, swap), 2);
    bool same = true;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        same = same && transposed[static_cast<std::size_t>(j * m + i)] ==
                           want[static_cast<std::size_t>(i * n + j)];
    CHECK(same);

    const cpu::prepared left(p, cpu::side::left, a.v, with(2)),
        right(p, cpu::side::right, b.v, with(1));
    const std::size_t least = t == dtype::bf16 ? 2 : 4;  // of 16 bits AMX takes two digits of 8
    CHECK(right.bytes() >= static_cast<std::size_t>(k * n) * least);
    std::vector<std::byte> all(want.size() * size_of(t));
    const auto compare = [&] {
      bool equal = true;
      for (std::size_t i = 0; i < want.size(); ++i)
        equal = equal && bits_at(t, all.data() + i * size_of(t)) == want[i];
      CHECK(equal);
      std::fill(all.begin(), all.end(), std::byte{});
    };
    cpu::matmul(p, left, b.v, all.data(), with(1));
    compare();
    cpu::matmul(p, a.v, right, all.data(), with(3));
    compare();
    cpu::matmul(p, left, right, all.data(), with(1));
    compare();
  }
}

TEST_CASE("parts of the larger operand do not show") {
  // Of rows and of columns, longer than a part has room for, and of batches.
  const std::vector<std::int64_t> shapes[][2] = {
      {{3, 9000}, {9000, 130}},  {{130, 9000}, {9000, 3}}, {{97, 700}, {700, 200}},
      {{5, 2, 40}, {5, 40, 90}}, {{5, 90, 40}, {40, 2}},   {{1, 90, 40}, {3, 40, 2}}};
  for (const dtype t : floats)
    for (const auto& [rows, columns] : shapes) {
      const operand a = make_operand(t, kind::special, rows, lie::transposed, 31),
                    b = make_operand(t, kind::special, columns, lie::rows, 32);
      const matrix_product p = make_matrix_product(t);
      const cpu::prepared left(p, cpu::side::left, a.v, with(1)),
          right(p, cpu::side::right, b.v, with(1));
      const auto got = product(p, a.v, b.v, 1);
      std::vector<std::byte> whole(got.size() * size_of(t));
      cpu::matmul(p, left, right, whole.data(), with(1));
      bool same = true;
      for (std::size_t i = 0; i < got.size(); ++i)
        same = same && got[i] == bits_at(t, whole.data() + i * size_of(t));
      CHECK(same);
      for (int threads = 2; threads <= 4; ++threads) CHECK(product(p, a.v, b.v, threads) == got);
    }
}

TEST_CASE("integers are exact modulo 2^64") {
  for (const dtype t : all_dtypes) {
    if (is_float(t)) continue;
    const operand a = make_operand(t, kind::any_bits, {7, 600}, lie::rows, 31),
                  b = make_operand(t, kind::any_bits, {600, 5}, lie::transposed, 32);
    std::vector<std::uint64_t> want;
    const auto value = [&](const view& x, std::int64_t i, std::int64_t j) {
      const std::uint64_t bits = element(x, {i, j});
      const int unused = 64 - 8 * static_cast<int>(size_of(t));
      return is_signed_int(t)
                 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused)
                 : bits;
    };
    for (std::int64_t i = 0; i < 7; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        std::uint64_t sum = 0;
        for (std::int64_t p = 0; p < 600; ++p) sum += value(a.v, i, p) * value(b.v, p, j);
        want.push_back(sum);
      }
    INFO(name(t));
    const matrix_product p = make_matrix_product(t);
    CHECK(size_of(p.out()) == 8);
    CHECK(difference(product(p, a.v, b.v, 1), want) == "");
    for (const dtype out : {dtype::f32, dtype::f64}) {
      const matrix_product to_floats = make_matrix_product(t, {}, out),
                           by_dot = make_matrix_product(t, method_id::tree, out);
      CHECK(difference(product(to_floats, a.v, b.v, 2), product(by_dot, a.v, b.v, 1)) == "");
    }
  }
}

TEST_CASE("by other methods each element is a dot product") {
  for (const dtype t : {dtype::bf16, dtype::f32, dtype::f64})
    for (const auto& m : all_methods) {
      const operand a = make_operand(t, kind::near_one, {2, 3, 300}, lie::gaps, 41),
                    b = make_operand(t, kind::near_one, {300, 4}, lie::rows, 42);
      const matrix_product p = make_matrix_product(t, m.id);
      const reduction dot = make_reduction(op_id::dot, m.id, t);
      std::vector<std::uint64_t> want;
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t r = 0; r < 3; ++r)
          for (std::int64_t c = 0; c < 4; ++c) {
            std::vector<std::byte> x(300 * size_of(t)), y(x.size());
            for (std::int64_t e = 0; e < 300; ++e) {
              const std::uint64_t u = element(a.v, {i, r, e}), v = element(b.v, {e, c});
              std::memcpy(&x[static_cast<std::size_t>(e) * size_of(t)], &u, size_of(t));
              std::memcpy(&y[static_cast<std::size_t>(e) * size_of(t)], &v, size_of(t));
            }
            want.push_back(cpu::reduce(dot, x.data(), y.data(), 300).bits);
          }
      INFO(name(t) << " " << m.name);
      CHECK(difference(product(p, a.v, b.v, 2), want) == "");
    }
}

/// The elements of a view that broadcasts to these extents, in their row-major order.
std::vector<std::uint64_t> broadcast(const view& x, const std::vector<std::int64_t>& extents) {
  std::size_t n = 1;
  for (const std::int64_t e : extents) n *= static_cast<std::size_t>(e);
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(x.rank));
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t k = 1; k <= extents.size(); ++k) {
      const std::int64_t e = extents[extents.size() - k], digit = rest % e;
      rest /= e;
      if (k <= at.size()) at[at.size() - k] = x.extent[at.size() - k] == 1 ? 0 : digit;
    }
    all.push_back(element(x, at));
  }
  return all;
}

TEST_CASE("an addend is added before the one rounding") {
  const std::vector<std::vector<std::int64_t>> shapes_of_addends{{2, 7, 40}, {7, 40}, {40},
                                                                 {2, 7, 1},  {1, 40}, {}};
  std::uint64_t seed = 80;
  for (const dtype t : floats)
    for (const dtype out : floats)
      for (const auto& shape : shapes_of_addends)
        for (const kind what : {kind::near_one, kind::any_bits, kind::special}) {
          ++seed;
          const operand a = make_operand(t, what, {2, 7, 9}, all_lies[seed % 4], seed),
                        b = make_operand(t, kind::near_one, {9, 40}, lie::rows, seed + 1),
                        c = make_operand(out, what, shape, all_lies[seed / 4 % 4], seed + 2);
          const matrix_product p = make_matrix_product(t, {}, out);
          INFO(name(t) << " to " << name(out) << " " << test::name(what) << " " << shape.size());
          const auto addends = broadcast(c.v, {2, 7, 40});
          CHECK(difference(product(p, a.v, b.v, 2, &c.v), truth(p, a.v, b.v, addends)) == "");
        }
}

// No integers are made where rows and columns are of one element each.
TEST_CASE("rows and columns of one element") {
  std::uint64_t seed = 500;
  for (const dtype t : floats)
    for (const dtype out : floats)
      for (const kind what : all_kinds)
        for (const int bits : {product_bits(t), 24}) {
          ++seed;
          const operand a = make_operand(t, what, {2, 67, 1}, all_lies[seed % 4], seed),
                        b = make_operand(t, what, {1, 1, 70}, all_lies[seed / 4 % 4], seed + 1000),
                        wide = make_operand(t, what, {1, 530}, all_lies[seed / 4 % 4], seed + 3000),
                        c = make_operand(out, what, {67, 70}, all_lies[seed / 16 % 4], seed + 2000);
          const matrix_product p = make_matrix_product(t, {}, out, bits);
          INFO(name(t) << " to " << name(out) << " " << test::name(what) << " seed " << seed);
          CHECK(difference(product(p, a.v, b.v, 1), truth(p, a.v, b.v)) == "");
          CHECK(difference(product(p, a.v, wide.v, 3), truth(p, a.v, wide.v)) == "");
          const auto addends = broadcast(c.v, {2, 67, 70});
          CHECK(difference(product(p, a.v, b.v, 3, &c.v), truth(p, a.v, b.v, addends)) == "");
        }
}

// Of floats the sum is 2^-70 off a tie whose even neighbour is the farther one; other columns are
// not.
TEST_CASE("products of one element each break ties of their addends") {
  const float e = 0x1p-23f;
  const matrix_product p = make_matrix_product(dtype::f32);
  for (const float sign : {1.0f, -1.0f})
    for (std::size_t tie = 0; tie < 40; ++tie) {
      const std::vector<float> x{sign * 0x1p-24f * (1 + e)};
      std::vector<float> y(40, 1 + e), addends(40, sign * 0.7f);
      y[tie] = 1 - e;
      addends[tie] = sign * (1 + e);
      const view a = row_major(dtype::f32, x.data(), {1, 1}),
                 b = row_major(dtype::f32, y.data(), {1, 40}),
                 c = row_major(dtype::f32, addends.data(), {1, 40});
      const auto got = product(p, a, b, 1, &c);
      CHECK(got[tie] == bits_at(dtype::f32, &addends[tie]));
      CHECK(difference(got, truth(p, a, b, broadcast(c, {1, 40}))) == "");
    }
}

TEST_CASE("an addend of one column") {
  const std::int64_t m = 70, k = 9;
  for (const dtype t : floats) {
    const operand a = make_operand(t, kind::near_one, {m, k}, lie::rows, 41),
                  b = make_operand(t, kind::near_one, {k, 2}, lie::rows, 42),
                  c = make_operand(t, kind::near_one, {m, 2}, lie::rows, 43);
    const matrix_product p = make_matrix_product(t);
    const auto both = product(p, a.v, b.v, 1, &c.v);
    const view column = sliced(b.v, 1, 1, 1), added = sliced(c.v, 1, 1, 1),
               alone = row_major(t, b.bytes.data(), {k}), first = row_major(t, c.bytes.data(), {1});
    view vector = alone, addends = row_major(t, c.bytes.data() + size_of(t), {m});
    vector.data = b.bytes.data() + size_of(t);
    vector.stride[0] = addends.stride[0] = 2;
    const auto one = product(p, a.v, column, 1, &added),
               flat = product(p, a.v, vector, 1, &addends);
    bool same = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(m); ++i)
      same = same && one[i] == both[2 * i + 1] && flat[i] == both[2 * i + 1];
    CHECK(same);
    CHECK(product(p, a.v, column, 1, &first) == product(p, a.v, vector, 1, &first));
    check_refused("addend", [&] { product(p, a.v, column, 1, &addends); }, [] { return true; });
  }
}

TEST_CASE("an addend that cancels the product leaves what its rounding left out") {
  for (const dtype t : floats)
    for (const dtype out : floats)
      for (const std::int64_t k : {30, 9000}) {
        const std::int64_t m = k > 100 ? 1 : 5, n = k > 100 ? 3 : 40;
        const operand a = make_operand(t, kind::near_one, {m, k}, lie::rows, 91),
                      b = make_operand(t, kind::near_one, {k, n}, lie::rows, 92);
        const matrix_product p = make_matrix_product(t, {}, out);
        std::vector<std::uint64_t> addends = truth(p, a.v, b.v);
        std::vector<std::byte> bytes(addends.size() * size_of(out));
        for (std::size_t i = 0; i < addends.size(); ++i) {
          addends[i] ^= std::uint64_t{1} << (8 * size_of(out) - 1);
          if (i % 3 == 1) addends[i] -= 1;
          std::memcpy(&bytes[i * size_of(out)], &addends[i], size_of(out));
        }
        const view c = row_major(out, bytes.data(), {m, n});
        INFO(name(t) << " to " << name(out) << " " << k);
        CHECK(difference(product(p, a.v, b.v, 1, &c), truth(p, a.v, b.v, addends)) == "");
      }
}

// Of all distances of the sum and the addend: each is far below or far above the other.
TEST_CASE("an addend of any exponent") {
  for (const int bits : {28, 58})
    for (const std::int64_t k : {3, 8200})
      for (int e = -1000; e < 1000; e += 13) {
        std::vector<double> x(static_cast<std::size_t>(k), 0x1.23456789p0),
            y(x.size(), -0x1.fedcbap0);
        const double addend = std::ldexp(0x1.fffffffffffffp0, e);
        const view a = row_major(dtype::f64, x.data(), {1, k}),
                   b = row_major(dtype::f64, y.data(), {k, 1}),
                   c = row_major(dtype::f64, &addend, {});
        const matrix_product p = make_matrix_product(dtype::f64, {}, {}, bits);
        INFO(bits << " bits, 2^" << e);
        CHECK(difference(product(p, a, b, 1, &c), truth(p, a, b, {bits_at(dtype::f64, &addend)})) ==
              "");
      }
}

// The sum is a tie of f64, 1 + 2^-53, or 0.
TEST_CASE("an addend far below breaks a tie, and is all there is beside 0") {
  const matrix_product p = make_matrix_product(dtype::f64);
  const std::vector<double> y{1, 0x1p-26};
  for (const std::vector<double>& x : {std::vector<double>{1, 0x1p-27}, std::vector<double>{0, 0}})
    for (const double m : {1.0, -1.0, 0x1.fffffffffffffp0, -0x1.fffffffffffffp0})
      for (int e = -1074; e < 3; ++e) {
        const double addend = std::ldexp(m, e);
        const view a = row_major(dtype::f64, x.data(), {1, 2}),
                   b = row_major(dtype::f64, y.data(), {2, 1}),
                   c = row_major(dtype::f64, &addend, {1});
        INFO(x[0] << " " << m << " 2^" << e);
        CHECK(difference(product(p, a, b, 1, &c), truth(p, a, b, {bits_at(dtype::f64, &addend)})) ==
              "");
      }
}

void check_contraction(const matrix_product& p, const view& a, const view& b, contracted_axes axes,
                       const view* addend, const std::vector<std::uint64_t>& want) {
  const dtype t = p.out();
  for (const int threads : {1, 3}) {
    std::vector<std::byte> out(want.size() * size_of(t));
    cpu::contract(p, a, b, axes, addend, out.data(), with(threads));
    std::vector<std::uint64_t> got;
    for (std::size_t k = 0; k < want.size(); ++k)
      got.push_back(bits_at(t, out.data() + k * size_of(t)));
    CHECK(got == want);
  }
}

TEST_CASE("contractions have the bits of products of copies") {
  for (const dtype t : floats)
    for (const kind what : {kind::near_one, kind::special})
      for (const contraction& c : contractions()) {
        const matrix_product p = make_matrix_product(t);
        const std::vector<std::byte> x = make_data(t, what, 20000, 1),
                                     y = make_data(t, what, 20000, 2),
                                     z = make_data(t, kind::near_one, 100, 3);
        const copies rows(c.a, c.batch, t, x), columns(c.b, c.batch, t, y);
        const view bias = row_major(t, z.data(), {rows.vectors, 1});
        const view* const addend = c.with_addend ? &bias : nullptr;
        std::vector<std::uint64_t> addends;
        for (std::int64_t i = 0; c.with_addend && i < std::max(rows.batch, columns.batch); ++i)
          for (std::int64_t r = 0; r < rows.vectors; ++r)
            addends.insert(addends.end(), static_cast<std::size_t>(columns.vectors),
                           element(bias, {r, 0}));
        const auto want = truth(p, rows.as_rows(), columns.as_columns(), addends);
        check_contraction(p, c.a.at(t, x.data()), c.b.at(t, y.data()), c.axes(), addend, want);
      }
}

TEST_CASE("results of one vector each that lie side by side have the bits of products of copies") {
  for (const dtype t : floats)
    for (const kind what : {kind::near_one, kind::special, kind::any_bits})
      for (const std::int64_t channels : {3, 16, 67})
        for (const bool has_addend : {false, true}) {
          // Patches of 3 x 2 of images of 6 x 5, each channel with a filter of its own.
          const contracted_operand filters{{2, 4, 3, channels, 3, 2}, {0, 0, 0, 7, 2, 1}, 3, 0},
              patches{{2, 4, 3, channels, 3, 2}, {2400, 400, 160, 1, 400, 80}, 5, 0};
          const matrix_product p = make_matrix_product(t);
          const std::vector<std::byte> x = make_data(t, what, 20000, 1),
                                       y = make_data(t, what, 20000, 2),
                                       z = make_data(t, kind::near_one, 100, 3);
          const copies rows(filters, 4, t, x), columns(patches, 4, t, y);
          const view bias = row_major(t, z.data(), {channels, 1, 1});
          std::vector<std::uint64_t> addends;
          for (std::int64_t i = 0; has_addend && i < rows.batch; ++i)
            addends.push_back(element(bias, {i % channels, 0, 0}));
          const auto want = truth(p, rows.as_rows(), columns.as_columns(), addends);
          check_contraction(p, filters.at(t, x.data()), patches.at(t, y.data()), {4, 0, 0},
                            has_addend ? &bias : nullptr, want);
        }
}

// Lines of neighbours shorter than a vector, a little longer, and longer than a block; of few
// terms, and of 530: a sum of 64 bits holds 512 of f32's.
TEST_CASE("one row meets lines of neighbours of any length") {
  for (const dtype t : floats)
    for (const kind what : {kind::near_one, kind::special, kind::any_bits})
      for (const std::int64_t line : {5, 8, 15, 17, 28, 33, 65, 131})
        for (const std::int64_t terms : {9, 530}) {
          const std::int64_t lines = 3, pitch = line + 2,
                             between = terms < 10 ? 500 : (19990 - 3 * pitch) / terms;
          const contracted_operand row{{1, terms}, {0, 1}, 4, 1},
              columns{{lines, line, terms}, {pitch, 1, between}, 1, 2};
          const matrix_product p = make_matrix_product(t);
          const std::vector<std::byte> x = make_data(t, what, 20000, 1),
                                       y = make_data(t, what, 20000, 2);
          const copies rows(row, 0, t, x), all(columns, 0, t, y);
          INFO(name(t) << " lines of " << line << ", " << terms << " terms");
          check_contraction(p, row.at(t, x.data()), columns.at(t, y.data()), {0, 1, 2}, nullptr,
                            truth(p, rows.as_rows(), all.as_columns(), {}));
        }
}

TEST_CASE("contractions of vectors of no elements are zeros") {
  const float nothing = 0;
  for (const dtype t : floats) {
    std::vector<std::byte> out(6 * size_of(t), std::byte{1});
    cpu::contract(make_matrix_product(t), row_major(t, &nothing, {2, 0}),
                  row_major(t, &nothing, {3, 0}), {0, 1, 1}, nullptr, out.data());
    CHECK(out == std::vector<std::byte>(out.size()));
  }
}

TEST_CASE("what cannot be contracted is refused by name") {
  std::vector<float> x(64), out(64);
  const matrix_product p = make_matrix_product(dtype::f32);
  const view a = row_major(dtype::f32, x.data(), {4, 4, 4}),
             b = row_major(dtype::f32, x.data(), {2, 8}),
             doubles = row_major(dtype::f64, x.data(), {2, 16}),
             integers = row_major(dtype::i32, x.data(), {2, 16}),
             nothing = row_major(dtype::f32, nullptr, {2, 16});
  const auto check = [&](const std::string& what, const matrix_product& by, const view& left,
                         const view& right, contracted_axes axes, const view* addend = nullptr) {
    CHECK_THROWS_WITH(cpu::contract(by, left, right, axes, addend, out.data()), what);
  };
  CHECK(contracted_extents(a, a, {1, 1, 0}) == std::vector<std::int64_t>{4, 4});
  check("b: vectors of 8 elements for those of 16", p, a, b, {0, 1, 1});
  check("a.rank: 3, where 0 axes are of a batch, 3 of vectors, and more of elements", p, a, b,
        {0, 3, 1});
  check("a.rank: 3, where -1 axes are of a batch, 1 of vectors, and more of elements", p, a, b,
        {-1, 1, 1});
  check("b: of type f64, not f32", p, a, doubles, {0, 1, 1});
  check("b: a null pointer", p, a, nothing, {0, 1, 1});
  check("method: contractions are of floats, by method fixed", make_matrix_product(dtype::i32),
        integers, integers, {0, 1, 1});
  check("method: contractions are of floats, by method fixed",
        make_matrix_product(dtype::f32, method_id::tree), a, a, {0, 1, 1});
  check("addend: of type f64, not f32", p, a, a, {0, 1, 1}, &doubles);
  check("addend: extents 8 and 4 do not broadcast", p, a, a, {0, 1, 1}, &b);
  CHECK_THROWS_WITH(cpu::contract(p, a, a, {0, 1, 1}, nullptr, nullptr), "out: a null pointer");
  cpu::contract(p, row_major(dtype::f32, nullptr, {4, 0}), row_major(dtype::f32, nullptr, {0, 0}),
                {0, 1, 1}, nullptr, nullptr);
}

TEST_CASE("what cannot be multiplied is refused by name") {
  std::vector<float> x(24), out(24, 7);
  const auto untouched = [&] { return out == std::vector<float>(24, 7); };
  const matrix_product p = make_matrix_product(dtype::f32);
  const view a = row_major(dtype::f32, x.data(), {4, 6}),
             b = row_major(dtype::f32, x.data(), {6, 4}),
             scalar = row_major(dtype::f32, x.data(), {});
  const auto refused = [&](const std::string& start, auto call) {
    check_refused(start, call, untouched);
  };
  refused("b: columns of 4 elements for rows of 6", [&] { cpu::matmul(p, a, a, out.data()); });
  refused("a.rank: 0", [&] { cpu::matmul(p, scalar, b, out.data()); });
  refused("a: of type f32, not f64",
          [&] { cpu::matmul(make_matrix_product(dtype::f64), a, b, out.data()); });
  refused("a: a null pointer",
          [&] { cpu::matmul(p, row_major(dtype::f32, nullptr, {4, 6}), b, out.data()); });
  refused("out: a null pointer", [&] { cpu::matmul(p, a, b, nullptr); });
  refused("threads: -1", [&] { cpu::matmul(p, a, b, out.data(), {.threads = -1}); });
  refused("b: extents 2 and 3 do not broadcast", [&] {
    cpu::matmul(p, row_major(dtype::f32, x.data(), {2, 3, 4}),
                row_major(dtype::f32, x.data(), {3, 4, 2}), out.data());
  });
  refused("bits: 59", [&] { make_matrix_product(dtype::f32, {}, {}, 59); });
  refused("bits: 7", [&] { make_matrix_product(dtype::f32, {}, {}, 7); });
  refused("bits: of method fixed and floats alone, not of tree and f32",
          [&] { make_matrix_product(dtype::f32, method_id::tree, {}, 16); });
  refused("bits: of method fixed and floats alone, not of fixed and i8",
          [&] { make_matrix_product(dtype::i8, {}, {}, 16); });
  refused("out dtype: i64", [&] { make_matrix_product(dtype::f32, {}, dtype::i64); });
  const view row = row_major(dtype::f32, x.data(), {4}),
             wide = row_major(dtype::f64, x.data(), {4}),
             long_row = row_major(dtype::f32, x.data(), {5}),
             deep = row_major(dtype::f32, x.data(), {1, 4, 4});
  refused("addend: extents 5 and 4", [&] { cpu::matmul(p, a, b, long_row, out.data()); });
  refused("addend.rank: 3", [&] { cpu::matmul(p, a, b, deep, out.data()); });
  refused("addend: of type f64, not f32", [&] { cpu::matmul(p, a, b, wide, out.data()); });
  refused("addend: with method fixed", [&] {
    cpu::matmul(make_matrix_product(dtype::f32, method_id::tree), a, b, row, out.data());
  });
  const view no_rows = row_major(dtype::f32, x.data(), {0, 6});
  refused("addend: extents 5 and 4", [&] { cpu::matmul(p, no_rows, b, long_row, out.data()); });
  const view nothing = row_major(dtype::f32, nullptr, {0, 4});
  cpu::matmul(p, no_rows, b, nothing, out.data());
  refused("addend: a null pointer",
          [&] { cpu::matmul(p, a, b, row_major(dtype::f32, nullptr, {4}), out.data()); });
  view beyond = b;
  for (const int rank : {-1, 9, 1 << 20}) {
    beyond.rank = rank;
    const std::string start = ".rank: " + std::to_string(rank);
    refused("a" + start, [&] { cpu::matmul(p, beyond, b, out.data()); });
    refused("b" + start, [&] { cpu::matmul(p, a, beyond, out.data()); });
    refused("addend" + start, [&] { cpu::matmul(p, a, b, beyond, out.data()); });
    beyond.extent[1] = 1;  // a column is taken for a row
    refused("b" + start, [&] { cpu::matmul(p, a, beyond, out.data()); });
    refused("addend" + start, [&] {
      cpu::matmul(p, a, row_major(dtype::f32, x.data(), {6, 1}), beyond, out.data());
    });
    beyond.extent[1] = 4;
  }
  const cpu::prepared left(p, cpu::side::left, a);
  refused("b: prepared for the other side", [&] { cpu::matmul(p, b, left, out.data()); });
  refused("a: prepared for another product",
          [&] { cpu::matmul(make_matrix_product(dtype::f32, {}, {}, 20), left, b, out.data()); });
  refused("product: only operands of method fixed", [&] {
    cpu::prepared(make_matrix_product(dtype::f32, method_id::tree), cpu::side::left, a);
  });
}

// ---- Golden bits --------------------------------------------------------------------------------

namespace {

// One line for each case: what was multiplied, and the bits of the results, of two rows and three
// columns. They are the promise of version 1 of the definition (docs/products.md).
std::string golden_products(bool by_the_definition) {
  std::ostringstream text;
  text << std::hex << "product_version 1\n";
  for (dtype t : floats)
    for (kind what : {kind::near_one, kind::any_bits, kind::special})
      for (std::int64_t k : {1, 32, 1000, 4097}) {
        const std::uint64_t seed = static_cast<std::uint64_t>(k);
        const operand a = make_operand(t, what, {2, k}, lie::rows, seed),
                      b = make_operand(t, what, {k, 3}, lie::rows, seed + 1);
        for (const int bits : {product_bits(t), product_bits(t) - 3})
          for (dtype out : {t, dtype::f64}) {
            if (bits != product_bits(t) && out != t) continue;
            const matrix_product p = make_matrix_product(t, {}, out, bits);
            text << name(t) << " " << name(what) << " " << std::dec << k << " " << bits << std::hex
                 << " " << name(out);
            for (const std::uint64_t r :
                 by_the_definition ? truth(p, a.v, b.v) : product(p, a.v, b.v, 1))
              text << " " << r;
            text << "\n";
          }
      }
  return text.str();
}

}  // namespace

TEST_CASE("golden bits of products") {
  std::ifstream file(BITFOLD_GOLDEN_PRODUCTS);
  const std::string golden((std::istreambuf_iterator<char>(file)), {});
  std::istringstream want(golden), ours(golden_products(false)), plain(golden_products(true));
  std::string w, o, p;
  int lines = 0;
  for (; std::getline(want, w); ++lines) {
    REQUIRE((std::getline(ours, o) && std::getline(plain, p)));
    INFO("golden: " << w << "\nours: " << o << "\ndefinition: " << p);
    REQUIRE((o == w && p == w));
  }
  CHECK(lines > 100);
  CHECK_FALSE(std::getline(ours, o));
}

// A filter by name takes hidden tests, too: this one has no word of those that it writes for.
TEST_CASE("rewrite the file", "[.][write]") {
  std::ofstream(BITFOLD_GOLDEN_PRODUCTS) << golden_products(true);
}
