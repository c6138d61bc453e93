// Reductions along axes, of segments and by key on the CPU: the bits of each output's own elements
// in one array, in whatever company, layout and number of threads.
#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "catch.hpp"
#include "data.hpp"
#include "main.hpp"
#include "refusals.hpp"
#include "view_data.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

using results = test::arrays;
using test::pointers_to;

results reduced(std::span<const reduction> all, const test::view_case& c, int threads) {
  results got = test::room_for(all, c.outputs());
  cpu::reduce(all, c.x(), c.y(), c.axes, pointers_to(got),
              {.threads = threads, .target = forced_target});
  return got;
}
results by_reference(std::span<const reduction> all, const test::view_case& c) {
  results want = test::room_for(all, c.outputs());
  for (std::size_t k = 0; k < all.size(); ++k)
    reference(all[k], c.x(), c.y(), c.axes, want[k].data());
  return want;
}

const std::vector<int> numbers_of_threads{1, 3};

// Those of a case's reductions whose results differ from the reference's; none if all are the same.
std::string differing(const test::view_case& c) {
  const auto all = test::reductions_for(c.type, c.two, c.elements_each() == 0);
  return test::differing(
      all, by_reference(all, c), numbers_of_threads,
      [&](std::span<const reduction> some, int threads) { return reduced(some, c, threads); });
}
std::string differing(const test::windows_case& c) {
  const auto elements = c.elements();
  const auto all = test::reductions_for(c.of.type, false, test::some_are_empty(elements));
  return test::differing(all, test::results_of(all, elements, {}), numbers_of_threads,
                         [&](std::span<const reduction> some, int threads) {
                           results got = test::room_for(some, elements.size());
                           cpu::reduce_windows(some, c.of.x(), c.windows, pointers_to(got),
                                               {.threads = threads, .target = forced_target});
                           return got;
                         });
}
std::string differing(const test::lists_case& c) {
  const auto x = c.data(0), y = c.two ? c.data(1) : std::vector<std::byte>();
  const auto offsets = c.offsets(), keys = c.keys();
  std::string which;
  for (const bool by_key : {false, true}) {
    if (by_key && c.outside > 0) continue;  // refused
    const auto own_x = c.elements(x, by_key), own_y = c.two ? c.elements(y, by_key) : results();
    const auto all = test::reductions_for(c.type, c.two, test::some_are_empty(own_x));
    const auto run = [&](std::span<const reduction> some, int threads) {
      results got = test::room_for(some, c.outputs());
      const cpu::options opts{.threads = threads, .target = forced_target};
      const void* const second = c.two ? y.data() : nullptr;
      if (by_key)
        cpu::reduce_by_key(some, x.data(), second, keys, c.outputs(), pointers_to(got), opts);
      else
        cpu::reduce_segments(some, x.data(), second, c.n(), offsets, pointers_to(got), opts);
      return got;
    };
    const auto found =
        test::differing(all, test::results_of(all, own_x, own_y), numbers_of_threads, run);
    if (!found.empty()) which += (by_key ? " by key" : " segments") + found;
  }
  return which;
}

}  // namespace

TEST_CASE("views: any shape, layout and axes, every operation", "[kernels]") {
  test::random_bits next{11};
  for (int round = 0; round < (test::brief() ? 60 : 250); ++round)
    test::check_case(test::random_view(next),
                     [](const test::view_case& c) { return differing(c); });
  SUCCEED();
}

TEST_CASE("views: axes without elements, where they are reduced and where they are not") {
  const reduction all[] = {make_reduction(op_id::sum, method_id::tree, dtype::f32),
                           make_reduction(op_id::mean, method_id::exact, dtype::f32)};
  for (const std::vector<std::int64_t>& extent :
       {std::vector<std::int64_t>{0}, {3, 0}, {0, 3}, {2, 0, 3}}) {
    const auto rank = static_cast<int>(extent.size());
    for (unsigned which = 0; which < 1u << rank; ++which)
      for (const bool down : {false, true}) {
        test::view_case c{.type = dtype::f32, .extent = extent, .axes = {}, .order = {}};
        for (int k = 0; k < rank; ++k) {
          if (which >> k & 1) c.axes.push_back(k);
          c.order.push_back(down ? rank - 1 - k : k);
        }
        CHECK(reduced(all, c, 1) == by_reference(all, c));
      }
  }
}

