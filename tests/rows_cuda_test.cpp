// Row functions on a GPU: the bits of their definition.

#include "catch.hpp"
#include "device_memory.hpp"
#include "row_cases.hpp"

using namespace bitfold;
using test::row_case;

namespace {

// On a GPU, each array `off` elements away from where it is aligned.
row_case done(row_case c, std::size_t off, bool in_place) {
  const auto moved = [&](const std::vector<std::byte>& host, const test::device_memory& to) {
    std::byte* const p = to.as<std::byte>() + off * size_of(c.type);
    test::put(p, host.data(), host.size());
    return p;
  };
  const std::size_t more = 16 * size_of(c.type);
  const test::device_memory x(c.x.size() + more), y(c.y.size() + more), w(c.w.size() + more),
      b(c.b.size() + more), mean(c.mean.size()), rstd(c.rstd.size()), out(c.out.size() + more);
  test::set(out.p, 0xa5, c.out.size() + more);
  test::put(mean.p, c.mean.data(), c.mean.size());
  test::put(rstd.p, c.rstd.data(), c.rstd.size());
  const rows of = c.on(moved(c.x, x), moved(c.y, y), moved(c.w, w), moved(c.b, b),
                       mean.as<std::byte>(), rstd.as<std::byte>());
  std::byte* const to = in_place ? static_cast<std::byte*>(const_cast<void*>(of.x))
                                 : out.as<std::byte>() + off * size_of(c.type);
  cuda::apply(c.f, of, to);
  test::get(c.out.data(), to, c.out.size());
  test::get(c.mean.data(), mean.p, c.mean.size());
  test::get(c.rstd.data(), rstd.p, c.rstd.size());
  std::vector<std::byte> behind(more - off * size_of(c.type));
  test::get(behind.data(), out.as<std::byte>() + off * size_of(c.type) + c.out.size(), behind.size());
  CHECK(behind == std::vector(behind.size(), std::byte{0xa5}));
  return c;
}

void check(const row_case& c, const row_case& want, std::size_t off, bool in_place = false) {
  INFO(c.describe() << " off " << off);
  const row_case got = done(c, off, in_place);
  CHECK(got.out == want.out);
  CHECK(got.mean == want.mean);
  CHECK(got.rstd == want.rstd);
}

}  // namespace

TEST_CASE("cuda rows: the definition's bits") {
  for (const row_function f : test::all_row_functions)
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
      for (const test::kind k : test::all_kinds)
        for (const std::size_t n : {1, 2, 31, 33, 256, 257, 1000, 1024, 2049, 4096, 8192}) {
          const row_case c = test::make_row_case(f, type, k, n > 1000 ? 3 : 9, n,
                                                 n + static_cast<std::uint64_t>(k));
          const row_case want = test::done_by_the_book(c);
          check(c, want, 0, n % 2 || n == 1000 || n == 4096);
          if (n == 1024 || n == 257) check(c, want, 1);
        }
}

TEST_CASE("cuda rows: rows of many tiles and of several nodes") {
  for (const row_function f : test::all_row_functions)
    for (const auto& [type, n] :
         {std::pair{dtype::f16, std::size_t{50257}}, std::pair{dtype::bf16, std::size_t{65536}},
          std::pair{dtype::f32, std::size_t{32768}}, std::pair{dtype::f32, std::size_t{40000}},
          std::pair{dtype::f32, std::size_t{1 << 20}}, std::pair{dtype::f64, std::size_t{1200000}},
          std::pair{dtype::f32, std::size_t{1100001}}}) {
      const row_case c = test::make_row_case(f, type, test::kind::near_one, 2, n, n);
      check(c, test::done_by_the_book(c), 0, n % 2 == 0);
    }
}

