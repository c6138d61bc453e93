// Exact sums by kernels on demand, on an emulated GPU or a real one: with the CPU's bits.
#include "gpu_exact.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// One block, several, as many as the GPU runs; few threads, which spill often; odd lengths, and
// elements at an odd address.
struct way {
  std::size_t n, first;
  cuda::launch shape;
};
const std::vector<way> ways{
    {1, 0, {}},
    {37, 1, {}},
    {1000, 0, {}},
    {5001, 0, {.threads = 32, .blocks = 1}},
    {5001, 1, {.threads = 64, .blocks = 3}},
    {12000, 0, {.threads = 128, .overlap = false}},
    {12000, 2, {}},
};
constexpr std::size_t most_elements = 12016;

void compare(const std::vector<reduction>& all, std::size_t every = 9,
             const std::vector<way>& by = ways) {
  if (all.empty()) return;
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  for (const array& a : arrays_of(t, most_elements, every)) {
    const test::device_memory x(a.x), y(a.y);
    for (const way& w : by) {
      INFO(a.name << " n=" << w.n << " first=" << w.first << " " << name(t));
      const std::byte* const p = x.as<std::byte>() + w.first * size_of(t);
      const std::byte* const q = two ? y.as<std::byte>() + w.first * size_of(t) : nullptr;
      const gpu::plan plan = plan_of({all, w.n, w.first * size_of(t) % 16 == 0}, w.shape);
      room r(all, 1, plan.workspace);
      gpu::run(plan, r.addresses(p, q), nullptr);
      check_same(all, r.results(),
                 [&](const reduction& one) { return std::vector{cpu::reduce(one, p, q, w.n)}; });
    }
  }
}

}  // namespace

TEST_CASE("exact sums on demand have the CPU's bits: whole arrays") {
  compare({exact_of(op_id::sum, dtype::f32)});
  compare({exact_of(op_id::sum, dtype::f64), exact_of(op_id::mean, dtype::f64)});
  compare({exact_of(op_id::mean, dtype::f16, dtype::f64)});
  compare({exact_of(op_id::dot, dtype::bf16)});
  compare({exact_of(op_id::mse, dtype::f32), exact_of(op_id::mae, dtype::f32)});
  compare({exact_of(op_id::sum, dtype::i16), exact_of(op_id::std, dtype::i16, dtype::f32, 1)});
  compare({exact_of(op_id::dot, dtype::i8)});
}

// Some minutes.
TEST_CASE("exact sums on demand have the CPU's bits: every operation, of all types", "[.all]") {
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2}) {
      for (const reduction& r : exact_reductions(t, inputs)) compare({r}, 4);
      compare(exact_reductions(t, inputs), 4);
    }
}

TEST_CASE("exact sums on demand: var beside what needs fewer terms, and all outputs") {
  compare({exact_of(op_id::var, dtype::f32), exact_of(op_id::sum, dtype::f32, dtype::f64),
           exact_of(op_id::norm_l2, dtype::f32, dtype::f16)},
          20);
  compare({exact_of(op_id::nanmean, dtype::bf16), exact_of(op_id::norm_l1, dtype::bf16),
           exact_of(op_id::nansum, dtype::bf16, dtype::f32)},
          20);
  compare({exact_of(op_id::nanmean, dtype::f32, dtype::f64)}, 5);
}

// ---- In parts -----------------------------------------------------------------------------------

namespace {

void compare_parts(const std::vector<reduction>& all) {
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  const std::size_t n = 20000, part = 4096, ahead = 512;
  for (const array& a : arrays_of(t, n, 13)) {
    INFO(a.name << " " << name(t));
    const test::device_memory x(a.x), y(a.y);
    gpu::problem p{all, n, true};
    p.part = part;
    p.workspace = ahead;
    p.first = n - n % part, p.count = n % part;
    room r(all, 1, plan_of(p).workspace);
    std::size_t plans = 0;
    for (std::size_t first = 0; first < n; first += part, ++plans) {
      p.first = first;
      p.count = std::min(part, n - first);
      const gpu::plan plan = plan_of(p);
      const std::size_t at = first * size_of(t);
      gpu::run(plan, r.addresses(x.as<std::byte>() + at, two ? y.as<std::byte>() + at : nullptr),
               nullptr);
    }
    CHECK(plans == 5);
    check_same(all, r.results(), [&](const reduction& one) {
      return std::vector{cpu::reduce(one, x.p, two ? y.p : nullptr, n)};
    });
  }
}

}  // namespace

