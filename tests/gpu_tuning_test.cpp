// The tables that plans are made with: they are whole, and whatever stands in them moves no bit.
#include <array>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/view.hpp>
#include <functional>
#include <set>

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"

#include "gpu/launcher.hpp"
#include "gpu/request.hpp"
#include "gpu_kernels.hpp"

using namespace bitfold;

namespace {

using gpu::any_number;

// By tree an order shows in the bits of numbers near one.
std::vector<reduction> some_reductions() {
  return {make_reduction(op_id::sum, method_id::tree, dtype::f32),
          make_reduction(op_id::sum, method_id::kahan, dtype::f32),
          make_reduction(op_id::var, {}, dtype::f32),
          make_reduction(op_id::argmax, {}, dtype::f32)};
}

// Runs what a table plans, and gives the bytes of each reduction's results.
using planned = std::function<gpu::plan(const gpu::device_facts&)>;
std::vector<std::vector<std::byte>> run(const planned& make, const gpu::tuning& by,
                                        std::span<const reduction> all, std::size_t outputs,
                                        gpu::addresses at) {
  gpu::device_facts on = test::this_gpu();
  on.numbers = &by;
  const gpu::plan plan = make(on);
  const test::device_memory results(8 * outputs * all.size()), workspace(plan.workspace + 16);
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k)
    to.push_back(results.as<std::byte>() + 8 * outputs * k);
  at.workspace = workspace.p;
  at.results = to.data();
  gpu::run(plan, at, nullptr);
  test::wait_for();
  std::vector<std::vector<std::byte>> got;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto* const begin = static_cast<const std::byte*>(to[k]);
    got.emplace_back(begin, begin + outputs * size_of(all[k].out()));
  }
  return got;
}

// The CPU's, along axes of a view.
std::vector<std::vector<std::byte>> on_cpu(std::span<const reduction> all, const view& x,
                                           std::span<const int> axes, std::size_t outputs) {
  std::vector<std::vector<std::byte>> got;
  std::vector<void*> to;
  for (const reduction& r : all) to.push_back(got.emplace_back(outputs * size_of(r.out())).data());
  cpu::reduce(all, x, nullptr, axes, to);
  return got;
}

}  // namespace

TEST_CASE("each architecture has a table, and each table answers every question") {
  const auto name = [](int major, int minor) { return gpu::tuning_for(major, minor).name; };
  CHECK(name(8, 0) == "sm_80");
  CHECK(name(8, 7) == "sm_86");
  CHECK(name(8, 9) == "sm_89");
  CHECK(name(9, 0) == "sm_90");
  CHECK(name(10, 3) == "sm_100");
  CHECK(name(12, 1) == "sm_120");
  CHECK(name(99, 0) == "sm_120");
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}) {
    const gpu::tuning& t = gpu::tuning_for(major, minor);
    CHECK(t.measured.empty() == (major != 9));
    std::set<std::string_view> names{t.segments.name};
    std::size_t lines = 1 + t.arrays.size() + t.outputs.size() + t.sorts.size();
    for (const auto& l : t.arrays) names.insert(l.name);
    for (const auto& l : t.outputs) names.insert(l.name);
    for (const auto& l : t.sorts) names.insert(l.name);
    CHECK(names.size() == lines);
    CHECK(t.arrays.back().most == any_number);
    CHECK(t.arrays.back().tiles > 0);
    const gpu::outputs_line& last = t.outputs.back();
    CHECK(last.by == gpu::strategy::blocks);
    CHECK((last.most_elements == any_number && last.most_state == any_number));
    CHECK((last.least_outputs == 0 && last.least_leaves == 0 && !last.only_neighbours));
    const gpu::sort_line& sort = t.sorts.back();
    CHECK((sort.key == 8 && sort.value == 8 && sort.most == any_number));
    // A block has room for what its numbers want of exact sums.
    const gpu::device_facts on = gpu::facts_of({major, minor});
    for (const op_info& op : all_op_infos)
      for (const dtype type : all_dtypes)
        if (op.has_exact) {
          const reduction r = make_reduction(op.id, method_id::exact, type);
          const gpu::plan made = gpu::plan_of({{&r, 1}, 1 << 20, true}, {}, on);
          CHECK(made.steps.size() >= 2);
          for (const gpu::step& s : made.steps)
            CHECK(std::get<gpu::pass>(s).shared_bytes <= on.max_shared_bytes);
        }
  }
}

