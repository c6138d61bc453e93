// The calls of bitfold/cuda.hpp, on an emulated GPU or a real one: what plans and kernels have no
// tests of elsewhere, parts, windows, arrays of the host's and what is refused.
#include <array>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"
#include "refusals.hpp"

using namespace bitfold;

namespace {

using test::device_memory;

std::vector<reduction> list_of(dtype t, int inputs) {
  if (inputs == 2)
    return {make_reduction(op_id::dot, method_id::kahan, t), make_reduction(op_id::mae, {}, t)};
  return {make_reduction(op_id::sum, method_id::tree, t), make_reduction(op_id::argmax, {}, t),
          make_reduction(op_id::var, {}, t), make_reduction(op_id::sum, method_id::exact, t)};
}

// The results of one output each, which call(out) leaves there.
template <class Call>
std::vector<scalar> results_of(const std::vector<reduction>& all, Call call) {
  const device_memory out(std::vector<std::uint64_t>(all.size(), ~std::uint64_t{0}));
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k) to.push_back(out.as<std::byte>() + 8 * k);
  call(std::span<void* const>(to));
  test::wait_for();
  std::vector<scalar> got;
  for (std::size_t k = 0; k < all.size(); ++k) got.push_back(load_scalar(all[k].out(), to[k]));
  return got;
}

}  // namespace

TEST_CASE("each of several arrays has the bits that it has alone") {
  std::size_t place = 0;
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::i8}) {
    const std::size_t size = size_of(t), n = 60'000;
    const device_memory one(test::make_data(t, test::kind::special, n, 1)),
        other(test::make_data(t, test::kind::near_one, n, 2));
    // Neighbours, in any order, of which some share elements; and more than a pass puts.
    std::vector<cuda::piece> arrays{{one.as<std::byte>() + 7 * size, 50'000},
                                    {other.p, 1},
                                    {one.p, 333},
                                    {other.as<std::byte>() + 3 * size, 9000},
                                    {nullptr, 0}};
    for (std::size_t k = 0; k < 300; ++k)
      arrays.push_back({(k % 2 ? one : other).as<std::byte>() + k * size, k});
    for (const reduction& r :
         {make_reduction(op_id::sum, method_id::tree, t), make_reduction(op_id::norm_l2, {}, t),
          make_reduction(op_id::sum, method_id::exact, t)}) {
      if (!test::takes_kernels(place++, 2)) continue;
      const std::size_t bytes = cuda::arrays_workspace_bytes(r, arrays);
      const device_memory out(arrays.size() * 8), workspace(bytes);
      cuda::reduce_arrays(r, arrays, out.p, workspace.p, bytes);
      test::wait_for();
      for (std::size_t k = 0; k < arrays.size(); ++k) {
        INFO(name(r.op()) << " of " << name(t) << ", array " << k);
        CHECK(load_scalar(r.out(), out.as<std::byte>() + k * size_of(r.out())) ==
              cpu::reduce(r, arrays[k].data, arrays[k].n));
      }
    }
  }
}

