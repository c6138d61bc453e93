// Many outputs on a GPU: the reference's bits for any shape, layout, axes and launch shape.
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>

#include <cuda_runtime_api.h>

#include <cstring>

#include "catch.hpp"
#include "data.hpp"
#include "view_data.hpp"

using namespace bitfold;

namespace {

struct memory {
  void* p = nullptr;
  explicit memory(std::size_t bytes) { REQUIRE(cudaMalloc(&p, bytes + 64) == cudaSuccess); }
  ~memory() { cudaFree(p); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  std::byte* at(std::size_t i) const { return static_cast<std::byte*>(p) + i; }
};

// A view of the same elements in device memory.
struct moved_view {
  memory room;
  view v;
  moved_view(const view& of, const std::vector<std::byte>& storage) : room(storage.size()), v(of) {
    REQUIRE(cudaMemcpy(room.p, storage.data(), storage.size(), cudaMemcpyHostToDevice) == cudaSuccess);
    v.data = room.at(static_cast<std::size_t>(static_cast<const std::byte*>(of.data) - storage.data()));
  }
};

bool runs_on_a_gpu(const reduction& r) {
  return r.method() != method_id::sequential && r.method() != method_id::exact && r.op() != op_id::count_distinct;
}

std::vector<std::vector<std::byte>> reduced(std::span<const reduction> all, const test::view_case& c, const moved_view& x,
                                            const moved_view* y, const cuda::launch& shape) {
  std::vector<std::size_t> begins{0};
  for (const reduction& r : all) begins.push_back((begins.back() + c.outputs() * size_of(r.out()) + 23) / 8 * 8);
  memory out(begins.back());
  REQUIRE(cudaMemset(out.p, 0xa5, begins.back()) == cudaSuccess);
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k) to.push_back(out.at(begins[k]));
  const view* second = y ? &y->v : nullptr;
  const std::size_t work = cuda::workspace_bytes(all, x.v, second, c.axes, shape);
  const memory workspace(work);
  cuda::reduce(all, x.v, second, c.axes, to, workspace.p, work, nullptr, shape);
  std::vector<std::vector<std::byte>> got;
  for (std::size_t k = 0; k < all.size(); ++k) {
    got.emplace_back(c.outputs() * size_of(all[k].out()) + 8);
    REQUIRE(cudaMemcpy(got[k].data(), to[k], got[k].size(), cudaMemcpyDeviceToHost) == cudaSuccess);
  }
  return got;
}

std::string differing(const test::view_case& c) {
  std::vector<reduction> all;
  for (const reduction& r : test::reductions_of_all_ops(c.type))
    if (runs_on_a_gpu(r) && info(r.op()).inputs == (c.two ? 2 : 1) && (c.elements_each() > 0 || info(r.op()).empty != if_empty::refused))
      all.push_back(r);
  if (all.empty()) return "";
  std::vector<std::vector<std::byte>> want;
  for (const reduction& r : all) {
    want.emplace_back(c.outputs() * size_of(r.out()) + 8, std::byte{0xa5});
    reference(r, c.x(), c.y(), c.axes, want.back().data());
  }
  const view x = c.x();
  const moved_view dx(x, c.storage[0]);
  std::optional<moved_view> dy;
  if (const view* y = c.y()) dy.emplace(*y, c.storage[1]);
  std::string which;
  const auto compare = [&](std::span<const reduction> some, std::size_t first, const cuda::launch& shape) {
    const auto got = reduced(some, c, dx, dy ? &*dy : nullptr, shape);
    for (std::size_t k = 0; k < some.size(); ++k)
      if (got[k] != want[first + k])
        which += " " + test::describe(some[k], c.elements_each()) + (some.size() > 1 ? " together" : "") + " threads=" + std::to_string(shape.threads);
  };
  compare(all, 0, {});
  compare(all, 0, {.threads = 96, .blocks = 2, .tiles = 1});
  for (std::size_t k = 0; k < all.size(); ++k) compare({&all[k], 1}, k, k % 3 ? cuda::launch{} : cuda::launch{.threads = 64, .tiles = 2});
  return which;
}

}  // namespace

TEST_CASE("cuda views: any shape, layout and axes, every operation") {
  test::random_bits next{12};
  for (int round = 0; round < 250; ++round) {
    test::view_case c = test::random_view(next);
    if (differing(c).empty()) continue;
    c = test::shrunk(c, [](const test::view_case& smaller) { return !differing(smaller).empty(); });
    FAIL(c.describe() << differing(c));
  }
  SUCCEED();
}

TEST_CASE("cuda views: long outputs, few and many, in rows and columns") {
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (const auto& extent : {std::vector<std::int64_t>{3, 300'001}, {5, 1 << 18}, {1000, 4096}, {2000, 1000}, {20'000, 64}, {70'000, 16}, {700, 257}})
      for (const bool down : {false, true})
        for (const int axis : {0, 1}) {
          test::view_case c{.type = t, .extent = extent, .axes = {axis}, .order = {0, 1}};
          if (down) c.order = {1, 0};
          INFO(c.describe());
          const reduction all[] = {make_reduction(op_id::sum, method_id::tree, t), make_reduction(op_id::argmax, {}, t),
                                   make_reduction(op_id::var, {}, t), make_reduction(op_id::sum, method_id::kahan, t)};
          const view x = c.x();
          const moved_view dx(x, c.storage[0]);
          const auto got = reduced(all, c, dx, nullptr, {});
          for (std::size_t k = 0; k < std::size(all); ++k) {
            std::vector<std::byte> want(got[k].size(), std::byte{0xa5});
            reference(all[k], x, nullptr, c.axes, want.data());
            if (got[k] != want) CHECK(test::describe(all[k], c.elements_each()) == "");
          }
        }
  SUCCEED();
}
