// Functions of channels on the CPU: what channels.hpp says, to the bit.
#include <cfenv>
#include <functional>

#include "catch.hpp"
#include "channel_cases.hpp"
#include "main.hpp"

using namespace bitfold;
using test::channel_case;
using test::channel_shape;
using test::forced_target;

namespace {

const std::byte* place_of(const std::vector<std::byte>& v) { return v.data(); }

channel_case done(channel_case c, channel_function f, int threads, bool in_place = false) {
  const cpu::options opts{.threads = threads, .target = forced_target};
  if (in_place) c.out = c.x;
  channels of = c.on(place_of);
  if (in_place) of.x = c.out.data();
  std::fesetround(FE_UPWARD);  // the caller's way of rounding is nobody's here
  cpu::apply(f, of, c.out.data(), opts);
  of.x = c.x.data();
  cpu::gradient_sums(of, {c.sums[0].data(), c.sums[1].data(), c.sums[2].data(), c.sums[3].data()},
                     opts);
  std::fesetround(FE_TONEAREST);
  return c;
}

constexpr channel_shape shapes[] = {
    {3, 4, 300},            // images
    {5, 3, 1},              // channels last
    {70, 40, 1},            // more of them than are taken together
    {2, 6, 49, 3, true},    // groups
    {2, 40, 49, 40, true},  // of too many channels to be summed with them
    {2, 6, 49, 3},          // that share statistics over all
    {3, 2, 1500, 1, true},  // instances
    {300, 4, 1, 2, true},   // groups of channels that lie last
    {1, 1, 1},
    {530, 150, 1},  // several leaves of more channels than are summed at a time
    {5, 2, 1100},   // lines over the ends of the tiles that are summed
};

}  // namespace

TEST_CASE("channels: bits are those of the definition, whatever the threads") {
  std::uint64_t seed = 0;
  for (const channel_function f : test::all_channel_functions)
    for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
      for (const test::kind k : test::all_kinds)
        for (const channel_shape& shape : shapes) {
          const channel_case c = test::make_channel_case(type, k, shape, ++seed),
                             want = test::by_the_book(c, f);
          for (const int threads : {1, 3}) {
            INFO(static_cast<int>(f) << " " << c.describe() << " " << name(k) << " " << threads);
            const channel_case got = done(c, f, threads, seed % 2 == 1);
            CHECK(got.out == want.out);
            CHECK(got.sums == want.sums);
          }
        }
}

TEST_CASE("channels: only the sums that are wanted are made") {
  const channel_case c = test::make_channel_case(dtype::f32, test::kind::near_one, shapes[0], 1),
                     want = test::by_the_book(c, channel_function::channel_norm);
  for (std::size_t k = 0; k < 4; ++k) {
    channel_case one = c;
    void* to[4] = {};
    to[k] = one.sums[k].data();
    cpu::gradient_sums(one.on(place_of), {to[0], to[1], to[2], to[3]});
    CHECK(one.sums[k] == want.sums[k]);
  }
}

TEST_CASE("channels: what is refused") {
  const channel_case c = test::make_channel_case(dtype::f32, test::kind::near_one, shapes[0], 1);
  std::vector<std::byte> out = c.out, sums(16);
  const auto says = [](const char* argument, const std::function<void()>& call) {
    try {
      call();
      FAIL("nothing was refused: " << argument);
    } catch (const error& e) {
      CHECK(e.code() == errc::usage);
      CHECK_THAT(e.what(), Catch::Matchers::StartsWith(argument));
    }
  };
  const auto with = [&](auto change) {
    channels of = c.on(place_of);
    change(of);
    return of;
  };
  const auto apply = [&](auto change) {
    cpu::apply(channel_function::channel_norm_backward, with(change), out.data());
  };
  says("type: ", [&] { apply([](channels& of) { of.type = dtype::i32; }); });
  says("sharing: ", [&] { apply([](channels& of) { of.sharing = 3; }); });
  says("sharing: ", [&] { apply([](channels& of) { of.sharing = 0; }); });
  says("x: ", [&] { apply([](channels& of) { of.outer = std::size_t{1} << 60; }); });
  says("x: ", [&] { apply([](channels& of) { of.x = nullptr; }); });
  says("y: ", [&] { apply([](channels& of) { of.y = nullptr; }); });
  says("mean: ", [&] { apply([](channels& of) { of.mean = nullptr; }); });
  says("rstd: ", [&] { apply([](channels& of) { of.rstd = nullptr; }); });
  says("mean_g: ", [&] { apply([](channels& of) { of.mean_g = nullptr; }); });
  says("slope: ", [&] { apply([](channels& of) { of.slope = nullptr; }); });
  says("w: ",
       [&] { apply([](channels& of) { of.w = static_cast<const std::byte*>(of.mean) + 1; }); });
  says("low: ", [&] {
    cpu::apply(channel_function::channel_norm, with([](channels& of) { of.low = nullptr; }),
               out.data());
  });
  says("out: ",
       [&] { cpu::apply(channel_function::channel_norm, with([](channels&) {}), nullptr); });
  says("to: ", [&] { cpu::gradient_sums(with([](channels&) {}), {}); });
  says("x: ", [&] { cpu::gradient_sums(with([](channels& of) { of.outer = 0; }), {sums.data()}); });
  cpu::apply(channel_function::channel_norm, {dtype::f32, 0, 3, 4}, nullptr);  // nothing to do
}
