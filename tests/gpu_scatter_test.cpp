// Scatters by kernels on demand: the CPU's bits.
#include <algorithm>
#include <bitfold/scatter.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "catch.hpp"
#include "data.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"

#include "gpu/explain.hpp"
#include "gpu/scatter.hpp"

using namespace bitfold;

namespace {

using extents = std::vector<std::int64_t>;

struct scatter_case {
  scattering how;
  dtype type;
  extents x, base;
  int axis;
  bool one_key_each = false;  ///< of the elements at one index along the axis
  bool some_lost = false, without_base = false, off = false;
};

std::string words_of(const scatter_case& c) {
  std::string s = std::string(name(c.how.op)) + " " + std::string(name(c.how.method)) + " " +
                  std::string(name(c.type)) + ", axis " + std::to_string(c.axis) + " of";
  for (const auto n : c.x) s += " " + std::to_string(n);
  return s;
}
std::size_t size_of_all(const extents& e) {
  std::size_t n = 1;
  for (const auto k : e) n *= static_cast<std::size_t>(k);
  return n;
}
// Small integers of either sign, halves, and of floats now and then what is none.
std::vector<std::byte> elements(dtype type, std::size_t n, test::random_bits& next,
                                std::uint64_t different = 2001) {
  return visit(type, [&]<class T>(std::type_identity<T>) {
    std::vector<T> some(n);
    for (T& x : some) {
      if constexpr (std::is_integral_v<T>) {
        x = static_cast<T>(next());
      } else {
        double v = (static_cast<double>(next() % different) - 1000.0) / 64.0;
        if (next() % 400 == 0) v = std::numeric_limits<double>::quiet_NaN();
        if (next() % 50 == 0) v = next() % 2 ? -0.0 : 0.0;
        x = arith::round_to<T>(v);
      }
    }
    std::vector<std::byte> bytes(n * sizeof(T));
    std::memcpy(bytes.data(), some.data(), bytes.size());
    return bytes;
  });
}

view in_a_row(dtype type, const void* data, const extents& e) {
  return row_major(type, data, std::span(e));
}
view keys_of(const scatter_case& c, const std::int64_t* keys) {
  view v = in_a_row(dtype::i64, keys, c.x);
  if (c.one_key_each)
    for (int k = 0; k < v.rank; ++k) v.stride[std::size_t(k)] = k == c.axis ? 1 : 0;
  return v;
}

std::size_t kernels_named(const gpu::plan& p, std::string_view wanted) {
  return static_cast<std::size_t>(std::ranges::count_if(p.steps, [&](const gpu::step& s) {
    const auto* const one = std::get_if<gpu::pass>(&s);
    return one && name(one->what) == wanted;
  }));
}

// `kernel`: one that is in the plan.
void check(const scatter_case& c, std::string_view kernel, std::uint64_t seed = 1) {
  INFO(words_of(c));
  test::random_bits next(seed);
  const std::size_t n = size_of_all(c.x), outputs = size_of_all(c.base);
  const auto places = c.base[static_cast<std::size_t>(c.axis)];
  std::vector<std::int64_t> keys(
      c.one_key_each ? static_cast<std::size_t>(c.x[static_cast<std::size_t>(c.axis)]) : n);
  for (auto& k : keys) k = static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(places));
  // Half of them go to one.
  for (auto& k : keys)
    if (next() % 2) k = places / 2;
  if (c.some_lost) keys[keys.size() / 2] = places, keys[keys.size() / 3] = -1;
  const auto x = elements(c.type, n, next), base = elements(c.type, outputs, next);
  std::vector<std::byte> want = base;
  cpu::scatter(c.how, in_a_row(c.type, x.data(), c.x), keys_of(c, keys.data()), c.axis,
               in_a_row(c.type, c.without_base ? nullptr : base.data(), c.base), want.data());

