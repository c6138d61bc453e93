// Many outputs on a GPU: the reference's bits for any shape, layout, axes and launch shape.
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>


#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "catch.hpp"
#include "companies.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"
#include "probe_cases.hpp"
#include "refusals.hpp"
#include "view_data.hpp"

#include "gpu/request.hpp"

using namespace bitfold;

namespace {

using test::device_memory;

// A view of the same elements in device memory.
struct moved_view {
  device_memory room;
  view v;
  moved_view(const view& of, const std::vector<std::byte>& storage) : room(storage), v(of) {
    v.data = room.as<std::byte>() + (static_cast<const std::byte*>(of.data) - storage.data());
  }
};

bool runs_on_a_gpu(const reduction& r) { return r.method() != method_id::sequential; }

using results = test::arrays;

// The results of `all`, of so many outputs each, that call(out) leaves on the device; and what lies
// behind them.
template <class Call>
results results_of(std::span<const reduction> all, std::size_t outputs, Call call) {
  results got = test::room_for(all, outputs);
  std::vector<std::size_t> begins{0};
  for (const auto& one : got) begins.push_back((begins.back() + one.size() + 15) / 8 * 8);
  const device_memory out(begins.back());
  test::set(out.p, 0xa5, begins.back());
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k) to.push_back(out.as<std::byte>() + begins[k]);
  call(to);
  for (std::size_t k = 0; k < all.size(); ++k)
    test::get(got[k].data(), to[k], got[k].size());
  return got;
}

results reduced(std::span<const reduction> all, const test::view_case& c, const moved_view& x,
                const moved_view* y, const cuda::launch& shape) {
  return results_of(all, c.outputs(), [&](std::span<void* const> to) {
    const view* second = y ? &y->v : nullptr;
    const std::size_t work = cuda::workspace_bytes(all, x.v, second, c.axes, shape);
    const device_memory workspace(work);
    cuda::reduce(all, x.v, second, c.axes, to, workspace.p, work, nullptr, shape);
  });
}

// Those that are asked for most, whose layouts are tried in more ways.
bool is_everyday(const reduction& r) {
  using enum op_id;
  constexpr op_id ops[] = {sum, mean,      sum_squares,        min, max, argmax,
                           var, logsumexp, softmax_denominator};
  return std::ranges::find(ops, r.op()) != std::end(ops) &&
         (!info(r.op()).takes_method || r.method() == method_id::tree) &&
         r.method() != method_id::exact;
}

// Each wants some hundred kernels of its own.
constexpr int rounds = 40;

const std::vector<cuda::launch> launches{
    {}, {.threads = 96, .blocks = 2, .tiles = 1}, {.threads = 64, .tiles = 2}};

// Those of a case's reductions whose results differ from the reference's; none if all are the same.
std::string differing(const test::view_case& c, bool everyday = false) {
  const view x = c.x();
  const moved_view dx(x, c.storage[0]);
  std::optional<moved_view> dy;
  if (const view* y = c.y()) dy.emplace(*y, c.storage[1]);
  std::vector<reduction> known;
  results wanted;
  const auto want = [&](const reduction& r) {
    const auto found = std::ranges::find(known, r);
    if (found != known.end()) return wanted[static_cast<std::size_t>(found - known.begin())];
    known.push_back(r);
    wanted.push_back(test::room_for({&r, 1}, c.outputs())[0]);
    reference(r, x, c.y(), c.axes, wanted.back().data());
    return wanted.back();
  };
  std::string which;
  for (auto& all : test::companies(c.type, c.two ? 2 : 1, c.elements_each() == 0)) {
    std::erase_if(all, [&](const reduction& r) {
      return !runs_on_a_gpu(r) || (everyday && (!is_everyday(r) || r.ddof() > 1));
    });
    results want_of_all;
    for (const reduction& r : all) want_of_all.push_back(want(r));
    std::vector<gpu::plan> plans;
    test::for_each_way(all, launches.size(), [&](auto some, std::size_t, std::size_t way) {
      plans.push_back(gpu::plan_axes(
          some, detail::layout_of(dx.v, dy ? &dy->v : nullptr, c.axes), launches[way]));
    });
    test::prepare(plans);
    which += test::differing(all, want_of_all, launches,
                             [&](std::span<const reduction> some, const cuda::launch& shape) {
                               return reduced(some, c, dx, dy ? &*dy : nullptr, shape);
                             });
  }
  return which;
}
std::string differing(const test::windows_case& c) {
  const auto elements = c.elements();
  auto all = test::reductions_for(c.of.type, false, test::some_are_empty(elements));
  std::erase_if(all, [](const reduction& r) { return !runs_on_a_gpu(r); });
  const view x = c.of.x();
  const moved_view moved(x, c.of.storage[0]);
  std::vector<gpu::plan> plans;
  test::for_each_way(all, launches.size(), [&](auto some, std::size_t, std::size_t way) {
    plans.push_back(gpu::plan_windows(some, detail::boxes_of(moved.v, c.windows), moved.v.data,
                                      launches[way]));
  });
  test::prepare(plans);
  return test::differing(
      all, test::results_of(all, elements, {}), launches,
      [&](std::span<const reduction> some, const cuda::launch& shape) {
        return results_of(some, elements.size(), [&](std::span<void* const> to) {
          const std::size_t work = cuda::windows_workspace_bytes(some, moved.v, c.windows, shape);
          const device_memory workspace(work);
          cuda::reduce_windows(some, moved.v, c.windows, to, workspace.p, work, nullptr, shape);
        });
      });
}

