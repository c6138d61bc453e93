// CUDA = reference, to the bit: every dtype, method, accumulator and output type, lengths around
// every boundary, unaligned starts, special values, and many launch shapes.
#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/exact.hpp>
#include <bitfold/reference.hpp>

#include "catch.hpp"
#include "companies.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"
#include "refusals.hpp"

#include "bench/gpu_time.hpp"
#include "gpu/devices.hpp"
#include "gpu/exact.hpp"
#include "gpu/launcher.hpp"
#include "gpu/request.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

using namespace bitfold;

namespace {

using test::device_memory;

// Those that BITFOLD_TEST_TYPES names, or all: the kernels of some thousand cases take minutes to
// compile, and several processes can share them out.
std::vector<dtype> types_of_test() {
  std::vector<dtype> all(all_dtypes.begin(), all_dtypes.end());
  if (const char* const some = std::getenv("BITFOLD_TEST_TYPES"))
    std::erase_if(all, [&](dtype t) {
      return ("," + std::string(some) + ",").find("," + std::string(name(t)) + ",") ==
             std::string::npos;
    });
  return all;
}

// The launch shapes that the tests vary at will; the first is the library's own choice.
std::vector<cuda::launch> shapes() {
  std::vector<cuda::launch> out{{}};
  for (int threads : {32, 96, 256, 512})
    for (int blocks : {1, 2, 7, 500})
      for (int tiles : {1, 4, 1024}) out.push_back({threads, blocks, tiles, tiles != 4});
  return out;
}

// The library's own choice, which of short arrays is a leaf a warp; and a shape with which they go
// by tiles.
const std::vector<cuda::launch> by_leaves_and_tiles{{}, {.threads = 64}};

std::string describe(const cuda::launch& s) {
  return " threads=" + std::to_string(s.threads) + " blocks=" + std::to_string(s.blocks) +
         " tiles=" + std::to_string(s.tiles) + " overlap=" + std::to_string(s.overlap);
}

// One array on the device, reduced in many ways.
struct on_device {
  static constexpr std::size_t room = std::size_t{1} << 25,
                               slot =
                                   16;  // bytes of the workspace, and from one result to the next
  device_memory in, out{256 * slot}, workspace{room};
  explicit on_device(const std::vector<std::byte>& data) : in(data.size() + 16) {
    test::put(in.p, data.data(), data.size());
  }
  // In one call. Of two inputs the second starts at element `second`.
  std::vector<scalar> reduce(std::span<const reduction> all, std::size_t first, std::size_t n,
                             const cuda::launch& shape, std::size_t second = 0) {
    std::vector<std::byte> host(all.size() * slot);
    std::vector<void*> where;
    for (std::size_t k = 0; k < all.size(); ++k) where.push_back(out.as<std::byte>() + k * slot);
    const std::size_t work = cuda::workspace_bytes(all, n, shape);
    REQUIRE((all.size() <= 256 && work <= room));
    test::set(out.p, 0xab, host.size());
    const auto at = [&](std::size_t i) { return in.as<std::byte>() + i * size_of(all[0].in()); };
    cuda::reduce(all, at(first), info(all[0].op()).inputs == 2 ? at(second) : nullptr, n, where,
                 workspace.p, work, nullptr, shape);
    test::get(host.data(), out.p, host.size());
    std::vector<scalar> got;
    for (std::size_t k = 0; k < all.size(); ++k) {
      REQUIRE(host[k * slot + size_of(all[k].out())] ==
              std::byte{0xab});  // wrote its own bytes only
      got.push_back(load_scalar(all[k].out(), &host[k * slot]));
    }
    return got;
  }
  scalar reduce(const reduction& r, std::size_t first, std::size_t n, const cuda::launch& shape,
                std::size_t second = 0) {
    return reduce(std::span(&r, 1), first, n, shape, second)[0];
  }
};

// Makes the kernels of whole arrays of these lengths: of each alone, and of all together.
void prepare(std::span<const reduction> all, const std::vector<std::size_t>& lengths,
             const std::vector<cuda::launch>& alone, const std::vector<cuda::launch>& together) {
  std::vector<gpu::plan> plans;
  for (const std::size_t n : lengths)
    for (const bool aligned : {true, false}) {
      for (const cuda::launch& shape : alone)
        for (const reduction& r : all) plans.push_back(gpu::plan_of({{&r, 1}, n, aligned}, shape));
      for (const cuda::launch& shape : together)
        plans.push_back(gpu::plan_of({all, n, aligned}, shape));
    }
  test::prepare(plans);
}

void compare(const reduction& r, const std::vector<std::byte>& data, on_device& d,
             std::size_t first, std::size_t n, const cuda::launch& shape, const std::string& what) {
  const scalar want = reference(r, data.data() + first * size_of(r.in()), n);
  const scalar got = d.reduce(r, first, n, shape);
  if (got != want) {
    INFO(test::describe(r, n) << " first=" << first << describe(shape) << " " << what << " got "
                              << to_hex(got) << " want " << to_hex(want));
    REQUIRE(got == want);
  }
}

}  // namespace

TEST_CASE("cuda: every type, method and boundary gives the reference's bits", "[cuda]") {
  for (dtype t : types_of_test()) {
    auto all = test::all_reductions(t);
    std::erase_if(all, [](const reduction& r) { return r.method() == method_id::sequential; });
    prepare(all, {1, 1000, 20000}, by_leaves_and_tiles, {});
    for (test::kind k : test::all_kinds) {
      const auto lengths = test::boundary_lengths();
      const auto data = test::make_data(t, k, 20000, 1);
      on_device d(data);
      for (std::size_t n : lengths)
        for (const reduction& r : test::all_reductions(t)) {
          if (r.method() == method_id::sequential) continue;
          for (const cuda::launch& shape : by_leaves_and_tiles)
            compare(r, data, d, n % 3, n, shape, test::name(k));
        }
    }
  }
  SUCCEED();
}

