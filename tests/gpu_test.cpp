// Kernels on demand, on an emulated GPU (emulated_gpu/) or a real one: made of their text, kept in
// files, loaded and launched, with the CPU's bits.
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitfold/cpu.hpp>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"

#include "gpu/array_plan.hpp"
#include "gpu/compiler_processes.hpp"
#include "gpu/explain.hpp"
#include "gpu/kernel_files.hpp"
#include "gpu/launcher.hpp"
#include "gpu/output_plan.hpp"

using namespace bitfold;

namespace {

namespace fs = std::filesystem;

/// A folder of the test's own, for files of kernels.
struct folder {
  fs::path path;
  folder() {
    std::string name = (fs::temp_directory_path() / "bitfold_kernels.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~folder() {
    std::error_code ignored;
    fs::permissions(path, fs::perms::owner_all, ignored);
    fs::remove_all(path, ignored);
  }
};

std::vector<reduction> with_an_order(dtype t, int inputs) {
  std::vector<reduction> all;
  for (const reduction& r : test::reductions_of_all_ops(t))
    if (info(r.op()).inputs == inputs && r.op() != op_id::count_distinct &&
        (!r.method() || info(*r.method()).ordering == ordering::canonical))
      all.push_back(r);
  return all;
}

/// A plan of all reductions of a problem.
gpu::plan plan_of(const gpu::problem& asked, const cuda::launch& shape = {}) {
  std::vector<std::size_t> all(asked.reductions.size());
  std::iota(all.begin(), all.end(), 0);
  gpu::plan made;
  gpu::add_folds(made, asked, all, shape, test::numbers());
  return made;
}
std::vector<gpu::pass> passes_of(const gpu::plan& p) {
  std::vector<gpu::pass> passes;
  for (const gpu::step& s : p.steps)
    if (const auto* one = std::get_if<gpu::pass>(&s)) passes.push_back(*one);
  return passes;
}
const gpu::fold_kernel& kernel_of(const gpu::pass& p) { return std::get<gpu::fold_kernel>(p.what); }

/// The results of a problem's outputs, reduction by reduction: scalars, and nothing written behind.
std::vector<std::vector<scalar>> run(const gpu::problem& asked, std::size_t outputs,
                                     const cuda::launch& shape, gpu::addresses at,
                                     gpu::stream on = nullptr) {
  const gpu::plan plan = plan_of(asked, shape);
  const std::size_t each = (8 * outputs + 8 + 15) / 16 * 16;
  const test::device_memory results(
      std::vector<std::uint8_t>(asked.reductions.size() * each, 0xab)),
      workspace(std::vector<std::uint8_t>(plan.workspace + 16, 0xcd));
  std::vector<void*> out;
  for (std::size_t k = 0; k < asked.reductions.size(); ++k)
    out.push_back(results.as<std::byte>() + k * each);
  at.workspace = workspace.p;
  at.results = out.data();
  gpu::run(plan, at, on);
  test::wait_for(on);
  std::vector<std::vector<scalar>> got;
  for (std::size_t k = 0; k < asked.reductions.size(); ++k) {
    const dtype t = asked.reductions[k].out();
    const auto* const begin = static_cast<const std::uint8_t*>(out[k]);
    auto& of_one = got.emplace_back();
    for (std::size_t o = 0; o < outputs; ++o)
      of_one.push_back(load_scalar(t, begin + o * size_of(t)));
    REQUIRE(std::all_of(begin + outputs * size_of(t), begin + each,
                        [](std::uint8_t b) { return b == 0xab; }));
  }
  const auto* const end = workspace.as<std::uint8_t>() + plan.workspace;
  REQUIRE(std::all_of(end, end + 16, [](std::uint8_t b) { return b == 0xcd; }));
  return got;
}

gpu::problem problem_of(std::span<const reduction> all, const void* x, const void* y,
                        std::size_t n) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return {all, n, aligned(x) && aligned(y)};
}

std::vector<scalar> on_gpu(std::span<const reduction> all, const std::byte* x, const std::byte* y,
                           std::size_t n, const cuda::launch& shape) {
  std::vector<scalar> got;
  for (const auto& of_one : run(problem_of(all, x, y, n), 1, shape, {x, y}))
    got.push_back(of_one[0]);
  return got;
}

// Lengths that go by each strategy: one node, nodes of leaves, and nodes of tiles; whole and short.
struct way {
  std::size_t n;
  cuda::launch shape;
};
const std::vector<way> ways{
    {1, {}},
    {31, {}},
    {256, {}},
    {257, {}},
    {1000, {}},
    {4096, {}},
    {20000, {}},
    {65536, {}},
    {5, {64}},
    {9000, {64}},
    {40000, {64, 3, 2}},
    {70001, {96, 0, 1}},
    {32768, {512, 2, 4, false}},
};

// In halves: some with elements that are aligned, and the others with elements that are not; and
// each way with one kind of data where they are aligned, and with the other where they are not.
void compare(const std::vector<reduction>& every, bool two, bool in_halves = false) {
  if (every.empty()) return;
  const dtype t = every[0].in();
  std::vector<reduction> aligned, others;
  for (std::size_t k = 0; k < every.size(); ++k) {
    if (!in_halves || test::takes_kernels(k, 2)) aligned.push_back(every[k]);
    if (!in_halves || test::takes_kernels(k + 1, 2)) others.push_back(every[k]);
  }
  std::vector<gpu::plan> plans;
  for (const way& w : ways) {
    plans.push_back(plan_of({aligned, w.n, true}, w.shape));
    plans.push_back(plan_of({others, w.n, false}, w.shape));
  }
  test::prepare(plans);
  for (const test::kind k : {test::kind::near_one, test::kind::special}) {
    const test::device_memory x(test::make_data(t, k, 70100, 1)),
        y(test::make_data(t, k, 70100, 2));
    std::size_t place = k == test::kind::special;
    for (const way& w : ways) {
      ++place;
      for (const std::size_t first : {0, 1}) {
        if (in_halves && !test::takes_kernels(place + first, 2)) continue;
        const std::vector<reduction>& all = first == 0 ? aligned : others;
        const std::byte* const p = x.as<std::byte>() + first * size_of(t);
        const std::byte* const q = two ? y.as<std::byte>() : nullptr;
        const auto got = on_gpu(all, p, q, w.n, w.shape);
        for (std::size_t i = 0; i < all.size(); ++i) {
          const scalar right = cpu::reduce(all[i], p, q, w.n);
          INFO(test::describe(all[i], w.n) << " from " << first << ", " << test::name(k));
          CHECK(to_hex(got[i]) == to_hex(right));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("kernels on demand have the CPU's bits") {
  compare(with_an_order(dtype::f32, 1), false, true);
  compare({make_reduction(op_id::dot, method_id::kahan, dtype::f32, dtype::f64),
           make_reduction(op_id::mae, method_id::tree, dtype::f32)},
          true, true);
  compare({make_reduction(op_id::sum, method_id::pairwise, dtype::i8),
           make_reduction(op_id::argmax, {}, dtype::i8), make_reduction(op_id::std, {}, dtype::i8)},
          false, true);
}

// Some minutes.
TEST_CASE("kernels on demand have the CPU's bits: all types", "[.all]") {
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2}) compare(with_an_order(t, inputs), inputs == 2);
}

TEST_CASE("each operation alone, on demand, has the CPU's bits", "[.all]") {
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::u16})
    for (const int inputs : {1, 2})
      for (const reduction& r : with_an_order(t, inputs)) compare({r}, inputs == 2);
}

// ---- Many outputs -------------------------------------------------------------------------------

namespace {

/// A view of an array of so many elements, some axes of which are reduced; and what takes them.
struct layout_case {
  std::vector<std::int64_t> extents, strides;
  std::vector<int> axes;
  gpu::strategy by;
  std::int64_t first = 0;  ///< element of the array
  cuda::launch shape{};
  std::vector<std::int64_t> strides_of_y{};  ///< of none: those of x
};

view view_of(const layout_case& c, dtype t, const std::byte* data) {
  view v{t, data + c.first * static_cast<std::int64_t>(size_of(t)),
         static_cast<int>(c.extents.size())};
  std::copy(c.extents.begin(), c.extents.end(), v.extent.begin());
  std::copy(c.strides.begin(), c.strides.end(), v.stride.begin());
  return v;
}
view view_of_y(const layout_case& c, dtype t, const std::byte* data) {
  view v = view_of(c, t, data);
  std::copy(c.strides_of_y.begin(), c.strides_of_y.end(), v.stride.begin());
  return v;
}

// (Strides are multiples of 16 bytes for each type where that is what is asked for.)
const std::vector<layout_case> layouts{
    // a test holds them to all strategies of outputs on axes
    {{50, 16}, {16, 1}, {1}, gpu::strategy::row_teams},
    {{33, 64}, {64, 1}, {1}, gpu::strategy::row_teams},
    {{7, 128}, {128, 1}, {1}, gpu::strategy::row_teams},
    {{3, 256}, {256, 1}, {1}, gpu::strategy::row_teams},
    {{3, 5000}, {5120, 1}, {1}, gpu::strategy::blocks},
    {{3, 700}, {701, 1}, {1}, gpu::strategy::leaf_teams, 1},
    {{30, 7}, {7, 1}, {1}, gpu::strategy::lines},
    {{33000, 33}, {1, 33000}, {1}, gpu::strategy::lines, 1},
    {{33000, 33}, {31, 2}, {1}, gpu::strategy::lines},
    {{6, 11, 13}, {143, 13, 1}, {0, 2}, gpu::strategy::blocks},
    {{4, 6, 160}, {960, 160, 1}, {0, 2}, gpu::strategy::blocks},
    {{4, 6, 32}, {192, 32, 1}, {0, 2}, gpu::strategy::blocks},
    {{20, 48}, {48, 1}, {0}, gpu::strategy::short_columns},
    {{40, 48}, {48, 1}, {0}, gpu::strategy::columns},
    {{300, 16}, {16, 1}, {0}, gpu::strategy::columns},
    {{2500, 16}, {16, 1}, {0}, gpu::strategy::columns},
    {{500, 7}, {7, 1}, {0}, gpu::strategy::blocks},
    {{2, 40000}, {40000, 1}, {1}, gpu::strategy::blocks, 0, {.tiles = 1}},
    {{5001, 3}, {1, 5001}, {1}, gpu::strategy::lines},
    {{5001, 3, 3}, {1, 5001, 15010}, {1, 2}, gpu::strategy::threads},
    {{4200, 33}, {33, 1}, {1}, gpu::strategy::staged_threads},
    {{4200, 250}, {250, 1}, {1}, gpu::strategy::leaf_teams},
    {{3, 5001}, {5003, 1}, {1}, gpu::strategy::blocks, 1},  // across packs
    {{1100, 300}, {304, 1}, {1}, gpu::strategy::leaf_teams, 1},
    {{1100, 600}, {640, 1}, {1}, gpu::strategy::warps},
    {{3, 0}, {1, 1}, {1}, gpu::strategy::threads},
    {{5, 2500}, {2501, 1}, {0, 1}, gpu::strategy::blocks, 1},  // leaves on two lines
    {{3, 1030}, {2070, 2}, {0, 1}, gpu::strategy::blocks},
    {{100, 55}, {57, 1}, {0, 1}, gpu::strategy::blocks, 1},  // rows of leaves on two lines
    {{3, 40, 2, 33}, {2700, 67, 2640, 2}, {1, 3}, gpu::strategy::blocks},
    {{64, 512}, {1, 64}, {0, 1}, gpu::strategy::patches},  // a column of whole leaves
    {{45, 1001}, {1, 45}, {0, 1}, gpu::strategy::patches, 3},
    {{3, 40, 300}, {12000, 1, 40}, {0, 1, 2}, gpu::strategy::patches},
    {{3, 24, 20, 50}, {24000, 1, 1200, 24}, {1, 2, 3}, gpu::strategy::patches},
    {{5, 64, 64}, {4096, 1, 64}, {1, 2}, gpu::strategy::across},  // four columns to a leaf
    {{3, 4, 64, 32}, {8192, 2048, 1, 64}, {1, 2, 3}, gpu::strategy::across},
    {{2, 32, 128}, {4096, 1, 32}, {0, 1, 2}, gpu::strategy::across},
    {{64, 4, 64}, {256, 1, 4}, {1, 2}, gpu::strategy::blocks},  // of one leaf each
    {{64, 8, 64}, {512, 1, 8}, {1, 2}, gpu::strategy::across},
};

std::vector<scalar> on_cpu(const reduction& r, const view& x, const view* y,
                           std::span<const int> axes, std::size_t outputs) {
  std::vector<std::uint8_t> room(8 * outputs + 8);
  void* const to = room.data();
  cpu::reduce({&r, 1}, x, y, axes, {&to, 1});
  std::vector<scalar> got;
  for (std::size_t o = 0; o < outputs; ++o)
    got.push_back(load_scalar(r.out(), room.data() + o * size_of(r.out())));
  return got;
}

void check_same(std::span<const reduction> all, const std::vector<std::vector<scalar>>& got,
                const std::function<std::vector<scalar>(const reduction&)>& right) {
  for (std::size_t k = 0; k < all.size(); ++k) {
    INFO(test::describe(all[k], 0));
    const auto wanted = right(all[k]);
    REQUIRE(got[k].size() == wanted.size());
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      INFO("output " << o);
      CHECK(to_hex(got[k][o]) == to_hex(wanted[o]));
    }
  }
}

void compare_layouts(std::vector<reduction> all, bool two,
                     const std::vector<layout_case>& cases = layouts,
                     test::kind what = test::kind::special) {
  if (all.empty()) return;
  const dtype t = all[0].in();
  const test::device_memory first(test::make_data(t, what, 1090000, 3)),
      second(test::make_data(t, what, 1090000, 4));
  const std::byte *const x = first.as<std::byte>(), *const y = second.as<std::byte>();
  const auto reductions_of = [&](const detail::layout& l) {
    std::vector<reduction> some = all;
    if (l.n == 0)
      std::erase_if(some,
                    [](const reduction& r) { return info(r.op()).empty == if_empty::refused; });
    return some;
  };
  std::vector<gpu::plan> plans;
  for (const layout_case& c : cases) {
    const view v = view_of(c, t, x), w = view_of_y(c, t, y);
    const detail::layout l = detail::layout_of(v, two ? &w : nullptr, c.axes);
    const cuda::output_elements from = cuda::elements_of(l);
    plans.push_back(plan_of({reductions_of(l), l.n, true, &from}, c.shape));
  }
  test::prepare(plans);
  for (const layout_case& c : cases) {
    const view v = view_of(c, t, x), w = view_of_y(c, t, y);
    const detail::layout l = detail::layout_of(v, two ? &w : nullptr, c.axes);
    const cuda::output_elements from = cuda::elements_of(l);
    const std::vector<reduction> some = reductions_of(l);
    const gpu::problem asked{some, l.n, true, &from};
    INFO(c.extents[0] << " x " << c.extents[1] << ", " << name(t) << (two ? ", two inputs" : ""));
    if (!two || c.by == gpu::strategy::row_teams || c.by == gpu::strategy::leaf_teams) {
      std::vector<std::string_view> by;
      for (const gpu::pass& p : passes_of(plan_of(asked, c.shape)))
        by.push_back(name(kernel_of(p).what));
      if (size_of(t) == 4)  // of others the sizes are others, and of two inputs most strategies
        CHECK_THAT(by, Catch::Matchers::VectorContains(name(c.by)));
    }
    check_same(some, run(asked, l.outputs, c.shape, {l.x, l.y}), [&](const reduction& r) {
      return on_cpu(r, v, two ? &w : nullptr, c.axes, l.outputs);
    });
  }
}

void compare_segments(const std::vector<reduction>& all, bool two,
                      test::kind what = test::kind::special) {
  if (all.empty()) return;
  const dtype t = all[0].in();
  std::vector<std::int64_t> offsets{3};
  for (const std::int64_t n : {5, 0, 33, 256, 1000, 31, 5000, 1, 4096, 40000, 4097, 0, 32, 70000})
    offsets.push_back(offsets.back() + n);
  const auto n = static_cast<std::size_t>(offsets.back()) + 40;
  const test::device_memory x(test::make_data(t, what, n, 5)), y(test::make_data(t, what, n, 6)),
      list(offsets);
  const std::size_t segments = offsets.size() - 1;
  const cuda::output_elements from = cuda::elements_of_lists(t, two, n, segments);
  std::vector<reduction> some = all;
  std::erase_if(some, [](const reduction& r) { return info(r.op()).empty == if_empty::refused; });
  const gpu::problem asked{some, n, true, &from};
  check_same(some, run(asked, segments, {}, {x.p, y.p, list.p}), [&](const reduction& r) {
    std::vector<scalar> right;
    for (std::size_t s = 0; s < segments; ++s) {
      const auto first = static_cast<std::size_t>(offsets[s]) * size_of(t);
      right.push_back(cpu::reduce(r, x.as<std::byte>() + first,
                                  two ? y.as<std::byte>() + first : nullptr,
                                  static_cast<std::size_t>(offsets[s + 1] - offsets[s])));
    }
    return right;
  });
}

/// A few reductions of different states.
std::vector<reduction> some_reductions(dtype t, int inputs) {
  std::vector<reduction> some;
  for (const reduction& r : with_an_order(t, inputs)) switch (r.op()) {
      case op_id::sum:
      case op_id::max:
      case op_id::argmin:
      case op_id::dot:
      case op_id::var: some.push_back(r); break;
      default: break;
    }
  return some;
}

}  // namespace

TEST_CASE("the layouts of these tests go by every strategy of outputs on axes") {
  for (const gpu::strategy what : test::strategies_of_outputs()) {
    INFO(name(what));
    CHECK(std::ranges::any_of(layouts, [&](const layout_case& c) { return c.by == what; }));
  }
}

TEST_CASE("outputs and segments on demand have the CPU's bits") {
  // (Rows of states as small as the tree's are for blocks, where others are for warps.)
  const reduction sum = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  compare_layouts({sum}, false);
  compare_segments({sum}, false);
  // Of few elements neither kahan nor what is not finite shows an order.
  const std::vector<reduction> by_tree{make_reduction(op_id::sum, method_id::tree, dtype::f32),
                                       make_reduction(op_id::argmax, {}, dtype::f32)};
  compare_layouts(by_tree, false, layouts, test::kind::near_one);
  compare_segments(by_tree, false, test::kind::near_one);
  const reduction dot = make_reduction(op_id::dot, method_id::tree, dtype::bf16);
  compare_layouts({dot}, true, {layouts.begin(), layouts.begin() + 8});
  std::vector<layout_case> lying_across;
  for (const layout_case& c : layouts)
    if (c.by == gpu::strategy::across || c.by == gpu::strategy::patches) lying_across.push_back(c);
  lying_across.push_back({{3, 64, 512}, {32768, 1, 64}, {1, 2}, gpu::strategy::patches});
  for (const test::kind what : {test::kind::special, test::kind::near_one}) {
    compare_layouts({dot}, true, lying_across, what);
    compare_layouts({make_reduction(op_id::mse, method_id::tree, dtype::f32)}, true, lying_across,
                    what);
    for (const dtype t : {dtype::f64, dtype::bf16, dtype::u8})
      compare_layouts(
          {make_reduction(op_id::sum, method_id::tree, t), make_reduction(op_id::argmax, {}, t)},
          false, lying_across, what);
  }
  // Two inputs that lie alike and not: rows at any addresses, in packets and not; and leaves on a
  // line, on two, or on lines of their rows.
  using gpu::strategy::blocks, gpu::strategy::leaf_teams;
  const std::vector<layout_case> pairs{
      {{1100, 300}, {304, 1}, {1}, leaf_teams, 1},
      {{1100, 65}, {65, 1}, {1}, leaf_teams},
      {{70, 1000}, {1000, 1}, {1}, leaf_teams},
      {{70, 1024}, {1024, 1}, {1}, blocks},
      {{1100, 300}, {304, 1}, {1}, leaf_teams, 0, {}, {305, 1}},
      {{1050, 1025}, {0, 1}, {1}, leaf_teams, 0, {}, {1025, 1}},
      {{3, 5001}, {5003, 1}, {1}, blocks, 1, {}, {5007, 1}},
      {{5, 2500}, {2501, 1}, {0, 1}, blocks, 1, {}, {2503, 1}},
      {{3, 1030}, {2070, 2}, {0, 1}, blocks, 0, {}, {1, 3}},
      {{100, 55}, {57, 1}, {0, 1}, blocks, 1, {}, {56, 1}},
      {{3, 40, 2, 33}, {2700, 67, 2640, 2}, {1, 3}, blocks, 0, {}, {3000, 70, 35, 1}},
      {{33, 20}, {21, 1}, {0, 1}, blocks, 0, {}, {1, 33}}};
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64})
    for (const test::kind what : {test::kind::special, test::kind::near_one})
      compare_layouts(some_reductions(t, 2), true, pairs, what);
  compare_segments({dot}, true);
  compare_segments({make_reduction(op_id::var, {}, dtype::i16)}, false);
  const layout_case across{{3, 5001}, {5003, 1}, {1}, gpu::strategy::blocks, 1};
  for (const dtype t : {dtype::f16, dtype::u8})
    compare_layouts(
        {make_reduction(op_id::sum, method_id::tree, t), make_reduction(op_id::argmax, {}, t)},
        false, {across});
  // Rows of 31 leaves, the most that teams take, and one more. They overlap, so that the array is
  // small.
  const std::vector<layout_case> longest{{{1100, 7930}, {37, 1}, {1}, leaf_teams, 1},
                                         {{1100, 7936}, {37, 1}, {1}, leaf_teams, 1},
                                         {{1100, 7937}, {37, 1}, {1}, blocks, 1}};
  compare_layouts({make_reduction(op_id::sum, method_id::tree, dtype::f32)}, false, longest,
                  test::kind::near_one);
  compare_layouts({make_reduction(op_id::var, {}, dtype::f64)}, false,
                  {longest[1]},  // large states
                  test::kind::near_one);
}

