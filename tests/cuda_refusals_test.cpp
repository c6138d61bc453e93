// What a GPU is refused: the argument is named, and nothing is written.
#include <array>
#include <functional>

#include "cuda_cases.hpp"
#include "refusals.hpp"

using namespace bitfold;
using test::device_memory;

TEST_CASE("cuda: refusals name the argument, and nothing is written", "[cuda]") {
  const reduction r = make_reduction(op_id::sum, method_id::tree, dtype::f32),
                  exact = make_reduction(op_id::sum, method_id::exact, dtype::f32);
  const std::size_t n = 10'000'000, bytes = std::size_t{1} << 20;
  const std::vector<std::byte> pattern(bytes, std::byte{7});
  const device_memory in(64), out(pattern), work(pattern);
  const auto refused = [&](const std::string& start, auto call) {
    test::check_refused(start, call, [&] {
      std::vector<std::byte> now(2 * bytes);
      test::wait_for();
      test::get(now.data(), out.p, bytes);
      test::get(now.data() + bytes, work.p, bytes);
      return now == std::vector<std::byte>(2 * bytes, std::byte{7});
    });
  };
  const std::size_t need = cuda::workspace_bytes(r, n);
  REQUIRE(need <= bytes);
  refused("workspace_size: 8 bytes", [&] { cuda::reduce(r, in.p, n, out.p, work.p, 8); });
  refused("workspace: null or not 16-byte aligned",
          [&] { cuda::reduce(r, in.p, n, out.p, nullptr, need); });
  refused("workspace: null or not 16-byte aligned",
          [&] { cuda::reduce(r, in.p, n, out.p, work.as<std::byte>() + 8, need); });
  refused("data: null pointer", [&] { cuda::reduce(r, nullptr, n, out.p); });
  refused("out: null pointer", [&] { cuda::reduce(r, in.p, 1, nullptr); });
  refused("data: not aligned to its element",
          [&] { cuda::reduce(r, in.as<char>() + 1, 1, out.p); });
  refused("launch.threads: 33", [&] { cuda::reduce(r, in.p, 1, out.p, nullptr, {.threads = 33}); });
  refused("launch.blocks: -1", [&] { cuda::reduce(r, in.p, 1, out.p, nullptr, {.blocks = -1}); });
  refused("launch.tiles: 3", [&] { cuda::reduce(r, in.p, 1, out.p, nullptr, {.tiles = 3}); });
  refused("method: sequential", [&] {
    cuda::reduce(make_reduction(op_id::sum, method_id::sequential, dtype::f32), in.p, 1, out.p);
  });
  refused("n: ", [&] { cuda::reduce(make_reduction(op_id::max, {}, dtype::f32), in.p, 0, out.p); });
  refused("y: sum takes one input", [&] { cuda::reduce(r, in.p, in.p, 8, out.p); });
  refused("y: dot takes two inputs", [&] {
    cuda::reduce(make_reduction(op_id::dot, {}, dtype::f32), in.p, nullptr, 8, out.p);
  });
  const auto both = [&](const reduction& a, const reduction& b, std::span<void* const> to) {
    const reduction all[] = {a, b};
    cuda::reduce(all, in.p, nullptr, 1, to, work.p, bytes);
  };
  void* const to[] = {out.p, out.as<std::byte>() + 8, nullptr};
  refused("reductions: of f32 and of f64 in one pass",
          [&] { both(r, make_reduction(op_id::sum, {}, dtype::f64), std::span(to).first(2)); });
  refused("out: room for 1 results of 2", [&] { both(r, r, std::span(to).first(1)); });
  refused("out: null pointer", [&] { both(r, r, std::span(to).last(2)); });
  // Several arrays, and arrays in parts.
  const cuda::piece odd[] = {{in.as<std::byte>() + 1, 1}}, none[] = {{nullptr, 1}},
                    one[] = {{in.p, 1}};
  const auto pieces = [&](const reduction& of, std::span<const cuda::piece> list, void* result,
                          std::size_t size) {
    cuda::reduce_pieces(of, list, result, work.p, size);
  };
  refused("pieces: not aligned", [&] { pieces(exact, odd, out.p, bytes); });
  refused("data: null pointer", [&] { pieces(exact, none, out.p, bytes); });
  refused("out: null pointer", [&] { pieces(exact, one, nullptr, bytes); });
  refused("workspace_size: 8 bytes", [&] { pieces(exact, one, out.p, 8); });
  refused("reduction: of several arrays only by method exact",
          [&] { pieces(r, one, out.p, bytes); });
  cuda::in_parts parts({&r, 1}, 16, bytes);
  refused("workspace_size: 0 bytes",
          [&] { cuda::in_parts({&r, 1}, n, 2 * bytes).add(in.p, nullptr, {to, 1}, work.p, 0); });
  refused("out: null pointer", [&] { parts.add(in.p, nullptr, {to + 2, 1}, work.p, bytes); });
  refused("data: not aligned to its element",
          [&] { parts.add(in.as<std::byte>() + 2, nullptr, {to, 1}, work.p, bytes); });
}

