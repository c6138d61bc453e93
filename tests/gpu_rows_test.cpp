// Row functions by kernels on demand: the bits of their definition.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <map>
#include <span>

#include "array_on_gpu.hpp"
#include "catch.hpp"
#include "gpu_kernels.hpp"
#include "row_cases.hpp"

#include "gpu/explain.hpp"
#include "gpu/launcher.hpp"
#include "gpu/rows.hpp"
#include "row_functions.hpp"

using namespace bitfold;
using test::array_on_gpu;
using test::check_same;
using test::row_case;

namespace {

constexpr dtype float_types[] = {dtype::f16, dtype::bf16, dtype::f32, dtype::f64};
constexpr row_function norm_gradients[] = {row_function::layer_norm_backward,
                                           row_function::rms_norm_backward};

/// As a GPU does it, into x or beside it, and then at another place of a packet.
row_case done(row_case c, std::size_t off, bool in_place) {
  const dtype a = c.type == dtype::f64 ? dtype::f64 : dtype::f32;
  const array_on_gpu x(c.x, c.type, off), y(c.y, c.type, off), w(c.w, c.type, off),
      b(c.b, c.type, off), out(c.out, c.type, 2 * off), mean(c.mean, a), rstd(c.rstd, a);
  const array_on_gpu& to = in_place ? x : out;
  cuda::apply(c.f, c.on(x.at(), y.at(), w.at(), b.at(), mean.at(), rstd.at()), to.at());
  test::wait_for();
  c.out = to.contents();
  c.mean = mean.contents();
  c.rstd = rstd.contents();
  return c;
}

void check(const row_case& c, const row_case& want, std::size_t off, bool in_place = false) {
  INFO(c.describe() << " off " << off << (in_place ? " in place" : ""));
  const row_case got = done(c, off, in_place);
  check_same("out", got.out, want.out);
  check_same("mean", got.mean, want.mean);
  check_same("rstd", got.rstd, want.rstd);
}
void check_rows(row_function f, dtype type, test::kind k, std::size_t count, std::size_t n,
                bool anywhere = true) {
  const row_case c = test::make_row_case(f, type, k, count, n, n + static_cast<std::uint64_t>(k));
  const row_case want = test::done_by_the_book(c);
  check(c, want, 0, n % 3 == 1);
  if (anywhere && n % 4 != 1) check(c, want, 1);
}

void check_parameters(row_function f, dtype type, std::size_t count, std::size_t n,
                      std::size_t off = 0) {
  const row_case c = test::make_row_case(
      f, type, count > 1000 ? test::kind::near_one : test::kind::special, count, n, count);
  const dtype a = type == dtype::f64 ? dtype::f64 : dtype::f32;
  const std::vector<std::byte> nothing(n * size_of(type));
  const array_on_gpu x(c.x, type, off), y(c.y, type, off), mean(c.mean, a), rstd(c.rstd, a),
      dw(nothing, type), db(nothing, type);
  const rows of = c.on(x.at(), y.at(), nullptr, nullptr, mean.at(), rstd.at());
  void* const to_db = c.is_centred() ? db.at() : nullptr;
  INFO(c.describe() << " off " << off);
  const std::size_t size = cuda::parameter_gradients_workspace_bytes(f, of);
  CHECK(size == gpu::plan_parameter_gradients(f, of, true, to_db, test::numbers()).workspace);
  const array_on_gpu workspace(std::vector<std::byte>(size), type);
  cuda::parameter_gradients(f, of, dw.at(), to_db, workspace.at(), size);
  test::wait_for();
  (void)workspace.contents();
  if (size > 0)
    CHECK_THROWS_AS(cuda::parameter_gradients(f, of, dw.at(), to_db, workspace.at(), size - 1),
                    error);
  test::with_float(type, [&]<class T, class A>(T, A) {
    const auto want = test::parameters_by_the_book<T, A>(c);
    check_same("dw", dw.contents(), want[0]);
    check_same("db", db.contents(), c.is_centred() ? want[1] : nothing);
  });
}

}  // namespace