// Some minutes.
TEST_CASE("outputs and segments on demand have the CPU's bits: all types", "[.all]") {
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2}) {
      compare_layouts(some_reductions(t, inputs), inputs == 2);
      compare_segments(some_reductions(t, inputs), inputs == 2);
    }
}

namespace {

gpu::plan plan_of(const std::vector<reduction>& all, std::size_t n) {
  return plan_of(problem_of(all, nullptr, nullptr, n));
}

/// This program, asked for one test, with kernels in that folder.
int run_again(const std::string& test, const fs::path& kernels,
              const std::string& environment = "") {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const std::string command = environment + " BITFOLD_CACHE='" + kernels.string() + "' '" +
                              program + "' '" + test + "' > /dev/null 2>&1";
  return std::system(command.c_str());
}

void reduce_some() {
  const reduction r = make_reduction(op_id::max, {}, dtype::f32);
  std::vector<float> x(600);
  x[1] = 3;
  const test::device_memory there(x);
  const auto* p = there.as<std::byte>();
  CHECK(on_gpu({&r, 1}, p, nullptr, 600, {}) == std::vector{cpu::reduce(r, p, nullptr, 600)});
}

}  // namespace

TEST_CASE("reductions of one base are folded once, several in one kernel") {
  const auto f = [](op_id op) {
    return make_reduction(op, info(op).takes_method ? std::optional(method_id::tree) : std::nullopt,
                          dtype::f32);
  };
  CHECK(plan_of({f(op_id::sum)}, 1000).steps.size() == 1);
  CHECK(plan_of({f(op_id::sum)}, 1 << 20).steps.size() == 2);
  const auto five = passes_of(plan_of(
      {f(op_id::sum), f(op_id::min), f(op_id::max), f(op_id::mean), f(op_id::std)}, 1 << 20));
  CHECK(five.size() == 2);
  CHECK(kernel_of(five[0]).outputs.size() == 5);
  CHECK(plan_of({f(op_id::sum), f(op_id::mean)}, 1 << 20).workspace ==
        plan_of({f(op_id::sum)}, 1 << 20).workspace);
  std::vector<reduction> all;
  for (const op_info& op : all_op_infos)
    if (op.inputs == 1 && op.id != op_id::count_distinct) all.push_back(f(op.id));
  const auto passes = passes_of(plan_of(all, 1 << 20));
  CHECK(passes.size() < all.size());
  std::vector<int> done;
  for (std::size_t k = 0; k < passes.size(); k += 2)
    for (const gpu::kernel_output& o : kernel_of(passes[k]).outputs)
      done.push_back(static_cast<int>(o.op));
  std::sort(done.begin(), done.end());
  REQUIRE(done.size() == all.size());
  for (std::size_t k = 0; k < all.size(); ++k) CHECK(done[k] == static_cast<int>(all[k].op()));
}