TEST_CASE("cuda: no launch shape moves a bit", "[cuda]") {
  const auto all = shapes();
  REQUIRE(all.size() >= 20);
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64})
    for (test::kind k : {test::kind::near_one, test::kind::special}) {
      const std::size_t longest = 1'300'001;
      const auto data = test::make_data(t, k, longest + 3, 2);
      on_device d(data);
      for (std::size_t n : {std::size_t{1}, std::size_t{4097}, std::size_t{70'001}, longest})
        for (const auto& m : all_methods) {
          if (!m.on_gpu()) continue;
          const reduction r = make_reduction(op_id::sum, m.id, t);
          const scalar want = reference(r, data.data() + 3 * size_of(t), n);
          for (const auto& shape : all) {
            const scalar got = d.reduce(r, 3, n, shape);
            if (got != want) {
              INFO(test::describe(r, n) << describe(shape) << " " << test::name(k));
              REQUIRE(to_hex(got) == to_hex(want));
            }
          }
        }
    }
  SUCCEED();
}

// ---- Every operation ----------------------------------------------------------------------------

namespace {

// Each of a list, alone in these launch shapes and all in one call, has the bits of the reference.
void compare_all(std::span<const reduction> all, const std::vector<std::byte>& data, on_device& d,
                 std::size_t first, std::size_t second, std::size_t n,
                 const std::vector<cuda::launch>& alone, const std::string& what) {
  const std::vector<cuda::launch> together{{}, {64, 3, 2, true}};
  prepare(all, {n}, alone, together);
  const std::size_t size = size_of(all[0].in());
  const void *x = data.data() + first * size,
             *y = info(all[0].op()).inputs == 2 ? data.data() + second * size : nullptr;
  std::vector<scalar> want;
  for (const reduction& r : all) want.push_back(reference(r, x, y, n));
  const auto expect = [&](std::size_t k, const scalar& got, const cuda::launch& shape,
                          const char* how) {
    if (got == want[k]) return;
    INFO(test::describe(all[k], n) << how << " of " << all.size() << " first=" << first
                                   << " second=" << second << describe(shape) << " " << what);
    CHECK(to_hex(got) == to_hex(want[k]));
  };
  for (const cuda::launch& shape : alone)
    for (std::size_t k = 0; k < all.size(); ++k)
      expect(k, d.reduce(all[k], first, n, shape, second), shape, " alone");
  for (const cuda::launch& shape : together) {
    const auto got = d.reduce(all, first, n, shape, second);
    for (std::size_t k = 0; k < all.size(); ++k) expect(k, got[k], shape, " together");
  }
}

// What a GPU does of dtype t, in lists for one call each.
std::vector<std::vector<reduction>> companies(dtype t, bool of_none = false) {
  auto lists = test::companies(t, 1, of_none);
  for (auto& list : test::companies(t, 2, of_none)) lists.push_back(std::move(list));
  for (auto& list : lists)
    std::erase_if(list, [](const reduction& r) { return r.method() == method_id::sequential; });
  return lists;
}

}  // namespace

TEST_CASE(
    "cuda: every operation, alone and in company, gives the reference's bits at every boundary",
    "[cuda][ops]") {
  for (dtype t : types_of_test())
    for (test::kind k : {test::kind::near_one, test::kind::special}) {
      const auto data = test::make_data(t, k, 20'100, 11);
      on_device d(data);
      auto all = test::stretches();
      all.push_back({2, 20'001});
      for (const auto& [first, n] : all)
        for (const auto& list : companies(t, n == 0))
          compare_all(list, data, d, first, n % 2 ? 16 : 5, n, by_leaves_and_tiles, test::name(k));
    }
  SUCCEED();
}

TEST_CASE("cuda: no launch shape moves a bit of any operation, nor does company", "[cuda][ops]") {
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i16, dtype::u64})
    for (std::size_t n : {std::size_t{40'000}, std::size_t{700'003}}) {
      const auto data = test::make_data(t, test::kind::near_one, n + 16, 11);
      on_device d(data);
      for (const auto& list : companies(t)) compare_all(list, data, d, 0, 16, n, shapes(), "");
    }
  SUCCEED();
}

TEST_CASE("cuda: operations on a short array", "[cuda][ops][racecheck]") {
  for (dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i8}) {
    const auto data = test::make_data(t, test::kind::near_one, 40'194, 11);
    on_device d(data);
    for (const auto& list : companies(t)) {
      compare_all(list, data, d, 1, 2, 9'001, {{}, {64, 3, 2, true}}, "");
      // By leaves, in one block and in several, the last leaf short or not.
      for (const std::size_t n : {2'100, 2'560, 40'001, 40'192})
        compare_all(list, data, d, 1, 2, n, {{}}, "");
    }
  }
  SUCCEED();
}

namespace {

// All that there is of so many inputs, but what has no company.
std::vector<reduction> sociable_reductions(dtype t, int inputs) {
  auto all = test::reductions_of_all_ops(t);
  std::erase_if(all, [&](const reduction& r) {
    return info(r.op()).inputs != inputs || r.method() == method_id::sequential ||
           r.method() == method_id::exact || r.op() == op_id::count_distinct;
  });
  return all;
}

}  // namespace

TEST_CASE("cuda: any set of operations has the reference's bits, in any launch shape",
          "[cuda][ops]") {
  const std::size_t most = 300'007;
  test::random_bits random{32};
  const auto all_shapes = shapes();
  for (dtype t : all_dtypes)
    for (const test::kind kind :
         {test::kind::any_bits, test::kind::special, test::kind::near_one}) {
      const auto data = test::make_data(t, kind, 2 * most, 33);
      on_device d(data);
      std::vector<std::size_t> lengths{257, 1023, 4099, 70'000, most - 7};
      for (std::size_t n = 1; n <= 72; ++n) lengths.push_back(n);  // of lanes and rows
      for (int i = 0; i < 8; ++i) lengths.push_back(random() % 2048 + 1);
      for (const int inputs : {1, 2})
        for (const std::size_t n : lengths) {
          const auto all = sociable_reductions(t, inputs);
          const std::size_t first = n % 8, second = most;
          std::vector<scalar> want(all.size());
          cpu::reduce(all, data.data() + first * size_of(t),
                      inputs == 2 ? data.data() + second * size_of(t) : nullptr, n, want);
          for (int i = 0; i < (n > 72 ? 12 : 3); ++i) {
            std::vector<std::size_t> which;
            for (std::size_t k = random() % 16 + 2; k > 0; --k)
              which.push_back(random() % all.size());
            std::vector<reduction> some;
            for (const std::size_t k : which) some.push_back(all[k]);
            const cuda::launch& shape = all_shapes[i < 3 ? 0 : random() % all_shapes.size()];
            const auto got = d.reduce(some, first, n, shape, second);
            for (std::size_t k = 0; k < some.size(); ++k) {
              INFO(test::describe(some[k], n) << " number " << k << " of " << some.size()
                                              << describe(shape) << " " << test::name(kind));
              CHECK(to_hex(got[k]) == to_hex(want[which[k]]));
            }
          }
        }
    }
}

TEST_CASE("cuda: sets of operations on a short array", "[cuda][ops][racecheck]") {
  for (dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i8}) {
    const std::size_t n = 9'001;
    const auto data = test::make_data(t, test::kind::near_one, 2 * n + 2, 12);
    on_device d(data);
    for (const int inputs : {1, 2})
      for (const std::size_t here : {n, std::size_t{100}})
        compare_all(sociable_reductions(t, inputs), data, d, 1, n + 1, here, {}, "");
  }
  // Nodes of many tiles, and many nodes.
  const std::size_t n = 300'000;
  const auto data = test::make_data(dtype::f32, test::kind::near_one, n + 1, 13);
  on_device d(data);
  std::vector<reduction> some;
  for (const op_id op : {op_id::sum, op_id::norm_l2, op_id::argmax, op_id::var})
    some.push_back(make_reduction(op, {}, dtype::f32));
  for (const cuda::launch& shape :
       {cuda::launch{.threads = 128, .tiles = 1024}, cuda::launch{.threads = 64, .tiles = 1}}) {
    const auto got = d.reduce(some, 1, n, shape);
    for (std::size_t k = 0; k < some.size(); ++k)
      CHECK(got[k] == reference(some[k], data.data() + sizeof(float), n));
  }
}

// Short, so that it can run whole under compute-sanitizer's racecheck.
TEST_CASE("cuda: every launch shape on a short array", "[cuda][racecheck]") {
  const std::size_t n = 70'001;
  for (dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i8}) {
    const auto data = test::make_data(t, test::kind::near_one, n, 6);
    on_device d(data);
    for (const auto& m : all_methods)
      for (const auto& shape : shapes())
        if (m.on_gpu()) compare(make_reduction(op_id::sum, m.id, t), data, d, 0, n, shape, "");
  }
  SUCCEED();
}

TEST_CASE("cuda: every element alignment", "[cuda][racecheck]") {
  for (dtype t : all_dtypes) {
    const auto data = test::make_data(t, test::kind::near_one, 50'100, 3);
    on_device d(data);
    for (std::size_t first = 0; first < 17; ++first)
      for (const auto& m : all_methods)
        if (m.on_gpu())
          compare(make_reduction(op_id::sum, m.id, t), data, d, first, 50'001, {}, "");
  }
  SUCCEED();
}

TEST_CASE("cuda: the same graph, replayed, and the pool overload", "[cuda][racecheck]") {
  const std::size_t n = 3'000'001;
  const reduction r = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  const auto data = test::make_data(dtype::f32, test::kind::near_one, n, 4);
  const scalar want = reference(r, data.data(), n);
  on_device d(data);
  const speed::stream stream;
  const std::size_t bytes = cuda::workspace_bytes(r, n);
  REQUIRE(bytes > 0);
  int next = 0;
  const speed::graph graph(stream, 5, [&](gpu::stream s) {
    cuda::reduce(r, d.in.p, n, d.out.as<float>() + next++, d.workspace.p, bytes, s);
  });
  for (int replay = 0; replay < 20; ++replay) {
    test::set(d.out.p, 0, 64, stream);
    graph.launch();
    float out[5];
    test::get(out, d.out.p, sizeof out, stream);
    for (float f : out) REQUIRE(load_scalar(dtype::f32, &f) == want);
  }
  cuda::reduce(r, d.in.p, n, d.out.p, stream);
  float f;
  test::get(&f, d.out.p, sizeof f, stream);
  REQUIRE(load_scalar(dtype::f32, &f) == want);
  REQUIRE(cuda::reduce_host(r, data.data(), n) == want);
}

TEST_CASE("cuda: arrays that come in parts have the bits that they have at once", "[cuda]") {
  for (const dtype t : {dtype::f32, dtype::f16, dtype::f64, dtype::i16, dtype::u64})
    for (const std::size_t n :
         {std::size_t{1}, std::size_t{255}, std::size_t{100'003}, std::size_t{1'500'001}}) {
      const std::size_t size = size_of(t);
      const auto data = test::make_data(t, test::kind::any_bits, 2 * n, 5);
      const auto *const x = data.data(), *const y = x + n * size;
      for (const std::size_t inputs : {1, 2}) {
        // What has an order, all of it and each by itself; and each term that exact ones sum, by
        // itself: its states take much room.
        std::vector<std::vector<reduction>> lists(1);
        for (const reduction& r : test::reductions_of_all_ops(t))
          if (info(r.op()).inputs == static_cast<int>(inputs) &&
              r.method() != method_id::sequential && r.op() != op_id::count_distinct) {
            if (r.method() != method_id::exact) lists[0].push_back(r);
            if (r.method() == method_id::exact || n == 100'003) lists.push_back({r});
          }
        for (const auto& all : lists) {
          std::vector<scalar> want(all.size());
          cpu::reduce(all, x, inputs == 2 ? y : nullptr, n, want);
          int most = 0;
          for (const cuda::launch& shape :
               {cuda::launch{}, {.threads = 64, .blocks = 3, .tiles = 2}})
            // Ever less memory, until it is too little.
            for (std::size_t memory =
                     2 * (inputs * n * size + cuda::workspace_bytes(all, n, shape)) + 4096;
                 ; memory = memory * 2 / 5) {
              std::optional<cuda::in_parts> of;
              try {
                of.emplace(all, n, memory, shape);
              } catch (const error& e) {
                CHECK(std::string(e.what()).starts_with("memory: " + std::to_string(memory)));
                break;
              }
              INFO(test::describe(all[0], n)
                   << " in parts of " << of->elements() << describe(shape));
              const device_memory first(of->elements() * size), second(of->elements() * size),
                  out(8 * all.size()), workspace(of->workspace_bytes());
              CHECK(inputs * of->elements() * size + of->workspace_bytes() <= memory);
              std::vector<void*> to;
              for (std::size_t k = 0; k < all.size(); ++k)
                to.push_back(out.as<std::byte>() + 8 * k);
              const auto add = [&] {
                of->add(first.p, inputs == 2 ? second.p : nullptr, to, workspace.p,
                        of->workspace_bytes());
              };
              int parts = 0;
              for (std::size_t at = 0; at < n; at += of->elements(), ++parts) {
                const std::size_t bytes = std::min(of->elements(), n - at) * size;
                test::set(first.p, 0x5a, of->elements() * size);
                test::put(first.p, x + at * size, bytes);
                if (inputs == 2) test::put(second.p, y + at * size, bytes);
                add();
              }
              most = std::max(most, parts);
              std::vector<std::byte> got(8 * all.size());
              test::get(got.data(), out.p, got.size());
              for (std::size_t k = 0; k < all.size(); ++k) {
                INFO(test::describe(all[k], n));
                CHECK(load_scalar(all[k].out(), got.data() + 8 * k) == want[k]);
              }
              CHECK_THROWS_WITH(add(), "x: a part after the last");
            }
          CHECK(most >= (n > 1'000'000 ? 3 : 1));
        }
      }
    }
  const reduction sorts[] = {make_reduction(op_id::count_distinct, {}, dtype::f32)},
                  sum[] = {make_reduction(op_id::sum, method_id::tree, dtype::f32)};
  CHECK_THROWS_WITH(cuda::in_parts(sorts, 1000, 100),
                    "count_distinct: sorts all elements at once, and so not in parts");
  CHECK_THROWS_WITH(cuda::in_parts(sum, 1'000'000, 1000),
                    "memory: 1000 bytes are too few for a part of the elements");
}

TEST_CASE("cuda: bounds beside results, which are the CPU's", "[cuda]") {
  for (const dtype t : {dtype::f32, dtype::f64, dtype::bf16, dtype::i32})
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{70'001}}) {
      const auto data = test::make_data(t, test::kind::near_one, 2 * n, 8);
      for (const int inputs : {1, 2}) {
        std::vector<reduction> all;
        for (const reduction& r : test::reductions_of_all_ops(t))
          if (info(r.op()).inputs == inputs && r.method() != method_id::sequential &&
              has_error_bound(r.op(), r.method()))
            all.push_back(r);
        const void* const y = inputs == 2 ? data.data() + n * size_of(t) : nullptr;
        const auto want = cpu::reduce_with_bounds(all, data.data(), y, n),
                   got = cuda::reduce_host_with_bounds(all, data.data(), y, n);
        REQUIRE(got.size() == all.size());
        for (std::size_t k = 0; k < all.size(); ++k) {
          INFO(test::describe(all[k], n));
          CHECK(got[k].value == want[k].value);
          CHECK(got[k].bound == want[k].bound);
        }
      }
    }
}

TEST_CASE("cuda: more than 2^33 elements", "[cuda]") {
  const std::size_t n = (std::size_t{1} << 33) + 3;
  std::optional<gpu::device_memory> memory;
  try {
    (void)gpu::current_device();
    memory.emplace(2 * n);
  } catch (const error&) {
    WARN("not run: this GPU has less than 16 GiB free");
    return;
  }
  void* const p = memory->begin();
  device_memory out(16);
  test::set(p, 0x3c, 2 * n);
  // As f16 each is 1 + 15/256; in f64 every partial sum is exact.
  const reduction r =
      make_reduction(op_id::sum, method_id::tree, dtype::f16, dtype::f64, dtype::f64);
  cuda::reduce(r, p, n, out.p);
  double sum = 0;
  test::get(&sum, out.p, sizeof sum);
  CHECK(sum == static_cast<double>(n) * (1 + 15.0 / 256));
  const reduction bytes = make_reduction(op_id::sum, method_id::tree, dtype::u8);
  cuda::reduce(bytes, p, 2 * n, out.p);
  std::uint64_t count = 0;
  test::get(&count, out.p, sizeof count);
  CHECK(count == 2 * n * 0x3c);

  // What counts elements, or where they are: each alone, and with the CPU's bits.
  auto* const bytes_of = static_cast<std::uint8_t*>(p);
  test::set(p, 0, n);
  const auto put = [&](std::size_t at, int value) { test::set(bytes_of + at, value, 1); };
  put(0, 1), put((std::size_t{1} << 32) + 7, 9), put(n - 1, 4);
  const auto of = [&](op_id op) {
    const reduction r = make_reduction(op, {}, dtype::u8);
    cuda::reduce(r, p, n, out.p);
    std::byte got[8];
    test::get(got, out.p, 8);
    return load_scalar(r.out(), got);
  };
  CHECK(to_string(of(op_id::argmax)) == std::to_string((std::size_t{1} << 32) + 7));
  CHECK(to_string(of(op_id::count_nonzero)) == "3");
  // As on the CPU, where these pages of zeros take no memory.
  void* const host =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(host != MAP_FAILED);
  auto* const same = static_cast<std::uint8_t*>(host);
  same[0] = 1, same[(std::size_t{1} << 32) + 7] = 9, same[n - 1] = 4;
  for (const op_id op : {op_id::mean, op_id::var, op_id::skewness, op_id::norm_l2}) {
    INFO(name(op));
    CHECK(of(op) == cpu::reduce(make_reduction(op, {}, dtype::u8), same, n));
  }
  munmap(host, n);
}

// Any bits, but of no infinity nor NaN, which would hide all else, and of no double whose square is
// one.
std::vector<std::byte> any_finite_bits(dtype t, std::size_t n, std::uint64_t seed) {
  auto data = test::make_data(t, test::kind::any_bits, n, seed);
  visit(t, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      using bits = typename exact::range<T>::bits;
      constexpr auto bit = [](int at) { return static_cast<bits>(bits{1} << at); };
      constexpr bits first = bit(exact::range<T>::width - 2),
                     last = bit(exact::range<T>::mantissa);  // of the exponent
      for (std::size_t i = 0; i < n; ++i)
        reinterpret_cast<bits*>(data.data())[i] &=
            static_cast<bits>(~(sizeof(T) == 8 ? first | last : last));
    }
  });
  return data;
}

TEST_CASE("cuda: exact sums of so many elements that a thread's numbers must be emptied",
          "[cuda][exact]") {
  const std::size_t n = (std::size_t{1} << 20) + 3;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32, dtype::u64})
    for (const auto& [what, data] :
         {std::pair("near one", test::make_data(t, test::kind::near_one, 2 * n, 21)),
          std::pair("any bits", test::make_data(t, test::kind::any_bits, 2 * n, 21)),
          std::pair("any finite bits", any_finite_bits(t, 2 * n, 21))}) {
      on_device d(data);
      for (const op_info& op : all_op_infos) {
        if (!op.has_exact) continue;
        const reduction r = make_reduction(op.id, method_id::exact, t, {},
                                           is_float(t) ? dtype::f64 : std::optional<dtype>());
        const void* y = op.inputs == 2 ? data.data() + n * size_of(t) : nullptr;
        INFO(test::describe(r, n) << " " << what);
        CHECK(d.reduce(r, 0, n, {.threads = 32, .blocks = 1}, n) ==
              cpu::reduce(r, data.data(), y, n));
      }
    }
}

// Then a warp's levels move, and are emptied, at each step; and a block's cells are carried often.
TEST_CASE("cuda: exact sums whose exponents jump from one run of elements to the next",
          "[cuda][exact]") {
  const std::size_t n = (std::size_t{1} << 20) + 3;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (std::size_t run : {128, 512})
      for (bool finite : {true, false}) {
        auto data = finite ? any_finite_bits(t, 2 * n, 23)
                           : test::make_data(t, test::kind::any_bits, 2 * n, 23);
        visit(t, [&]<class T>(std::type_identity<T>) {
          if constexpr (!std::is_integral_v<T>) {
            using bits = typename exact::range<T>::bits;
            constexpr bits exponent = static_cast<bits>(2 * exact::range<T>::bias + 1)
                                      << exact::range<T>::mantissa;
            auto* const x = reinterpret_cast<bits*>(data.data());
            for (std::size_t i = 0; i < 2 * n; ++i)
              x[i] = static_cast<bits>((x[i] & ~exponent) | (x[i - i % n % run] & exponent));
          }
        });
        on_device d(data);
        for (const op_info& op : all_op_infos) {
          if (!op.has_exact) continue;
          const reduction r = make_reduction(op.id, method_id::exact, t, {}, dtype::f64);
          const void* y = op.inputs == 2 ? data.data() + n * size_of(t) : nullptr;
          INFO(test::describe(r, n) << " run=" << run << (finite ? " finite" : ""));
          CHECK(d.reduce(r, 0, n, {.threads = 32, .blocks = 1}, n) ==
                cpu::reduce(r, data.data(), y, n));
        }
      }
}

// What goes to a bin is as large as can be, and all of one sign: 2^39 - 1 of its units. All of it
// cancels in the end, so that a unit shows.
TEST_CASE("cuda: exact sums of doubles and of products that fill their bins", "[cuda][exact]") {
  const std::size_t n = std::size_t{1} << 21;
  const double one = 0x1p-23,
               full = one * (1 + (0x1p39 - 1) * 0x1p-52);  // exponent 1000, a multiple of 20
  std::vector<double> x(2 * n, 1.0);
  for (std::size_t i = 0; i + 1 < n; ++i) x[i] = i % 2 ? -one : full;
  x[n - 1] = -one - static_cast<double>(n / 2) * (full - one);
  for (const double sign : {1.0, -1.0}) {
    for (double& v : x) v *= sign;
    on_device d(std::vector<std::byte>(reinterpret_cast<std::byte*>(x.data()),
                                       reinterpret_cast<std::byte*>(x.data() + 2 * n)));
    for (const cuda::launch& shape : {cuda::launch{.threads = 32, .blocks = 1}, cuda::launch{}}) {
      INFO(sign << describe(shape));
      const reduction sum = make_reduction(op_id::sum, method_id::exact, dtype::f64);
      CHECK(to_hex(d.reduce(sum, 0, n, shape)) == to_hex(cpu::reduce(sum, x.data(), nullptr, n)));
    }
  }
  // (1 + 2^-23)^2 - (1 + 2^-22), which is 2^-46.
  std::vector<float> y(2 * n, 1.0f + 0x1p-23f);
  for (std::size_t i = 1; i < n; i += 2) y[i] = -1.0f, y[n + i] = 1.0f + 0x1p-22f;
  std::vector<std::byte> bytes(reinterpret_cast<std::byte*>(y.data()),
                               reinterpret_cast<std::byte*>(y.data() + 2 * n));
  on_device d(bytes);
  const reduction dot = make_reduction(op_id::dot, method_id::exact, dtype::f32, {}, dtype::f64);
  for (const cuda::launch& shape : {cuda::launch{.threads = 32, .blocks = 1}, cuda::launch{}})
    CHECK(to_hex(d.reduce(dot, 0, n, shape, n)) ==
          to_hex(cpu::reduce(dot, y.data(), y.data() + n, n)));
}

TEST_CASE("cuda: exact sums of zeros, and what cancels, in every bin", "[cuda][exact]") {
  const auto compare = [](const auto& x, std::initializer_list<op_id> ops) {
    using T = std::decay_t<decltype(x[0])>;
    const std::size_t n = x.size() / 2;
    on_device d(std::vector<std::byte>(reinterpret_cast<const std::byte*>(x.data()),
                                       reinterpret_cast<const std::byte*>(x.data() + 2 * n)));
    for (const op_id op : ops) {
      const reduction r = make_reduction(op, method_id::exact, dtype_of<T>);
      INFO(test::describe(r, n) << " " << x[0] << " " << x[1] << " " << x[n]);
      CHECK(to_hex(d.reduce(r, 0, n, {}, n)) ==
            to_hex(cpu::reduce(r, x.data(), info(op).inputs == 2 ? x.data() + n : nullptr, n)));
    }
  };
  const auto all = {op_id::sum, op_id::nansum, op_id::norm_l1, op_id::dot};
  for (std::size_t half : {3, 600, 5000}) {
    for (int e = -1074; e < 1024; e += half == 3 ? 3 : 97) {
      std::vector<double> x(2 * half, -0.0);
      x[0] = std::ldexp(1.0, e), x[1] = -x[0];
      compare(x, all);
      x[1] = std::ldexp(-1.0, e / 2);
      compare(x, {op_id::sum});
    }
    for (double first : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1.7976931348623157e308})
      for (double second : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1.7976931348623157e308}) {
        std::vector<double> x(2 * half, -0.0);
        x[0] = first, x[1] = second, x[half] = 1;
        std::vector<float> y(x.begin(), x.end());
        compare(x, all);
        compare(y, all);
        y[half + 1] = 1;
        compare(y, {op_id::dot});
      }
    for (int e = -149; e < 128; e += 9)
      for (int f : {-149, -126, 0, 127}) {
        std::vector<float> y(2 * half, -0.0f);
        y[0] = std::ldexp(1.0f, e), y[1] = -y[0], y[half] = y[half + 1] = std::ldexp(1.0f, f);
        compare(y, {op_id::dot});
        y[half + 1] = 1;
        compare(y, {op_id::dot});
      }
  }
}

// A half of a last place, and what decides it far below; and what is left where all above it
// cancels: of so many terms that they do not go unnoticed beside others, of products whose own
// rounding errors underflow, and of as many as a number of a thread has no room for.
TEST_CASE("cuda: exact sums that turn on what is far below the others", "[cuda][exact]") {
  const auto sum_is = [](op_id op, const auto& x, const auto& y, double want) {
    using T = std::decay_t<decltype(x[0])>;
    const std::size_t n = x.size();
    std::vector<T> both(x);
    both.insert(both.end(), y.begin(), y.end());
    const reduction r = make_reduction(op, method_id::exact, dtype_of<T>, {}, dtype::f64);
    const auto* const second = info(op).inputs == 2 ? both.data() + n : nullptr;
    const std::string wanted = to_hex(load_scalar(dtype::f64, &want));
    CHECK(to_hex(cpu::reduce(r, both.data(), second, n)) == wanted);
    on_device d(
        std::vector<std::byte>(reinterpret_cast<const std::byte*>(both.data()),
                               reinterpret_cast<const std::byte*>(both.data() + both.size())));
    for (const cuda::launch& shape : {cuda::launch{}, cuda::launch{.threads = 32, .blocks = 1}}) {
      INFO(test::describe(r, n) << describe(shape));
      CHECK(to_hex(d.reduce(r, 0, n, shape, n)) == wanted);
    }
  };
  for (std::size_t n : {4, 600, 5000}) {
    const auto first = [&](auto... values) {
      std::vector<std::common_type_t<decltype(values)...>> x{values...};
      x.resize(n);
      return x;
    };
    const std::vector<double> zeros(n), ones(n, 1.0);
    const auto wide = first(1.0, 0x1p-53, 0x1p-400);
    for (op_id op : {op_id::sum, op_id::nansum, op_id::norm_l1})
      sum_is(op, wide, zeros, 1 + 0x1p-52);
    sum_is(op_id::dot, wide, ones, 1 + 0x1p-52);
    const auto roots = first(1.0, 0x1p-27, 0x1p-27, 0x1p-200);
    sum_is(op_id::sum_squares, roots, zeros, 1 + 0x1p-52);
    sum_is(op_id::squared_distance, roots, zeros, 1 + 0x1p-52);
    sum_is(op_id::sum, first(0x1p127f, 0x1p74f, 0x1p-149f), std::vector<float>(n),
           0x1p127 + 0x1p75);
  }
  const std::size_t n = 4096;
  std::vector<double> x, y;
  for (std::size_t i = 0; i < n; ++i)
    x.push_back(i % 2 ? 0x1p-400 : i % 4 ? -0x1p400 : 0x1p400), y.push_back(1.5);
  sum_is(op_id::sum, x, y, 0x1p11 * 0x1p-400);
  sum_is(op_id::dot, x, y, 1.5 * 0x1p11 * 0x1p-400);
  for (std::size_t i = 0; i < n; ++i)  // (1 + 2^-52)^2 - (1 + 2^-51), which is 2^-104
    x[i] = (i % 2 ? 1 + 0x1p-51 : 1 + 0x1p-52) * 0x1p-480,
    y[i] = (i % 2 ? -1 : 1 + 0x1p-52) * 0x1p-495;
  sum_is(op_id::dot, x, y, 0x1p-1068);
  const std::size_t many = std::size_t{1} << 21;
  std::vector<float16> halves(many);
  for (std::size_t i = 0; i < many; ++i)
    halves[i] = float16{static_cast<std::uint16_t>(i % 4 < 2 ? 0x7bff : 0x0001)};  // 65504, 2^-24
  sum_is(op_id::sum, halves, std::vector<float16>(many), 0x1p20 * 65504 + 0x1p20 * 0x1p-24);
}

TEST_CASE("cuda: exact sums of elements and of squares in one pass", "[cuda][exact]") {
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (std::size_t n : {100, 5000, 100'003}) {
      const auto data = test::make_data(t, test::kind::near_one, n, 26);
      on_device d(data);
      std::vector<reduction> all;
      for (op_id op : {op_id::sum, op_id::sum_squares, op_id::mean})
        all.push_back(make_reduction(op, method_id::exact, t));
      device_memory out(8 * all.size()), work(cuda::workspace_bytes(all, n) + 16);
      std::vector<void*> where;
      for (std::size_t k = 0; k < all.size(); ++k) where.push_back(out.as<std::byte>() + 8 * k);
      cuda::reduce(all, d.in.p, nullptr, n, where, work.p, cuda::workspace_bytes(all, n));
      std::vector<std::byte> host(8 * all.size());
      test::get(host.data(), out.p, host.size());
      for (std::size_t k = 0; k < all.size(); ++k) {
        INFO(test::describe(all[k], n));
        CHECK(to_hex(load_scalar(all[k].out(), &host[8 * k])) ==
              to_hex(cpu::reduce(all[k], data.data(), nullptr, n)));
      }
    }
}

namespace {

// All sets of exact sums of so many inputs, as reductions that need them.
std::vector<std::vector<reduction>> sets_of_exact_sums(dtype t, int inputs) {
  using enum op_id;
  const std::vector<op_id> ops = inputs == 2
                                     ? std::vector{mae, dot, squared_distance}
                                     : std::vector{sum, nansum, nanmean, norm_l1, sum_squares};
  std::vector<std::vector<reduction>> sets;
  for (unsigned set = 1; set < 1u << ops.size(); ++set) {
    sets.emplace_back();
    for (std::size_t k = 0; k < ops.size(); ++k)
      if (set >> k & 1)
        sets.back().push_back(make_reduction(ops[k], method_id::exact, t, {},
                                             is_float(t) ? dtype::f64 : std::optional<dtype>()));
  }
  return sets;
}
// Of n elements, as a GPU plans it whose blocks have so much shared memory.
gpu::plan plan_exact(const std::vector<reduction>& all, std::size_t n, std::size_t room) {
  std::vector<std::size_t> each(all.size());
  std::iota(each.begin(), each.end(), std::size_t{0});
  gpu::device_facts facts = gpu::facts_of_device(gpu::current_device().device);
  facts.max_shared_bytes = std::min(facts.max_shared_bytes, room);
  gpu::plan made;
  gpu::add_exact(made, {all, n, false}, each, facts, {});
  return made;
}
template <class Function>
void for_each_pass(const gpu::plan& p, Function f) {
  for (const gpu::step& s : p.steps)
    if (const auto* one = std::get_if<gpu::pass>(&s)) f(*one);
}
std::vector<std::pair<std::string, std::vector<std::byte>>> data_of_many_sorts(dtype t,
                                                                               std::size_t n,
                                                                               std::uint64_t seed) {
  auto with_nans = test::make_data(t, test::kind::near_one, n, seed);
  visit(t, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>)
      for (std::size_t i = 0; i < n; i += 5)
        std::memset(&with_nans[i * sizeof(T)], 0xff, sizeof(T));
  });
  return {{"near one, and NaNs", with_nans},
          {"near one", test::make_data(t, test::kind::near_one, n, seed)},
          {"any bits", test::make_data(t, test::kind::any_bits, n, seed)},
          {"special", test::make_data(t, test::kind::special, n, seed)},
          {"any finite bits", any_finite_bits(t, n, seed)}};
}

}  // namespace

TEST_CASE("cuda: exact sums of any terms are one pass, where there is room for its columns",
          "[cuda][exact]") {
  const auto passes = [](const std::vector<reduction>& all) {
    int reading = 0;
    for_each_pass(plan_exact(all, 1000, 227 << 10),
                  [&](const gpu::pass& p) { reading += p.bytes_read > 0; });
    return reading;
  };
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::i8, dtype::u64})
    for (const int inputs : {1, 2})
      for (const auto& set : sets_of_exact_sums(t, inputs)) CHECK(passes(set) == 1);
  const auto of = [](op_id op) { return make_reduction(op, method_id::exact, dtype::f64); };
  using enum op_id;
  for (const auto& all : {std::vector{of(nanmean)},
                          {of(sum), of(norm_l1)},
                          {of(sum), of(sum_squares)},
                          {of(var), of(mean), of(sum)}})
    CHECK(passes(all) == 1);
  CHECK(passes({of(sum), of(norm_l1), of(sum_squares)}) == 2);
}

