// Exact sums by kernels on demand, on an emulated GPU or a real one: with the CPU's bits.
#include <algorithm>
#include <atomic>
#include <bitfold/cpu.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <thread>

#include "catch.hpp"
#include "device_memory.hpp"
#include "exact_data.hpp"

#include "gpu/exact.hpp"
#include "gpu/exact_kernels.hpp"
#include "gpu/launcher.hpp"
#include "gpu/output_plan.hpp"

using namespace bitfold;

namespace {

constexpr dtype floats[] = {dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

const gpu::device_facts& this_gpu() { return gpu::facts_of_device(gpu::current_device().device); }

// Every operation by method exact of elements t, to its default output; of integers to f64 as well.
std::vector<reduction> exact_reductions(dtype t, int inputs) {
  std::vector<reduction> all;
  for (const op_info& op : all_op_infos) {
    if (!op.has_exact || op.inputs != inputs) continue;
    all.push_back(make_reduction(op.id, method_id::exact, t));
    if (!is_float(all.back().out()))
      all.push_back(make_reduction(op.id, method_id::exact, t, {}, dtype::f64));
  }
  return all;
}
reduction exact_of(op_id op, dtype t, std::optional<dtype> out = {}, int ddof = 0) {
  return make_reduction(op, method_id::exact, t, {}, out, ddof);
}

std::vector<std::size_t> all_of(std::span<const reduction> reductions) {
  std::vector<std::size_t> all(reductions.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}
gpu::plan plan_of(const gpu::problem& p, const cuda::launch& shape = {},
                  const gpu::device_facts& on = this_gpu()) {
  gpu::plan made;
  gpu::add_exact(made, p, all_of(p.reductions), on, shape);
  return made;
}
std::vector<gpu::pass> passes_of(const gpu::plan& p) {
  std::vector<gpu::pass> passes;
  for (const gpu::step& s : p.steps)
    if (const auto* one = std::get_if<gpu::pass>(&s)) passes.push_back(*one);
  return passes;
}

// Room for results, and a workspace, behind which nothing is to be written.
class room {
 public:
  room(std::span<const reduction> all, std::size_t outputs, std::size_t workspace)
      : all_(all),
        outputs_(outputs),
        each_((8 * outputs + 8 + 15) / 16 * 16),
        bytes_(workspace),
        results_(std::vector<std::uint8_t>(all.size() * each_, 0xab)),
        workspace_(std::vector<std::uint8_t>(workspace + 16, 0xcd)) {
    for (std::size_t k = 0; k < all.size(); ++k)
      out_.push_back(results_.as<std::byte>() + k * each_);
  }
  gpu::addresses addresses(const void* x, const void* y = nullptr, const void* list = nullptr) {
    return {x, y, list, workspace_.p, out_.data()};
  }
  std::vector<std::vector<scalar>> results() const {
    test::wait_for();
    std::vector<std::vector<scalar>> got;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const dtype t = all_[k].out();
      const auto* const begin = static_cast<const std::uint8_t*>(out_[k]);
      auto& of_one = got.emplace_back();
      for (std::size_t o = 0; o < outputs_; ++o)
        of_one.push_back(load_scalar(t, begin + o * size_of(t)));
      REQUIRE(std::all_of(begin + outputs_ * size_of(t), begin + each_,
                          [](std::uint8_t b) { return b == 0xab; }));
    }
    const auto* const end = workspace_.as<std::uint8_t>() + bytes_;
    REQUIRE(std::all_of(end, end + 16, [](std::uint8_t b) { return b == 0xcd; }));
    return got;
  }

 private:
  std::span<const reduction> all_;
  std::size_t outputs_, each_, bytes_;
  test::device_memory results_, workspace_;
  std::vector<void*> out_;
};

void check_same(std::span<const reduction> all, const std::vector<std::vector<scalar>>& got,
                const std::function<std::vector<scalar>(const reduction&)>& right) {
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto wanted = right(all[k]);
    REQUIRE(got[k].size() == wanted.size());
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      if (to_hex(got[k][o]) == to_hex(wanted[o])) continue;
      INFO(test::describe(all[k], 0) << " output " << o);
      CHECK(to_hex(got[k][o]) == to_hex(wanted[o]));
    }
  }
}