TEST_CASE("views: long outputs, few and many, by any number of threads") {
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64}) {
    const std::int64_t rows = 3, columns = test::small_sizes() ? 150'001 : 300'001;
    for (const bool down : {false, true}) {
      test::view_case c{.type = t, .extent = {rows, columns}, .axes = {1}, .order = {0, 1}};
      if (down) c.order = {1, 0};
      const reduction all[] = {make_reduction(op_id::sum, method_id::tree, t),
                               make_reduction(op_id::argmax, {}, t),
                               make_reduction(op_id::var, method_id::exact, t),
                               make_reduction(op_id::count_distinct, {}, t)};
      const results want = by_reference(all, c);
      for (const int threads : {1, 7, 0}) CHECK(reduced(all, c, threads) == want);
    }
  }
}

TEST_CASE(
    "views: rows folded together, whatever is left over after full leaves, lanes and vectors") {
  std::vector<std::int64_t> lengths = {2,   3,   8,   9,   31,  32,    33,    40,
                                       47,  48,  63,  64,  100, 200,   255,   256,
                                       258, 264, 511, 512, 600, 1'021, 2'047, 2'048};
  if (test::brief()) lengths = {3, 33, 40, 264, 1'021};
  for (const dtype t : all_dtypes)
    for (const std::int64_t n : lengths)
      for (const bool two : {false, true}) {
        const std::int64_t outputs = n == 3 ? 1'050 : n % 2 ? 19 : 2;
        CHECK(differing({.type = t,
                         .extent = {outputs, n},
                         .axes = {1},
                         .order = {0, 1},
                         .two = two,
                         .specials = n % 3 == 0}) == "");
        if (n > 600) continue;  // that lie apart, and backwards
        CHECK(differing({.type = t,
                         .extent = {n == 3 ? 150 : outputs, n},
                         .axes = {1},
                         .order = {0, 1},
                         .gap = {1, 2},
                         .sign = {1, -1},
                         .two = two,
                         .specials = n % 3 == 0,
                         .second_gap = {1, 3}}) == "");
      }
}

TEST_CASE("views: columns side by side, in one piece and in chunks by any number of threads") {
  for (const dtype t : test::types({dtype::f16, dtype::i8}, {dtype::f32, dtype::f64}))
    for (const auto& [outputs, n] :
         {std::pair<std::int64_t, std::int64_t>{3, 150'001}, {17, 30'001}, {700, 1'025}}) {
      // Of one input, where they lie and not, and of two.
      for (const bool two : {false, true}) {
        const test::view_case c{
            .type = t, .extent = {n, outputs}, .axes = {0}, .order = {0, 1}, .two = two};
        std::vector<reduction> all;
        for (const op_id op :
             {op_id::sum, op_id::argmax, op_id::var, op_id::norm_l2, op_id::dot, op_id::cosine})
          if (info(op).inputs == (two ? 2 : 1)) all.push_back(make_reduction(op, {}, t));
        const results want = by_reference(all, c);
        for (const int threads : {1, 7, 0}) {
          INFO(name(t) << " " << outputs << " " << n << " " << threads);
          CHECK(reduced(all, c, threads) == want);
        }
      }
    }
  // In runs that are shorter than a page, as long, longer and not.
  for (const std::int64_t run : test::brief() ? std::vector{40, 1024, 1030}
                                              : std::vector{40, 700, 1024, 2048, 1500, 1030, 17}) {
    const test::view_case c{.type = run % 3 == 1 ? dtype::f16 : dtype::f32,
                            .extent = {3, 300, run},
                            .axes = {1},
                            .order = {0, 1, 2},
                            .specials = false};
    const reduction all[] = {make_reduction(op_id::sum, {}, c.type),
                             make_reduction(op_id::argmax, {}, c.type)};
    INFO(run);
    CHECK(reduced(all, c, 1) == by_reference(all, c));
    CHECK(reduced({all, 1}, c, 3) == by_reference({all, 1}, c));
  }
  // In several short runs at once, with gaps between these: of one input, and of two.
  for (const dtype t : {dtype::f16, dtype::f32, dtype::i16, dtype::u32, dtype::f64})
    for (const auto& [rows, run] :
         {std::pair<std::int64_t, std::int64_t>{40, 16}, {9, 56}, {5, 17}})
      for (const bool two : {false, true}) {
        const test::view_case c{.type = t,
                                .extent = {2, t == dtype::f32 ? 260 : 33, rows, run},
                                .axes = {1},
                                .order = {0, 1, 2, 3},
                                .gap = {1, 1, 2, 1},
                                .two = two,
                                .specials = false,
                                .second_gap = {1, 1, 3, 1}};
        INFO(c.describe());
        const auto all = test::reductions_for(t, two, false);
        const results want = by_reference(all, c);
        CHECK(reduced(all, c, 3) == want);
        for (std::size_t k = 0; k < all.size(); ++k)
          CHECK(reduced({&all[k], 1}, c, 1) == results{want[k]});
      }
  // Too few for vectors of them, of long columns, with gaps between these and without.
  for (const dtype t : {dtype::f16, dtype::f32, dtype::i8})
    for (const std::int64_t run : test::brief() ? std::vector{3, 15} : std::vector{2, 3, 8, 15, 40})
      for (const int gap : {1, 2, 700}) {
        const test::view_case c{.type = t,
                                .extent = {3, test::small_sizes() ? 1'100 : 2'500, run},
                                .axes = {1},
                                .order = {0, 1, 2},
                                .gap = {1, gap, 1},
                                .specials = false};
        INFO(c.describe());
        const reduction all[] = {make_reduction(op_id::sum, {}, t),
                                 make_reduction(op_id::argmax, {}, t),
                                 make_reduction(op_id::var, {}, t)};
        CHECK(reduced(all, c, 3) == by_reference(all, c));
        CHECK(reduced({all, 1}, c, 1) == by_reference({all, 1}, c));
      }
}

TEST_CASE(
    "views: operations that fold alike are folded once, each with the bits that it has alone") {
  const std::vector<reduction> all = {
      make_reduction(op_id::std, {}, dtype::f32, dtype::f32, dtype::f64),
      make_reduction(op_id::mean, method_id::kahan, dtype::f32),
      make_reduction(op_id::var, {}, dtype::f32),
      make_reduction(op_id::var, {}, dtype::f32, {}, {}, 1),
      make_reduction(op_id::sum, method_id::kahan, dtype::f32),
      make_reduction(op_id::count_distinct, {}, dtype::f32),
      make_reduction(op_id::sum, method_id::exact, dtype::f32)};
  const auto data = test::make_data(dtype::f32, test::kind::near_one, 3 * 40 * 700, 5);
  const view x = row_major(dtype::f32, data.data(), {3, 40, 700});
  for (const std::size_t count : {std::size_t{5}, all.size()})  // with kernels; and others
    for (const std::vector<int>& axes : {std::vector{0}, {0, 2}, {1}, {2}, {0, 1, 2}}) {
      std::vector<std::vector<std::byte>> got(count), want(count);
      std::vector<void*> to;
      for (std::size_t k = 0; k < count; ++k) {
        got[k].resize(8 * 40 * 700), want[k].resize(8 * 40 * 700);
        to.push_back(got[k].data());
        cpu::reduce(all[k], x, axes, want[k].data(), {.target = forced_target});
      }
      cpu::reduce(std::span(all).first(count), x, nullptr, axes, to, {.target = forced_target});
      CHECK(got == want);
    }
}

// Whole arrays are read in blocks, of rows of memory that are up to 512 bytes wide and half a
// megabyte in all; or as columns side by side, where rows are whole leaves.
TEST_CASE("views: outputs whose own elements lie in another order, by any number of threads") {
  const auto check = [](const test::view_case& c) {
    std::vector<reduction> all = test::reductions_for(c.type, c.two, false);
    std::erase_if(all, [](const reduction& r) {
      const op_id some[] = {op_id::sum,    op_id::argmax,         op_id::var, op_id::dot,
                            op_id::cosine, op_id::count_distinct, op_id::max};
      return std::find(std::begin(some), std::end(some), r.op()) == std::end(some);
    });
    const results want = by_reference(all, c);
    for (const int threads : {1, 3, 0}) {
      INFO(c.describe() << " " << threads);
      CHECK(reduced(all, c, threads) == want);
      CHECK(reduced(std::span(all).first(2), c, threads) == results{want[0], want[1]});
      for (std::size_t k = 0; k < all.size(); ++k)
        CHECK(reduced({&all[k], 1}, c, threads) == results{want[k]});
    }
  };
  const std::vector<dtype> types = test::types({dtype::f16, dtype::f64}, {dtype::f32, dtype::i8});
  std::vector<std::array<std::int64_t, 2>> shapes{
      {16, 256},   {17, 257},  {15, 512},    {64, 3 * 256},  {129, 1279}, {130, 1024}, {700, 255},
      {3, 40'001}, {1025, 65}, {3, 150'001}, {33, 256 * 33}, {300, 1},    {24, 5'000}};
  if (test::brief()) shapes = {{17, 257}, {64, 3 * 256}, {130, 1024}, {3, 40'001}};
  for (const dtype t : types)
    for (const auto& [rows, columns] : shapes) {
      test::view_case c{
          .type = t, .extent = {rows, columns}, .axes = {0, 1}, .order = {1, 0}, .specials = false};
      check(c);
      c.sign = {-1, 1};
      c.two = true;  // beside an array that lies in order, and beside one backwards
      c.second_order = {0, 1};
      c.second_sign = {1, columns % 2 ? -1 : 1};
      check(c);
    }
  // Rows of memory that are longer than what is read, with gaps and backwards; one element for a
  // whole axis; runs of an axis that ends within a block.
  std::vector<test::view_case> cases{
      {.type = dtype::f32, .extent = {5'001, 9}, .axes = {0, 1}, .order = {0, 1}, .gap = {1, 2}},
      {.type = dtype::f32, .extent = {9, 5'001}, .axes = {0, 1}, .order = {0, 1}, .gap = {2, 1}},
      {.type = dtype::f32, .extent = {5, 17'001}, .axes = {0, 1}, .order = {0, 1}, .gap = {2, 1}},
      {.type = dtype::f16, .extent = {3, 2, 16'640}, .axes = {0, 2}, .order = {0, 1, 2}},
      {.type = dtype::f32, .extent = {3, 9'001}, .axes = {0, 1}, .order = {0, 1}, .sign = {1, -1}},
      {.type = dtype::f16, .extent = {9, 4'097}, .axes = {0, 1}, .order = {1, 0}, .gap = {2, 1}},
      {.type = dtype::f64, .extent = {40, 999}, .axes = {0, 1}, .order = {1, 0}, .sign = {0, 1}},
      {.type = dtype::f64, .extent = {40, 999}, .axes = {0, 1}, .order = {1, 0}, .sign = {1, 0}},
      {.type = dtype::f32, .extent = {7, 20, 300}, .axes = {0, 1, 2}, .order = {0, 2, 1}},
      {.type = dtype::f32, .extent = {7, 20, 256}, .axes = {0, 1, 2}, .order = {0, 2, 1}},
      {.type = dtype::f16, .extent = {5, 3, 2'500}, .axes = {0, 1, 2}, .order = {0, 2, 1}},
      {.type = dtype::f32, .extent = {33, 20, 31}, .axes = {0, 1, 2}, .order = {2, 1, 0}},
      {.type = dtype::f32, .extent = {9, 1, 20, 31}, .axes = {0, 1, 2, 3}, .order = {2, 0, 3, 1}},
      {.type = dtype::f32, .extent = {3, 40, 300}, .axes = {1, 2}, .order = {0, 2, 1}},
      {.type = dtype::bf16, .extent = {3, 40, 512}, .axes = {1, 2}, .order = {0, 2, 1}},
      {.type = dtype::f32, .extent = {2, 40, 2, 300}, .axes = {1, 3}, .order = {2, 0, 3, 1}},
      {.type = dtype::f32, .extent = {2, 5, 9'000}, .axes = {1, 2}, .order = {1, 0, 2}},
      // Runs of some leaves, whole ones and not, with whole leaves left at the end and not.
      {.type = dtype::f32, .extent = {20, 2, 3'136}, .axes = {0, 2}, .order = {0, 1, 2}},
      {.type = dtype::f16, .extent = {70, 2, 1'025}, .axes = {0, 2}, .order = {0, 1, 2}},
      {.type = dtype::i8, .extent = {17, 2, 1'279}, .axes = {0, 2}, .order = {0, 1, 2}},
      {.type = dtype::i32, .extent = {64, 2, 1'024}, .axes = {0, 2}, .order = {0, 1, 2}},
      {.type = dtype::f64, .extent = {90, 2, 1'280}, .axes = {0, 2}, .order = {0, 1, 2}}};
  for (test::view_case c : cases) {
    c.specials = false;  // a NaN would hide all others
    check(c);
    if (test::brief()) continue;
    c.two = true;
    check(c);
    c.second_order.assign(c.extent.size(), 0);  // beside one that lies in order
    std::iota(c.second_order.begin(), c.second_order.end(), 0);
    check(c);
  }
}

TEST_CASE("views: an output does not see a batch of 2^20") {
  const std::int64_t rows = std::int64_t{1} << 20, n = 19;
  std::vector<float> data(static_cast<std::size_t>(rows * n));
  std::uint32_t s = 1;
  for (float& x : data)
    x = static_cast<float>(static_cast<std::int32_t>(s = s * 1664525u + 1013904223u)) * 0x1p-20f;
  const view x = row_major(dtype::f32, data.data(), {rows, n});
  for (const op_id op : {op_id::sum, op_id::var, op_id::argmax, op_id::logsumexp}) {
    const auto r = make_reduction(op, {}, dtype::f32);
    const std::size_t size = size_of(r.out());
    std::vector<std::byte> all(static_cast<std::size_t>(rows) * size);
    cpu::reduce(r, x, {1}, all.data(), {.target = forced_target});
    int differ = 0;
    for (std::int64_t row = 0; row < rows; row += row < 100 || row > rows - 100 ? 1 : 997) {
      const scalar alone = cpu::reduce(r, &data[static_cast<std::size_t>(row * n)],
                                       static_cast<std::size_t>(n), {.target = forced_target});
      differ += alone != load_scalar(r.out(), &all[static_cast<std::size_t>(row) * size]);
    }
    CAPTURE(name(op));
    CHECK(differ == 0);
  }
}

TEST_CASE("views: an output does not see the batch") {
  for (const dtype t : test::types({dtype::bf16}, {dtype::f32, dtype::i16})) {
    const std::int64_t rows = 50, n = 1234;
    const test::view_case whole{.type = t, .extent = {rows, n}, .axes = {1}, .order = {0, 1}},
        halves{.type = t,
               .extent = {rows, 2, n / 2},
               .axes = {1, 2},
               .order = {0, 1, 2}};  // the same elements
    for (const reduction& r : test::reductions_of_all_ops(t)) {
      if (info(r.op()).inputs == 2) continue;
      const std::size_t size = size_of(r.out());
      const results all = reduced({&r, 1}, whole, 0);
      const auto is_row = [&](const void* got, std::int64_t row) {
        return std::memcmp(got, all[0].data() + static_cast<std::size_t>(row) * size, size) == 0;
      };
      const auto once = [&](const view& x, std::int64_t row, const char* what) {
        std::byte got[8];
        std::vector<int> axes(static_cast<std::size_t>(x.rank) - 1);
        std::iota(axes.begin(), axes.end(), 1);
        void* const to = got;
        cpu::reduce({&r, 1}, x, nullptr, axes, {&to, 1}, {.target = forced_target});
        INFO(what << " " << test::describe(r, static_cast<std::size_t>(n)));
        if (!is_row(got, row)) CHECK(is_row(got, row));
      };
      const view x = whole.x();
      // One by one, and transposed, padded, permuted, backwards: the same elements elsewhere.
      const std::vector<std::byte> columns = whole.laid_out({1, 0}, 1),
                                   padded = whole.laid_out({0, 1}, 3),
                                   pieces = halves.laid_out({2, 0, 1}, 1);
      const view y = permuted(row_major(t, columns.data(), {n, rows}), std::array{1, 0});
      view z = row_major(t, padded.data(), {rows, n});
      z.stride = {3 * n * 3, 3};
      const view w = permuted(row_major(t, pieces.data(), {n / 2, rows, 2}), std::array{1, 2, 0});
      for (std::int64_t row = 0; row < rows; ++row) {
        once(sliced(x, 0, row, 1), row, "a slice");
        once(sliced(y, 0, row, 1), row, "transposed");
        once(sliced(z, 0, row, 1), row, "padded");
        once(sliced(w, 0, row, 1), row, "permuted");
      }
      std::vector<std::byte> several(static_cast<std::size_t>(rows) * size);
      cpu::reduce(r, sliced(x, 0, 3, 9, 5), {1}, several.data(), {.target = forced_target});
      for (std::int64_t k = 0; k < 9; ++k)
        CHECK(is_row(&several[static_cast<std::size_t>(k) * size], 3 + 5 * k));
      cpu::reduce(r, w, {1, 2}, several.data(), {.target = forced_target});
      for (std::int64_t row = 0; row < rows; ++row)
        CHECK(is_row(&several[static_cast<std::size_t>(row) * size], row));
      cpu::reduce(r, sliced(x, 0, rows - 1, rows, -1), {1}, several.data(),
                  {.target = forced_target});
      for (std::int64_t row = 0; row < rows; ++row)
        CHECK(is_row(&several[static_cast<std::size_t>(rows - 1 - row) * size], row));
      cpu::reduce(r, y, {1}, several.data(), {.target = forced_target});
      for (std::int64_t row = 0; row < rows; ++row)
        CHECK(is_row(&several[static_cast<std::size_t>(row) * size], row));

      // As segments, and by keys that are strewn about.
      std::vector<std::int64_t> offsets(static_cast<std::size_t>(rows) + 1),
          keys(static_cast<std::size_t>(rows * n));
      for (std::size_t k = 0; k < offsets.size(); ++k)
        offsets[k] = static_cast<std::int64_t>(k) * n;
      void* out = several.data();
      cpu::reduce_segments({&r, 1}, x.data, nullptr, keys.size(), offsets, {&out, 1},
                           {.target = forced_target});
      CHECK(std::memcmp(out, all[0].data(), several.size()) == 0);
      for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::int64_t>(i) % rows;
      cpu::reduce_by_key({&r, 1}, columns.data(), nullptr, keys, static_cast<std::size_t>(rows),
                         {&out, 1}, {.target = forced_target});
      CHECK(std::memcmp(out, all[0].data(), several.size()) == 0);
    }
  }
}

TEST_CASE("segments and keys: as long as their neighbours, every operation") {
  test::lists_case c;
  for (const std::int64_t length : {1, 8, 31, 33, 64, 255, 511, 600})
    for (const std::size_t count : {3, 4, 9, 70})
      if (length < 255 || count < 70) c.lengths.insert(c.lengths.end(), count, length);
  for (const dtype t : test::types({dtype::f32, dtype::f16, dtype::u8}, {dtype::i32, dtype::f64}))
    for (const bool two : {false, true}) {
      c.type = t, c.two = two;
      CHECK(differing(c) == "");
    }
}

TEST_CASE("segments and keys: of any length, every operation") {
  test::random_bits next{5};
  for (int round = 0; round < (test::brief() ? 40 : 200); ++round)
    test::check_case(test::random_lists(next),
                     [](const test::lists_case& c) { return differing(c); });
  SUCCEED();
}

TEST_CASE("views: windows are what a loop finds") {
  const std::int64_t h = 9, w = 11;
  std::vector<float> image(static_cast<std::size_t>(h * w));
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<float>(i * 37 % 101) - 50.5f;
  const view x = row_major(dtype::f32, image.data(), {h, w});
  const view pooled = windows(x, std::array{window{0, 3, 2}, window{1, 2, 3, 4}});
  CHECK(result_extents(pooled, nullptr, std::array{2, 3}) == std::vector<std::int64_t>{4, 3});
  std::vector<float> got(12);
  cpu::reduce(make_reduction(op_id::max, {}, dtype::f32), pooled, {2, 3}, got.data());
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 3; ++j) {
      float want = -1000;
      for (std::int64_t a = 0; a < 3; ++a)
        for (std::int64_t b = 0; b < 2; ++b)
          want = std::max(want, image[static_cast<std::size_t>((2 * i + a) * w + 3 * j + 4 * b)]);
      CHECK(got[static_cast<std::size_t>(3 * i + j)] == want);
    }
}

TEST_CASE("windows: any shape, padding and layout, every operation") {
  test::random_bits next{31};
  int in_several_boxes = 0, empty = 0;
  for (int round = 0; round < (test::brief() ? 60 : 250); ++round) {
    const test::windows_case c = test::random_windows(next);
    in_several_boxes += detail::boxes_of(c.of.x(), c.windows).boxes.size() > 1;
    empty += test::some_are_empty(c.elements());
    test::check_case(c, [](const test::windows_case& s) { return differing(s); });
  }
  CHECK(in_several_boxes > 20);
  CHECK(empty > 0);
}

namespace {
struct this_machine {
  std::vector<float> elements = std::vector<float>(24, 1);
  std::vector<std::byte> room = std::vector<std::byte>(1000, std::byte{7});
  const float* data = elements.data();
  void* out = room.data();

  bool untouched() const { return room == std::vector<std::byte>(1000, std::byte{7}); }
  void reduce(const reduction& r, const view& x, const view* y, const std::vector<int>& axes,
              void* to) const {
    cpu::reduce({&r, 1}, x, y, axes, {&to, 1});
  }
  void windows(const reduction& r, const view& x, const std::vector<window>& of) const {
    cpu::reduce_windows({&r, 1}, x, of, {&out, 1});
  }
  void segments(const reduction& r, std::size_t n, const std::vector<std::int64_t>& offsets) const {
    cpu::reduce_segments({&r, 1}, data, nullptr, n, offsets, {&out, 1});
  }
  void by_key(const reduction& r, const std::vector<std::int64_t>& keys,
              std::size_t outputs) const {
    cpu::reduce_by_key({&r, 1}, data, nullptr, keys, outputs, {&out, 1});
  }
};
}  // namespace

TEST_CASE("views: what cannot be done is named, and nothing is written") {
  const this_machine by;
  test::check_refusals(by);
  const view x = row_major(dtype::f32, by.data, {2, 3, 4});
  const reduction sum = make_reduction(op_id::sum, method_id::tree, dtype::f32),
                  max = make_reduction(op_id::max, {}, dtype::f32);
  const auto refused = [&](const std::string& start, auto call) {
    test::check_refused(start, call, [&] { return by.untouched(); });
  };
  refused("order: 2 axes of 3", [&] { (void)permuted(x, std::array{0, 1}); });
  refused("begin: elements from 1", [&] { (void)sliced(x, 2, 1, 3, 2); });
  refused("count: -1", [&] { (void)sliced(x, 2, 1, -1); });
  refused("window.size: 0", [&] { (void)windows(x, std::array{window{0, 0}}); });
  refused("window.size: a window of 3", [&] { (void)windows(x, std::array{window{0, 3}}); });
  refused("axis: 0 is given twice",
          [&] { (void)windows(x, std::array{window{0, 1}, window{0, 2}}); });
  refused("window.padding: 1, and no view",
          [&] { (void)windows(x, std::array{window{.axis = 0, .size = 2, .padding = 1}}); });
  refused("offsets: none", [&] { by.segments(sum, 24, {}); });
  refused("output 1: no elements, and max", [&] { by.segments(max, 24, {0, 4, 4, 5}); });
  refused("output 1: no elements, and max", [&] { by.by_key(max, {0, 2}, 3); });
  refused("outputs: more than 2^59", [&] { by.by_key(sum, {}, SIZE_MAX); });

  // What reaches no element is nothing wrong.
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  refused("window.size: a window of 4611686018427387904",
          [&] { by.windows(sum, x, {window{.axis = 0, .size = huge}}); });
  // Of five windows the first has its second element there, the last its first one.
  std::vector<float> sums(60, -1);
  const window far{
      .axis = 0, .size = 2, .stride = std::int64_t{1} << 60, .dilation = huge, .padding = huge};
  void* into = sums.data();
  cpu::reduce_windows({&sum, 1}, x, {&far, 1}, {&into, 1});
  for (std::size_t k = 0; k < 60; ++k) CHECK(sums[k] == (k < 12 || k >= 48 ? 1 : 0));
  const window beside{
      .axis = 1, .size = 3, .stride = std::int64_t{1} << 61, .dilation = 1, .padding = 1};
  cpu::reduce_windows({&max, 1}, row_major(dtype::f32, by.data, {0, 5}), {&beside, 1}, {&into, 1});
  // Many windows that are cut off in few ways.
  const window dilated{.axis = 0, .size = 2, .dilation = 70'000, .padding = 70'000};
  sums.assign(70'002, -1);
  into = sums.data();
  cpu::reduce_windows({&sum, 1}, row_major(dtype::f32, by.data, {2}), {&dilated, 1}, {&into, 1});
  for (std::size_t k = 0; k < sums.size(); ++k)
    if (sums[k] != (k < 2 || k >= 70'000 ? 1 : 0)) FAIL_CHECK("window " << k << ": " << sums[k]);
  cpu::reduce(sum, row_major(dtype::f32, nullptr, {0, 5}), {1}, nullptr);
  std::vector<float> zeros(5, 1);
  cpu::reduce(sum, row_major(dtype::f32, nullptr, {0, 5}), {0}, zeros.data());
  CHECK(zeros == std::vector<float>(5, 0));
}