TEST_CASE("cuda: exact sums of any terms", "[cuda][exact]") {
  const std::size_t most = 40'009;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64})
    for (const auto& [what, data] : data_of_many_sorts(t, 2 * most, 26)) {
      on_device d(data);
      for (const int inputs : {1, 2})
        for (const auto& set : sets_of_exact_sums(t, inputs))
          for (const std::size_t n : {std::size_t{1}, std::size_t{1001}, most - 3}) {
            for (const cuda::launch& shape :
                 {cuda::launch{}, cuda::launch{.threads = 32, .blocks = 1}}) {
              const std::vector<scalar> got = d.reduce(set, 3, n, shape, most + 1);
              for (std::size_t k = 0; k < set.size(); ++k) {
                const scalar want =
                    cpu::reduce(set[k], data.data() + 3 * size_of(t),
                                inputs == 2 ? data.data() + (most + 1) * size_of(t) : nullptr, n);
                INFO(test::describe(set[k], n)
                     << " number " << k << " of " << set.size() << describe(shape) << " " << what);
                CHECK(to_hex(got[k]) == to_hex(want));
              }
            }
          }
    }
}

// As a GPU with that room takes them.
TEST_CASE("cuda: exact sums where a block has less shared memory", "[cuda][exact]") {
  const std::size_t n = 100'003;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (const auto& [what, data] : data_of_many_sorts(t, 2 * n, 27)) {
      on_device d(data);
      for (const std::size_t room : {48 << 10, 99 << 10, 163 << 10})
        for (const int inputs : {1, 2})
          for (const auto& set : sets_of_exact_sums(t, inputs)) {
            const gpu::plan plan = plan_exact(set, n, room);
            for_each_pass(plan, [&](const gpu::pass& p) { CHECK(p.shared_bytes <= room); });
            REQUIRE(plan.workspace <= on_device::room);
            std::vector<void*> out;
            for (std::size_t k = 0; k < set.size(); ++k)
              out.push_back(d.out.as<std::byte>() + 8 * k);
            gpu::run(
                plan,
                {d.in.p, d.in.as<std::byte>() + n * size_of(t), nullptr, d.workspace.p, out.data()},
                nullptr);
            std::byte host[64];
            test::get(host, d.out.p, sizeof host);
            for (std::size_t k = 0; k < set.size(); ++k) {
              INFO(test::describe(set[k], n)
                   << " number " << k << " of " << set.size() << " room=" << room << " " << what);
              CHECK(to_hex(load_scalar(set[k].out(), host + 8 * k)) ==
                    to_hex(cpu::reduce(set[k], data.data(),
                                       inputs == 2 ? data.data() + n * size_of(t) : nullptr, n)));
            }
          }
    }
}

