// Results made in parts, on a device that is host memory, and little of it.
#include "cli/parts.hpp"

#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include <cstring>
#include <optional>

#include "catch.hpp"
#include "data.hpp"
#include "view_data.hpp"

using namespace bitfold;

namespace {

// Refuses whatever is not in the memory that was asked for, and leaves nothing in its workspace.
class small_device final : public cli::device {
 public:
  explicit small_device(std::size_t bytes) : bytes_(bytes) {}
  int parts = 0;
  int of_one = 0;  // parts of single outputs
  int plans = 0;   // of these

  // Parts of a multiple of 16 elements, which it keeps elsewhere until the last one comes.
  class one_output final : public cli::output_in_parts {
   public:
    one_output(small_device& by, std::span<const reduction> all, std::size_t n, std::size_t memory)
        : by_(by), all_(all.begin(), all.end()), n_(n) {
      const std::size_t room =
          (static_cast<std::size_t>(info(all[0].op()).inputs) * size_of(all[0].in())) * 16;
      const std::size_t work = workspace_bytes() + 768;  // beginnings are aligned
      part_ = memory > work ? (memory - work) / room * 16 : 0;
      if (part_ == 0) throw error(errc::usage, "memory: too little");
    }
    std::size_t elements() const override { return part_; }
    std::size_t workspace_bytes() const override { return 40; }
    void add(const void* x, const void* y, std::span<void* const> out, void* workspace,
             std::size_t workspace_size) override {
      const std::size_t count = std::min(part_, n_ - begin_);
      REQUIRE(count > 0);
      REQUIRE(workspace_size == workspace_bytes());
      by_.own_arrays(all_, x, y, count);
      if (begin_ == 0)
        std::memset(workspace, 0x77, workspace_size);  // it is left alone from part to part
      by_.own(workspace, workspace_size);
      for (std::size_t i = 0; i < workspace_size; ++i)
        if (static_cast<std::byte*>(workspace)[i] != std::byte{0x77})
          FAIL("the workspace was written to");
      const auto keep = [&](std::vector<std::byte>& all, const void* part) {
        const auto* const bytes = static_cast<const std::byte*>(part);
        all.insert(all.end(), bytes, bytes + count * size_of(all_[0].in()));
      };
      keep(x_, x);
      if (y) keep(y_, y);
      begin_ += count;
      ++by_.of_one;
      if (begin_ < n_) return;
      const auto type = all_[0].in();
      const auto n = static_cast<std::int64_t>(n_);
      const view whole = row_major(type, x_.data(), {n}), second = row_major(type, y_.data(), {n});
      cpu::reduce(all_, whole, y ? &second : nullptr, std::vector{0}, by_.owned(all_, out, 1), {1});
    }

   private:
    small_device& by_;
    const std::vector<reduction> all_;
    const std::size_t n_;
    std::size_t part_, begin_ = 0;
    std::vector<std::byte> x_, y_;
  };
  std::unique_ptr<cli::output_in_parts> in_parts(std::span<const reduction> all, std::size_t n,
                                                 std::size_t memory) override {
    ++plans;
    return std::make_unique<one_output>(*this, all, n, memory);
  }

  std::size_t memory() const override { return bytes_; }
  std::byte* room(std::size_t bytes) override {
    REQUIRE(bytes <= bytes_);
    ++parts;
    have_ = bytes;
    storage_.assign(bytes + 512, std::byte{0xa5});
    return begin();
  }
  void put(std::byte* to, const void* from, std::size_t bytes) override {
    own(to, bytes);
    std::memcpy(to, from, bytes);
  }
  void get(void* to, const std::byte* from, std::size_t bytes) override {
    own(from, bytes);
    std::memcpy(to, from, bytes);
  }