// Arrays that are hard on exact sums, as bytes: those of two inputs are different ones.
struct array {
  std::string name;
  std::vector<std::byte> x, y;
};
std::vector<array> arrays_of(dtype t, std::size_t n, std::size_t every) {
  std::vector<array> all;
  visit(t, [&]<class T>(std::type_identity<T>) {
    const auto bytes = [](const std::vector<T>& v) {
      const auto* p = reinterpret_cast<const std::byte*>(v.data());
      return std::vector<std::byte>(p, p + v.size() * sizeof(T));
    };
    const auto xs = test::hard_arrays<T>(n, 3), ys = test::hard_arrays<T>(n, 4);
    for (std::size_t k = 0; k < xs.size(); k += every)
      all.push_back({xs[k].name, bytes(xs[k].values), bytes(ys[(k * 7 + 1) % ys.size()].values)});
  });
  for (const test::kind k : {test::kind::special, test::kind::any_bits})
    all.push_back({test::name(k), test::make_data(t, k, n, 1), test::make_data(t, k, n, 2)});
  return all;
}

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
      const gpu::plan plan =
          plan_of({all, w.n, w.first * size_of(t) % 16 == 0}, w.shape);
      room r(all, 1, plan.workspace);
      gpu::run(plan, r.addresses(p, q), nullptr);
      check_same(all, r.results(), [&](const reduction& one) {
        return std::vector{cpu::reduce(one, p, q, w.n)};
      });
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
      gpu::run(plan,
               r.addresses(x.as<std::byte>() + at, two ? y.as<std::byte>() + at : nullptr),
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

struct layout_case {
  std::vector<std::int64_t> extents, strides;
  std::vector<int> axes;
  const char* by;
  std::int64_t first = 0;  ///< element of the array
  cuda::launch shape{};
};
view view_of(const layout_case& c, dtype t, const std::byte* data) {
  view v{t, data + c.first * static_cast<std::int64_t>(size_of(t)),
         static_cast<int>(c.extents.size())};
  std::copy(c.extents.begin(), c.extents.end(), v.extent.begin());
  std::copy(c.strides.begin(), c.strides.end(), v.stride.begin());
  return v;
}

const std::vector<layout_case> layouts{
    {{50, 3}, {3, 1}, {1}, "exact_outputs"},
    {{50, 16}, {16, 1}, {1}, "exact_outputs"},
    {{7, 128}, {128, 1}, {1}, "exact_outputs"},
    {{9, 700}, {704, 1}, {1}, "exact_outputs"},
    {{3, 700}, {701, 1}, {1}, "exact_outputs", 1},
    {{6, 11, 13}, {143, 13, 1}, {0, 2}, "exact_outputs"},
    {{4, 6, 160}, {960, 160, 1}, {0, 2}, "exact_outputs"},
    {{20, 3, 128}, {384, 128, 1}, {0, 2}, "exact_chunks"},
    {{2, 17000}, {17008, 1}, {1}, "exact_chunks"},
    {{500, 7}, {7, 1}, {0}, "exact_outputs"},
    {{1500, 40}, {40, 1}, {0}, "exact_columns"},
    {{900, 33}, {48, 1}, {0}, "exact_columns", 1, {.threads = 64, .blocks = 3}},
    {{3, 0}, {1, 1}, {1}, "exact_outputs"},
};

void compare_layouts(const std::vector<reduction>& all,
                     const std::vector<layout_case>& cases = layouts) {
  if (all.empty()) return;
  const dtype t = all[0].in();
  const bool two = info(all[0].op()).inputs == 2;
  for (const array& a : arrays_of(t, 62000, 15)) {
    const test::device_memory first(a.x), second(a.y);
    for (const layout_case& c : cases) {
      INFO(a.name << " " << c.extents[0] << " x " << c.extents[1] << ", " << name(t));
      const view v = view_of(c, t, first.as<std::byte>()), w = view_of(c, t, second.as<std::byte>());
      const detail::layout l = detail::layout_of(v, two ? &w : nullptr, c.axes);
      const cuda::output_elements from = cuda::elements_of(l);
      const gpu::plan plan = plan_of({all, l.n, true, &from}, c.shape);
      if (size_of(t) == 4)
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
                  {layouts[1], layouts[3], layouts[7], layouts[10], layouts[12]});
  compare_layouts({exact_of(op_id::dot, dtype::f16)},
                  {layouts[0], layouts[2], layouts[5], layouts[6], layouts[11]});
  compare_segments({exact_of(op_id::nanmean, dtype::bf16)});
  compare_layouts({exact_of(op_id::sum, dtype::i8), exact_of(op_id::mean, dtype::i8)},
                  {layouts[1], layouts[5], layouts[8], layouts[9], layouts[12]});
  compare_segments({exact_of(op_id::mae, dtype::u32)});
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

// ---- Which kernels, and how many blocks: arithmetic, and the real compiler, which needs no GPU ----

namespace {

/// An H100.
const gpu::device_facts h100{"", 9, 0, 227 << 10, 228 << 10, 132};

// All sets of terms of so many inputs.
std::vector<std::vector<exact::term>> sets_of_terms(int inputs) {
  std::vector<std::vector<exact::term>> sets;
  for (unsigned set = 1; set < 256; ++set) {
    std::vector<exact::term> terms;
    bool all = true;
    for (int k = 0; k < 8; ++k)
      if (set >> k & 1) {
        terms.push_back(static_cast<exact::term>(k));
        all = all && exact::inputs(terms.back()) == inputs;
      }
    if (all) sets.push_back(terms);
  }
  return sets;
}

// Registers of a thread, as machine code has them: of the kernel, the most.
int registers_of(const std::string& image) {
  const auto at = [&]<class N>(N, std::size_t offset) {
    N n;
    std::memcpy(&n, image.data() + offset, sizeof n);
    return n;
  };
  const auto u16 = [&](std::size_t o) { return at(std::uint16_t{}, o); };
  const auto u32 = [&](std::size_t o) { return at(std::uint32_t{}, o); };
  const auto u64 = [&](std::size_t o) { return at(std::uint64_t{}, o); };
  const auto section = [&](unsigned k) { return u64(0x28) + 64 * k; };
  const std::size_t names = u64(section(u16(0x3e)) + 24);
  std::uint32_t most = 0;
  for (unsigned k = 0; k < u16(0x3c); ++k) {
    if (std::string_view(image.data() + names + u32(section(k))) != ".nv.info") continue;
    const std::size_t begin = u64(section(k) + 24), end = begin + u64(section(k) + 32);
    for (std::size_t p = begin; p < end;) {
      const bool has_value = image[p] == 4, is_count = image[p + 1] == 0x2f;  // EIATTR_REGCOUNT
      if (has_value && is_count) most = std::max(most, u32(p + 8));
      p += has_value ? 4 + u16(p + 2) : 4;
    }
  }
  return static_cast<int>(most);
}

// Compiles them by two threads; gives what each is made to by then(kernel, its machine code).
void compile_all(const std::vector<gpu::kernel>& kernels,
                 const std::function<void(std::size_t, const gpu::machine_code&)>& then) {
  std::atomic<std::size_t> next{0}, made{0};
  std::vector<double> seconds(kernels.size());
  const auto compile_some = [&] {
    for (std::size_t k; (k = next++) < kernels.size();) try {
        const auto begin = std::chrono::steady_clock::now();
        const gpu::machine_code code = gpu::compile(gpu::source_of(kernels[k]), 9, 0);
        seconds[k] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        then(k, code);
        made += code.image.size() > 1000 && code.name.find("exact_") != std::string::npos;
      } catch (const error& e) {
        std::printf("%s\n%s\n", gpu::source_of(kernels[k]).text.c_str(), e.what());
      }
  };
  std::thread other(compile_some);
  compile_some();
  other.join();
  CHECK(made == kernels.size());
  const auto slowest = std::max_element(seconds.begin(), seconds.end());
  std::printf("%zu kernels, %.2f s on average, %.2f s the slowest: %s\n", kernels.size(),
              std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                  static_cast<double>(kernels.size()),
              *slowest,
              gpu::signature_of(kernels[static_cast<std::size_t>(slowest - seconds.begin())]).c_str());
}

bool has_compiler() {
  try {
    std::printf("NVRTC %s\n", gpu::compiler_version().c_str());
    return true;
  } catch (const error& e) {
    if (std::string_view(e.what()).find("install NVRTC") == std::string_view::npos) throw;
    std::printf("skipped: %s\n", e.what());
    return false;
  }
}

// The kernels of some lists of reductions, of every kind.
std::vector<gpu::kernel> kernels_of(const std::vector<std::vector<reduction>>& lists) {
  std::vector<gpu::kernel> kernels;
  const auto add = [&](const gpu::plan& p) {
    for (const gpu::pass& one : passes_of(p))
      if (std::none_of(kernels.begin(), kernels.end(), [&](const gpu::kernel& k) {
            return gpu::signature_of(k) == gpu::signature_of(one.what);
          }))
        kernels.push_back(one.what);
  };
  alignas(16) static const std::byte somewhere[16]{};
  for (const std::vector<reduction>& all : lists) {
    const dtype t = all[0].in();
    const bool two = info(all[0].op()).inputs == 2;
    for (const std::size_t n : {100, 1 << 24}) add(plan_of({all, n, true}, {}, h100));
    for (const layout_case& c : layouts) {
      const view v = view_of(c, t, somewhere);
      const auto from = cuda::elements_of(detail::layout_of(v, two ? &v : nullptr, c.axes));
      add(plan_of({all, from.n, true, &from}, c.shape, h100));
    }
    if (two || !is_float(t)) continue;
    const cuda::piece one[] = {{somewhere, 1 << 20}};
    gpu::plan made;
    gpu::add_exact_pieces(made, {{all.data(), 1}, 0, true}, one, h100);
    add(made);
  }
  return kernels;
}

}  // namespace

TEST_CASE("exact sums of any terms are one pass, where there is room for its columns") {
  const auto passes = [](const std::vector<exact::term>& terms, dtype t) {
    std::vector<exact::term> left = terms;
    int count = 0;
    for (; !left.empty(); ++count)
      for (const exact::term done : gpu::kernel_for(t, left, h100.max_shared_bytes).terms)
        std::erase(left, done);
    return count;
  };
  for (const int inputs : {1, 2})
    for (const auto& set : sets_of_terms(inputs)) {
      for (const dtype t : all_dtypes)
        if (t != dtype::f64) CHECK(passes(set, t) == 1);
      CHECK(passes(set, dtype::f64) <= static_cast<int>(set.size()));
    }
  using enum exact::term;
  CHECK(passes({element, square}, dtype::f64) == 1);
  CHECK(passes({element, number, presence}, dtype::f64) == 1);
  CHECK(passes({element, magnitude, number, presence, square}, dtype::f64) == 2);
  CHECK(passes({difference, product, squared_difference}, dtype::f64) == 3);
}

TEST_CASE("a plan of exact sums has the blocks that an H100 runs at once") {
  const auto blocks = [](op_id op, dtype t, std::size_t n, const cuda::launch& shape = {}) {
    const reduction r = exact_of(op, t);
    return passes_of(plan_of({{&r, 1}, n, true}, shape, h100))[0].blocks;
  };
  CHECK(blocks(op_id::sum, dtype::f32, 1 << 26) == 3 * 132);
  CHECK(blocks(op_id::sum, dtype::f64, 1 << 26) == 132);
  CHECK(blocks(op_id::sum, dtype::f32, 100) == 1);
  CHECK(blocks(op_id::sum, dtype::f32, 1 << 26, {.blocks = 7}) == 7);
  const reduction sum = exact_of(op_id::sum, dtype::f32);
  const std::vector<gpu::pass> two = passes_of(plan_of({{&sum, 1}, 1 << 20, true}, {}, h100));
  REQUIRE(two.size() == 2);
  CHECK(two[1].overlaps);
  CHECK_FALSE(two[0].overlaps);
  CHECK_FALSE(
      passes_of(plan_of({{&sum, 1}, 1 << 20, true}, {.overlap = false}, h100))[1].overlaps);
  CHECK(passes_of(plan_of({{&sum, 1}, 1000, true}, {}, h100)).size() == 1);
  CHECK_THROWS_AS(plan_of({{&sum, 1}, 1000, true}, {.threads = 33}, h100), error);
  CHECK_THROWS_AS(plan_of({{&sum, 1}, 0, true}, {}, h100), error);
}

TEST_CASE("NVRTC compiles kernels of exact sums of every kind and every element type",
          "[.][nvrtc]") {
  if (!has_compiler()) return;
  std::vector<std::vector<reduction>> lists;
  for (const dtype t : all_dtypes) {
    lists.push_back({exact_of(op_id::sum, t), exact_of(op_id::nanmean, t)});
    if (is_float(t)) lists.push_back({exact_of(op_id::std, t)});
    lists.push_back({exact_of(op_id::dot, t), exact_of(op_id::mae, t)});
  }
  compile_all(kernels_of(lists), [](std::size_t, const gpu::machine_code&) {});
}
TEST_CASE("NVRTC compiles kernels of exact sums: every operation, and all together", "[.all]") {
  if (!has_compiler()) return;
  std::vector<std::vector<reduction>> lists;
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2}) {
      for (const reduction& r : exact_reductions(t, inputs)) lists.push_back({r});
      lists.push_back(exact_reductions(t, inputs));
    }
  compile_all(kernels_of(lists), [](std::size_t, const gpu::machine_code&) {});
}

// Where registers were fewer than the plan believes, a processor would have room for more blocks;
// where they were more, some blocks would wait for all others.
TEST_CASE("a processor has room for the blocks of exact sums that a plan says", "[.][nvrtc]") {
  if (!has_compiler()) return;
  struct kernel_of_terms {
    gpu::exact_kernel of;
    bool pieces;
  };
  std::vector<kernel_of_terms> all;
  std::vector<gpu::kernel> kernels;
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2})
      for (const auto& set : sets_of_terms(inputs)) {
        const gpu::exact_kernel k = gpu::kernel_for(t, set, h100.max_shared_bytes);
        if (k.terms.size() != set.size()) continue;
        for (const bool pieces : {false, true}) {
          if (pieces && (inputs == 2 || !is_float(t))) continue;
          const std::string packs = std::to_string(k.packs);
          all.push_back({k, pieces});
          kernels.push_back(gpu::instantiation{
              "exact_pass", is_float(t) ? "bitfold/cuda/exact.cuh" : "bitfold/cuda/exact_integers.cuh",
              k.definitions,
              "bitfold::cuda::" + (is_float(t) ? "exact_pass" + std::string(pieces ? "_of_pieces" : "") +
                                                     "<" + packs + ", kernel::sums>"
                                               : std::string("exact_integers<kernel::sums>"))});
        }
      }
  std::vector<int> registers(kernels.size());
  compile_all(kernels, [&](std::size_t k, const gpu::machine_code& code) {
    registers[k] = registers_of(code.image);
  });
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const gpu::exact_kernel& one = all[k].of;
    const int believed = all[k].pieces ? one.registers_of_pieces : one.registers;
    std::string terms;
    for (const exact::term what : one.terms) terms += std::to_string(static_cast<int>(what));
    for (const int threads : {one.threads, std::min(one.threads, 128)}) {
      const auto blocks = [&](int r) { return gpu::blocks_at_once(one, threads, r, h100) / 132; };
      INFO(name(one.type) << " terms " << terms << (all[k].pieces ? " of pieces" : "") << ": "
                          << registers[k] << " registers, believed " << believed << ", " << threads
                          << " threads");
      CHECK(blocks(registers[k]) >= blocks(believed));
      if (one.terms.size() == 1 && threads == one.threads)
        CHECK(blocks(registers[k]) == blocks(believed));
    }
  }
}