TEST_CASE("no elements have no plan") {
  CHECK_THROWS_AS(plan_of({make_reduction(op_id::sum, method_id::tree, dtype::f32)}, 0), error);
}

TEST_CASE("a plan is explained") {
  const std::vector<reduction> all{
      make_reduction(op_id::sum, method_id::kahan, dtype::f32),
      make_reduction(op_id::max, {}, dtype::f32),
      make_reduction(op_id::mean, method_id::tree, dtype::f32, dtype::f64)};
  const std::string text = gpu::explain(plan_of(all, 1 << 20), test::this_gpu());
  INFO(text);
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  CHECK(says("pass 1: tile_nodes: sum by kahan + max + mean by tree in f64; "));
  CHECK(says(" reads f32, 4194304 bytes; chosen by \"array: to 2300 tiles\"\n"));
  CHECK(says("pass 2: states: "));
  CHECK(says("; 1 block of "));
  CHECK(says("reads states of 24 bytes\n"));
  CHECK(says("workspace: "));
  CHECK(says(", compute capability "));
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
}

TEST_CASE("a kernel is compiled once, then found in memory, and read by the next process") {
  const folder kernels;
  // (In processes of their own, which have loaded nothing yet.)
  CHECK(run_again("[compiles]", kernels.path) == 0);
  CHECK(gpu::kernel_files(kernels.path).list().size() == 2);  // it, and what compiled it
  CHECK(run_again("[reads]", kernels.path) == 0);
  CHECK(gpu::kernel_files(kernels.path).clear().count == 2);
  CHECK(run_again("[compiles]", kernels.path) == 0);
  // Where nothing can be kept, kernels are compiled all the same.
  CHECK(run_again("[compiles]", "/dev/null/none") == 0);
}
TEST_CASE("of a process: compiles", "[.][compiles]") {
  reduce_some();
  CHECK(gpu::counts_of_loads().compiled == 1);
  CHECK(gpu::counts_of_loads().found == 0);
  reduce_some();
  CHECK(gpu::counts_of_loads().compiled == 1);
  CHECK(gpu::counts_of_loads().found == 1);
}
TEST_CASE("of a process: reads", "[.][reads]") {
  reduce_some();
  CHECK(gpu::counts_of_loads().compiled == 0);
  CHECK(gpu::counts_of_loads().read == 1);
  // The compiler, whose opening takes longer than all else, was left alone.
  std::ifstream maps("/proc/self/maps");
  const std::string mapped((std::istreambuf_iterator<char>(maps)), {});
  CHECK(mapped.find("libcuda") != std::string::npos);
  CHECK(mapped.find("libnvrtc") == std::string::npos);
}