// `of_long`: few operations, as the reference takes its time.
std::string differing(const test::lists_case& c, bool of_long = false) {
  using enum op_id;
  const auto x = c.data(0), y = c.two ? c.data(1) : std::vector<std::byte>();
  const device_memory dx(x), dy(y), offsets(c.offsets()), keys(c.keys());
  const void* const second = c.two ? dy.p : nullptr;
  // Nodes of one tile, of two, or of as many as suit: those of long segments are folded ahead.
  const std::vector<cuda::launch> shapes{{}, {.tiles = 1}, {.tiles = 2}};
  std::string which;
  for (const bool by_key : {false, true}) {
    const auto own_x = c.elements(x, by_key), own_y = c.two ? c.elements(y, by_key) : results();
    auto all = test::reductions_for(c.type, c.two, test::some_are_empty(own_x));
    std::erase_if(all, [&](const reduction& r) {
      return !runs_on_a_gpu(r) ||
             (of_long && r.op() != sum && r.op() != var && r.op() != argmax && r.op() != dot);
    });
    std::vector<gpu::plan> plans;
    test::for_each_way(all, shapes.size(), [&](auto some, std::size_t, std::size_t way) {
      const auto plan = by_key ? gpu::plan_keys : gpu::plan_segments;
      plans.push_back(plan(some, c.two, c.n(), c.outputs(), shapes[way]));
    });
    test::prepare(plans);
    const auto run = [&](std::span<const reduction> some, const cuda::launch& shape) {
      return results_of(some, c.outputs(), [&](std::span<void* const> to) {
        const auto bytes_for =
            by_key ? cuda::by_key_workspace_bytes : cuda::segments_workspace_bytes;
        const std::size_t work = bytes_for(some, c.n(), c.outputs(), shape);
        const device_memory workspace(work);
        if (by_key)
          cuda::reduce_by_key(some, dx.p, second, c.n(), keys.as<std::int64_t>(), c.outputs(), to,
                              workspace.p, work, nullptr, shape);
        else
          cuda::reduce_segments(some, dx.p, second, c.n(), offsets.as<std::int64_t>(), c.outputs(),
                                to, workspace.p, work, nullptr, shape);
      });
    };
    const auto found = test::differing(all, test::results_of(all, own_x, own_y), shapes, run);
    if (!found.empty()) which += (by_key ? " by key" : " segments") + found;
  }
  return which;
}

}  // namespace

TEST_CASE("cuda views: any shape, layout and axes, every operation") {
  test::random_bits next{12};
  for (int round = 0; round < rounds; ++round)
    test::check_case(test::random_view(next),
                     [](const test::view_case& c) { return differing(c); });
  SUCCEED();
}