  const std::size_t off = c.off ? size_of(c.type) : 0;
  const test::device_memory x_there(n * size_of(c.type) + off), keys_there(keys), base_there(base),
      out_there(outputs * size_of(c.type) + off), lost(sizeof(std::uint32_t));
  if (n > 0) std::memcpy(x_there.as<std::byte>() + off, x.data(), x.size());
  *lost.as<std::uint32_t>() = 77;
  void* const out = out_there.as<std::byte>() + off;
  const view x_view = in_a_row(c.type, x_there.as<std::byte>() + off, c.x),
             k_view = keys_of(c, keys_there.as<std::int64_t>()),
             b_view = in_a_row(c.type, c.without_base ? nullptr : base_there.p, c.base);
  const auto plan =
      gpu::plan_scatter(c.how, x_view, k_view, c.axis, b_view, out, true, test::this_gpu());
  INFO(gpu::explain(plan, test::this_gpu()));
  CHECK(kernels_named(plan, kernel) == 1);
  const std::size_t bytes = cuda::scatter_workspace_bytes(c.how, x_view, k_view, c.axis, b_view);
  CHECK(bytes == plan.workspace);
  const test::device_memory workspace(bytes);
  cuda::scatter(c.how, x_view, k_view, c.axis, b_view, out, lost.as<std::uint32_t>(), workspace.p,
                bytes);
  test::wait_for();
  CHECK(*lost.as<std::uint32_t>() == (c.how.leaves_out ? 77u : 0u));
  const auto* const got = static_cast<const std::byte*>(out);
  const auto at = std::mismatch(want.begin(), want.end(), got).first - want.begin();
  INFO("differs from byte " << at << " on");
  CHECK(at == static_cast<std::ptrdiff_t>(want.size()));
}

constexpr scattering by(op_id op, method_id method = method_id::tree, bool with_base = true,
                        bool leaves_out = false) {
  return {op, method, with_base, leaves_out};
}
constexpr auto kahan = method_id::kahan, pairwise = method_id::pairwise, tree = method_id::tree;

}  // namespace

TEST_CASE("rows that go to places by one key each have the CPU's bits", "[racecheck]") {
  const auto rows = [](scattering how, dtype type, std::int64_t n, std::int64_t columns,
                       std::int64_t places) {
    return scatter_case{how, type, {n, columns}, {places, columns}, 0, true};
  };
  // Few to a place; some hundreds; in nodes, of several runs each.
  for (const std::int64_t n : {1, 40, 700, 9000})
    for (const std::int64_t places : {1, 7, 600})
      check(rows(by(op_id::sum), dtype::f32, n, 8, places), "fold_keyed_rows", 3);
  auto c = rows(by(op_id::sum), dtype::f32, 700, 5, 3);
  check(c, "fold_nodes_of_rows");
  c.x[1] = c.base[1] = 8;
  c.off = true;
  check(c, "fold_outputs_in_nodes");
  c = rows(by(op_id::sum, tree, false, true), dtype::f32, 700, 8, 4);
  c.some_lost = true;
  check(c, "fold_keyed_rows");
  c.without_base = true;
  check(c, "fold_keyed_rows");
  check(rows(by(op_id::sum), dtype::bf16, 600, 12, 7), "fold_keyed_rows");
  check(rows(by(op_id::sum, kahan), dtype::f32, 600, 4, 3), "fold_keyed_rows");
  check(rows(by(op_id::sum, pairwise), dtype::f16, 900, 8, 5), "fold_keyed_rows");
  check(rows(by(op_id::mean), dtype::f64, 600, 6, 7), "fold_keyed_rows");
  check(rows(by(op_id::mean, tree, false), dtype::i32, 600, 8, 7), "fold_keyed_rows");
  check(rows(by(op_id::prod, tree, false), dtype::u16, 600, 8, 7), "fold_keyed_rows");
  check(rows(by(op_id::max), dtype::f16, 600, 8, 7), "fold_keyed_rows");
  check(rows(by(op_id::min, tree, false), dtype::i64, 600, 8, 7), "fold_keyed_rows");
  c = rows(by(op_id::sum), dtype::f32, 700, 24, 9);  // the columns of two axes
  c.x = {700, 4, 6};
  c.base = {9, 4, 6};
  check(c, "fold_keyed_rows");
}