TEST_CASE("arrays that come in parts have the bits that they have at once") {
  const std::size_t n = 200'001;
  for (const dtype t : {dtype::f32, dtype::f16})
    for (const std::size_t inputs : {1, 2}) {
      if (!test::takes_kernels(inputs + (t == dtype::f32), 2)) continue;
      const std::vector<reduction> all = list_of(t, static_cast<int>(inputs));
      const std::size_t size = size_of(t);
      const device_memory x(test::make_data(t, test::kind::special, n, 1)),
          y(test::make_data(t, test::kind::near_one, n, 2));
      std::vector<scalar> want(all.size());
      cpu::reduce(all, x.p, inputs == 2 ? y.p : nullptr, n, want);
      std::size_t most = 0;
      for (const cuda::launch& shape : {cuda::launch{}, {.threads = 64, .blocks = 3, .tiles = 2}}) {
        const std::size_t memory =
            inputs * n * size / 4 + cuda::workspace_bytes(all, n, shape) + 32768;
        cuda::in_parts of(all, n, memory, shape);
        CHECK(inputs * of.elements() * size + of.workspace_bytes() <= memory);
        const device_memory workspace(of.workspace_bytes());
        std::size_t parts = 0;
        const auto got = results_of(all, [&](std::span<void* const> to) {
          for (std::size_t at = 0; at < n; at += of.elements(), ++parts) {
            // At an address of its own, and nothing behind it.
            const std::size_t bytes = std::min(of.elements(), n - at) * size;
            const auto part = [&](const device_memory& from) {
              const auto* const begin = from.as<std::byte>() + at * size;
              return device_memory(std::vector<std::byte>(begin, begin + bytes));
            };
            const device_memory first = part(x), second = part(y);
            of.add(first.p, inputs == 2 ? second.p : nullptr, to, workspace.p,
                   of.workspace_bytes());
            test::wait_for();
          }
        });
        most = std::max(most, parts);
        for (std::size_t k = 0; k < all.size(); ++k) {
          INFO(test::describe(all[k], n) << " in " << parts << " parts");
          CHECK(to_hex(got[k]) == to_hex(want[k]));
        }
      }
      CHECK(most > 2);
    }
  const std::vector<reduction> all = list_of(dtype::f32, 1);
  CHECK_THROWS_AS(cuda::in_parts(all, n, 100), error);
}

TEST_CASE("windows, padded ones among them, have the CPU's bits") {
  const std::vector<reduction> all = list_of(dtype::f32, 1);
  const device_memory data(test::make_data(dtype::f32, test::kind::near_one, 3 * 20 * 30, 3));
  const view x = row_major(dtype::f32, data.p, {3, 20, 30});
  for (const std::int64_t padding : {0, 1}) {
    const std::array of{window{1, 3, 2, 1, padding}, window{2, 3, 1, 2, padding}};
    std::size_t outputs = 1;
    for (const std::int64_t e : windows_extents(x, of)) outputs *= static_cast<std::size_t>(e);
    std::vector<std::vector<std::byte>> right;
    std::vector<std::unique_ptr<device_memory>> got;
    std::vector<void*> want_to, to;
    for (const reduction& r : all) {
      want_to.push_back(right.emplace_back(outputs * size_of(r.out())).data());
      to.push_back(got.emplace_back(std::make_unique<device_memory>(right.back()))->p);
    }
    cpu::reduce_windows(all, x, of, want_to);
    const std::size_t work = cuda::windows_workspace_bytes(all, x, of);
    const device_memory workspace(work);
    cuda::reduce_windows(all, x, of, to, workspace.p, work);
    test::wait_for();
    for (std::size_t k = 0; k < all.size(); ++k) {
      INFO(name(all[k].op()) << ", padding " << padding);
      CHECK(std::memcmp(to[k], right[k].data(), right[k].size()) == 0);
    }
  }
}

TEST_CASE("arrays of the host's, memory of the stream's, and no elements") {
  const std::vector<reduction> all = list_of(dtype::f32, 1);
  const auto data = test::make_data(dtype::f32, test::kind::near_one, 5000, 4);
  std::vector<scalar> want(all.size());
  cpu::reduce(all, data.data(), nullptr, 5000, want);
  CHECK(cuda::reduce_host(all, data.data(), nullptr, 5000) == want);
  const device_memory x(data);
  for (std::size_t k = 0; k < all.size(); ++k)
    CHECK(results_of({all[k]}, [&](auto to) { cuda::reduce(all[k], x.p, 5000, to[0]); })[0] ==
          want[k]);
  const reduction sum = all[0];
  CHECK(results_of({sum}, [&](auto to) { cuda::reduce(sum, nullptr, 0, to[0]); })[0] ==
        cpu::reduce(sum, nullptr, nullptr, 0));
}