// One kernel has both: zeros of either sign, whose first is the place and whose +0 the maximum, and
// NaN.
TEST_CASE("cuda views: an extreme and its place, together") {
  test::random_bits next{14};
  using pair = std::array<op_id, 2>;
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (const auto& extent : {std::vector<std::int64_t>{1, 5},
                               {3, 300'001},
                               {2000, 1000},
                               {300, 4096},
                               {2000, 64},
                               {5000, 16},
                               {37, 1007}})
      for (const int axis : {0, 1})
        for (const pair& ops : {pair{op_id::max, op_id::argmax}, pair{op_id::argmin, op_id::min},
                                pair{op_id::max, op_id::argmin}}) {
          test::view_case c{.type = t, .extent = extent, .axes = {axis}, .order = {0, 1}};
          view x = c.x();
          auto& bytes = c.storage[0];
          const std::size_t size = size_of(t);
          if (is_float(t))
            for (std::size_t i = 0; i < bytes.size() / size;
                 ++i)  // nothing but zeros and a few NaN
              if (next() % 4 != 0 || extent[1] % 2) {
                std::fill_n(&bytes[i * size], size, std::byte{0});
                bytes[i * size + size - 1] = next() % 3 == 0 ? std::byte{0} : std::byte{0x80};
              }
          const moved_view dx(x, bytes);
          const reduction all[] = {make_reduction(ops[0], {}, t), make_reduction(ops[1], {}, t)};
          INFO(c.describe() << test::describe(all[0], c.elements_each())
                            << test::describe(all[1], c.elements_each()));
          const auto got = reduced(all, c, dx, nullptr, {}),
                     fewer = reduced(all, c, dx, nullptr, {.threads = 64, .blocks = 3, .tiles = 1});
          for (std::size_t k = 0; k < std::size(all); ++k) {
            std::vector<std::byte> want(got[k].size(), std::byte{0xa5});
            reference(all[k], x, nullptr, c.axes, want.data());
            CHECK((got[k] == want));
            CHECK((fewer[k] == want));
          }
        }
}

TEST_CASE("cuda views: an output does not see the batch") {
  const std::int64_t rows = 50, n = 1234;
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::i16}) {
    const test::view_case whole{.type = t, .extent = {rows, n}, .axes = {1}, .order = {0, 1}},
        halves{.type = t,
               .extent = {rows, 2, n / 2},
               .axes = {1, 2},
               .order = {0, 1, 2}};  // the same elements
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
    const device_memory d_offsets(8 * offsets.size()), d_keys(8 * elements),
        out(8 * static_cast<std::size_t>(rows)), work(std::size_t{1} << 24);
    test::put(d_offsets.p, offsets.data(), 8 * offsets.size());
    test::put(d_keys.p, keys.data(), 8 * elements);
    void* const to = out.p;
    for (const reduction& r : test::reductions_of_all_ops(t)) {
      if (info(r.op()).inputs == 2 || !runs_on_a_gpu(r)) continue;
      const std::size_t size = size_of(r.out());
      std::vector<std::byte> all(static_cast<std::size_t>(rows) * size), got(all.size());
      // Rows first, first + step, ... of the whole batch are what is in `out`.
      const auto same = [&](std::int64_t first, std::int64_t count, std::int64_t step,
                            const char* what) {
        test::get(got.data(), out.p, static_cast<std::size_t>(count) * size);
        bool fine = true;
        for (std::int64_t k = 0; k < count; ++k)
          fine = fine &&
                 std::memcmp(&got[static_cast<std::size_t>(k) * size],
                             &all[static_cast<std::size_t>(first + k * step) * size], size) == 0;
        INFO(what << " " << test::describe(r, static_cast<std::size_t>(n)));
        CHECK(fine);
      };
      const auto reduce = [&](const view& v) {
        std::vector<int> axes(static_cast<std::size_t>(v.rank) - 1);
        std::iota(axes.begin(), axes.end(), 1);
        const std::size_t bytes = cuda::workspace_bytes({&r, 1}, v, nullptr, axes);
        REQUIRE(bytes <= std::size_t{1} << 24);
        cuda::reduce({&r, 1}, v, nullptr, axes, {&to, 1}, work.p, bytes);
      };
      reduce(dx.v);
      test::get(all.data(), out.p, all.size());
      const std::pair<const view&, const char*> layouts[] = {
          {dx.v, "a slice"}, {y, "transposed"}, {z, "padded"}, {w, "permuted"}};
      for (const auto& [v, what] : layouts)
        for (std::int64_t row = 0; row < rows; ++row) {
          reduce(sliced(v, 0, row, 1));
          same(row, 1, 1, what);
        }
      reduce(sliced(dx.v, 0, 3, 9, 5));
      same(3, 9, 5, "a slice");
      reduce(w);
      same(0, rows, 1, "permuted");
      reduce(sliced(dx.v, 0, rows - 1, rows, -1));
      same(rows - 1, rows, -1, "backwards");
      reduce(y);
      same(0, rows, 1, "transposed");
      std::size_t bytes =
          cuda::segments_workspace_bytes({&r, 1}, elements, static_cast<std::size_t>(rows));
      cuda::reduce_segments({&r, 1}, dx.v.data, nullptr, elements, d_offsets.as<std::int64_t>(),
                            static_cast<std::size_t>(rows), {&to, 1}, work.p, bytes);
      same(0, rows, 1, "segments");
      bytes = cuda::by_key_workspace_bytes({&r, 1}, elements, static_cast<std::size_t>(rows));
      REQUIRE(bytes <= std::size_t{1} << 24);
      cuda::reduce_by_key({&r, 1}, turned.v.data, nullptr, elements, d_keys.as<std::int64_t>(),
                          static_cast<std::size_t>(rows), {&to, 1}, work.p, bytes);
      same(0, rows, 1, "keys");
    }
  }
}