  std::size_t workspace_bytes(std::span<const reduction>, const view& x, const view* y,
                              std::span<const int> axes) override {
    REQUIRE(reinterpret_cast<std::uintptr_t>(x.data) % 256 == 0);
    const auto l = detail::layout_of(x, y, axes);
    return l.outputs % 7 * 100;
  }
  void reduce(std::span<const reduction> all, const view& x, const view* y,
              std::span<const int> axes, std::span<void* const> out, void* workspace,
              std::size_t workspace_size) override {
    REQUIRE(workspace_size == workspace_bytes(all, x, y, axes));
    for (const view* v : {&x, y})
      if (v) {
        std::size_t n = size_of(v->type);
        for (int k = 0; k < v->rank; ++k) n *= static_cast<std::size_t>(v->extent[k]);
        placed(v->data, n);
      }
    use(workspace, workspace_size);
    cpu::reduce(all, x, y, axes, owned(all, out, detail::layout_of(x, y, axes).outputs), {1});
  }
  void reduce_segments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                       const std::int64_t* offsets, std::size_t segments,
                       std::span<void* const> out, void* workspace,
                       std::size_t workspace_size) override {
    REQUIRE(workspace_size == segments_workspace_bytes(all, n, segments));
    use(workspace, workspace_size);
    own_arrays(all, x, y, n);
    placed(offsets, 8 * (segments + 1));
    cpu::reduce_segments(all, x, y, n, {offsets, segments + 1}, owned(all, out, segments), {1});
  }
  std::size_t segments_workspace_bytes(std::span<const reduction>, std::size_t n,
                                       std::size_t segments) override {
    return n / 7 + segments;
  }
  std::size_t by_key_workspace_bytes(std::span<const reduction>, std::size_t n,
                                     std::size_t outputs) override {
    return n * 3 + outputs;
  }
  void reduce_by_key(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     const std::int64_t* keys, std::size_t outputs, std::span<void* const> out,
                     void* workspace, std::size_t workspace_size) override {
    REQUIRE(workspace_size == by_key_workspace_bytes(all, n, outputs));
    own_arrays(all, x, y, n);
    placed(keys, 8 * n);
    use(workspace, workspace_size);
    cpu::reduce_by_key(all, x, y, {keys, n}, outputs, owned(all, out, outputs), {1});
  }

 private:
  std::byte* begin() {
    const auto at = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (256 - at % 256);
  }
  // What a call is given is aligned, too.
  void placed(const void* p, std::size_t bytes) {
    own(p, bytes);
    if (reinterpret_cast<std::uintptr_t>(p) % 256) FAIL("not aligned");
  }
  void own(const void* p, std::size_t bytes) {
    const auto* const at = static_cast<const std::byte*>(p);
    if (at < begin() || at + bytes > begin() + have_) FAIL("not in the memory that was asked for");
  }
  void own_arrays(std::span<const reduction> all, const void* x, const void* y, std::size_t n) {
    placed(x, n * size_of(all[0].in()));
    if (y) placed(y, n * size_of(all[0].in()));
  }
  std::span<void* const> owned(std::span<const reduction> all, std::span<void* const> out,
                               std::size_t outputs) {
    for (std::size_t k = 0; k < all.size(); ++k) placed(out[k], outputs * size_of(all[k].out()));
    return out;
  }
  void use(void* workspace, std::size_t bytes) {
    placed(workspace, bytes);
    std::memset(workspace, 0x5a, bytes);
  }

  const std::size_t bytes_;
  std::size_t have_ = 0;
  std::vector<std::byte> storage_;
};

struct results {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<void*> out;
  results(std::span<const reduction> all, std::size_t outputs) {
    for (const reduction& r : all)
      bytes.emplace_back(outputs * size_of(r.out()) + 8, std::byte{0xa5});
    for (auto& b : bytes) out.push_back(b.data());
  }
};

std::vector<reduction> reductions_of(dtype t, int inputs, bool some_are_empty) {
  std::vector<reduction> all;
  for (const reduction& r : test::reductions_of_all_ops(t))
    if (info(r.op()).inputs == inputs &&
        !(some_are_empty && info(r.op()).empty == if_empty::refused))
      all.push_back(r);
  return all;
}

// Calls f with ever less memory, until not even a part of an output fits, and checks that it fails
// then. Returns the most parts that there were, and adds to of_one those of single outputs.
int of_one = 0;
template <class F>
int with_less_and_less_memory(const std::vector<std::vector<std::byte>>& want,
                              std::span<const reduction> all, std::size_t outputs, F f) {
  int most = 0;
  for (std::size_t memory = std::size_t{1} << 26; memory > 0; memory = memory * 3 / 5) {
    small_device d(memory);
    results got(all, outputs);
    try {
      f(d, got.out);
    } catch (const error& e) {
      CHECK(e.code() == errc::usage);
      const std::string text = e.what();
      CHECK(text.starts_with("output "));
      CHECK(text.find("more than the GPU takes (with " + std::to_string(memory) +
                      " bytes of memory): memory: too little; use --device cpu") !=
            std::string::npos);
      CHECK(d.parts == 0);  // before any work
      for (const auto& b : got.bytes)
        CHECK(std::count(b.begin(), b.end(), std::byte{0xa5}) ==
              static_cast<std::ptrdiff_t>(b.size()));
      return most;
    }
    if (got.bytes != want) {
      FAIL_CHECK("other bits in " << d.parts << " parts");
      return most;
    }
    most = std::max(most, d.parts);
    of_one += d.of_one;
  }
  CHECK(outputs == 0);
  return most;
}

}  // namespace

