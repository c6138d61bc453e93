// Functions of channels by kernels on demand: the bits of their definition.
#include <map>
#include <memory>

#include "array_on_gpu.hpp"
#include "catch.hpp"
#include "channel_cases.hpp"
#include "gpu_exact.hpp"
#include "gpu_kernels.hpp"

#include "gpu/channels.hpp"
#include "gpu/explain.hpp"
#include "gpu/launcher.hpp"

using namespace bitfold;
using test::array_on_gpu;
using test::channel_case;
using test::channel_shape;

namespace {

/// As a GPU does it, its elements `off` elements away from where they are aligned.
channel_case done(channel_case c, channel_function f, std::size_t off, bool in_place) {
  std::map<const void*, std::unique_ptr<array_on_gpu>> there;
  const auto at = [&](const std::vector<std::byte>& v) {
    const bool is_elements = &v == &c.x || &v == &c.y || &v == &c.out;
    auto& one = there[&v];
    one = std::make_unique<array_on_gpu>(v, is_elements ? c.type : c.wide(), is_elements ? off : 0);
    return one->at();
  };
  const channels of = c.on(at);
  channel_sums to;
  {
    void** const each[] = {&to.mean_g, &to.slope, &to.dw, &to.db};
    for (std::size_t k = 0; k < 4; ++k) *each[k] = at(c.sums[k]);
  }
  const std::size_t size = cuda::gradient_sums_workspace_bytes(of, to);
  const array_on_gpu workspace(std::vector<std::byte>(size), dtype::f64);
  cuda::gradient_sums(of, to, workspace.at(), size);
  test::wait_for();
  for (auto& sums : c.sums) sums = there[&sums]->contents();
  std::byte* const out = in_place ? there[&c.x]->at() : at(c.out);
  cuda::apply(f, of, out);
  test::wait_for();
  c.out = there[in_place ? &c.x : &c.out]->contents();
  return c;
}

void check_channels(channel_function f, dtype type, test::kind k, const channel_shape& shape,
                    std::uint64_t seed, std::size_t off = 0) {
  const channel_case c = test::make_channel_case(type, k, shape, seed),
                     want = test::by_the_book(c, f), got = done(c, f, off, seed % 2 == 1);
  INFO(static_cast<int>(f) << " " << c.describe() << " off " << off);
  test::check_same("out", got.out, want.out);
  for (std::size_t i = 0; i < 4; ++i) {
    INFO("sum " << i);
    test::check_same("sums", got.sums[i], want.sums[i]);
  }
}

constexpr channel_shape shapes[] = {
    {3, 4, 3136},          // images
    {2, 3, 49},            // lines of no whole packets
    {700, 32, 1},          // channels last
    {2, 6, 320, 3, true},  // groups
    {2, 6, 49, 3},         // that share statistics over all
    {3, 2, 512, 1, true},  // instances
    {40, 8, 1, 2, true},   // groups of channels that lie last
};

}  // namespace

TEST_CASE("channels on demand have their definition's bits", "[racecheck]") {
  std::uint64_t seed = 0;
  for (const channel_shape& shape : shapes)
    for (const channel_function f : test::all_channel_functions) {
      check_channels(f, dtype::f32, test::kind::special, shape, ++seed);
      if (f == channel_function::channel_norm_backward)
        for (const dtype type : {dtype::f16, dtype::f64}) {
          ++seed;
          if (!test::takes_kernels(static_cast<std::size_t>(&shape - shapes) + (type == dtype::f64),
                                   2))
            continue;
          check_channels(f, type, test::kind::near_one, shape, seed, seed % 2);
        }
    }
}

TEST_CASE("channels on demand have their definition's bits: all kernels", "[.all]") {
  std::uint64_t seed = 0;
  for (const channel_shape& shape : shapes)
    for (const channel_function f : test::all_channel_functions)
      for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
        for (const test::kind k : test::all_kinds)
          for (const std::size_t off : {0, 1}) check_channels(f, type, k, shape, ++seed, off);
}

TEST_CASE("many channels on demand have their definition's bits", "[.all]") {
  for (const dtype type : {dtype::bf16, dtype::f32}) {
    check_channels(channel_function::channel_norm_backward, type, test::kind::near_one,
                   {64, 64, 3136}, 1);
    check_channels(channel_function::channel_norm_backward, type, test::kind::near_one,
                   {20'000, 512, 1}, 2);
    check_channels(channel_function::channel_norm, type, test::kind::near_one,
                   {64, 64, 3136, 2, true}, 4);
  }
}

// ---- The real compiler, which needs no GPU ------------------------------------------------------

TEST_CASE("NVRTC compiles kernels of channels of every element type", "[.][nvrtc]") {
  if (!test::has_compiler()) return;
  test::sample_of_kernels sample;
  std::map<std::string, gpu::kernel> kernels;
  std::uint64_t seed = 0;
  for (const channel_shape& shape : shapes)
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
      channel_case c = test::make_channel_case(type, test::kind::near_one, shape, ++seed);
      const auto at = [](const auto& v) { return const_cast<std::byte*>(v.data()); };
      const channel_sums to{c.sums[0].data(), c.sums[1].data(), c.sums[2].data(), c.sums[3].data()};
      for (const gpu::pass& one :
           test::passes_of(gpu::plan_gradient_sums(c.on(at), to, test::numbers())))
        if (sample.takes(one.what)) kernels.emplace(gpu::signature_of(one.what), one.what);
    }
  for (const auto& [signature, kernel] : kernels) {
    INFO(signature);
    CHECK(gpu::compile(gpu::source_of(kernel), 9, 0).image.size() > 1000);
  }
  CHECK(!kernels.empty());
}