TEST_CASE("exact sums on demand: arrays that come in parts") {
  compare_parts({exact_of(op_id::sum, dtype::f32), exact_of(op_id::std, dtype::f32)});
  compare_parts({exact_of(op_id::mse, dtype::f64), exact_of(op_id::dot, dtype::f64)});
  compare_parts({exact_of(op_id::sum, dtype::u64)});
  const reduction sum = exact_of(op_id::sum, dtype::f32);
  gpu::problem p{{&sum, 1}, 1 << 20, true};
  p.part = p.count = 100;
  CHECK_THROWS_AS(plan_of(p), error);  // more than 2^13
}

// ---- Several arrays -----------------------------------------------------------------------------

namespace {

gpu::plan plan_of_pieces(const reduction& r, std::span<const cuda::piece> pieces) {
  gpu::plan made;
  gpu::add_exact_pieces(made, {{&r, 1}, 0, true}, pieces, this_gpu());
  return made;
}

// Of many sizes, empty and unaligned ones among them, and in another order.
void compare_pieces(const reduction& r, std::size_t pieces, std::size_t longest) {
  const dtype t = r.in();
  test::random_bits next{24};
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < pieces; ++i)
    sizes.push_back(i % 9 == 3 ? 0 : i % 100 == 1 ? longest + next() % 1000 : 1 + next() % 60);
  const std::size_t n = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  for (const array& a : arrays_of(t, n, 17)) {
    INFO(a.name << " of " << pieces);
    const test::device_memory x(a.x);
    std::vector<cuda::piece> list;
    std::size_t first = 0;
    for (const std::size_t size : sizes) {
      list.push_back({x.as<std::byte>() + first * size_of(t), size});
      first += size;
    }
    std::swap(list.front(), list.back());
    const gpu::plan plan = plan_of_pieces(r, list);
    room to({&r, 1}, 1, plan.workspace);
    gpu::run(plan, to.addresses(nullptr), nullptr);
    check_same({&r, 1}, to.results(), [&](const reduction& one) {
      return std::vector{cpu::reduce(one, x.p, nullptr, n)};
    });
  }
}

}  // namespace

TEST_CASE("exact sums on demand: several arrays as one") {
  const reduction sum = exact_of(op_id::sum, dtype::f32);
  compare_pieces(sum, 1, 100);
  compare_pieces(sum, 7, 70001);
  compare_pieces(sum, 400, 3000);
  compare_pieces(exact_of(op_id::var, dtype::f64), 30, 2000);
  compare_pieces(exact_of(op_id::nanmean, dtype::f16), 170, 2000);
  const cuda::piece none[] = {{nullptr, 0}};
  CHECK_THROWS_AS(plan_of_pieces(sum, none), error);
  const float x = 1;
  const cuda::piece one[] = {{&x, 1}};
  CHECK_THROWS_AS(plan_of_pieces(make_reduction(op_id::sum, method_id::tree, dtype::f32), one),
                  error);
  CHECK_THROWS_AS(plan_of_pieces(exact_of(op_id::dot, dtype::f32), one), error);
  CHECK_THROWS_AS(plan_of_pieces(exact_of(op_id::sum, dtype::i32), one), error);
}
TEST_CASE("exact sums on demand: several arrays as one, of all operations and types", "[.all]") {
  for (const dtype t : floats)
    for (const reduction& r : exact_reductions(t, 1)) compare_pieces(r, 170, 5000);
}

// ---- Many outputs -------------------------------------------------------------------------------

