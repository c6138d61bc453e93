// Which kernels exact sums have, and how many blocks: arithmetic; and the real compiler, which
// needs no GPU.
#include <atomic>
#include <cstdio>
#include <ctime>
#include <thread>

#include "gpu/exact_kernels.hpp"
#include "gpu_exact.hpp"
#include "gpu_kernels.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

/// An H100.
const gpu::device_facts h100 = gpu::facts_of({9, 0});

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

// That it has run for.
double seconds_of_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Compiles them by two threads; gives what each is made to by then(kernel, its machine code).
void compile_all(const std::vector<gpu::kernel>& kernels,
                 const std::function<void(std::size_t, const gpu::machine_code&)>& then) {
  std::atomic<std::size_t> next{0}, made{0};
  std::vector<double> seconds(kernels.size());
  const auto compile_some = [&] {
    for (std::size_t k; (k = next++) < kernels.size();) try {
        const double begin = seconds_of_thread();
        const gpu::machine_code code = gpu::compile(gpu::source_of(kernels[k]), 9, 0);
        seconds[k] = seconds_of_thread() - begin;
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
  std::printf(
      "%zu kernels, %.2f s on average, %.2f s the slowest: %s\n", kernels.size(),
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(kernels.size()),
      *slowest,
      gpu::signature_of(kernels[static_cast<std::size_t>(slowest - seconds.begin())]).c_str());
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
      for (const exact::term done : gpu::kernel_for(t, left, h100).terms) std::erase(left, done);
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
  CHECK_FALSE(passes_of(plan_of({{&sum, 1}, 1 << 20, true}, {.overlap = false}, h100))[1].overlaps);
  CHECK(passes_of(plan_of({{&sum, 1}, 1000, true}, {}, h100)).size() == 1);
  CHECK_THROWS_AS(plan_of({{&sum, 1}, 1000, true}, {.threads = 33}, h100), error);
  CHECK_THROWS_AS(plan_of({{&sum, 1}, 0, true}, {}, h100), error);
}

TEST_CASE("NVRTC compiles kernels of exact sums of every kind", "[.][nvrtc]") {
  if (!test::has_compiler()) return;
  std::vector<std::vector<reduction>> lists;
  for (const dtype t : {dtype::bf16, dtype::f64, dtype::u8, dtype::i64}) {
    lists.push_back({exact_of(op_id::sum, t), exact_of(op_id::mean, t)});
    if (!is_float(t)) continue;
    lists.push_back({exact_of(op_id::std, t)});
    lists.push_back({exact_of(op_id::dot, t)});
  }
  std::vector<gpu::kernel> kernels = kernels_of(lists);
  test::sample_of_kernels sample;
  std::erase_if(kernels, [&](const gpu::kernel& k) { return !sample.takes(k); });
  compile_all(kernels, [](std::size_t, const gpu::machine_code&) {});
  for (const int architecture : {80, 86, 89, 100, 120}) try {
      CHECK_FALSE(gpu::compile(gpu::source_of(kernels[0]), architecture / 10, architecture % 10)
                      .image.empty());
    } catch (const error& e) {  // an older NVRTC knows fewer
      INFO(e.what());
      CHECK(std::string_view(e.what()).find("does not know") != std::string_view::npos);
    }
}
TEST_CASE("NVRTC compiles kernels of exact sums: every operation, and all together", "[.all]") {
  if (!test::has_compiler()) return;
  std::vector<std::vector<reduction>> lists;
  for (const dtype t : all_dtypes)
    for (const int inputs : {1, 2}) {
      for (const reduction& r : exact_reductions(t, inputs)) lists.push_back({r});
      lists.push_back(exact_reductions(t, inputs));
    }
  compile_all(kernels_of(lists), [](std::size_t, const gpu::machine_code&) {});
}

namespace {

// For how many blocks a processor has registers: they are given to warps, of a quarter of its own
// each, in units of 8 for a thread.
int blocks_by_registers(int threads, int registers) {
  constexpr int registers_of_quarter = 1 << 14, quarters = 4, warp = 32;
  return quarters * (registers_of_quarter / (warp * ((registers + 7) / 8 * 8))) / (threads / warp);
}

// Where a processor had room for fewer, some blocks would wait for all others.
void check_blocks(std::span<const dtype> types, std::size_t most_terms) {
  if (!test::has_compiler()) return;
  struct kernel_of_terms {
    gpu::exact_kernel of;
    bool pieces;
  };
  std::vector<kernel_of_terms> all;
  std::vector<gpu::kernel> kernels;
  for (const dtype t : types)
    for (const int inputs : {1, 2})
      for (const auto& set : sets_of_terms(inputs)) {
        const gpu::exact_kernel k = gpu::kernel_for(t, set, h100);
        if (k.terms.size() != set.size() || set.size() > most_terms) continue;
        for (const bool pieces : {false, true}) {
          if (pieces && (inputs == 2 || !is_float(t))) continue;
          const std::string packs = std::to_string(k.packs);
          all.push_back({k, pieces});
          kernels.push_back(gpu::instantiation{
              "exact_pass",
              is_float(t) ? "bitfold/cuda/exact.cuh" : "bitfold/cuda/exact_integers.cuh",
              k.definitions,
              "bitfold::cuda::" +
                  (is_float(t)
                       ? "exact_pass" + std::string(pieces ? "_of_pieces<" : "<") + packs + ", "
                       : std::string("exact_integers<")) +
                  std::to_string(pieces ? k.blocks_of_pieces : k.blocks) + ", kernel::sums>"});
        }
      }
  std::vector<int> registers(kernels.size());
  compile_all(kernels, [&](std::size_t k, const gpu::machine_code& code) {
    registers[k] = registers_of(code.image);
  });
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const gpu::exact_kernel& one = all[k].of;
    const int blocks = all[k].pieces ? one.blocks_of_pieces : one.blocks;
    std::string terms;
    for (const exact::term what : one.terms) terms += std::to_string(static_cast<int>(what));
    for (const int threads : {one.threads, std::min(one.threads, 128)}) {
      INFO(name(one.type) << " terms " << terms << (all[k].pieces ? " of pieces" : "") << ": "
                          << registers[k] << " registers, " << blocks << " blocks, " << threads
                          << " threads");
      CHECK(blocks_by_registers(threads, registers[k]) >=
            gpu::blocks_at_once(one, threads, blocks, h100) / h100.processors);
    }
  }
}

}  // namespace

TEST_CASE("a processor has room for the blocks of exact sums that a plan says", "[.][nvrtc]") {
  check_blocks(floats, 1);
}
TEST_CASE("a processor has room for the blocks of exact sums: of any terms", "[.all]") {
  check_blocks(all_dtypes, 8);
}