TEST_CASE("short lines with a key for each element have the CPU's bits", "[racecheck]") {
  const auto lines = [](scattering how, dtype type, std::int64_t count, std::int64_t n,
                        std::int64_t places) {
    return scatter_case{how, type, {count, n}, {count, places}, 1};
  };
  for (const auto& [count, n, places] :
       {std::array{37, 64, 16}, {5, 1, 3}, {1, 1000, 2}, {100, 3, 700}, {9, 300, 1}})
    check(lines(by(op_id::sum), dtype::f32, count, n, places), "fold_keyed_lines");
  auto c = lines(by(op_id::sum, tree, false, true), dtype::f32, 20, 50, 9);
  c.some_lost = true;
  check(c, "fold_keyed_lines");
  check(lines(by(op_id::mean), dtype::u8, 12, 90, 5), "fold_keyed_lines");
  check(lines(by(op_id::prod, tree, false), dtype::f16, 12, 90, 5), "fold_keyed_lines");
  check(lines(by(op_id::max), dtype::f64, 12, 90, 5), "fold_keyed_lines");
  check(lines(by(op_id::sum, kahan), dtype::bf16, 12, 90, 5), "fold_keyed_lines");
}

TEST_CASE("elements with a key each have the CPU's bits", "[racecheck]") {
  check({by(op_id::sum), dtype::f32, {400, 9}, {5, 9}, 0}, "meet_places");
  check({by(op_id::sum), dtype::f32, {5, 40, 11}, {5, 9, 11}, 1}, "meet_places");
  check({by(op_id::sum), dtype::f32, {4, 40, 10}, {5, 9, 11}, 1}, "meet_places");
  check({by(op_id::sum), dtype::f32, {5000}, {2000}, 0}, "meet_places");
  check({by(op_id::sum), dtype::f32, {0, 7}, {3, 7}, 0}, "meet_places");
  auto c = scatter_case{by(op_id::sum, tree, false, true), dtype::f32, {3000}, {256}, 0};
  c.some_lost = true;
  check(c, "meet_places");
  check({by(op_id::sum, method_id::exact), dtype::f16, {60, 9}, {5, 9}, 0}, "meet_places");
  check({by(op_id::sum, method_id::exact), dtype::f32, {60, 9}, {5, 9}, 0, true}, "meet_places");
  check({by(op_id::mean, tree, false), dtype::i16, {60, 9}, {5, 9}, 0}, "meet_places");
  check({by(op_id::max), dtype::bf16, {60, 9}, {5, 9}, 0}, "meet_places");
  check({by(op_id::prod), dtype::u8, {60, 9}, {5, 9}, 0, true}, "meet_places");
}

TEST_CASE("a key that names no place is told of, where it is not left out") {
  for (const extents& x : {extents{60, 9}, extents{3, 9}}) {
    const int axis = x[0] == 3;
    for (const bool one_each : {false, true}) {
      const scatter_case c{
          by(op_id::sum), dtype::f32,           x, axis ? extents{3, 5} : extents{5, 9},
          axis,           one_each && axis == 0};
      std::vector<std::int64_t> keys(size_of_all(x), 1);
      keys[keys.size() / 30] = 5;
      const test::device_memory data(std::vector<float>(700)), lost(4), keys_there(keys);
      const view x_view = in_a_row(c.type, data.p, x),
                 k = keys_of(c, keys_there.as<std::int64_t>()),
                 b = in_a_row(c.type, data.as<float>() + 540, c.base);
      const std::size_t bytes = cuda::scatter_workspace_bytes(c.how, x_view, k, axis, b);
      const test::device_memory workspace(bytes);
      cuda::scatter(c.how, x_view, k, axis, b, data.as<float>() + 600, lost.as<std::uint32_t>(),
                    workspace.p, bytes);
      test::wait_for();
      CHECK(*lost.as<std::uint32_t>() == 1);
    }
  }
}