namespace {
// Calls whose inputs, results and workspace lie on the GPU; offsets and keys are checked there, as
// docs/shapes.md says.
struct the_gpu {
  static constexpr std::size_t bytes = 4096, work = std::size_t{1} << 20;
  device_memory elements{std::vector<float>(1024, 1)}, written{bytes + work};
  const float* data = elements.as<float>();
  void* out = written.p;
  void* workspace = written.as<std::byte>() + bytes;

  the_gpu() { test::set(written.p, 7, bytes + work); }
  bool untouched() const {
    std::vector<std::byte> now(bytes + work);
    test::wait_for();
    test::get(now.data(), written.p, now.size());
    return now == std::vector<std::byte>(now.size(), std::byte{7});
  }
  void reduce(const reduction& r, const view& x, const view* y, const std::vector<int>& axes,
              void* to) const {
    cuda::reduce({&r, 1}, x, y, axes, {&to, 1}, workspace, work);
  }
  void windows(const reduction& r, const view& x, const std::vector<window>& of) const {
    cuda::reduce_windows({&r, 1}, x, of, {&out, 1}, workspace, work);
  }
  void segments(const reduction& r, std::size_t n, const std::vector<std::int64_t>& offsets) const {
    const device_memory there(offsets);
    cuda::check_offsets(there.as<std::int64_t>(), offsets.size() - 1, n);
    cuda::reduce_segments({&r, 1}, data, nullptr, n, there.as<std::int64_t>(), offsets.size() - 1,
                          {&out, 1}, workspace, work);
  }
  void by_key(const reduction& r, const std::vector<std::int64_t>& keys,
              std::size_t outputs) const {
    const device_memory there(keys);
    cuda::check_keys(there.as<std::int64_t>(), keys.size(), outputs);
    cuda::reduce_by_key({&r, 1}, data, nullptr, keys.size(), there.as<std::int64_t>(), outputs,
                        {&out, 1}, workspace, work);
  }
};
}  // namespace

