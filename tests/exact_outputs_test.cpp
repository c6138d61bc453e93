// Exact sums of many outputs at once: whatever lies beside an output, it has the bits of a deposit
// of each of its elements.
#include <bitfold/cpu.hpp>

#include "catch.hpp"
#include "exact_data.hpp"
#include "fp_environment.hpp"
#include "main.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

template <class T>
using outputs = std::vector<std::vector<T>>;

template <class T>
scalar sum_of(const std::vector<T>& x, dtype out) {
  exact::sum<T> s;
  for (const T& one : x) exact::deposit<exact::term::element>(s, one);
  return visit(out, [&]<class Out>(std::type_identity<Out>) -> scalar {
    if constexpr (std::is_integral_v<Out>) {
      return {};
    } else {
      const Out v = exact::round<Out>(s);
      return load_scalar(out, &v);
    }
  });
}

// Most are exact in doubles, or some, or none; or they lose something at their end alone.
template <class T>
outputs<T> make_outputs(const std::string& kind, std::size_t count, std::size_t n) {
  const auto hard = test::hard_arrays<T>(n, n);
  outputs<T> all;
  for (std::size_t k = 0; k < count; ++k) {
    if (kind == "hard" || (kind == "some hard" && k % 7 == 3)) {
      all.push_back(hard[(kind == "hard" ? k : k / 7) % hard.size()].values);
    } else {
      all.push_back(test::hard_arrays<T>(n, k + n, {"near one"})[0].values);
      if (kind == "late" && k % 5 == 1) all.back().back() = test::from_bits<T>(1);
    }
  }
  return all;
}

template <class T>
void check(const view& x, int axis, const outputs<T>& want, const std::string& what) {
  for (const dtype out : {dtype_of<T>, dtype::f64, dtype::f16}) {
    const reduction r = make_reduction(op_id::sum, method_id::exact, dtype_of<T>, {}, out);
    for (const int threads : {1, 3}) {
      std::vector<std::byte> got(want.size() * size_of(out));
      cpu::reduce(r, x, {&axis, 1}, got.data(), {.threads = threads, .target = forced_target});
      for (std::size_t k = 0; k < want.size(); ++k) {
        const scalar is = load_scalar(out, &got[k * size_of(out)]), should = sum_of(want[k], out);
        if (is == should) continue;
        INFO(name(dtype_of<T>) << " to " << name(out) << ", " << what << ", output " << k << " of "
                               << want.size() << ", n=" << want[k].size() << ": " << to_hex(is)
                               << ", want " << to_hex(should));
        REQUIRE(is == should);
      }
    }
  }
}

std::int64_t extent(std::size_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

TEST_CASE("exact: the flag of what is rounded works here") {
  const detail::fp_environment guard;
  CHECK(detail::inexact_flag::works());
  detail::inexact_flag::lower();
  CHECK_FALSE(detail::inexact_flag::is_up());
}

TEST_CASE("exact: sums of outputs side by side and of rows", "[kernels]") {
  const auto run = []<class T>(std::type_identity<T>) {
    const std::vector<std::pair<std::size_t, std::size_t>> shapes{
        // elements, outputs
        {1, 16},   {2, 33},    {8, 17},    {9, 47},    {33, 131},  {100, 64}, {100, 23},
        {517, 40}, {1000, 16}, {4096, 16}, {12, 1100}, {20, 2100}, {2, 2047}};
    for (const auto& [n, count] : shapes)
      for (const char* kind : {"near one", "some hard", "hard", "late"}) {
        const outputs<T> all = make_outputs<T>(kind, count, n);
        std::vector<T> rows, columns(n * count);
        for (std::size_t k = 0; k < count; ++k) {
          rows.insert(rows.end(), all[k].begin(), all[k].end());
          for (std::size_t i = 0; i < n; ++i) columns[i * count + k] = all[k][i];
        }
        const auto of = [&](const std::vector<T>& x, std::initializer_list<std::int64_t> extents) {
          return row_major(dtype_of<T>, x.data(), extents);
        };
        check(of(rows, {extent(count), extent(n)}), 1, all, std::string(kind) + ", rows");
        check(of(columns, {extent(n), extent(count)}), 0, all, std::string(kind) + ", columns");
        // Runs of columns on one axis more.
        std::vector<T> planes;
        outputs<T> of_planes;
        for (int plane = 0; plane < 3; ++plane) {
          planes.insert(planes.end(), columns.begin(), columns.end());
          of_planes.insert(of_planes.end(), all.begin(), all.end());
        }
        check(of(planes, {3, extent(n), extent(count)}), 1, of_planes,
              std::string(kind) + ", planes");
      }
  };
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) visit(t, run);
}

TEST_CASE("exact: sums of segments of mixed lengths", "[kernels]") {
  const auto run = []<class T>(std::type_identity<T>) {
    outputs<T> all;
    for (const std::size_t n : {3, 0, 64, 64, 17, 1, 200, 0, 5000, 64, 4096, 7})
      for (const char* kind : {"near one", "hard", "some hard"})
        for (const auto& x : make_outputs<T>(kind, 9, n)) all.push_back(x);
    std::vector<T> x;
    std::vector<std::int64_t> offsets{0};
    for (const auto& one : all) {
      x.insert(x.end(), one.begin(), one.end());
      offsets.push_back(extent(x.size()));
    }
    const reduction r = make_reduction(op_id::sum, method_id::exact, dtype_of<T>);
    for (const int threads : {1, 3}) {
      std::vector<T> got(all.size());
      void* const out = got.data();
      cpu::reduce_segments({&r, 1}, x.data(), nullptr, x.size(), offsets, {&out, 1},
                           {.threads = threads, .target = forced_target});
      for (std::size_t k = 0; k < all.size(); ++k) {
        CAPTURE(name(dtype_of<T>), k, all[k].size());
        REQUIRE(load_scalar(r.out(), &got[k]) == sum_of(all[k], r.out()));
      }
    }
  };
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) visit(t, run);
}