TEST_CASE("cuda rows: of elements of two bytes at any address") {
  for (const row_function f : test::all_row_functions)
    for (const dtype type : {dtype::f16, dtype::bf16})
      for (const std::size_t n : {2048, 2050, 4099, 8193, 10'012, 33'333, 65'541}) {
        const row_case c =
            test::make_row_case(f, type, n == 4099 ? test::kind::special : test::kind::near_one,
                                n < 5000 ? 11 : 3, n, n);
        const row_case want = test::done_by_the_book(c);
        for (const std::size_t elements_before : {0, 1, 4})
          check(c, want, elements_before, n == 10'012);
      }
}

TEST_CASE("cuda rows: a row does not know how many there are") {
  for (const row_function f : test::all_row_functions) {
    const row_case c = test::make_row_case(f, dtype::bf16, test::kind::near_one, 3000, 768, 1);
    check(c, test::done_by_the_book(c), 0);
  }
  // From so many on of a multiple of 2048 elements of 16 bits, threads take more of them at once.
  for (const row_function f : {row_function::softmax, row_function::log_softmax,
                               row_function::layer_norm, row_function::rms_norm})
    for (const dtype type : {dtype::f16, dtype::bf16})
      for (const std::size_t count : {4095, 4096}) {
        const row_case c = test::make_row_case(f, type, test::kind::near_one, count, 4096, 1);
        const row_case want = test::done_by_the_book(c);
        check(c, want, 0);
        check(c, want, 0, true);
      }
}

TEST_CASE("cuda rows: gradients of parameters") {
  for (const row_function f : {row_function::layer_norm_backward, row_function::rms_norm_backward})
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
      for (const auto& [count, n] : {std::pair<std::size_t, std::size_t>{1, 8},
                                     {7, 33},
                                     {256, 64},
                                     {257, 130},
                                     {5000, 64},
                                     {70000, 4},
                                     {600, 4096}}) {
        const row_case c = test::make_row_case(
            f, type, count > 1000 ? test::kind::near_one : test::kind::special, count, n, count);
        const auto moved = [](const std::vector<std::byte>& host, const test::device_memory& to) {
          test::put(to.p, host.data(), host.size());
          return to.as<std::byte>();
        };
        const test::device_memory x(c.x.size()), y(c.y.size()), mean(c.mean.size()),
            rstd(c.rstd.size()), dw(n * size_of(type)), db(n * size_of(type));
        const rows of = c.on(moved(c.x, x), moved(c.y, y), nullptr, nullptr, moved(c.mean, mean),
                             moved(c.rstd, rstd));
        const std::size_t size = cuda::parameter_gradients_workspace_bytes(f, of);
        const test::device_memory workspace(size);
        cuda::parameter_gradients(f, of, dw.p, c.is_centred() ? db.p : nullptr, workspace.p, size);
        if (size > 0)
          CHECK_THROWS_AS(cuda::parameter_gradients(f, of, dw.p, nullptr, workspace.p, size - 1),
                          error);
        std::array<std::vector<std::byte>, 2> got{std::vector<std::byte>(n * size_of(type)),
                                                  std::vector<std::byte>(n * size_of(type))};
        test::get(got[0].data(), dw.p, got[0].size());
        test::get(got[1].data(), db.p, got[1].size());
        test::with_float(type, [&]<class T, class A>(T, A) {
          const auto want = test::parameters_by_the_book<T, A>(c);
          INFO(c.describe());
          CHECK(got[0] == want[0]);
          if (c.is_centred()) CHECK(got[1] == want[1]);
        });
      }
}

TEST_CASE("cuda rows: sums of rows") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (const std::size_t n : {1, 8, 33, 1024})
      for (const std::uint64_t seed : {1, 2}) {
        test::segments_case c =
            test::make_segments_case(type, seed == 1 ? test::kind::near_one : test::kind::special,
                                     50, n, 60, 1000, seed + n);
        const auto moved = [](const auto& host, const test::device_memory& to) {
          test::put(to.p, host.data(), host.size() * sizeof(host[0]));
          return to.p;
        };
        const test::device_memory x(c.x.size()), base(c.base.size()), places(c.places.size() * 8),
            offsets(c.offsets.size() * 8), out(c.out.size());
        const row_segments by{static_cast<std::int64_t*>(moved(c.places, places)),
                              static_cast<std::int64_t*>(moved(c.offsets, offsets)), c.outputs};
        moved(c.base, base);
        cuda::sum_rows({type, c.count, n, moved(c.x, x)}, by, c.with_base ? base.p : nullptr,
                       out.p);
        test::get(c.out.data(), out.p, c.out.size());
        test::with_float(type, [&]<class T, class A>(T, A) {
          INFO(name(type) << " " << n << " " << seed);
          CHECK(c.out == test::sums_by_the_book<T, A>(c));
        });
      }
}