TEST_CASE("rows on demand have their definition's bits", "[racecheck]") {
  using test::kind;
  std::size_t place = 0;  // of a function, and of a type
  for (const row_function f : test::all_row_functions) {
    std::size_t k = place++;
    for (const dtype type : float_types) {
      if (!test::takes_kernels(k++, 2)) continue;
      check_rows(f, type, kind::special, 5, 300, type == dtype::f16 || type == dtype::f64);
      check_rows(f, type, kind::near_one, 3, 4000, false);
    }
  }
  for (const std::size_t n : {1, 31, 33, 256, 257, 1002, 2049, 8192})  // one by one, and in packets
    check_rows(row_function::softmax, dtype::f16, kind::special, n > 1000 ? 3 : 9, n);
  for (const std::size_t n : {1024, 4096, 5120})  // full tiles, equally many or not
    check_rows(row_function::layer_norm, dtype::f32, kind::near_one, 3, n, false);
  // Some tiles for each warp, and fewer for some.
  using enum row_function;
  for (const std::size_t n : {2305, 4096 + 255, 6001, 8191}) {
    check_rows(log_softmax, dtype::f16, kind::near_one, 3, n);
    check_rows(layer_norm_backward, dtype::f32, kind::near_one, 3, n, false);
  }
  check_rows(softmax_backward, dtype::bf16, kind::near_one, 2, 16'100, false);  // of packets
  check_rows(softmax_backward, dtype::f32, kind::special, 2, 6002, false);
  check_rows(group_norm, dtype::f32, kind::near_one, 3, 6001, false);
  // They do not fit in registers, and are read twice.
  check_rows(softmax, dtype::f64, kind::near_one, 2, 6002, false);
  check_rows(layer_norm_backward, dtype::f64, kind::near_one, 2, 6001, false);
}

// Of each team, of some lanes and of all of a thread's, and of as many rows of a leaf.
TEST_CASE("short rows on demand have their definition's bits", "[racecheck]") {
  using enum row_function;
  using test::kind;
  for (const row_function f : test::all_row_functions)
    check_rows(f, dtype::f32, kind::special, 70, 48, false);
  for (const dtype type : float_types) check_rows(softmax, type, kind::special, 301, 16);
  std::size_t place = 0;
  for (const std::size_t n :
       {1, 2, 3, 4, 20, 31, 32, 33, 64, 68, 100, 127, 128, 131, 192, 255, 256})
    for (const row_function f : {softmax, layer_norm, rms_norm_backward})
      if (test::takes_kernels(place++, 2)) check_rows(f, dtype::f32, kind::near_one, 45, n, false);
}

TEST_CASE("rows that lie across on demand have their definition's bits", "[racecheck]") {
  std::uint64_t seed = 0;
  std::size_t place = 0;
  for (const row_function f : test::all_functions_across) {
    std::size_t k = place++;
    for (const dtype type : float_types) {
      if (!test::takes_kernels(k++, 2)) continue;
      for (const std::size_t inner : {5, 64, 264}) {
        if (type == dtype::f64 && inner == 64) continue;
        const row_case rows = test::done_by_the_book(
            test::make_row_case(f, type, test::kind::special, 3 * inner, 37, ++seed));
        const test::across_case c = test::laid_across(rows, inner);
        const dtype wide = type == dtype::f64 ? dtype::f64 : dtype::f32;
        const array_on_gpu x(c.x, type), y(c.y, type), first(c.first, wide), second(c.second, wide);
        cuda::apply(f,
                    rows_across{type, c.outer, c.n, inner, x.at(), y.at(), first.at(), second.at()},
                    x.at());
        test::wait_for();
        INFO(rows.describe() << " " << inner);
        check_same("out", x.contents(), c.out);
      }
    }
  }
}

TEST_CASE("long rows on demand have their definition's bits", "[racecheck]") {
  using enum row_function;
  check_rows(layer_norm, dtype::bf16, test::kind::near_one, 2, 50'257);
  check_rows(log_softmax_backward, dtype::f32, test::kind::near_one, 2, 40'000);
  check_rows(softmax_backward, dtype::f64, test::kind::near_one, 1, 600'002);  // several nodes
}

// The kernels of all functions, types and ways to read. Minutes.
TEST_CASE("rows on demand have their definition's bits: all kernels", "[.all]") {
  for (const row_function f : test::all_row_functions)
    for (const dtype type : float_types)
      for (const test::kind k : test::all_kinds)
        for (const std::size_t n : {1, 2, 31, 33, 64, 100, 256, 257, 1000, 1024, 2049, 4096, 8192})
          check_rows(f, type, k, n > 1000 ? 3 : 9, n);
}
TEST_CASE("long rows on demand have their definition's bits: all kernels", "[.all]") {
  for (const row_function f : test::all_row_functions) {
    for (const dtype type : float_types)  // 32 tiles and more, of packets and of single elements
      for (const std::size_t n : {8192, 8193, 32'768, 33'333, 66'000})
        check_rows(f, type, test::kind::near_one, 2, n);
    for (const auto& [type, n] :  // several nodes
         {std::pair{dtype::f32, 1'048'576}, {dtype::f32, 1'100'001}, {dtype::f64, 1'200'000}})
      check_rows(f, type, test::kind::near_one, 1, static_cast<std::size_t>(n));
  }
}
TEST_CASE("many rows on demand have their definition's bits", "[.all]") {
  for (const row_function f : test::all_row_functions)
    check_rows(f, dtype::bf16, test::kind::near_one, 2100, 768, false);
  // From so many on of a multiple of 2048 elements of 16 bits, threads take more of them at once.
  for (const row_function f : {row_function::softmax, row_function::log_softmax,
                               row_function::layer_norm, row_function::rms_norm})
    for (const dtype type : {dtype::f16, dtype::bf16}) {
      const row_case c = test::make_row_case(f, type, test::kind::near_one, 4096, 2048, 1);
      check(c, test::done_by_the_book(c), 0, type == dtype::f16);
    }
}

// One part of the rows, and several; columns one by one, and in packets.
TEST_CASE("gradients of parameters on demand have their definition's bits", "[racecheck]") {
  using shape = std::pair<std::size_t, std::size_t>;
  std::size_t place = 0;
  for (const row_function f : norm_gradients) {
    std::size_t k = place++;
    for (const dtype type : float_types)
      if (test::takes_kernels(k++, 2))
        for (const auto& [count, n] : {shape{1, 8}, {257, 130}, {1100, 36}})
          check_parameters(f, type, count, n, n == 8);
  }
  check_parameters(row_function::layer_norm_backward, dtype::f32, 5000, 4);  // runs of parts
}
TEST_CASE("gradients of parameters of no rows are 0") {
  const std::vector<std::byte> some(12, std::byte{3}), zero(12);
  const array_on_gpu dw(some, dtype::f32), db(some, dtype::f32);
  const rows of{dtype::f32, 0, 3, nullptr};
  const auto f = row_function::layer_norm_backward;
  CHECK(cuda::parameter_gradients_workspace_bytes(f, of) == 0);
  cuda::parameter_gradients(f, of, nullptr, db.at(), nullptr, 0);
  test::wait_for();
  CHECK(dw.contents() == some);
  CHECK(db.contents() == zero);
  cuda::parameter_gradients(f, of, dw.at(), db.at(), nullptr, 0);
  test::wait_for();
  CHECK(dw.contents() == zero);
}
TEST_CASE("gradients of parameters on demand have their definition's bits: long", "[.all]") {
  using shape = std::pair<std::size_t, std::size_t>;
  for (const row_function f : norm_gradients)
    for (const dtype type : float_types)
      for (const auto& [count, n] :
           {shape{7, 33}, {256, 64}, {5000, 64}, {70'000, 4}, {600, 4096}, {40'000, 7}})
        for (const std::size_t off : {0, 1}) check_parameters(f, type, count, n, off);
}

TEST_CASE("calls of row functions say what is wrong, and do nothing for nothing") {
  const test::device_memory some(64);
  const auto says = [](const char* what, auto call) {
    try {
      call();
      FAIL("it was not refused: " << what);
    } catch (const error& e) {
      CHECK(e.code() == errc::usage);
      CHECK(std::string(e.what()).find(what) == 0);
    }
  };
  const rows two{dtype::f32, 1, 2, some.p};
  says("type: ", [&] { cuda::apply(row_function::exp, {dtype::i32, 1, 2, some.p}, some.p); });
  says("out: ", [&] { cuda::apply(row_function::softmax, two, nullptr); });
  says("y: ", [&] { cuda::apply(row_function::softmax_backward, two, some.p); });
  says("f: ",
       [&] { cuda::parameter_gradients(row_function::softmax, two, some.p, nullptr, nullptr, 0); });
  cuda::apply(row_function::softmax, {dtype::f32, 0, 2, nullptr}, nullptr);
  cuda::apply(row_function::softmax, {dtype::f32, 2, 0, nullptr}, nullptr);
}

// ---- Plans --------------------------------------------------------------------------------------

namespace {

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

std::vector<gpu::pass> passes_of(const gpu::plan& p) {
  std::vector<gpu::pass> passes;
  for (const gpu::step& s : p.steps) passes.push_back(std::get<gpu::pass>(s));
  return passes;
}
const gpu::instantiation& kernel_of(const gpu::pass& p) {
  return std::get<gpu::instantiation>(p.what);
}

/// Of every function, and of all that a plan chooses of a type.
std::vector<gpu::plan> plans_of(dtype type) {
  std::vector<gpu::plan> all;
  for (const std::uintptr_t address : {1 << 20, (1 << 20) + 8}) {
    const auto on = [&](std::size_t count, std::size_t n) {
      const void* const x = at(address);
      void* const to = const_cast<void*>(x);
      return rows{type, count, n, x, x, x, x, to, to};
    };
    void* const out = const_cast<void*>(at(address));
    for (const row_function f : test::all_row_functions)
      for (const auto& [count, n] : {std::pair{10, 1000},
                                     {10, 1001},
                                     {5000, 4096},
                                     {10, 5001},
                                     {10, 8191},
                                     {10, 16'000},
                                     {10, 100'000},
                                     {10, 100'001}})
        all.push_back(
            gpu::plan_rows(f, on(static_cast<std::size_t>(count), static_cast<std::size_t>(n)), out,
                           test::numbers()));
    for (const row_function f : norm_gradients)
      for (const std::size_t n : {1000, 1001})
        all.push_back(gpu::plan_parameter_gradients(f, on(5000, n), true, false, test::numbers()));
  }
  return all;
}

}  // namespace

TEST_CASE("plans of rows") {
  const rows of{dtype::bf16, 5000, 4096, at(1 << 20)};
  void* const out = const_cast<void*>(at(1 << 21));
  const auto one = passes_of(gpu::plan_rows(row_function::softmax, of, out, test::numbers()));
  REQUIRE(one.size() == 1);
  CHECK(kernel_of(one[0]).expression ==
        "bitfold::cuda::map_rows<kernel::function, kernel::element, 8, 0>");
  CHECK(one[0].blocks == 2500);  // two warps take a row, four a block
  CHECK(one[0].threads == 128);
  const auto widths = [&](row_function f, rows r) {
    const std::string e =
        kernel_of(passes_of(gpu::plan_rows(f, r, out, test::numbers())).at(0)).expression;
    return e.substr(e.find("element, ") + 9);
  };
  CHECK(widths(row_function::softmax, {dtype::bf16, 4095, 4096, of.x}) == "4, 0>");
  CHECK(widths(row_function::softmax, {dtype::bf16, 5000, 4095, of.x}) == "1, 2>");
  CHECK(widths(row_function::softmax, {dtype::bf16, 5000, 8191, of.x}) == "1, 4>");
  CHECK(widths(row_function::softmax, {dtype::bf16, 5000, 16'000, of.x}) == "4, 2>");
  CHECK(widths(row_function::softmax, {dtype::bf16, 5000, 32'000, of.x}) == "4, 0>");
  CHECK(widths(row_function::softmax, {dtype::f64, 5000, 8191, of.x}) == "1, 0>");
  CHECK(widths(row_function::layer_norm_backward, {dtype::f32, 5000, 8191, of.x, of.x}) == "1, 4>");
  CHECK(widths(row_function::layer_norm_backward, {dtype::f32, 5000, 8190, of.x, of.x}) == "2, 0>");
  CHECK(widths(row_function::softmax_backward, {dtype::f32, 5000, 4096, of.x, of.x}) == "2, 0>");
  CHECK(widths(row_function::softmax_backward, {dtype::f32, 1, 640, of.x, at(4)}) == "1, 1>");
  CHECK(kernel_of(passes_of(gpu::plan_rows(row_function::softmax, {dtype::f32, 1000, 64, of.x}, out,
                                           test::numbers()))
                      .at(0))
            .expression ==
        "bitfold::cuda::map_short_rows<kernel::function, kernel::element, 4, 2, 2>");
  CHECK(widths(row_function::exp, {dtype::f32, 3, 33, of.x}) == "4>");
  const gpu::plan parts = gpu::plan_parameter_gradients(row_function::layer_norm_backward,
                                                        {dtype::f32, 5000, 64, of.x, of.x}, true,
                                                        true, test::numbers());
  const auto two = passes_of(parts);
  REQUIRE(two.size() == 2);
  CHECK(two[0].rows_of_blocks == 20);
  CHECK(parts.workspace == 20 * 64 * 8);
  const std::string text = gpu::explain(parts, test::this_gpu());
  INFO(text);
  CHECK(text.find("pass 1: fold_parameters: 1 x 20 blocks of 256 threads; reads 2560000 bytes\n") ==
        0);
  CHECK(text.find("pass 2: fold_parts_of_parameters: 2 blocks of 512 threads\n") !=
        std::string::npos);
}

// ---- The real compiler, which needs no GPU ------------------------------------------------------

namespace {

void check_nvrtc(std::span<const row_function> functions, test::sample_of_kernels sample) {
  if (!test::has_compiler()) return;
  std::map<std::string, gpu::kernel> kernels;
  for (const dtype type : float_types)
    for (const gpu::plan& p : plans_of(type))
      for (const gpu::pass& one : passes_of(p)) {
        const std::string text = kernel_of(one).definitions;
        const bool wanted =
            text.find("row::") == std::string::npos ||
            std::any_of(functions.begin(), functions.end(), [&](row_function f) {
              return text.find("row::" + std::string(row::name(f)) + ";") != std::string::npos;
            });
        if (wanted) kernels.emplace(gpu::signature_of(one.what), one.what);
      }
  std::erase_if(kernels, [&](const auto& k) { return !sample.takes(k.second); });
  double slowest = 0;
  std::string which;
  for (const auto& [signature, kernel] : kernels) {
    const std::clock_t begin = std::clock();
    const gpu::machine_code code = gpu::compile(gpu::source_of(kernel), 9, 0);
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    CHECK(code.image.size() > 1000);
    if (took > slowest) slowest = took, which = signature;
  }
  std::printf("%zu kernels of rows; the slowest took %.2f s of a processor: %s\n", kernels.size(),
              slowest, which.c_str());
}

}  // namespace

TEST_CASE("NVRTC compiles kernels of rows of every element type", "[.][nvrtc]") {
  using enum row_function;
  check_nvrtc(std::array{layer_norm, layer_norm_backward, row_function::exp},
              test::sample_of_kernels());
}
TEST_CASE("NVRTC compiles every kernel of rows", "[.all]") {
  check_nvrtc(test::all_row_functions, test::sample_of_kernels(true));
}