TEST_CASE("a pack of kernels serves where there is no compiler, or another") {
  const folder kernels, pack;
  const std::string none = "BITFOLD_NVRTC=/dev/null/none";
  const gpu::device_facts& here = test::this_gpu();
  const reduction r = make_reduction(op_id::max, {}, dtype::f32);
  const cuda::request asked = cuda::request::array({&r, 1}, 600);
  CHECK(run_again("[reads]", kernels.path, none) != 0);
  CHECK(asked.make_ahead(here.major, here.minor, pack.path.string()) == 1);
  CHECK(gpu::kernel_files(pack.path).list().size() == 1);
  const std::string packed = none + " BITFOLD_KERNELS='" + pack.path.string() + "'";
  CHECK(run_again("[reads]", kernels.path, packed) == 0);
  CHECK(run_again("[compiles]", kernels.path, packed) != 0);
  // A pack that is none, or that others may write to, is an error, also where there is a compiler.
  CHECK(run_again("[compiles]", kernels.path, "BITFOLD_KERNELS=/dev/null/none") != 0);
  fs::permissions(pack.path, fs::perms::group_write, fs::perm_options::add);
  CHECK(run_again("[compiles]", kernels.path, "BITFOLD_KERNELS='" + pack.path.string() + "'") != 0);
  CHECK(run_again("[reads]", kernels.path, packed) != 0);
  fs::permissions(pack.path, fs::perms::group_write, fs::perm_options::remove);
  CHECK(run_again("[reads]", kernels.path, packed) == 0);
  // What a file that others may write to says is not believed.
  fs::permissions(gpu::kernel_files(pack.path).list().at(0).path, fs::perms::others_write,
                  fs::perm_options::add);
  CHECK(run_again("[reads]", kernels.path, packed) != 0);
  CHECK_THROWS_AS(asked.make_ahead(4, 2), error);
  CHECK_THROWS_AS(asked.make_ahead(here.major, here.minor, "/dev/null/none"), error);
}