// Few elements are one block's, more are blocks of few threads.
TEST_CASE("cuda: exact sums of lengths at which blocks become others", "[cuda][exact]") {
  const int processors = gpu::facts_of_device(gpu::current_device().device).processors;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32}) {
    std::vector<std::size_t> lengths;
    for (std::size_t each : {4, 8, 16, 24, 32, 64})
      for (std::size_t threads :
           {std::size_t{64}, std::size_t{160}, std::size_t{224}, std::size_t{256}, std::size_t{512},
            std::size_t{128} * static_cast<std::size_t>(processors)})
        for (std::size_t more : {0, 1}) lengths.push_back(each * threads + more);
    const std::size_t longest = std::ranges::max(lengths);
    for (test::kind k : {test::kind::near_one, test::kind::any_bits}) {
      const auto data = test::make_data(t, k, 2 * longest, 25);
      on_device d(data);
      for (op_id op : {op_id::sum, op_id::mean, op_id::sum_squares, op_id::dot})
        for (const std::size_t n : lengths) {
          const reduction r = make_reduction(op, method_id::exact, t);
          const void* y = info(op).inputs == 2 ? data.data() + longest * size_of(t) : nullptr;
          INFO(test::describe(r, n) << " " << test::name(k));
          CHECK(d.reduce(r, 0, n, {}, longest) == cpu::reduce(r, data.data(), y, n));
        }
    }
  }
}