namespace {

// Of every kernel that is scatters' own, for elements of some type; of no address.
std::vector<gpu::plan> plans_of(scattering how, dtype type) {
  const extents few{5000, 64}, outputs{100, 64}, line{5000, 16};
  const auto planned = [&](const extents& base, int axis, bool one_key_each) {
    const scatter_case c{how, type, few, base, axis, one_key_each};
    return gpu::plan_scatter(how, in_a_row(type, nullptr, few), keys_of(c, nullptr), axis,
                             in_a_row(type, nullptr, base), nullptr, true, test::this_gpu());
  };
  std::vector<gpu::plan> all{planned(line, 1, false), planned(outputs, 0, false)};
  if (size_of(type) > 1) all.push_back(planned(outputs, 0, true));
  if (how.op == op_id::max && is_float(type)) {
    std::int64_t none = 0;
    for (const std::size_t bags : {100, 5000})
      all.push_back(gpu::plan_scatter_rows(how, {type, 5000, 64, nullptr}, {bags, nullptr, &none},
                                           nullptr, nullptr, &none, false, test::this_gpu()));
  }
  return all;
}

}  // namespace

TEST_CASE("NVRTC compiles scatters of every element type", "[.][nvrtc]") {
  if (!test::has_compiler()) return;
  std::map<std::string, gpu::kernel> kernels;
  for (const dtype type : all_dtypes)
    for (const op_id op : {op_id::sum, op_id::max})
      for (const gpu::plan& p : plans_of(by(op, op == op_id::sum ? kahan : tree), type))
        for (const gpu::kernel& k : gpu::kernels_of(p))
          if (std::holds_alternative<gpu::instantiation>(k)) kernels.emplace(signature_of(k), k);
  test::sample_of_kernels sample;
  std::erase_if(kernels, [&](const auto& k) { return !sample.takes(k.second); });
  for (const auto& [signature, kernel] : kernels) {
    INFO(signature);
    CHECK(gpu::compile(gpu::source_of(kernel), 9, 0).image.size() > 1000);
  }
  std::printf("%zu kernels of scatters\n", kernels.size());
}

namespace {

struct bags_case {
  op_id op;
  dtype type;
  std::size_t columns, bags, most;
  bool weighted;
};
// By the CPU's scatter of the rows themselves.
void check_bags(const bags_case& c) {
  test::random_bits next(c.columns + c.most);
  constexpr std::size_t rows = 30;
  std::vector<std::int64_t> list, offsets{0}, keys;
  for (std::size_t k = 0; k < c.bags; ++k) {
    for (std::size_t many = next() % (c.most + 1); many > 0; --many) {
      list.push_back(static_cast<std::int64_t>(next() % rows));
      keys.push_back(static_cast<std::int64_t>(k));
    }
    offsets.push_back(static_cast<std::int64_t>(list.size()));
  }
  // Of largest ones some are as large.
  const auto x = elements(c.type, rows * c.columns, next, c.op == op_id::max ? 5 : 2001),
             weights = elements(c.type, list.size(), next);
  const dtype wide = c.type == dtype::f64 ? dtype::f64 : dtype::f32;
  visit(c.type, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
      std::vector<A> gathered(list.size() * c.columns), sums(c.bags * c.columns);
      const auto* const from = reinterpret_cast<const T*>(x.data());
      const auto* const w = reinterpret_cast<const T*>(weights.data());
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        const A v = arith::widen<A>(
            from[static_cast<std::size_t>(list[i / c.columns]) * c.columns + i % c.columns]);
        gathered[i] = c.weighted ? arith::mul(v, arith::widen<A>(w[i / c.columns])) : v;
      }
      const auto as = [](std::size_t n) { return static_cast<std::int64_t>(n); };
      const scattering how{c.op, tree, false, true};
      view k = row_major(dtype::i64, keys.data(), {as(keys.size()), as(c.columns)});
      k.stride = {1, 0};
      cpu::scatter(how, row_major(wide, gathered.data(), {as(keys.size()), as(c.columns)}), k, 0,
                   row_major(wide, nullptr, {as(c.bags), as(c.columns)}), sums.data());

      const bool largest = c.op == op_id::max;
      const test::device_memory x_there(x), list_there(list), offsets_there(offsets),
          keys_there(keys), w_there(weights), out(sums.size() * sizeof(T)),
          first(sums.size() * sizeof(std::int64_t));
      const listed_rows of{c.type,
                           list.size(),
                           c.columns,
                           x_there.p,
                           list_there.as<std::int64_t>(),
                           c.weighted ? w_there.p : nullptr};
      for (const bool by_key : {false, true}) {
        const places_of_rows to{c.bags, by_key ? keys_there.as<std::int64_t>() : nullptr,
                                by_key ? nullptr : offsets_there.as<std::int64_t>()};
        const std::size_t bytes = cuda::scatter_rows_workspace_bytes(how, of, to, largest);
        const test::device_memory workspace(bytes);
        cuda::scatter_rows(how, of, to, nullptr, out.p,
                           largest ? first.as<std::int64_t>() : nullptr, nullptr, workspace.p,
                           bytes);
        test::wait_for();
        std::size_t wrong = 0, other = 0;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          const T want = arith::round_to<T>(sums[i]);
          wrong += std::memcmp(&want, out.as<T>() + i, sizeof(T)) != 0;
          if (!largest) continue;
          std::int64_t row = -1;
          for (std::size_t j = keys.size(); j-- > 0;)
            if (keys[j] == as(i / c.columns) && gathered[j * c.columns + i % c.columns] == sums[i])
              row = list[j];
          other += first.as<std::int64_t>()[i] != row;
        }
        CHECK(wrong == 0);
        CHECK(other == 0);
      }
    }
  });
}

}  // namespace