TEST_CASE("the kernels of some lengths are those of every length") {
  for (const auto& all : {std::vector{make_reduction(op_id::sum, {}, dtype::f32),
                                      make_reduction(op_id::mean, {}, dtype::f32)},
                          {make_reduction(op_id::var, {}, dtype::f16)},
                          {make_reduction(op_id::max, {}, dtype::i16)}}) {
    std::set<std::string> texts;
    const auto is_new = [&](std::size_t n, bool aligned) {
      bool found = false;
      for (const gpu::kernel& k : gpu::kernels_of(plan_of({all, n, aligned}))) {
        const gpu::kernel_source source = gpu::source_of(k);
        found |= texts.insert(source.expression + source.text).second;
      }
      return found;
    };
    for (const std::size_t n : gpu::lengths_of_ways)
      for (const bool aligned : {true, false}) is_new(n, aligned);
    for (std::size_t n = 1; n < (std::size_t{1} << 31); n += 1 + n / 16) {
      INFO(n << " of " << name(all[0].op()));
      CHECK_FALSE(is_new(n, true));
      CHECK_FALSE(is_new(n, false));
    }
  }
}

TEST_CASE("kernels are compiled by other processes, where there are any") {
  const gpu::device_facts& here = test::this_gpu();
  const std::vector<reduction> asked{make_reduction(op_id::sum, {}, dtype::f32)};
  const gpu::kernel k = gpu::kernels_of(plan_of({asked, 600, true})).at(0);
  const auto made_elsewhere = [&](const gpu::kernel_source& source) {
    return gpu::compile_elsewhere(source, here.major, here.minor, "");
  };
  const gpu::kernel_source source = gpu::source_of(k);
  CHECK(!made_elsewhere(source));
  for (const std::vector<std::string>& command : {std::vector<std::string>{"/dev/null/none"},
                                                  {"/bin/false"},
                                                  {"/bin/sh", "-c", "head -c 9"}}) {
    cuda::compile_by(command);
    CHECK(!made_elsewhere(source));
  }
  if (std::thread::hardware_concurrency() > 1) {  // else nobody is asked
    cuda::compile_by({"/proc/self/exe", "--compile-for-others"});
    const auto made = made_elsewhere(source);
    REQUIRE(made);
    CHECK(made->name == gpu::compile(source, here.major, here.minor).name);
    CHECK(made->image.size() > 1000);
    try {
      (void)made_elsewhere({"no program", "f"});
      FAIL_CHECK("compiled: no program");
    } catch (const error& e) {
      CHECK(e.code() == errc::cuda);
      CHECK(std::string(e.what()).rfind("nvrtcCompileProgram: ", 0) == 0);
    }
    const pid_t child = ::fork();  // which has none of this process's
    if (child == 0) ::_exit(made_elsewhere(source) ? 0 : 1);
    int status = 1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(made_elsewhere(source)->name == made->name);
    std::vector<cuda::request> several;
    for (const dtype t : {dtype::i8, dtype::u8, dtype::i16, dtype::u16}) {
      const reduction r = make_reduction(op_id::any, {}, t);
      several.push_back(cuda::request::array({&r, 1}, 600));
    }
    cuda::request::prepare(several);
    const test::device_memory x(std::vector<std::uint16_t>(600, 0)), out(16);
    cuda::reduce(make_reduction(op_id::any, {}, dtype::u16), x.p, 600, out.p);
    test::wait_for();
    CHECK(*out.as<std::uint8_t>() == 0);
  }
  cuda::compile_by({});
}

