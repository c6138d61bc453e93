// Outputs along axes on a GPU: the reference's bits for any shape, layout, axes and launch shape.
#include "cuda_cases.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

const std::vector<cuda::launch> launches{
    {}, {.threads = 96, .blocks = 2, .tiles = 1}, {.threads = 64, .tiles = 2}};

bool is_asked_for(dtype t) {
  const auto types = types_of_test();
  return std::ranges::find(types, t) != types.end();
}

view_case plain(dtype t, std::vector<std::int64_t> extent, std::vector<int> axes,
                bool down = false) {
  view_case c{.type = t,
              .extent = std::move(extent),
              .axes = std::move(axes),
              .order = {},
              .specials = false};
  c.order.resize(c.extent.size());
  std::iota(c.order.begin(), c.order.end(), 0);
  if (down) std::reverse(c.order.begin(), c.order.end());
  return c;
}

// A shape for each strategy.
std::vector<view_case> a_shape_for_each_kernel(dtype t) {
  std::vector<view_case> cases;
  for (const auto& extent : {std::vector<std::int64_t>{5000, 601},
                             {40, 1001},
                             {9, 4095},
                             {4200, 16},
                             {4200, 64},
                             {4200, 120},
                             {4200, 300},
                             {4200, 51},
                             {5, 70'000},
                             {19, 8000},
                             {32, 8000},
                             {33, 33'000},
                             {64, 33'000},
                             {70'000, 5}})
    for (const int axis : {0, 1}) cases.push_back(plain(t, extent, {axis}));
  return cases;
}

}  // namespace

TEST_CASE("cuda views: any shape, layout and axes", "[cuda][outputs]") {
  random_bits next{12};
  std::vector<view_case> cases;
  for (int round = 0; round < 400; ++round)
    if (const view_case c = random_view(next); is_asked_for(c.type)) cases.push_back(c);
  check_views(
      cases, launches, [](const view_case& c) { return lists{every_kind(c.type, c.two + 1)}; },
      by_reference);
}

TEST_CASE("cuda views: every operation in each strategy", "[cuda][outputs]") {
  for (const dtype t : types_of_test({dtype::f32})) {
    auto cases = a_shape_for_each_kernel(t);
    for (const auto& [extent, axes] :
         {std::pair{std::vector<std::int64_t>{9, 3, 512}, std::vector{0, 2}},
          {{9, 3, 40}, {0, 2}},
          {{9, 13, 41}, {0, 2}}})
      cases.push_back(plain(t, extent, axes));
    for (const auto& extent :
         {std::vector<std::int64_t>{300, 7}, {5, 3000}, {1200, 700}, {3, 70'000}})
      cases.push_back(plain(t, extent, {1})), cases.back().two = true;
    check_views(
        cases, {{}}, [](const view_case& c) { return lists{each_operation(c.type, c.two + 1)}; },
        by_cpu);
  }
}

// One kernel has all: zeros of either sign, whose first is the place and whose +0 the maximum, and
// NaN.
TEST_CASE("cuda views: extremes and their places", "[cuda][outputs]") {
  random_bits next{14};
  for (const dtype t : types_of_test({dtype::f32, dtype::u8})) {
    std::vector<view_case> cases;
    for (const auto& extent : {std::vector<std::int64_t>{1, 5},
                               {3, 300'001},
                               {2000, 1000},
                               {300, 4096},
                               {2000, 64},
                               {5000, 16},
                               {37, 1007}})
      for (const int axis : {0, 1}) {
        const view_case& c = cases.emplace_back(plain(t, extent, {axis}));
        (void)c.x();
        auto& bytes = c.storage[0];
        const std::size_t size = size_of(t);
        for (std::size_t i = 0; is_float(t) && i < bytes.size() / size; ++i)
          if (next() % 4 != 0 || extent[1] % 2) {  // nothing but zeros and a few others
            std::fill_n(&bytes[i * size], size, std::byte{0});
            bytes[i * size + size - 1] = next() % 3 == 0 ? std::byte{0} : std::byte{0x80};
            if (next() % 4096 == 0) std::fill_n(&bytes[i * size], size, std::byte{0xff});
          }
      }
    check_views(
        cases, {{}, {.threads = 64, .blocks = 3, .tiles = 1}},
        [](const view_case& c) { return lists{extremes(c.type)}; }, by_reference);
  }
}

TEST_CASE("cuda views: an output does not see the batch", "[cuda][outputs]") {
  const std::int64_t rows = 50, n = 1234;
  for (const dtype t : types_of_test({dtype::f32, dtype::bf16})) {
    const view_case whole = plain(t, {rows, n}, {1}),
                    halves = plain(t, {rows, 2, n / 2}, {1, 2});  // the same elements
    const view x = whole.x();
    const std::size_t elements = static_cast<std::size_t>(rows * n);
    const std::vector<std::byte> columns = whole.laid_out({1, 0}, 1),
                                 padded = whole.laid_out({0, 1}, 3),
                                 pieces = halves.laid_out({2, 0, 1}, 1);
    const moved_view dx(x, whole.storage[0]),
        turned(row_major(t, columns.data(), {n, rows}), columns),
        wide(row_major(t, padded.data(), {rows, n}), padded),
        split(row_major(t, pieces.data(), {n / 2, rows, 2}), pieces);
    const view y = permuted(turned.v, std::array{1, 0}), w = permuted(split.v, std::array{1, 2, 0});
    view z = wide.v;
    z.stride = {3 * n * 3, 3};
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows) + 1), keys(elements);
    for (std::size_t k = 0; k < offsets.size(); ++k) offsets[k] = static_cast<std::int64_t>(k) * n;
    for (std::size_t i = 0; i < elements; ++i) keys[i] = static_cast<std::int64_t>(i) % rows;
    const device_memory d_offsets(offsets), d_keys(keys), work(std::size_t{1} << 24);
    lists of{every_kind(t, 1)};
    if (t == dtype::f32) of.push_back(each_operation(t, 1));
    for (const list& some : of) {
      arrays all;
      // Rows first, first + step, ... of the whole batch are what is there.
      const auto same = [&](const arrays& got, std::int64_t first, std::int64_t count,
                            std::int64_t step, const char* what) {
        for (std::size_t k = 0; k < some.size(); ++k) {
          const std::size_t size = size_of(some[k].out());
          bool fine = true;
          for (std::int64_t o = 0; o < count; ++o)
            fine = fine && std::memcmp(&got[k][static_cast<std::size_t>(o) * size],
                                       &all[k][static_cast<std::size_t>(first + o * step) * size],
                                       size) == 0;
          INFO(what << " " << describe(some[k], static_cast<std::size_t>(n)));
          CHECK(fine);
        }
      };
      const auto reduce = [&](const view& v) {
        std::vector<int> axes(static_cast<std::size_t>(v.rank) - 1);
        std::iota(axes.begin(), axes.end(), 1);
        const std::size_t bytes = cuda::workspace_bytes(some, v, nullptr, axes);
        REQUIRE(bytes <= std::size_t{1} << 24);
        return results_by(some, static_cast<std::size_t>(v.extent[0]), [&](auto& to) {
          cuda::reduce(some, v, nullptr, axes, to, work.p, bytes);
        });
      };
      all = reduce(dx.v);
      const std::pair<const view&, const char*> layouts[] = {
          {dx.v, "a slice"}, {y, "transposed"}, {z, "padded"}, {w, "permuted"}};
      for (const auto& [v, what] : layouts)
        for (std::int64_t row = 0; row < rows; ++row)
          same(reduce(sliced(v, 0, row, 1)), row, 1, 1, what);
      same(reduce(sliced(dx.v, 0, 3, 9, 5)), 3, 9, 5, "a slice");
      same(reduce(w), 0, rows, 1, "permuted");
      same(reduce(sliced(dx.v, 0, rows - 1, rows, -1)), rows - 1, rows, -1, "backwards");
      same(reduce(y), 0, rows, 1, "transposed");
      const auto outputs = static_cast<std::size_t>(rows);
      std::size_t bytes = cuda::segments_workspace_bytes(some, elements, outputs);
      REQUIRE(bytes <= std::size_t{1} << 24);
      same(results_by(some, outputs,
                      [&](auto& to) {
                        cuda::reduce_segments(some, dx.v.data, nullptr, elements,
                                              d_offsets.as<std::int64_t>(), outputs, to, work.p,
                                              bytes);
                      }),
           0, rows, 1, "segments");
      bytes = cuda::by_key_workspace_bytes(some, elements, outputs);
      REQUIRE(bytes <= std::size_t{1} << 24);
      same(results_by(some, outputs,
                      [&](auto& to) {
                        cuda::reduce_by_key(some, turned.v.data, nullptr, elements,
                                            d_keys.as<std::int64_t>(), outputs, to, work.p, bytes);
                      }),
           0, rows, 1, "keys");
    }
  }
}

TEST_CASE("cuda views: long outputs, few and many, in rows and columns", "[cuda][outputs]") {
  for (const dtype t : types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64}))
    for (const auto& extent : {std::vector<std::int64_t>{3, 300'001},
                               {5, 1 << 18},
                               {1000, 4096},
                               {2000, 1000},
                               {20'000, 64},
                               {70'000, 16},
                               {700, 257},
                               {5000, 1007},
                               {40, 50'257}}) {
      std::vector<view_case> cases;
      for (const bool down : {false, true})
        for (const int axis : {0, 1}) cases.push_back(plain(t, extent, {axis}, down));
      check_views(
          cases, {{}}, [](const view_case& c) { return lists{everyday(c.type, 1)}; }, by_cpu);
    }
}

TEST_CASE("cuda views: elements and outputs that are neighbours in packs", "[cuda][outputs]") {
  for (const dtype t : types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64})) {
    std::vector<view_case> cases;
    const auto add = [&](std::vector<std::int64_t> extent, std::vector<int> axes,
                         std::vector<int> gap = {}) {
      cases.push_back(plain(t, std::move(extent), std::move(axes)));
      cases.back().gap = std::move(gap);
    };
    // Rows of packs, whole leaves or not, of fewer than a warp takes at once, of more, and on two
    // axes.
    for (const std::int64_t n :
         {8, 16, 24, 32, 40, 64, 72, 128, 136, 248, 256, 264, 512, 520, 776, 1000, 1024, 1032})
      for (const auto& outputs : {std::vector<std::int64_t>{3}, {77}, {5, 9}}) {
        auto extent = outputs;
        extent.push_back(n);
        add(extent, {static_cast<int>(outputs.size())});
      }
    add({9'000, 16}, {1});
    // Columns: of few leaves and of many, of few outputs and of many.
    for (const std::int64_t n : {2, 31, 33, 256, 257, 600, 4096, 9'001})
      for (const std::int64_t outputs : {8, 24, 136}) add({n, outputs}, {0});
    add({300, 5'000}, {0});
    add({70'000, 16}, {0});
    add({45, 33'000}, {0});  // two rows of lanes, the second of which is short
    add({3, 700, 24}, {1});
    add({700, 2, 24}, {0}, {1, 2, 1});
    // Planes: runs of whole leaves, of whole rows of lanes, and of packs.
    for (const std::int64_t run : {1024, 512, 256, 384, 128, 96, 32, 40, 8}) {
      add({9, 3, run}, {0, 2});
      add({2 + 5000 / run, 3, run}, {0, 2});
    }
    check_views(
        cases, launches, [](const view_case& c) { return lists{everyday(c.type, 1)}; },
        by_reference);
  }
}

TEST_CASE("cuda views: exact sums of outputs that are alike, of any values, and long",
          "[cuda][outputs]") {
  for (const dtype t :
       types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i16})) {
    std::vector<view_case> cases;
    for (const auto& extent : {std::vector<std::int64_t>{77, 3},
                               {9'000, 17},
                               {300, 100},
                               {40, 1000},
                               {70, 3000},
                               {33, 20'000},
                               {19, 2056},
                               {7, 16'384},
                               {6, 16'385},
                               {5, 70'000}})
      for (const bool two : {false, true})
        for (const bool down : {false, true}) {
          view_case c = plain(t, extent, {1}, down);
          c.two = two;
          const view x = c.x();
          const auto n = static_cast<std::size_t>(extent[1]);
          const auto size = static_cast<std::int64_t>(size_of(t));
          // Rows of every kind of data, side by side.
          for (std::int64_t row = 0; row < extent[0]; ++row) {
            const auto k = row % 5 < 2 ? kind::near_one : all_kinds[row % 5 - 1];
            const auto data = make_data(t, k, n, static_cast<std::uint64_t>(row));
            for (std::int64_t i = 0; i < extent[1]; ++i)
              std::memcpy(&c.storage[0][static_cast<std::size_t>(
                              (row * x.stride[0] + i * x.stride[1]) * size)],
                          &data[static_cast<std::size_t>(i * size)], size_of(t));
          }
          cases.push_back(std::move(c));
        }
    check_views(
        cases, {{}, {.blocks = 3}},
        [](const view_case& c) { return lists{all_exact(c.type, c.two + 1)}; }, by_cpu);
  }
}

TEST_CASE("cuda views: a shape for each kernel", "[cuda][outputs][racecheck]") {
  for (const dtype t : types_of_test({dtype::f32}))
    check_views(
        a_shape_for_each_kernel(t), {{}},
        [](const view_case& c) {
          return lists{list{make_reduction(op_id::sum, method_id::kahan, c.type)},
                       exact_lists(c.type, 1)[0]};
        },
        by_cpu);
}