TEST_CASE("cuda views: what cannot be done is named, and nothing is written", "[cuda]") {
  const the_gpu by;
  test::check_refusals(by);
  const auto refused = [&](const std::string& start, auto call) {
    test::check_refused(start, call, [&] { return by.untouched(); });
  };
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32),
                  dot = make_reduction(op_id::dot, {}, dtype::f32),
                  by_hand = make_reduction(op_id::sum, method_id::sequential, dtype::f32);
  const std::vector<reduction> lists[] = {
      {sum},
      {make_reduction(op_id::sum, method_id::exact, dtype::f32)},
      {make_reduction(op_id::count_distinct, {}, dtype::f32)}};
  const device_memory good(std::vector<std::int64_t>{0, 300, 300, 900, 0});
  const auto* const list = good.as<std::int64_t>();
  const auto* const odd = reinterpret_cast<const std::int64_t*>(good.as<std::byte>() + 4);
  const float* const misaligned =
      reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(by.data) + 2);
  const view x = row_major(dtype::f32, by.data, {2, 500}),
             y = row_major(dtype::f32, misaligned, {500});
  static constexpr window pool{.axis = 1, .size = 3, .padding = 1};
  constexpr std::size_t four_billion = std::size_t{1} << 32;
  // The four calls of some reductions.
  struct call_of {
    const char* name;
    std::function<std::size_t(const cuda::launch&)> bytes;
    std::function<void(void*, std::size_t, const cuda::launch&)> run;
  };
  const auto calls = [&](std::span<const reduction> all) {
    const std::span<void* const> to(&by.out, 1);
    const void* const data = by.data;
    const auto axes = std::array{0};
    return std::vector<call_of>{
        {"views", [=](auto& shape) { return cuda::workspace_bytes(all, x, nullptr, axes, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce(all, x, nullptr, axes, to, w, size, nullptr, shape);
         }},
        {"windows",
         [=](auto& shape) { return cuda::windows_workspace_bytes(all, x, {&pool, 1}, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce_windows(all, x, {&pool, 1}, to, w, size, nullptr, shape);
         }},
        {"segments",
         [=](auto& shape) { return cuda::segments_workspace_bytes(all, 1000, 3, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce_segments(all, data, nullptr, 1000, list, 3, to, w, size, nullptr, shape);
         }},
        {"keys", [=](auto& shape) { return cuda::by_key_workspace_bytes(all, 5, 901, shape); },
         [=](void* w, std::size_t size, auto& shape) {
           cuda::reduce_by_key(all, data, nullptr, 5, list, 901, to, w, size, nullptr, shape);
         }}};
  };
  int wanted = 0;
  for (const auto& all : lists)
    for (const call_of& c : calls(all)) {
      const std::size_t bytes = c.bytes({});
      INFO(c.name << " " << test::describe(all[0], 0));
      REQUIRE(bytes <= by.work);
      if (bytes == 0) continue;
      ++wanted;
      const std::string need = " bytes, need " + std::to_string(bytes);
      refused("workspace_size: " + std::to_string(bytes - 1) + need,
              [&] { c.run(by.workspace, bytes - 1, {}); });
      refused("workspace: null or not 16-byte aligned", [&] { c.run(nullptr, bytes, {}); });
      refused("workspace: null or not 16-byte aligned",
              [&] { c.run(static_cast<std::byte*>(by.workspace) + 8, bytes, {}); });
    }
  CHECK(wanted >= 6);
  const std::pair<cuda::launch, const char*> shapes[] = {{{.threads = 33}, "launch.threads: 33"},
                                                         {{.blocks = -1}, "launch.blocks: -1"},
                                                         {{.tiles = 3}, "launch.tiles: 3"}};
  for (const auto& [shape, what] : shapes)
    for (const auto& all : lists)
      for (const call_of& c : calls(all)) {
        if (all[0].op() == op_id::count_distinct) continue;  // a sort has no shape of ours
        INFO(c.name << " " << test::describe(all[0], 0));
        refused(what, [&] { (void)c.bytes(shape); });
        refused(what, [&] { c.run(by.workspace, by.work, shape); });
      }
  const auto segments = [&](const reduction& r, const void* from, const void* and_from,
                            const std::int64_t* offsets) {
    cuda::reduce_segments({&r, 1}, from, and_from, 1000, offsets, 3, {&by.out, 1}, by.workspace,
                          by.work);
  };
  const auto by_key = [&](const reduction& r, const void* from, const void* and_from,
                          const std::int64_t* keys, std::size_t n, std::size_t outputs) {
    cuda::reduce_by_key({&r, 1}, from, and_from, n, keys, outputs, {&by.out, 1}, by.workspace,
                        by.work);
  };
  refused("method: sequential", [&] { by.reduce(by_hand, x, nullptr, {1}, by.out); });
  refused("method: sequential", [&] { by.windows(by_hand, x, {pool}); });
  refused("method: sequential", [&] { segments(by_hand, by.data, nullptr, list); });
  refused("method: sequential", [&] { by_key(by_hand, by.data, nullptr, list, 5, 901); });
  refused("x.data: not aligned to its elements", [&] {
    by.reduce(sum, row_major(dtype::f32, misaligned, {2, 300}), nullptr, {1}, by.out);
  });
  refused("y.data: not aligned to its elements", [&] { by.reduce(dot, x, &y, {1}, by.out); });
  for (const std::int64_t padding : {0, 1})
    refused("x.data: not aligned to its elements", [&] {
      by.windows(sum, row_major(dtype::f32, misaligned, {2, 5}),
                 {window{.axis = 1, .size = 3, .padding = padding}});
    });
  refused("x.data: not aligned to its elements", [&] { segments(sum, misaligned, nullptr, list); });
  refused("y.data: not aligned to its elements", [&] { segments(dot, by.data, misaligned, list); });
  refused("offsets: null or not aligned", [&] { segments(sum, by.data, nullptr, nullptr); });
  refused("offsets: null or not aligned", [&] { segments(sum, by.data, nullptr, odd); });
  refused("x.data: not aligned to its elements",
          [&] { by_key(sum, misaligned, nullptr, list, 5, 901); });
  refused("y: dot takes two inputs", [&] { by_key(dot, by.data, nullptr, list, 5, 901); });
  refused("keys: null or not aligned", [&] { by_key(sum, by.data, nullptr, nullptr, 5, 901); });
  refused("keys: null or not aligned", [&] { by_key(sum, by.data, nullptr, odd, 4, 901); });
  refused("n: 2^32 elements or outputs, or more",
          [&] { by_key(sum, by.data, nullptr, list, four_billion, 901); });
  refused("n: 2^32 elements or outputs, or more",
          [&] { by_key(sum, by.data, nullptr, list, 5, four_billion); });
  refused("out: room for 1 results of 2", [&] {
    const reduction both[] = {sum, sum};
    cuda::reduce(both, x, nullptr, std::array{1}, {&by.out, 1}, by.workspace, by.work);
  });
  // And what is allowed is written.
  cuda::check_offsets(list, 3, 1000);
  cuda::check_keys(list, 5, 901);
  by.reduce(sum, x, nullptr, {1}, by.out);
  CHECK_FALSE(by.untouched());
}