TEST_CASE("cuda: exact sums in as many blocks as can be asked for", "[cuda][exact]") {
  const std::size_t n = 100'003;
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i64})
    for (op_id op : {op_id::sum, op_id::dot, op_id::var}) {
      if (!is_float(t) && op == op_id::var) continue;
      const auto data = test::make_data(t, test::kind::any_bits, 2 * n, 22);
      const void* y = info(op).inputs == 2 ? data.data() + n * size_of(t) : nullptr;
      on_device d(data);
      const reduction r = make_reduction(op, method_id::exact, t);
      for (const cuda::launch& shape :
           {cuda::launch{.blocks = 0x7fffffff}, cuda::launch{.threads = 32, .blocks = 1 << 30}}) {
        INFO(test::describe(r, n) << describe(shape));
        CHECK(cuda::workspace_bytes(r, n, shape) <= 8 * n);
        CHECK(d.reduce(r, 0, n, shape, n) == cpu::reduce(r, data.data(), y, n));
      }
    }
}

TEST_CASE("cuda: several arrays have the exact reduction of one", "[cuda][exact][racecheck]") {
  // Of many sizes, empty and unaligned ones among them; more than a pass takes; longer than a
  // stripe.
  test::random_bits next{24};
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64})
    for (test::kind k : test::all_kinds)
      for (const std::size_t pieces : {1, 7, 400}) {
        std::vector<std::size_t> sizes;
        std::size_t n = 0;
        for (std::size_t i = 0; i < pieces; ++i) {
          sizes.push_back(i % 9 == 3 ? 0 : i % 100 == 1 ? 70'001 + next() % 1000 : next() % 2000);
          n += sizes.back();
        }
        const auto data = test::make_data(t, k, n, 25);
        const device_memory in(data.size()), out(64);
        test::put(in.p, data.data(), data.size());
        std::vector<cuda::piece> list;
        for (std::size_t first = 0; const std::size_t size : sizes) {
          list.push_back({in.as<std::byte>() + first * size_of(t), size});
          first += size;
        }
        std::swap(list.front(), list.back());
        for (const op_info& op : all_op_infos) {
          if (!op.has_exact || op.inputs == 2) continue;
          const reduction r = make_reduction(op.id, method_id::exact, t, {}, dtype::f64);
          INFO(test::describe(r, n) << " " << test::name(k) << " pieces=" << pieces);
          const auto call = [&] {
            const std::size_t size = cuda::pieces_workspace_bytes(r, list);
            const device_memory workspace(size + 16);
            cuda::reduce_pieces(r, list, out.p, workspace.p, size);
            std::byte host[8];
            test::get(host, out.p, 8);
            return load_scalar(dtype::f64, host);
          };
          CHECK(call() == cpu::reduce(r, data.data(), nullptr, n));
        }
      }
  const reduction sum = make_reduction(op_id::sum, method_id::exact, dtype::f32);
  const device_memory out(64);
  const cuda::piece none[] = {{nullptr, 0}};
  cuda::reduce_pieces(sum, none, out.p, nullptr, cuda::pieces_workspace_bytes(sum, none));
}

