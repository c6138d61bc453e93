// Windows on a GPU: the reference's bits for any shape, padding and layout.
#include "cuda_cases.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

const std::vector<cuda::launch> launches{{}, {.threads = 96, .blocks = 2, .tiles = 1}};

gpu::plan plan_of(const list& all, const windows_case& c, const cuda::launch& shape) {
  const view x = c.of.x();
  return gpu::plan_windows(all, detail::boxes_of(x, c.windows), x.data, shape, test::this_gpu());
}

// `all` of a case's windows, which have these elements.
std::string differing(const list& all, const windows_case& c, const arrays& want) {
  const moved_view moved(c.of.x(), c.of.storage[0]);
  return test::differing(
      all, want, launches, [&](std::span<const reduction> some, const cuda::launch& shape) {
        const std::size_t outputs = (want[0].size() - 8) / size_of(all[0].out());
        return results_by(some, outputs, [&](std::span<void* const> to) {
          const std::size_t work = cuda::windows_workspace_bytes(some, moved.v, c.windows, shape);
          const device_memory workspace(work);
          if (work > 0)
            CHECK_THROWS_AS(cuda::reduce_windows(some, moved.v, c.windows, to, workspace.p,
                                                 work - 1, nullptr, shape),
                            error);
          cuda::reduce_windows(some, moved.v, c.windows, to, workspace.p, work, nullptr, shape);
        });
      });
}

}  // namespace

TEST_CASE("cuda windows: any shape, padding and layout", "[cuda][outputs]") {
  random_bits next{32};
  std::vector<windows_case> cases;
  const auto types = types_of_test();
  for (int round = 0; round < 150; ++round)
    if (const windows_case c = random_windows(next);
        std::ranges::find(types, c.of.type) != types.end())
      cases.push_back(c);
  const auto lists_of = [](const windows_case& c, const arrays& elements) {
    std::vector<list> lists{every_kind(c.of.type, 1)};
    if (c.of.type == dtype::f32 && !some_are_empty(elements))
      lists.push_back(each_operation(c.of.type, 1));
    return lists;
  };
  std::vector<gpu::plan> plans;
  std::size_t in_several_boxes = 0;
  for (const windows_case& c : cases) {
    in_several_boxes += detail::boxes_of(c.of.x(), c.windows).boxes.size() > 1;
    for (const list& all : lists_of(c, c.elements()))
      for (const cuda::launch& shape : launches) plans.push_back(plan_of(all, c, shape));
  }
  prepare(plans);
  for (const windows_case& c : cases)
    check_case(c, [&](const windows_case& one) {
      std::string which;
      const arrays elements = one.elements();
      for (const list& all : lists_of(one, elements))
        which += differing(all, one, results_of(all, elements, {}));
      return which;
    });
  CHECK(4 * in_several_boxes > cases.size());
}

TEST_CASE("cuda windows: long ones, at any address", "[cuda][outputs][racecheck]") {
  for (const dtype t : types_of_test({dtype::f16, dtype::f32, dtype::f64})) {
    const list all = everyday(t, 1);
    std::vector<windows_case> cases;
    for (const std::int64_t size : {300, 1000, 5000})
      for (const std::int64_t stride : {1, 4, 8})
        for (const std::int64_t padding : {0, 16})
          cases.push_back(
              {{.type = t, .extent = {size + 60}, .axes = {}, .order = {0}, .specials = false},
               {{.axis = 0, .size = size, .stride = stride, .padding = padding}}});
    std::vector<gpu::plan> plans;
    for (const windows_case& c : cases)
      for (const cuda::launch& shape : launches) plans.push_back(plan_of(all, c, shape));
    prepare(plans);
    for (const windows_case& c : cases) {
      const view x = c.of.x();
      arrays want = room_for(all, static_cast<std::size_t>(windows_extents(x, c.windows)[0]));
      cpu::reduce_windows(all, x, c.windows, pointers_to(want));
      INFO(c.describe());
      CHECK(differing(all, c, want) == "");
    }
  }
}