TEST_CASE("parts: along axes, of any view, whatever the memory") {
  test::random_bits next{3};
  int most = 0;
  for (int round = 0; round < 40; ++round) {
    const test::view_case c = test::random_view(next);
    INFO(c.describe());
    const auto all = reductions_of(c.type, c.two ? 2 : 1, c.elements_each() == 0);
    results want(all, c.outputs());
    cpu::reduce(all, c.x(), c.y(), c.axes, want.out, {1});
    most = std::max(most, with_less_and_less_memory(
                              want.bytes, all, c.outputs(), [&](cli::device& d, auto& out) {
                                cli::reduce_in_parts(d, all, c.x(), c.y(), c.axes, out, {});
                              }));
  }
  CHECK(most > 100);
  CHECK(of_one > 10);
}

TEST_CASE(
    "parts: one output that is longer than the memory, of a view whose elements do not lie in its "
    "order") {
  const std::int64_t n = (std::int64_t{1} << 23) + 5;  // elements are gathered 2^22 at a time
  std::vector<std::uint8_t> data(static_cast<std::size_t>(2 * n));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * i >> 7);
  const reduction all[] = {make_reduction(op_id::argmax, {}, dtype::u8),
                           make_reduction(op_id::sum, method_id::tree, dtype::u8)};
  view second = row_major(dtype::u8, data.data(), {n});
  second.stride[0] = 2;
  for (const view& x : {row_major(dtype::u8, data.data(), {n}), second}) {
    results want(all, 1);
    cpu::reduce(all, x, nullptr, std::vector{0}, want.out);
    small_device d(std::size_t{5} << 20);
    results got(all, 1);
    std::size_t given = 0;
    cli::reduce_in_parts(d, all, x, nullptr, std::vector{0}, got.out,
                         [&](std::size_t bytes) { given += bytes; });
    CHECK(d.of_one == 2);
    CHECK(d.plans == 1);
    CHECK(given == static_cast<std::size_t>(n));
    CHECK((got.bytes == want.bytes));
  }
}

TEST_CASE("parts: more bytes than are written at once, in short pieces and in one") {
  const std::int64_t rows = 1 << 24;  // 80 MiB, of which the columns 0, 1 and 2, 3, 4 fit
  std::vector<std::uint8_t> data(5 * static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * i >> 7);
  const reduction all[] = {make_reduction(op_id::argmax, {}, dtype::u8),
                           make_reduction(op_id::sum, method_id::tree, dtype::u8)};
  const view x = row_major(dtype::u8, data.data(), {rows, 5});
  results want(all, 5);
  cpu::reduce(all, x, nullptr, std::vector{0}, want.out);
  for (const std::size_t memory : {std::size_t{60} << 20, std::size_t{90} << 20}) {
    small_device d(memory);
    results got(all, 5);
    cli::reduce_in_parts(d, all, x, nullptr, std::vector{0}, got.out, {});
    CHECK(d.parts == (memory < data.size() ? 2 : 1));
    CHECK((got.bytes == want.bytes));
  }
}