TEST_CASE("what a call would do is told and prepared without arrays") {
  const reduction r = make_reduction(op_id::norm_l1, method_id::kahan, dtype::f32);
  const cuda::request asked = cuda::request::array({&r, 1}, 1 << 20);
  CHECK(asked.workspace_bytes() == cuda::workspace_bytes(r, 1 << 20));
  CHECK(asked.explain().find("norm_l1 by kahan") != std::string::npos);
  asked.prepare();
  const auto before = gpu::counts_of_loads();
  const test::device_memory x(std::vector<float>(1 << 20, 0.5f)), out(16);
  cuda::reduce(r, x.p, 1 << 20, out.p);
  test::wait_for();
  CHECK(*out.as<float>() == 0.5f * (1 << 20));
  CHECK(gpu::counts_of_loads().compiled == before.compiled);
  CHECK(gpu::counts_of_loads().read == before.read);
}

TEST_CASE("several threads may ask for the same kernels at once") {
  const folder kernels;
  CHECK(run_again("[threads]", kernels.path) == 0);
}
TEST_CASE("of a process: threads", "[.][threads]") {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  const reduction all[] = {make_reduction(op_id::sum, method_id::kahan, dtype::f32),
                           make_reduction(op_id::norm_inf, {}, dtype::f32)};
  std::vector<float> some_floats(5000);
  for (std::size_t i = 0; i < some_floats.size(); ++i)
    some_floats[i] = static_cast<float>(i % 97) - 48.25f;
  const test::device_memory there(some_floats);
  const auto* p = there.as<std::byte>();
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const reduction& r = all[t % 2];
      const auto got = on_gpu({&r, 1}, p, nullptr, some_floats.size(), {});
      right += got[0] == cpu::reduce(r, p, nullptr, some_floats.size());
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 6);
}

TEST_CASE(
    "kernels are loaded while a graph is captured; where that cannot be, nothing is enqueued") {
  const auto capture = [](int kind) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    void* const set = driver ? dlsym(driver, "emulated_capture") : nullptr;
    if (set) reinterpret_cast<void (*)(int)>(set)(kind);
    return set != nullptr;
  };
  if (!capture(0)) return;  // a real driver
  const reduction r = make_reduction(op_id::prod, {}, dtype::f32);
  std::vector<float> x(1 << 17, 1);
  x[77777] = 1.5f;
  const test::device_memory there(x), out(std::vector<float>{0});
  void* const to = out.p;
  const gpu::plan plan = plan_of({r}, x.size());
  const std::vector<gpu::pass> passes = passes_of(plan);
  REQUIRE(passes.size() == 2);
  const std::vector<std::uint64_t> nothing(plan.workspace / 8 + 1);
  const test::device_memory workspace(nothing);
  const gpu::addresses at{there.p, nullptr, nullptr, workspace.p, &to};
  gpu::prepare({&passes[0].what, 1}, gpu::current_device());
  capture(2);
  try {
    gpu::run(plan, at, nullptr);
    FAIL("it was not refused");
  } catch (const error& e) {
    CHECK(e.code() == errc::usage);
    CHECK(std::string(e.what()).find("prepare") != std::string::npos);
  }
  CHECK(std::memcmp(workspace.p, nothing.data(), plan.workspace) == 0);
  capture(1);
  gpu::run(plan, at, nullptr);
  capture(0);
  CHECK(*out.as<float>() == 1.5f);
}