TEST_CASE("cuda keys: none, which may be nowhere") {
  const reduction r = make_reduction(op_id::sum, {}, dtype::f32);
  for (const std::size_t outputs : {1, 5, 1000}) {
    const device_memory out(4 * outputs);
    test::set(out.p, 0xa5, 4 * outputs);
    void* const to = out.p;
    const std::size_t bytes = cuda::by_key_workspace_bytes({&r, 1}, 0, outputs);
    const device_memory work(bytes);
    cuda::reduce_by_key({&r, 1}, nullptr, nullptr, 0, nullptr, outputs, {&to, 1}, work.p, bytes);
    std::vector<float> got(outputs, 1);
    test::get(got.data(), out.p, 4 * outputs);
    CHECK(got == std::vector<float>(outputs, 0));
  }
}

TEST_CASE("cuda views: long outputs, few and many, in rows and columns") {
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (const auto& extent : {std::vector<std::int64_t>{3, 300'001},
                               {5, 1 << 18},
                               {1000, 4096},
                               {2000, 1000},
                               {20'000, 64},
                               {70'000, 16},
                               {700, 257},
                               {5000, 1007},
                               {40, 50'257}})
      for (const bool down : {false, true})
        for (const int axis : {0, 1}) {
          test::view_case c{
              .type = t, .extent = extent, .axes = {axis}, .order = {0, 1}, .specials = false};
          if (down) c.order = {1, 0};
          INFO(c.describe());
          const reduction all[] = {
              make_reduction(op_id::sum, method_id::tree, t), make_reduction(op_id::argmax, {}, t),
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

TEST_CASE("cuda views: elements and outputs that are neighbours in packs") {
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    std::vector<test::view_case> cases;
    const auto add = [&](std::vector<std::int64_t> extent, std::vector<int> axes,
                         std::vector<int> gap = {}) {
      std::vector<int> order(extent.size());
      std::iota(order.begin(), order.end(), 0);
      cases.push_back({.type = t,
                       .extent = extent,
                       .axes = axes,
                       .order = order,
                       .gap = gap,
                       .specials = false});
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
    for (const test::view_case& c : cases) {
      const std::string which = differing(c, true);
      INFO(c.describe() << which);
      CHECK(which == "");
    }
  }
}

TEST_CASE("cuda views: exact sums of outputs that are alike, of any values, and long") {
  using enum op_id;
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i16})
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
          test::view_case c{
              .type = t, .extent = extent, .axes = {1}, .order = {0, 1}, .specials = false};
          if (down) c.order = {1, 0};
          c.two = two;
          const view x = c.x();
          const auto n = static_cast<std::size_t>(extent[1]),
                     rows = static_cast<std::size_t>(extent[0]);
          // Rows of every kind of data, side by side.
          for (std::size_t row = 0; row < rows; ++row) {
            const auto kind = row % 5 < 2 ? test::kind::near_one : test::all_kinds[row % 5 - 1];
            const auto data = test::make_data(t, kind, n, row);
            const std::size_t size = size_of(t);
            for (std::size_t i = 0; i < n; ++i)
              std::memcpy(const_cast<std::byte*>(static_cast<const std::byte*>(x.data)) +
                              (static_cast<std::int64_t>(row) * x.stride[0] +
                               static_cast<std::int64_t>(i) * x.stride[1]) *
                                  static_cast<std::int64_t>(size),
                          &data[i * size], size);
          }
          std::vector<reduction> all;
          for (const reduction& r : test::reductions_of_all_ops(t))
            if (r.method() == method_id::exact && info(r.op()).inputs == (two ? 2 : 1))
              all.push_back(r);
          const moved_view dx(x, c.storage[0]);
          std::optional<moved_view> dy;
          if (const view* y = c.y()) dy.emplace(*y, c.storage[1]);
          const auto check_of = [&](std::span<const reduction> some, const cuda::launch& shape) {
            const auto got = reduced(some, c, dx, dy ? &*dy : nullptr, shape);
            for (std::size_t k = 0; k < some.size(); ++k) {
              std::vector<std::byte> want(got[k].size(), std::byte{0xa5});
              reference(some[k], x, c.y(), c.axes, want.data());
              INFO(c.describe() << test::describe(some[k], n) << " of " << some.size());
              CHECK((got[k] == want));
            }
          };
          check_of(std::span(all).first(std::min<std::size_t>(all.size(), 8)), {.blocks = 3});
          for (const reduction& r : all) check_of({&r, 1}, {});
        }
}

TEST_CASE("cuda windows: any shape, padding and layout, every operation") {
  test::random_bits next{32};
  int in_several_boxes = 0;
  for (int round = 0; round < rounds; ++round) {
    const test::windows_case c = test::random_windows(next);
    in_several_boxes += detail::boxes_of(c.of.x(), c.windows).boxes.size() > 1;
    test::check_case(c, [](const test::windows_case& s) { return differing(s); });
  }
  CHECK(in_several_boxes > 10);
}

TEST_CASE("cuda views: a shape for each kernel", "[racecheck]") {
  for (const dtype t : {dtype::f32, dtype::f16, dtype::i16})
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
      for (const int axis : {0, 1}) {
        const test::view_case c{
            .type = t, .extent = extent, .axes = {axis}, .order = {0, 1}, .specials = false};
        const view x = c.x();
        const moved_view dx(x, c.storage[0]);
        const reduction all[] = {make_reduction(op_id::sum, method_id::tree, t),
                                 make_reduction(op_id::sum, method_id::exact, t)};
        const auto got = reduced(all, c, dx, nullptr, {});
        for (std::size_t k = 0; k < std::size(all); ++k) {
          std::vector<std::byte> want(got[k].size(), std::byte{0xa5});
          reference(all[k], x, nullptr, c.axes, want.data());
          INFO(c.describe() << test::describe(all[k], c.elements_each()));
          CHECK((got[k] == want));
        }
      }
}

TEST_CASE("cuda windows: long ones, at any address") {
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64})
    for (const std::int64_t size : {300, 1000, 5000})
      for (const std::int64_t stride : {1, 4, 8})
        for (const std::int64_t padding : {0, 16}) {
          const test::view_case c{
              .type = t, .extent = {size + 60}, .axes = {}, .order = {0}, .specials = false};
          const view x = c.x();
          const moved_view dx(x, c.storage[0]);
          const window w{.axis = 0, .size = size, .stride = stride, .padding = padding};
          const auto outputs = static_cast<std::size_t>(windows_extents(x, {&w, 1})[0]);
          for (const op_id op : {op_id::sum, op_id::var, op_id::argmax})
            for (const cuda::launch& shape :
                 {cuda::launch{}, cuda::launch{.threads = 96, .blocks = 2, .tiles = 1}}) {
              const reduction r = make_reduction(op, {}, t);
              const std::size_t work = cuda::windows_workspace_bytes({&r, 1}, dx.v, {&w, 1}, shape),
                                bytes = outputs * size_of(r.out());
              const device_memory out(bytes), workspace(work);
              void* const to = out.p;
              if (work > 0)
                CHECK_THROWS_AS(cuda::reduce_windows({&r, 1}, dx.v, {&w, 1}, {&to, 1}, workspace.p,
                                                     work - 1, nullptr, shape),
                                error);
              cuda::reduce_windows({&r, 1}, dx.v, {&w, 1}, {&to, 1}, workspace.p, work, nullptr,
                                   shape);
              std::vector<std::byte> got(bytes), want(bytes);
              test::get(got.data(), out.p, bytes);
              void* const wanted = want.data();
              cpu::reduce_windows({&r, 1}, x, {&w, 1}, {&wanted, 1});
              INFO(test::describe(r, static_cast<std::size_t>(size))
                   << " stride " << stride << " padding " << padding << " tiles " << shape.tiles);
              CHECK((got == want));
            }
        }
}

TEST_CASE("cuda segments: a length for each kernel", "[racecheck]") {
  std::vector<std::int64_t> offsets{1};
  for (const std::int64_t n : {33, 257, 4097, 1, 40'000, 31}) offsets.push_back(offsets.back() + n);
  for (int k = 0; k < 33; ++k) offsets.push_back(offsets.back() + 4096);
  const auto n = static_cast<std::size_t>(offsets.back()), segments = offsets.size() - 1;
  const device_memory d_offsets(8 * offsets.size());
  test::put(d_offsets.p, offsets.data(), 8 * offsets.size());
  using enum op_id;
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i16}) {
    const auto x = test::make_data(t, test::kind::near_one, n, 1);
    const device_memory dx(x.size());
    test::put(dx.p, x.data(), x.size());
    for (const std::vector<op_id>& ops :
         {std::vector{sum}, {op_id::var, mean}, {sum, op_id::min, op_id::max, mean, op_id::std}})
      for (const int tiles : {0, 1}) {
        std::vector<reduction> all;
        for (const op_id op : ops) all.push_back(make_reduction(op, {}, t));
        const cuda::launch shape{.tiles = tiles};
        std::vector<std::vector<std::byte>> want, got;
        std::vector<void*> wanted, to;
        const device_memory out(8 * segments * all.size());
        for (std::size_t k = 0; k < all.size(); ++k) {
          got.emplace_back(segments * size_of(all[k].out()));
          want.push_back(got.back());
          to.push_back(out.as<std::byte>() + 8 * segments * k);
        }
        for (auto& w : want) wanted.push_back(w.data());
        const std::size_t work = cuda::segments_workspace_bytes(all, n, segments, shape);
        const device_memory workspace(work);
        cuda::reduce_segments(all, dx.p, nullptr, n, d_offsets.as<std::int64_t>(), segments, to,
                              workspace.p, work, nullptr, shape);
        cpu::reduce_segments(all, x.data(), nullptr, n, offsets, wanted);
        for (std::size_t k = 0; k < all.size(); ++k) {
          test::get(got[k].data(), to[k], got[k].size());
          INFO(test::describe(all[k], n) << " tiles " << tiles);
          CHECK((got[k] == want[k]));
        }
      }
  }
}

TEST_CASE("cuda segments and keys: of any length, every operation") {
  test::random_bits next{6};
  for (int round = 0; round < rounds; ++round)
    test::check_case(test::random_lists(next),
                     [](const test::lists_case& c) { return differing(c); });
  SUCCEED();
}

TEST_CASE("cuda segments and keys: many, and long ones") {
  test::random_bits next{7};
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64})
    for (const std::int64_t longest : {40, 3000, 400'000}) {
      test::lists_case c{.type = t, .specials = false, .lengths = {}, .outside = 8};
      for (int k = 0; k < 500; ++k)
        c.lengths.push_back(
            k == 250 ? longest
                     : static_cast<std::int64_t>(next() % (k % 7 ? 70 : 2000) * (next() % 2)));
      // Many neighbours of 16 leaves, which a warp does not take all at once; and what warps, nodes
      // and leaves end with.
      if (longest >= 3000) c.lengths.insert(c.lengths.end(), 33, 4096);
      if (longest > 3000)
        for (const std::int64_t n : {4097, 8192, 8193, 16'384, 32'768, 32'769, 65'537, 131'072, 32,
                                     33, 256, 257, 4095, 1, 0, 4097})
          c.lengths.push_back(n);
      for (const bool two : {false, true}) {
        c.two = two;
        test::check_case(c,
                         [&](const test::lists_case& s) { return differing(s, longest > 3000); });
      }
    }
  SUCCEED();
}

TEST_CASE("cuda segments and keys: few elements, very many outputs") {
  const std::vector<std::int64_t> keys{999'999, 0, 7, 999'999, 500'000, 2'000'000};
  const std::vector<float> x{0x1p-30f, 2, 3, 1, 5, 6}, y{1, 1, 2, 3, 4, 5};
  const std::size_t n = keys.size(), outputs = 1'000'003;
  const device_memory dx(4 * n), dy(4 * n), d_keys(8 * n), out(4 * outputs);
  test::put(dx.p, x.data(), 4 * n);
  test::put(dy.p, y.data(), 4 * n);
  test::put(d_keys.p, keys.data(), 8 * n);
  for (const op_id op : {op_id::sum, op_id::dot}) {
    const reduction r = make_reduction(op, method_id::tree, dtype::f32);
    const bool two = op == op_id::dot;
    std::vector<float> want(outputs), got(outputs, 1);
    for (const std::size_t k :
         {std::size_t{0}, std::size_t{7}, std::size_t{500'000}, std::size_t{999'999}}) {
      std::vector<float> own_x, own_y;
      for (std::size_t i = 0; i < n; ++i)
        if (keys[i] == static_cast<std::int64_t>(k)) own_x.push_back(x[i]), own_y.push_back(y[i]);
      store_scalar(reference(r, own_x.data(), two ? own_y.data() : nullptr, own_x.size()),
                   &want[k]);
    }
    const std::size_t work = cuda::by_key_workspace_bytes({&r, 1}, n, outputs);
    const device_memory workspace(work);
    void* to = out.p;
    cuda::reduce_by_key({&r, 1}, dx.p, two ? dy.p : nullptr, n, d_keys.as<std::int64_t>(), outputs,
                        {&to, 1}, workspace.p, work);
    test::get(got.data(), out.p, 4 * outputs);
    CHECK(std::memcmp(got.data(), want.data(), 4 * outputs) == 0);
  }
}

namespace {
// Calls whose inputs, results and workspace lie on the GPU; offsets and keys are checked there, as
// docs/shapes.md says.
struct the_gpu {
  static constexpr std::size_t bytes = 4096, work = std::size_t{1} << 20;
  device_memory elements{std::vector<float>(1024, 1)}, written{bytes + work};
  const float* data = elements.as<float>();
  void* out = written.p;
  void* workspace = written.as<std::byte>() + bytes;

  the_gpu() { test::set(written.p, 7, bytes + work); }
  bool untouched() const {
    std::vector<std::byte> now(bytes + work);
    test::wait_for();
    test::get(now.data(), written.p, now.size());
    return now == std::vector<std::byte>(now.size(), std::byte{7});
  }
  void reduce(const reduction& r, const view& x, const view* y, const std::vector<int>& axes,
              void* to) const {
    cuda::reduce({&r, 1}, x, y, axes, {&to, 1}, workspace, work);
  }
  void windows(const reduction& r, const view& x, const std::vector<window>& of) const {
    cuda::reduce_windows({&r, 1}, x, of, {&out, 1}, workspace, work);
  }
  void segments(const reduction& r, std::size_t n, const std::vector<std::int64_t>& offsets) const {
    const device_memory there(offsets);
    cuda::check_offsets(there.as<std::int64_t>(), offsets.size() - 1, n);
    cuda::reduce_segments({&r, 1}, data, nullptr, n, there.as<std::int64_t>(), offsets.size() - 1,
                          {&out, 1}, workspace, work);
  }
  void by_key(const reduction& r, const std::vector<std::int64_t>& keys,
              std::size_t outputs) const {
    const device_memory there(keys);
    cuda::check_keys(there.as<std::int64_t>(), keys.size(), outputs);
    cuda::reduce_by_key({&r, 1}, data, nullptr, keys.size(), there.as<std::int64_t>(), outputs,
                        {&out, 1}, workspace, work);
  }
};
}  // namespace

TEST_CASE("cuda views: what cannot be done is named, and nothing is written") {
  const the_gpu by;
  test::check_refusals(by);
  const auto refused = [&](const std::string& start, auto call) {
    test::check_refused(start, call, [&] { return by.untouched(); });
  };
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32),
                  dot = make_reduction(op_id::dot, {}, dtype::f32),
                  by_hand = make_reduction(op_id::sum, method_id::sequential, dtype::f32);
  const std::vector<reduction> lists[] = {
      {sum},
      {make_reduction(op_id::sum, method_id::exact, dtype::f32)},
      {make_reduction(op_id::count_distinct, {}, dtype::f32)}};
  const device_memory good(std::vector<std::int64_t>{0, 300, 300, 900, 0});
  const auto* const list = good.as<std::int64_t>();
  const auto* const odd = reinterpret_cast<const std::int64_t*>(good.as<std::byte>() + 4);
  const float* const misaligned =
      reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(by.data) + 2);
  const view x = row_major(dtype::f32, by.data, {2, 500}),
             y = row_major(dtype::f32, misaligned, {500});
  static constexpr window pool{.axis = 1, .size = 3, .padding = 1};
  constexpr std::size_t four_billion = std::size_t{1} << 32;
  // The four calls of some reductions.
  struct call_of {
    const char* name;
    std::function<std::size_t(const cuda::launch&)> bytes;
    std::function<void(void*, std::size_t, const cuda::launch&)> run;
  };
  const auto calls = [&](std::span<const reduction> all) {
    const std::span<void* const> to(&by.out, 1);
    const void* const data = by.data;
    const auto axes = std::array{0};
    return std::vector<call_of>{
        {"views", [=](auto& shape) { return cuda::workspace_bytes(all, x, nullptr, axes, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce(all, x, nullptr, axes, to, w, size, nullptr, shape);
         }},
        {"windows",
         [=](auto& shape) { return cuda::windows_workspace_bytes(all, x, {&pool, 1}, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce_windows(all, x, {&pool, 1}, to, w, size, nullptr, shape);
         }},
        {"segments",
         [=](auto& shape) { return cuda::segments_workspace_bytes(all, 1000, 3, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce_segments(all, data, nullptr, 1000, list, 3, to, w, size, nullptr, shape);
         }},
        {"keys", [=](auto& shape) { return cuda::by_key_workspace_bytes(all, 5, 901, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce_by_key(all, data, nullptr, 5, list, 901, to, w, size, nullptr, shape);
         }}};
  };
  int wanted = 0;
  for (const auto& all : lists)
    for (const call_of& c : calls(all)) {
      const std::size_t bytes = c.bytes({});
      INFO(c.name << " " << test::describe(all[0], 0));
      REQUIRE(bytes <= by.work);
      if (bytes == 0) continue;
      ++wanted;
      const std::string need = " bytes, need " + std::to_string(bytes);
      refused("workspace_size: " + std::to_string(bytes - 1) + need,
              [&] { c.run(by.workspace, bytes - 1, {}); });
      refused("workspace: null or not 16-byte aligned", [&] { c.run(nullptr, bytes, {}); });
      refused("workspace: null or not 16-byte aligned",
              [&] { c.run(static_cast<std::byte*>(by.workspace) + 8, bytes, {}); });
    }
  CHECK(wanted >= 6);
  const std::pair<cuda::launch, const char*> shapes[] = {{{.threads = 33}, "launch.threads: 33"},
                                                         {{.blocks = -1}, "launch.blocks: -1"},
                                                         {{.tiles = 3}, "launch.tiles: 3"}};
  for (const auto& [shape, what] : shapes)
    for (const auto& all : lists)
      for (const call_of& c : calls(all)) {
        if (all[0].op() == op_id::count_distinct) continue;  // a sort has no shape of ours
        INFO(c.name << " " << test::describe(all[0], 0));
        refused(what, [&] { (void)c.bytes(shape); });
        refused(what, [&] { c.run(by.workspace, by.work, shape); });
      }
  const auto segments = [&](const reduction& r, const void* from, const void* and_from,
                            const std::int64_t* offsets) {
    cuda::reduce_segments({&r, 1}, from, and_from, 1000, offsets, 3, {&by.out, 1}, by.workspace,
                          by.work);
  };
  const auto by_key = [&](const reduction& r, const void* from, const void* and_from,
                          const std::int64_t* keys, std::size_t n, std::size_t outputs) {
    cuda::reduce_by_key({&r, 1}, from, and_from, n, keys, outputs, {&by.out, 1}, by.workspace,
                        by.work);
  };
  refused("method: sequential", [&] { by.reduce(by_hand, x, nullptr, {1}, by.out); });
  refused("method: sequential", [&] { by.windows(by_hand, x, {pool}); });
  refused("method: sequential", [&] { segments(by_hand, by.data, nullptr, list); });
  refused("method: sequential", [&] { by_key(by_hand, by.data, nullptr, list, 5, 901); });
  refused("x.data: not aligned to its elements", [&] {
    by.reduce(sum, row_major(dtype::f32, misaligned, {2, 300}), nullptr, {1}, by.out);
  });
  refused("y.data: not aligned to its elements", [&] { by.reduce(dot, x, &y, {1}, by.out); });
  for (const std::int64_t padding : {0, 1})
    refused("x.data: not aligned to its elements", [&] {
      by.windows(sum, row_major(dtype::f32, misaligned, {2, 5}),
                 {window{.axis = 1, .size = 3, .padding = padding}});
    });
  refused("x.data: not aligned to its elements", [&] { segments(sum, misaligned, nullptr, list); });
  refused("y.data: not aligned to its elements", [&] { segments(dot, by.data, misaligned, list); });
  refused("offsets: null or not aligned", [&] { segments(sum, by.data, nullptr, nullptr); });
  refused("offsets: null or not aligned", [&] { segments(sum, by.data, nullptr, odd); });
  refused("x.data: not aligned to its elements",
          [&] { by_key(sum, misaligned, nullptr, list, 5, 901); });
  refused("y: dot takes two inputs", [&] { by_key(dot, by.data, nullptr, list, 5, 901); });
  refused("keys: null or not aligned", [&] { by_key(sum, by.data, nullptr, nullptr, 5, 901); });
  refused("keys: null or not aligned", [&] { by_key(sum, by.data, nullptr, odd, 4, 901); });
  refused("n: 2^32 elements or outputs, or more",
          [&] { by_key(sum, by.data, nullptr, list, four_billion, 901); });
  refused("n: 2^32 elements or outputs, or more",
          [&] { by_key(sum, by.data, nullptr, list, 5, four_billion); });
  refused("out: room for 1 results of 2", [&] {
    const reduction both[] = {sum, sum};
    cuda::reduce(both, x, nullptr, std::array{1}, {&by.out, 1}, by.workspace, by.work);
  });
  // And what is allowed is written.
  cuda::check_offsets(list, 3, 1000);
  cuda::check_keys(list, 5, 901);
  by.reduce(sum, x, nullptr, {1}, by.out);
  CHECK_FALSE(by.untouched());
}

TEST_CASE("probe: the GPU adds an output in a batch in the printed order", "[probe][cuda]") {
  using namespace probe;
  const device_memory in(std::size_t{8} << 20), out(1024), workspace(std::size_t{1} << 20);
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
      for (std::uint64_t n : {std::uint64_t{1}, std::uint64_t{48}, std::uint64_t{order::leaf},
                              std::uint64_t{order::leaf + 1}})
        check_all_types(engine, n, true);
      const std::uint64_t n = 40 * order::leaf + 16;
      check_sample<float>(engine, n, sample(n, 12, 2048));
      check_sample<double>(engine, n, sample(n, 12, 2048));
    }
}