TEST_CASE("cuda: exact sums of more than 2^32 elements", "[cuda][exact]") {
  const std::size_t n = (std::size_t{1} << 32) + 5;
  std::optional<gpu::device_memory> memory;
  try {
    (void)gpu::current_device();
    memory.emplace(8 * n);
  } catch (const error&) {
    WARN("not run: this GPU has less than 32 GiB free");
    return;
  }
  void* const p = memory->begin();
  device_memory out(16);
  test::set(p, 0x3c, 8 * n);
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) {
    CAPTURE(name(t));
    visit(t, [&]<class T>(std::type_identity<T>) {
      T v;
      std::memset(&v, 0x3c, sizeof v);
      int e;
      const double m = std::ldexp(std::frexp(arith::widen<double>(v), &e), 53);  // a whole number
      __extension__ typedef __int128 wide;
      const double want =
          std::ldexp(static_cast<double>(static_cast<wide>(m) * static_cast<wide>(n)), e - 53);
      cuda::reduce(make_reduction(op_id::sum, method_id::exact, t, {}, dtype::f64), p, n, out.p);
      double sum = 0;
      test::get(&sum, out.p, sizeof sum);
      CHECK(sum == want);
      cuda::reduce(make_reduction(op_id::mean, method_id::exact, t, {}, dtype::f64), p, n, out.p);
      test::get(&sum, out.p, sizeof sum);
      CHECK(sum == arith::widen<double>(v));
      cuda::reduce(make_reduction(op_id::var, method_id::exact, t, {}, dtype::f64), p, n, out.p);
      test::get(&sum, out.p, sizeof sum);
      CHECK(sum == 0);
    });
  }
}

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