TEST_CASE("parts: segments and keys, of any length, whatever the memory") {
  test::random_bits next{4};
  for (const dtype t : {dtype::f16, dtype::f32, dtype::u64})
    for (const int inputs : {1, 2})
      for (const bool some_are_empty : {true, false}) {
        std::vector<std::int64_t> offsets{2};
        for (int k = 0; k < 70; ++k)
          offsets.push_back(offsets.back() +
                            (some_are_empty && k % 3 == 0
                                 ? 0
                                 : 1 + static_cast<std::int64_t>(next() % (k == 40 ? 500 : 60))));
        const auto n = static_cast<std::size_t>(offsets.back()) + 3, segments = offsets.size() - 1,
                   outputs = std::size_t{45};
        const auto x = test::make_data(t, test::kind::near_one, n, 1),
                   y = test::make_data(t, test::kind::near_one, n, 2);
        std::vector<std::int64_t> keys(n);
        for (std::size_t i = 0; i < n; ++i)
          keys[i] = i < outputs && !some_are_empty
                        ? static_cast<std::int64_t>(i)
                        : static_cast<std::int64_t>(next() % 9 * (next() % 6));
        const auto several = reductions_of(t, inputs, some_are_empty);
        const void* const second = inputs == 2 ? y.data() : nullptr;
        const std::size_t size = size_of(t) * static_cast<std::size_t>(inputs);
        INFO(name(t) << " " << inputs << " " << some_are_empty);

        // Each element is given once.
        const auto check_given = [](std::size_t given, std::size_t want) {
          if (given != want) CHECK(given == want);
        };
        for (const std::span all : {std::span(several), std::span(several).first(1)}) {
          const int enough = all.size() == 1 ? 3 : 1;
          results of_segments(all, segments), of_keys(all, outputs);
          cpu::reduce_segments(all, x.data(), second, n, offsets, of_segments.out, {1});
          cpu::reduce_by_key(all, x.data(), second, keys, outputs, of_keys.out, {1});
          CHECK(with_less_and_less_memory(
                    of_segments.bytes, all, segments, [&](cli::device& d, auto& out) {
                      std::size_t given = 0;
                      cli::reduce_segments_in_parts(d, all, x.data(), second, n, offsets, out,
                                                    [&](std::size_t bytes) { given += bytes; });
                      check_given(given,
                                  static_cast<std::size_t>(offsets.back() - offsets[0]) * size);
                    }) >= enough);
          CHECK(with_less_and_less_memory(
                    of_keys.bytes, all, outputs, [&](cli::device& d, auto& out) {
                      std::size_t given = 0;
                      cli::reduce_by_key_in_parts(d, all, x.data(), second, keys, outputs, out,
                                                  [&](std::size_t bytes) { given += bytes; });
                      check_given(given, n * size);
                    }) >= enough);
        }
      }
}

TEST_CASE("parts: what the CPU refuses is refused in the same words, before any work") {
  const std::vector<float> x(6, 1.0f);
  const reduction max[] = {make_reduction(op_id::max, {}, dtype::f32)},
                  sum[] = {make_reduction(op_id::sum, method_id::tree, dtype::f32)};
  float results[6];
  void* const out[] = {results};
  const auto same = [&](auto on_device, auto on_cpu) {
    small_device d(1 << 20);
    std::string here, there;
    try {
      on_device(d);
    } catch (const error& e) {
      here = e.what();
    }
    try {
      on_cpu();
    } catch (const error& e) {
      there = e.what();
    }
    CHECK(!here.empty());
    CHECK(here == there);
    CHECK(d.parts == 0);
  };
  const view none = row_major(dtype::f32, x.data(), {2, 0}),
             some = row_major(dtype::f32, x.data(), {2, 3});
  const view vast = row_major(dtype::f32, x.data(), {std::int64_t{1} << 40, std::int64_t{1} << 40});
  for (const auto& [of, axes] :
       {std::pair{none, std::vector{1}}, {some, {2}}, {some, {0, 0}}, {vast, {1}}})
    same([&](cli::device& d) { cli::reduce_in_parts(d, max, of, nullptr, axes, out, {}); },
         [&] { cpu::reduce(max, of, nullptr, axes, out); });
  const auto segments = [&](std::span<const reduction> all, std::vector<std::int64_t> offsets) {
    same(
        [&](cli::device& d) {
          cli::reduce_segments_in_parts(d, all, x.data(), nullptr, 6, offsets, out, {});
        },
        [&] { cpu::reduce_segments(all, x.data(), nullptr, 6, offsets, out); });
  };
  segments(sum, {});
  segments(sum, {0, 3, 2});
  segments(sum, {0, 7});
  segments(sum, {-1, 6});
  segments(max, {0, 2, 2, 6});
  const auto keys = [&](std::span<const reduction> all, std::vector<std::int64_t> list,
                        std::size_t outputs) {
    same(
        [&](cli::device& d) {
          cli::reduce_by_key_in_parts(d, all, x.data(), nullptr, list, outputs, out, {});
        },
        [&] { cpu::reduce_by_key(all, x.data(), nullptr, list, outputs, out); });
  };
  keys(sum, {0, 1, 2, 3, 4, 5}, 5);
  keys(sum, {0, 1, -2, 3, 4, 5}, 6);
  keys(max, {0, 1, 3, 3, 4, 5}, 6);
}