TEST_CASE("a text that does not compile is an error with the compiler's words") {
  try {
    gpu::compile({"int f() { return wrong; }\n", "f"}, 9, 0);
    FAIL("it was not refused");
  } catch (const error& e) {
    CHECK(e.code() == errc::cuda);
    CHECK(std::string(e.what()).find("wrong") != std::string::npos);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
  }
  CHECK_THROWS_AS(gpu::compile({"", "f"}, 4, 2), error);  // a GPU that the compiler does not know
}

// ---- Files of kernels ---------------------------------------------------------------------------

TEST_CASE("a file of a kernel is read whole, by its key, or not at all") {
  const folder kernels;
  const gpu::kernel_files files(kernels.path / "deep" / "er");
  CHECK_FALSE(files.find("a"));
  REQUIRE(files.store("a", {"name", std::string("code\0code", 9)}).empty());
  REQUIRE(files.find("a"));
  CHECK(files.find("a")->name == "name");
  CHECK(files.find("a")->image == std::string("code\0code", 9));
  CHECK_FALSE(files.find("b"));
  const fs::path file = files.list().at(0).path;
  CHECK(files.list().at(0).key == "a");
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto put = [&](const std::string& other) {
    std::ofstream(file, std::ios::binary) << other;
  };
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    put(bytes.substr(0, n));
    CHECK_FALSE(files.find("a"));
    std::string changed = bytes;
    changed[n] = static_cast<char>(changed[n] ^ 1);
    put(changed);
    CHECK_FALSE(files.find("a"));
  }
  put(bytes + "more");
  CHECK_FALSE(files.find("a"));
  put(bytes);
  CHECK(files.find("a"));
  // Another key's file under this one's name.
  REQUIRE(files.store("b", {"other", "other code"}).empty());
  for (const auto& e : files.list())
    if (e.key == "b") fs::copy_file(e.path, file, fs::copy_options::overwrite_existing);
  CHECK_FALSE(files.find("a"));
}

TEST_CASE("a directory or a file that others may write to is not trusted") {
  const folder kernels;
  const gpu::kernel_files files(kernels.path);
  REQUIRE(files.store("a", {"name", "code"}).empty());
  const fs::path file = files.list().at(0).path;
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  CHECK_FALSE(files.find("a"));
  fs::permissions(file, fs::perms::group_write, fs::perm_options::remove);
  CHECK(files.find("a"));
  fs::permissions(kernels.path, fs::perms::others_write, fs::perm_options::add);
  CHECK_FALSE(files.find("a"));
  CHECK(files.store("b", {"name", "code"}).find("this user's alone") != std::string::npos);
  fs::permissions(kernels.path, fs::perms::others_write, fs::perm_options::remove);
  const fs::path elsewhere = kernels.path / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  CHECK_FALSE(files.find("a"));
}

TEST_CASE("files of kernels: no more than the limit, those used the longest time ago go first") {
  const folder kernels;
  const gpu::kernel_files files(kernels.path, 3500);
  const std::string code(1000, 'c');
  const auto now = fs::file_time_type::clock::now();
  for (int k = 0; k < 3; ++k) {
    REQUIRE(files.store(std::to_string(k), {"name", code}).empty());
    for (const auto& e : files.list())
      if (e.key == std::to_string(k)) fs::last_write_time(e.path, now - std::chrono::hours(10 - k));
  }
  REQUIRE(files.find("0"));  // used now
  std::ofstream(kernels.path / ".bitfold-kernel-dead00") << "what a killed process left";
  fs::last_write_time(kernels.path / ".bitfold-kernel-dead00", now - std::chrono::hours(2));
  REQUIRE(files.store("3", {"name", code}).empty());
  CHECK(files.find("0"));
  CHECK_FALSE(files.find("1"));
  CHECK(files.find("2"));
  CHECK(files.find("3"));
  CHECK_FALSE(fs::exists(kernels.path / ".bitfold-kernel-dead00"));
  // A file that was used tomorrow takes no room from the one that is stored.
  for (const auto& e : files.list()) fs::last_write_time(e.path, now + std::chrono::hours(24));
  REQUIRE(files.store("4", {"name", code}).empty());
  CHECK(files.find("4"));
  // A pack has no limit, and a pipe in a kernel's place is no kernel.
  const auto pack = gpu::kernel_files::of_pack(kernels.path);
  for (int k = 5; k < 10; ++k) REQUIRE(pack.store(std::to_string(k), {"name", code}).empty());
  for (int k = 4; k < 10; ++k) CHECK(pack.find(std::to_string(k)));
  for (const auto& e : pack.list())
    if (e.key == "5") {
      fs::remove(e.path);
      REQUIRE(::mkfifo(e.path.c_str(), 0600) == 0);
    }
  CHECK_FALSE(pack.find("5"));
  CHECK(pack.clear().reason.empty());
  CHECK(pack.list().empty());
  CHECK(pack.why_unread().empty());
  CHECK_FALSE(gpu::kernel_files("/dev/null/none").why_unread().empty());
}