TEST_CASE("a capability has the facts of NVIDIA's table, or of the nearest below") {
  const auto facts = [](int major, int minor) {
    const gpu::device_facts on = gpu::facts_of({major, minor});
    CHECK((on.major == major && on.minor == minor));
    CHECK(on.max_shared_bytes + 1024 == on.shared_bytes);
    return std::tuple(on.threads, on.blocks, static_cast<int>(on.shared_bytes >> 10));
  };
  CHECK(facts(8, 0) == std::tuple(2048, 32, 164));
  CHECK(facts(8, 6) == std::tuple(1536, 16, 100));
  CHECK(facts(8, 7) == std::tuple(1536, 16, 164));
  CHECK(facts(8, 9) == std::tuple(1536, 24, 100));
  CHECK(facts(9, 0) == std::tuple(2048, 32, 228));
  CHECK(facts(10, 0) == std::tuple(2048, 32, 228));
  CHECK(facts(11, 0) == std::tuple(1536, 24, 228));
  CHECK(facts(12, 1) == std::tuple(1536, 24, 100));
  CHECK(facts(8, 8) == facts(8, 7));
  CHECK(facts(10, 3) == facts(10, 0));
  CHECK(facts(99, 0) == facts(12, 1));
}

TEST_CASE("whatever a table says of whole arrays moves no bit") {
  const auto all = some_reductions();
  constexpr std::size_t most = 70001;
  gpu::tuning mine = test::numbers();
  for (const auto& [kind, n] : {std::pair{test::kind::special, std::size_t{1}},
                                {test::kind::special, std::size_t{300}},
                                {test::kind::special, std::size_t{5000}},
                                {test::kind::near_one, std::size_t{5000}},
                                {test::kind::special, most},
                                {test::kind::near_one, most}}) {
    const test::device_memory x(test::make_data(dtype::f32, kind, n, 1));
    const view v = row_major(dtype::f32, x.p, {static_cast<std::int64_t>(n)});
    const auto right = on_cpu(all, v, std::array{0}, 1);
    for (const auto& [warps, tiles] :
         {std::pair{1, 1}, {3, 2}, {16, 8}, {4, 64}, {2, 0}, {3, 0}, {6, 0}, {12, 0}, {16, 0}}) {
      // Leaves are for arrays that have few: 0 tiles, which a line behind it completes.
      const std::array lines{
          gpu::array_line{"mine", tiles ? any_number : 500, any_number, warps, tiles},
          gpu::array_line{"rest", any_number, any_number, 8, 32}};
      mine.arrays = lines;
      mine.tiles_of_one_block = tiles ? 16 : 0;
      INFO(n << " elements, " << warps << " warps, " << tiles << " tiles");
      CHECK(run([&](const auto& on) { return gpu::plan_of({all, n, true}, {}, on); }, mine, all, 1,
                {x.p}) == right);
    }
    for (const std::size_t folds : {1, 2}) {
      mine = test::numbers();
      mine.most_folds = folds;
      INFO(n << " elements, " << folds << " folds in a kernel");
      CHECK(run([&](const auto& on) { return gpu::plan_of({all, n, true}, {}, on); }, mine, all, 1,
                {x.p}) == right);
    }
  }
}

TEST_CASE("whatever a table says of outputs on axes moves no bit") {
  const auto all = some_reductions();
  struct layout_case {
    std::vector<std::int64_t> extents;
    std::vector<int> axes, order{0, 1};
  };
  std::set<gpu::strategy> seen;
  std::size_t place = 0;  // of a layout, of a line and of what is enough
  const auto try_tables = [&](const view& v, const std::vector<int>& axes) {
    const detail::layout l = detail::layout_of(v, nullptr, axes);
    const auto right = on_cpu(all, v, axes, l.outputs);
    std::size_t k = place;
    for (const gpu::outputs_line& own : test::numbers().outputs) {
      ++k;
      for (const order::index enough : {order::index{1}, order::index{1} << 24}) {
        if (!test::takes_kernels(k + (enough == 1), 2)) continue;
        gpu::outputs_line line = own;
        line.most_elements = line.most_state = any_number;
        line.least_outputs = line.least_leaves = 0;
        line.only_neighbours = false;
        line.enough = enough;
        if (enough == 1) line.threads = 96;
        line.more = 4 * enough;
        line.beside = enough == 1 ? 4 : 64;
        line.most_blocks = enough == 1 ? 7 : 1 << 20;
        const std::array lines{line, test::numbers().outputs.back()};
        gpu::tuning mine = test::numbers();
        mine.outputs = lines;
        mine.states_of_one_pass = enough == 1 ? 100 : 1 << 12;
        INFO(v.extent[0] << " x " << v.extent[1] << ", " << line.name << ", " << enough);
        const auto plan = [&](const auto& on) { return gpu::plan_axes(all, l, {}, on); };
        CHECK(run(plan, mine, all, l.outputs, {v.data}) == right);
        gpu::device_facts on = test::this_gpu();
        on.numbers = &mine;
        const gpu::plan made = plan(on);
        const auto& first = std::get<gpu::pass>(made.steps.front());
        seen.insert(std::get<gpu::fold_kernel>(first.what).what);
      }
    }
  };
  const test::device_memory near_one(test::make_data(dtype::f32, test::kind::near_one, 400000, 2)),
      special(test::make_data(dtype::f32, test::kind::special, 400000, 2));
  for (const auto& [extents, axes, order] :
       {layout_case{{300, 40}, {1}},
        {{70, 250}, {1}},  // of which a block of staged threads has more than 48 KiB
        {{40, 300}, {0}},
        {{6, 5000}, {1}},
        {{3, 35000}, {1}},
        {{9000, 4}, {0}},
        {{2500, 40}, {0, 1}, {1, 0}},
        {{5, 64, 64}, {1, 2}, {0, 2, 1}}}) {
    for (const test::device_memory* data : {&near_one, &special})
      try_tables(permuted(row_major(dtype::f32, data->p, extents), order), axes);
    ++place;
  }
  for (const gpu::strategy s : test::strategies_of_outputs()) {
    INFO(name(s));
    CHECK(seen.contains(s));
  }
  CHECK(seen.size() == test::strategies_of_outputs().size());
}

