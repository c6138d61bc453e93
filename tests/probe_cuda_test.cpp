// The order that the GPU really adds in, found by probing it: see probe_test.cpp.
#include <array>
#include <bitfold/cuda.hpp>

#include "catch.hpp"
#include "device_memory.hpp"
#include "probe_cases.hpp"

using namespace bitfold;
using namespace bitfold::probe;

namespace {

auto by_gpu(cuda::launch shape) {
  return [shape](const reduction& r, const void* data, std::size_t n) {
    return cuda::reduce_host(r, data, n, 0, shape);
  };
}

std::vector<cuda::launch> shapes() {
  return {{},
          {.threads = 32, .blocks = 1, .tiles = 1, .overlap = false},
          {.threads = 96, .blocks = 3, .tiles = 2, .overlap = true},
          {.threads = 512, .blocks = 7, .tiles = 16, .overlap = true}};
}

}  // namespace

TEST_CASE("probe: the GPU adds in the printed order", "[probe][cuda]") {
  using namespace order;
  for (int n : {1, 2, 3, lanes + 1, leaf - 1, leaf + 1})
    check_all_types(by_gpu({}), static_cast<std::uint64_t>(n), true);
}

TEST_CASE("probe: no launch shape changes the order on the GPU", "[probe][cuda]") {
  // A few nodes, the last one short; and many. Only samples: a call costs far more than its sum.
  for (std::uint64_t n : {std::uint64_t{13 * order::leaf + 17}, std::uint64_t{(1u << 19) + 12345}})
    for (const cuda::launch& shape : shapes()) {
      CAPTURE(shape.threads, shape.blocks, shape.tiles, shape.overlap);
      const indices kept = sample(n, 12, n < 100000 ? 512 : 1u << 17);
      check_sample<float>(by_gpu(shape), n, kept);
      check_sample<double>(by_gpu(shape), n, kept);
      check_sample<bfloat16>(by_gpu(shape), n, kept);
    }
}

TEST_CASE("probe: the GPU adds an output in a batch in the printed order", "[probe][cuda]") {
  const test::device_memory in(std::size_t{8} << 20), out(1024), workspace(std::size_t{1} << 20);
  const auto reduce = [&](const reduction& r, view x, int axis, std::byte* to) {
    const auto outputs = static_cast<std::size_t>(x.extent[static_cast<std::size_t>(1 - axis)]),
               elements =
                   outputs * static_cast<std::size_t>(x.extent[static_cast<std::size_t>(axis)]);
    test::put(in.p, x.data, elements * size_of(x.type));
    x.data = in.p;
    void* const results[] = {out.p};
    cuda::reduce({&r, 1}, x, nullptr, std::array{axis}, results, workspace.p, std::size_t{1} << 20);
    test::get(to, out.p, outputs * size_of(r.out()));
  };
  for (const bool columns : {false, true})
    for (const int outputs : {3, 8}) {  // without and with packs
      CAPTURE(columns, outputs);
      const auto engine = in_a_batch(outputs, columns, reduce);
      for (std::uint64_t n : {std::uint64_t{48}, std::uint64_t{order::leaf + 1}}) {
        check_sample<float>(engine, n, all_of(n));
      }
      const std::uint64_t n = 40 * order::leaf + 16;
      check_sample<float>(engine, n, sample(n, 12, 2048));
    }
}