TEST_CASE("rows of a list, in segments or by key, have the CPU's bits", "[racecheck]") {
  for (const std::size_t most : {0, 3, 40, 900}) {
    check_bags({op_id::sum, dtype::f32, 8, 9, most, false});
    check_bags({op_id::max, dtype::f32, 8, 9, most, false});
  }
  check_bags({op_id::mean, dtype::bf16, 12, 9, 400, false});
  check_bags({op_id::sum, dtype::f32, 12, 9, 400, true});
  check_bags({op_id::sum, dtype::f16, 12, 9, 70, true});
  check_bags({op_id::max, dtype::f64, 3, 9, 700, false});
}

TEST_CASE("scatters on a GPU refuse what they do not take") {
  const scatter_case c{by(op_id::sum), dtype::f32, {4, 5}, {3, 5}, 0};
  float some[40]{};
  std::int64_t keys[40]{};
  view x = in_a_row(c.type, some, c.x), k = keys_of(c, keys), b = in_a_row(c.type, some, c.base);
  const auto refused = [&](std::string_view what, auto call) {
    try {
      call();
      FAIL("not refused");
    } catch (const error& e) {
      CHECK(std::string_view(e.what()).starts_with(what));
    }
  };
  const auto run = [&] { cuda::scatter(c.how, x, k, 0, b, some, nullptr, nullptr, 0); };
  x.stride[0] = 6;
  refused("x: ", run);
  x.stride[0] = 5;
  b.stride[1] = 2;
  refused("base: ", run);
  b.stride[1] = 1;
  k.type = dtype::i32;
  refused("keys: ", run);
  const auto bags = [&](scattering how, dtype type, bool largest) {
    cuda::scatter_rows(how, {type, 4, 5, some}, {3, nullptr, keys}, nullptr, some,
                       largest ? keys : nullptr, nullptr, nullptr, 0);
  };
  refused("method: ", [&] { bags(by(op_id::sum, method_id::exact), dtype::f32, false); });
  refused("x: ", [&] { bags(by(op_id::sum), dtype::u8, false); });
  refused("largest: ", [&] { bags(by(op_id::sum), dtype::f32, true); });
  refused("op: ", [&] { bags(by(op_id::var), dtype::f32, false); });
}