namespace {

void compare_layouts(const std::vector<reduction>& all,
                     const std::vector<layout_case>& cases = layouts,
                     std::vector<array> arrays = {}) {
  if (all.empty()) return;
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  if (arrays.empty()) arrays = arrays_of(t, 62000, 15);
  for (const array& a : arrays) {
    const test::device_memory first(a.x), second(a.y);
    for (const layout_case& c : cases) {
      INFO(a.name << " " << c.extents[0] << " x " << c.extents[1] << ", " << name(t));
      const view v = view_of(c, t, first.as<std::byte>()),
                 w = view_of(c, t, second.as<std::byte>());
      const detail::layout l = detail::layout_of(v, two ? &w : nullptr, c.axes);
      const cuda::output_elements from = cuda::elements_of(l);
      const gpu::plan plan = plan_of({all, l.n, true, &from}, c.shape);
      if (t == dtype::f32)
        CHECK(gpu::name(passes_of(plan)[0].what) == c.by);  // of others the sizes are others
      room r(all, l.outputs, plan.workspace);
      gpu::run(plan, r.addresses(l.x, l.y), nullptr);
      check_same(all, r.results(), [&](const reduction& one) {
        std::vector<std::uint8_t> bytes(8 * l.outputs + 8);
        void* const to = bytes.data();
        cpu::reduce({&one, 1}, v, two ? &w : nullptr, c.axes, {&to, 1});
        std::vector<scalar> right;
        for (std::size_t o = 0; o < l.outputs; ++o)
          right.push_back(load_scalar(one.out(), bytes.data() + o * size_of(one.out())));
        return right;
      });
    }
  }
}

void compare_segments(const std::vector<reduction>& all) {
  if (all.empty()) return;
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  std::vector<std::int64_t> offsets{3};
  for (const std::int64_t n : {5, 0, 33, 256, 1000, 31, 5000, 1, 4096, 20000, 0, 32, 16385})
    offsets.push_back(offsets.back() + n);
  const auto n = static_cast<std::size_t>(offsets.back()) + 40;
  const std::size_t segments = offsets.size() - 1;
  for (const array& a : arrays_of(t, n, 15)) {
    INFO(a.name << " " << name(t));
    const test::device_memory x(a.x), y(a.y), list(offsets);
    const cuda::output_elements from = cuda::elements_of_lists(t, two, n, segments);
    const gpu::plan plan = plan_of({all, n, true, &from});
    room r(all, segments, plan.workspace);
    gpu::run(plan, r.addresses(x.p, y.p, list.p), nullptr);
    check_same(all, r.results(), [&](const reduction& one) {
      std::vector<scalar> right;
      for (std::size_t s = 0; s < segments; ++s) {
        const auto first = static_cast<std::size_t>(offsets[s]) * size_of(t);
        right.push_back(cpu::reduce(one, x.as<std::byte>() + first,
                                    two ? y.as<std::byte>() + first : nullptr,
                                    static_cast<std::size_t>(offsets[s + 1] - offsets[s])));
      }
      return right;
    });
  }
}

}  // namespace

TEST_CASE("exact sums on demand: many outputs and segments") {
  compare_layouts({exact_of(op_id::sum, dtype::f32)});
  compare_segments({exact_of(op_id::sum, dtype::f32), exact_of(op_id::mean, dtype::f32)});
  compare_layouts({exact_of(op_id::var, dtype::f64)},
                  {layouts[1], layouts[3], layouts[7], layouts[10], layouts[12], layouts[13]});
  compare_layouts(
      {exact_of(op_id::dot, dtype::f16)},
      {layouts[0], layouts[2], layouts[5], layouts[6], layouts[11], layouts[13], layouts[15]});
  compare_segments({exact_of(op_id::nanmean, dtype::bf16)});
  compare_layouts({exact_of(op_id::sum, dtype::i8), exact_of(op_id::mean, dtype::i8)},
                  {layouts[1], layouts[5], layouts[8], layouts[9], layouts[12], layouts[13]});
  compare_segments({exact_of(op_id::mae, dtype::u32)});
}
TEST_CASE("exact sums on demand: rows of -0, with one +0 that is another thread's in each") {
  std::vector<float> x(7 * 128, -0.0f);
  for (std::size_t row = 1; row < 7; ++row) x[128 * row + 20 * (row - 1)] = 0;
  const auto bytes = std::as_bytes(std::span(x));
  compare_layouts({exact_of(op_id::sum, dtype::f32)}, {layouts[2]},
                  {{"zeros", {bytes.begin(), bytes.end()}, {}}});
}
// Some minutes.
TEST_CASE("exact sums on demand: many outputs and segments, of all types", "[.all]") {
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2}) {
      for (const reduction& r : exact_reductions(t, inputs)) {
        compare_layouts({r});
        compare_segments({r});
      }
      compare_layouts(exact_reductions(t, inputs));
      compare_segments(exact_reductions(t, inputs));
    }
}