TEST_CASE("what a GPU is refused names the argument, and nothing is written") {
  const std::vector<reduction> all = list_of(dtype::f32, 1);
  const device_memory x(std::vector<float>(5000, 1)), workspace(1 << 20);
  const auto refused = [&](const std::string& what, auto call) {
    const auto got = results_of({all[0]}, [&](std::span<void* const> to) {
      try {
        call(to[0]);
        FAIL("it was not refused: " << what);
      } catch (const error& e) {
        CHECK(e.code() == errc::usage);
        CHECK(std::string(e.what()).find(what) != std::string::npos);
      }
    });
    CHECK(to_hex(got[0]) == "ffffffff");
  };
  const auto reduce = [&](const reduction& r, const void* data, std::size_t n, void* to, void* room,
                          std::size_t bytes, const cuda::launch& shape = {}) {
    cuda::reduce(r, data, n, to, room, bytes, nullptr, shape);
  };
  const std::size_t n = 1 << 20, work = cuda::workspace_bytes(all[0], n);
  REQUIRE(work > 0);
  refused("workspace", [&](void* to) { reduce(all[0], x.p, n, to, workspace.p, work - 1); });
  refused("workspace", [&](void* to) { reduce(all[0], x.p, n, to, nullptr, work); });
  refused("data", [&](void* to) { reduce(all[0], nullptr, 10, to, workspace.p, work); });
  refused("data", [&](void* to) { reduce(all[0], x.as<char>() + 1, 10, to, workspace.p, work); });
  refused("threads",
          [&](void* to) { reduce(all[0], x.p, 10, to, workspace.p, work, {.threads = 33}); });
  refused("sequential", [&](void* to) {
    reduce(make_reduction(op_id::sum, method_id::sequential, dtype::f32), x.p, 10, to, workspace.p,
           work);
  });
  const cuda::piece one[] = {{x.p, 10}};
  refused("of several arrays only by method exact",
          [&](void* to) { cuda::reduce_pieces(all[0], one, to, workspace.p, 1 << 20); });
  CHECK_THROWS_AS(cuda::reduce(all[0], x.p, 10, nullptr), error);
}

TEST_CASE("what is asked without arrays is refused as the call is") {
  const auto refused = [](const std::string& what, const cuda::request& wanted) {
    test::check_refused(what, [&] { (void)wanted.explain(); }, [] { return true; });
    test::check_refused(what, [&] { (void)wanted.make_ahead(9, 0); }, [] { return true; });
  };
  const reduction dot = make_reduction(op_id::dot, {}, dtype::f32),
                  sum = make_reduction(op_id::sum, {}, dtype::f32);
  const std::array both{sum, dot};
  const std::vector<float> data(8);
  const view x = row_major(dtype::f32, data.data(), {2, 4}),
             wide = row_major(dtype::f64, data.data(), {2, 2});
  const std::array axes{0};
  refused("y: dot takes two inputs", cuda::request::axes({&dot, 1}, x, nullptr, axes));
  refused("y: sum takes one input", cuda::request::axes({&sum, 1}, x, &x, axes));
  refused("reductions: of f32, and the elements are f64",
          cuda::request::axes({&sum, 1}, wide, nullptr, axes));
  const window pool{.axis = 1, .size = 2, .padding = 1};
  refused("y: dot takes two inputs", cuda::request::windows({&dot, 1}, x, {&pool, 1}));
  const std::string mixed = "reductions: of one input and of two inputs in one pass";
  refused(mixed, cuda::request::array(both, 8));
  refused(mixed, cuda::request::segments(both, 8, 2));
  refused(mixed, cuda::request::by_key(both, 8, 2));
}

TEST_CASE("more elements than a grid has blocks for are refused where it is planned") {
  const reduction distinct = make_reduction(op_id::count_distinct, {}, dtype::f32);
  const auto explain = [&](std::size_t n) {
    return cuda::request::array({&distinct, 1}, n).explain();
  };
  CHECK(explain(std::size_t{1} << 40).find("count_runs") != std::string::npos);
  for (const int k : {44, 46})
    test::check_refused(
        "n: " + std::to_string(std::size_t{1} << k) + " elements, which want ",
        [&] { explain(std::size_t{1} << k); }, [] { return true; });
}