TEST_CASE("files of kernels: a disk that is full, or no directory, is a reason and no file") {
  const folder kernels;
  const gpu::kernel_files files(kernels.path);
  CHECK_FALSE(gpu::kernel_files("").store("a", {"name", "code"}).empty());
  CHECK_FALSE(gpu::kernel_files("/dev/null/none").store("a", {"name", "code"}).empty());
  CHECK_FALSE(gpu::kernel_files("/dev/null/none").find("a"));
  struct rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small{64, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string reason = files.store("a", {"name", std::string(1000, 'c')});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_FALSE(reason.empty());
  CHECK(fs::is_empty(kernels.path));
  CHECK(files.store("a", {"name", "code"}).empty());
}

TEST_CASE("files of kernels: many processes at once") {
  const folder kernels;
  std::vector<pid_t> children;
  for (int c = 0; c < 6; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      const gpu::kernel_files files(kernels.path, 40000);
      bool right = true;
      for (int k = 0; k < 200; ++k) {
        const std::string key = std::to_string(k % 7);
        const std::string code(3000 + 500 * static_cast<std::size_t>(k % 7),
                               static_cast<char>('a' + k % 7));
        right = right && files.store(key, {"name " + key, code}).empty();
        const auto found = files.find(key);
        right = right && (!found || (found->name == "name " + key && found->image == code));
        if (k % 50 == 49) files.clear();
      }
      _exit(right ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("where kernels are kept: BITFOLD_CACHE, XDG_CACHE_HOME, HOME") {
  const auto where = [](const char* own, const char* xdg, const char* home) {
    const char* names[] = {"BITFOLD_CACHE", "XDG_CACHE_HOME", "HOME"};
    const char* values[] = {own, xdg, home};
    std::optional<std::string> before[3];
    for (int k = 0; k < 3; ++k) {
      if (const char* v = std::getenv(names[k])) before[k] = v;
      values[k] ? setenv(names[k], values[k], 1) : unsetenv(names[k]);
    }
    const fs::path found = gpu::kernel_files::of_user().directory();
    for (int k = 0; k < 3; ++k)
      before[k] ? setenv(names[k], before[k]->c_str(), 1) : unsetenv(names[k]);
    return found;
  };
  CHECK(where("/a", "/b", "/c") == "/a");
  CHECK(where(nullptr, "/b", "/c") == "/b/bitfold");
  CHECK(where("", "b", "/c") == "/c/.cache/bitfold");  // a relative one is none, as XDG says
  CHECK(where(nullptr, nullptr, "/c") == "/c/.cache/bitfold");
  CHECK(where(nullptr, nullptr, nullptr).empty());
}

// ---- The real compiler, which needs no GPU ------------------------------------------------------

namespace {

// Kernels of every strategy, for these types, and one for whole arrays of each other type; or a
// sample of them.
void check_nvrtc(std::span<const dtype> types, test::sample_of_kernels sample) {
  if (!test::has_compiler()) return;
  std::vector<gpu::fold_kernel> kernels;
  const auto add = [&](const gpu::problem& asked, const cuda::launch& shape = {}) {
    for (const gpu::pass& p : passes_of(plan_of(asked, shape))) {
      const gpu::fold_kernel& made = kernel_of(p);
      if (std::none_of(kernels.begin(), kernels.end(), [&](const gpu::fold_kernel& k) {
            return k.what == made.what && k.how == made.how && k.in == made.in &&
                   k.two == made.two && k.aligned == made.aligned;
          }))
        kernels.push_back(made);
    }
  };
  std::vector<layout_case> cases = layouts;
  cases.push_back({{1100, 1500}, {1536, 1}, {1}, gpu::strategy::warps});  // of smaller elements
  cases.push_back({{1100, 3000}, {3072, 1}, {1}, gpu::strategy::warps});
  cases.push_back({{64, 40000}, {1, 64}, {0, 1}, gpu::strategy::patches});  // and longer nodes
  alignas(16) static const std::byte somewhere[16]{};
  for (const dtype t : all_dtypes) {
    const reduction sum = make_reduction(op_id::sum, method_id::kahan, t);
    for (const std::size_t n : {100, 5000, 100000, 1 << 24}) add({{&sum, 1}, n, true});
    for (const layout_case& c : cases) {
      const auto from =
          cuda::elements_of(detail::layout_of(view_of(c, t, somewhere), nullptr, c.axes));
      add({{&sum, 1}, from.n, true, &from}, c.shape);
    }
    const auto lists = cuda::elements_of_lists(t, false, 1 << 20, 100);
    add({{&sum, 1}, lists.n, true, &lists});
    for (int s = 0; s <= static_cast<int>(gpu::strategy::segment_states); ++s) {
      const auto what = static_cast<gpu::strategy>(s);
      INFO(name(what) << " of " << name(t));
      CHECK(std::any_of(kernels.begin(), kernels.end(),
                        [&](const gpu::fold_kernel& k) { return k.what == what && k.in == t; }));
    }
  }
  for (const dtype t : {dtype::f16, dtype::f64}) {  // two inputs, several folds, any address
    const reduction dot = make_reduction(op_id::dot, method_id::kahan, t);
    add({{&dot, 1}, 1 << 24, false});
    std::vector<reduction> five;
    for (const op_id op : {op_id::sum, op_id::min, op_id::max, op_id::mean, op_id::std})
      five.push_back(make_reduction(
          op, info(op).takes_method ? std::optional(method_id::tree) : std::nullopt, t));
    add({five, 1 << 24, false});
  }
  std::erase_if(kernels, [&](const gpu::fold_kernel& k) {
    return std::find(types.begin(), types.end(), k.in) == types.end() &&
           k.what != gpu::strategy::tile_nodes;
  });
  std::erase_if(kernels, [&](const gpu::fold_kernel& k) { return !sample.takes(k); });
  std::atomic<std::size_t> next{0}, made{0};
  const auto compile_some = [&] {
    for (std::size_t k; (k = next++) < kernels.size();) try {
        const gpu::machine_code code = gpu::compile(gpu::source_of(kernels[k]), 9, 0);
        made += code.image.size() > 1000 && code.name.find("fold_") != std::string::npos;
      } catch (const error& e) {
        std::printf("%s\n", e.what());
      }
  };
  std::thread other(compile_some);
  compile_some();
  other.join();
  CHECK(made == kernels.size());
  std::printf("%zu kernels\n", kernels.size());
  // Of a GPU newer by a minor than it knows, the code for its elders.
  CHECK_FALSE(gpu::compile(gpu::source_of(kernels[0]), 8, 99).image.empty());
  for (const int architecture : {80, 86, 89, 100, 120}) try {
      CHECK_FALSE(gpu::compile(gpu::source_of(kernels[0]), architecture / 10, architecture % 10)
                      .image.empty());
    } catch (const error& e) {  // an older NVRTC knows fewer
      INFO(e.what());
      CHECK(std::string_view(e.what()).find("does not know") != std::string_view::npos);
    }
}

}  // namespace

TEST_CASE("NVRTC compiles every strategy and every element type", "[.][nvrtc]") {
  check_nvrtc(std::array{dtype::f32, dtype::u8}, test::sample_of_kernels());
}
TEST_CASE("NVRTC compiles every strategy for every element type", "[.all]") {
  check_nvrtc(all_dtypes, test::sample_of_kernels(true));
}