TEST_CASE("whatever a table says of sorts and segments moves no bit") {
  constexpr std::size_t n = 30000, outputs = 50;
  const reduction distinct = make_reduction(op_id::count_distinct, {}, dtype::f32),
                  sum = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  const test::device_memory x(test::make_data(dtype::f32, test::kind::special, n, 3));
  std::vector<std::int64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i)
    keys[i] = static_cast<std::int64_t>(i % 13 * (i % 7) % outputs);
  const test::device_memory list(keys);
  const auto both = [&](const gpu::tuning& by) {
    auto got = run([&](const auto& on) { return gpu::plan_of({{&distinct, 1}, n, true}, {}, on); },
                   by, {&distinct, 1}, 1, {x.p});
    got.push_back(
        run([&](const auto& on) { return gpu::plan_keys({&sum, 1}, false, n, outputs, {}, on); },
            by, {&sum, 1}, outputs, {x.p, nullptr, list.p})[0]);
    return got;
  };
  const auto right = both(test::numbers());
  for (const auto& [threads, items, tiles] : {std::tuple{256, 4, 1}, {512, 3, 4}}) {
    gpu::tuning mine = test::numbers();
    const std::array lines{gpu::sort_line{"mine", 8, 8, any_number, threads, items, 1}};
    mine.sorts = lines;
    mine.segments.threads = threads / 4;
    mine.segments.tiles = tiles;
    mine.segments.enough = tiles == 1 ? 1 : 16;
    mine.segments.most_list_blocks = 3;
    CHECK(both(mine) == right);
  }
}

TEST_CASE("whatever a table says of exact sums moves no bit") {
  constexpr std::size_t n = 70001;
  const auto check = [&](dtype type, test::kind kind, std::initializer_list<op_id> ops,
                         std::initializer_list<std::tuple<int, int, int>> numbers) {
    std::vector<reduction> all;
    for (const op_id op : ops) all.push_back(make_reduction(op, method_id::exact, type));
    const test::device_memory x(test::make_data(type, kind, n, 4));
    const auto right =
        on_cpu(all, row_major(type, x.p, {static_cast<std::int64_t>(n)}), std::array{0}, 1);
    for (const auto& [packs, threads, blocks] : numbers) {
      gpu::tuning mine = test::numbers();
      std::vector<gpu::exact_line> alone(mine.exact.alone.begin(), mine.exact.alone.end());
      for (gpu::exact_line& l : alone) {
        l.packs = packs;
        l.threads = threads;
        l.blocks = blocks;
      }
      mine.exact.alone = alone;
      INFO(name(type) << ", " << packs << " packs, " << threads << " threads");
      CHECK(run([&](const auto& on) { return gpu::plan_of({all, n, true}, {}, on); }, mine, all, 1,
                {x.p}) == right);
    }
  };
  check(dtype::f32, test::kind::any_bits, {op_id::sum, op_id::var},
        {{1, 32, 1}, {2, 64, 9}, {4, 96, 4}});
  // Packs of two, of which there may be an odd number. A term too many shows in the sign of zero.
  for (const test::kind kind : {test::kind::any_bits, test::kind::minus_zero})
    check(dtype::f64, kind, {op_id::sum}, {{1, 32, 1}, {3, 64, 2}, {5, 96, 1}});
}
