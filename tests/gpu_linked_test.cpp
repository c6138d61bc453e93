// Ranks whose GPUs write to one another's memory, as processes whose emulated GPUs share files: the
// bits of the CPU's fold over contributions. (Of real GPUs
// python/tests/test_torch_distributed_cuda.py and test_torch_distributed_shared_gpus.py have this.)
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include <bitfold/contributions.hpp>
#include <bitfold/linked.hpp>

#include "array_on_gpu.hpp"
#include "catch.hpp"
#include "data.hpp"
#include "gpu_kernels.hpp"
#include "refusals.hpp"

#include "gpu/linked.hpp"

using namespace bitfold;
using test::array_on_gpu;

namespace {

using bytes = std::vector<std::byte>;

struct shared {
  cuda::memory_handle handles[cuda::linked_ranks::most];
  std::atomic<int> opened;
};

struct call {
  reduction r;
  std::size_t n;
  cuda::linked_ranks::shape how;
  bool scatter = false;
};

std::vector<call> calls(int ranks) {
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32),
                  kahan = make_reduction(op_id::mean, method_id::kahan, dtype::bf16),
                  widened = make_reduction(op_id::sum, {}, dtype::bf16, {}, dtype::f32),
                  place = make_reduction(op_id::argmax, {}, dtype::f32),
                  exact = make_reduction(op_id::sum, method_id::exact, dtype::f32),
                  integers = make_reduction(op_id::sum, {}, dtype::i32);
  using shape = cuda::linked_ranks::shape;
  const auto each = static_cast<std::size_t>(4 * ranks);
  std::vector<call> all = {{sum, 1, {}}, {sum, 1003, {}}, {sum, 0, {}}};
  // In shares: less than a packet of each, several blocks, and several steps of each.
  for (const shape how : {shape{0, 1, 512}, shape{0, 3, 40}, shape{0, 128, 512}})
    for (const std::size_t n : {std::size_t{3}, each, each + 5, std::size_t{4999}})
      all.push_back({sum, n, how});
  std::size_t k = ranks == 3 || ranks == 8;
  for (const reduction& r : {kahan, widened, exact, place, integers}) {
    for (const shape how : {shape{}, shape{0, 2, 30}})
      if (test::takes_kernels(k++, 2)) all.push_back({r, 2005, how});
    ++k;
  }
  all.push_back({sum, 9000, {1 << 20, 2, 100}});  // at once, in several steps
  all.push_back({sum, 2048, {0, 2, 100}, true});
  all.push_back({kahan, 808, {}, true});
  return all;
}

// Makes the kernels of these calls, which the processes of all ranks would make at once, each for
// itself.
void make_kernels(const std::vector<int>& all_ranks) {
  using enum gpu::linked_way;
  std::vector<gpu::kernel> kernels;
  for (const int ranks : all_ranks)
    for (const call& c : calls(ranks)) {
      const bool at_once_here = c.n * size_of(c.r.in()) <= c.how.at_once;
      kernels.push_back(gpu::kernel_of_linked(c.r, ranks,
                                              c.scatter      ? scattered
                                              : at_once_here ? at_once
                                                             : gathered));
    }
  gpu::make_ahead(kernels, {9, 0}, nullptr);
}

// Whether all results are right, of one rank, in a process of its own.
bool is_right(int rank, int ranks, shared& all) {
  cuda::linked_ranks links(rank, ranks, 60);
  all.handles[rank] = links.handle();
  for (++all.opened; all.opened < ranks;) std::this_thread::yield();
  links.open({all.handles, static_cast<std::size_t>(ranks)});
  std::uint64_t seed = 0;
  bool right = true;
  for (const call& c : calls(ranks)) {
    const std::size_t count = static_cast<std::size_t>(ranks), n = c.scatter ? c.n * count : c.n;
    links.how = c.how;
    std::vector<bytes> x;
    std::vector<contribution_node> nodes;
    for (std::size_t k = 0; k < count; ++k)
      x.push_back(test::make_data(c.r.in(), test::kind::special, n, ++seed));
    for (std::size_t k = 0; k < count; ++k) nodes.push_back({k, 1, x[k].data(), true});
    bytes wanted(n * size_of(c.r.out()));
    cpu::reduce_contributions(c.r, nodes, n, wanted.data());
    if (c.scatter)
      wanted = {&wanted[0] + static_cast<std::size_t>(rank) * c.n * size_of(c.r.out()),
                &wanted[0] + (static_cast<std::size_t>(rank) + 1) * c.n * size_of(c.r.out())};
    const array_on_gpu mine(x[static_cast<std::size_t>(rank)], c.r.in()),
        other(bytes(wanted.size()), c.r.out());
    const bool in_place = seed % 2 && c.r.in() == c.r.out() && !c.scatter;
    const array_on_gpu& out = in_place ? mine : other;
    if (c.scatter)
      links.reduce_scatter(c.r, mine.at(), c.n, out.at());
    else
      links.all_reduce(c.r, mine.at(), c.n, out.at());
    if (out.contents() != wanted) {
      std::printf("rank %d of %d: %s of %zu %s elements is wrong\n", rank, ranks,
                  std::string(name(c.r.op())).c_str(), c.n, std::string(name(c.r.in())).c_str());
      right = false;
    }
  }
  for (++all.opened; all.opened < 2 * ranks;) std::this_thread::yield();
  return right;
}

}  // namespace

TEST_CASE("linked ranks have the bits of contributions") {
  if (!test::is_emulated()) return;
  const std::vector<int> all_ranks = {2, 3, 4, 8};
  make_kernels(all_ranks);
  for (const int ranks : all_ranks) {
    auto* const all = static_cast<shared*>(
        mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    REQUIRE(all != MAP_FAILED);
    new (all) shared{};
    std::vector<pid_t> started;
    for (int rank = 0; rank < ranks; ++rank) {
      started.push_back(fork());
      if (started.back() != 0) continue;
      bool right = false;
      try {
        right = is_right(rank, ranks, *all);
      } catch (const std::exception& e) {
        std::printf("rank %d of %d: %s\n", rank, ranks, e.what());
      }
      std::fflush(stdout);
      _exit(right ? 0 : 1);
    }
    for (const pid_t process : started) {
      int status = 1;
      CHECK((waitpid(process, &status, 0) == process && status == 0));
    }
    munmap(all, sizeof(shared));
  }
}

TEST_CASE("linked ranks refuse what they cannot do") {
  if (!test::is_emulated()) return;
  CHECK(test::why([] { cuda::linked_ranks(0, 9, 1); }) == "ranks: 9, where 2 to 8 may be linked");
  CHECK(test::why([] { cuda::linked_ranks(2, 2, 1); }) == "rank: 2 is none of 2");
  cuda::linked_ranks one(0, 2, 1), other(1, 2, 1);
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32),
                  widened = make_reduction(op_id::sum, {}, dtype::bf16, {}, dtype::f32);
  const array_on_gpu x(bytes(4096), dtype::f32);
  const auto all_reduce = [&](const reduction& r, const void* from, void* to) {
    return test::why([&] { one.all_reduce(r, from, 256, to); });
  };
  CHECK(all_reduce(sum, x.at(), x.at()) == "linked_ranks: open() was not called");
  one.open(std::array{one.handle(), other.handle()});
  CHECK(all_reduce(sum, nullptr, x.at()) == "x: null pointer");
  CHECK(all_reduce(sum, x.at(), x.at() + 4) == "out: not aligned to 16 bytes");
  CHECK(all_reduce(sum, x.at(), x.at() + 16) == "out: overlaps x");
  CHECK(all_reduce(widened, x.at(), x.at()) == "out: overlaps x");
  CHECK(test::why([&] { one.reduce_scatter(sum, x.at(), 256, x.at() + 16); }) == "out: overlaps x");
  CHECK(test::why([&] { one.reduce_scatter(sum, x.at(), 3, x.at() + 2048); }) ==
        "n: 3 elements, which are no multiple of 16 bytes");
}

TEST_CASE("NVRTC compiles kernels of linked ranks", "[.][nvrtc]") {
  if (!test::has_compiler()) return;
  using enum gpu::linked_way;
  int kernels = 0;
  test::sample_of_kernels sample;
  for (const int ranks : {2, 4, 8})
    for (const reduction& r :
         {make_reduction(op_id::sum, {}, dtype::f32), make_reduction(op_id::mean, {}, dtype::bf16),
          make_reduction(op_id::sum, method_id::kahan, dtype::f64),
          make_reduction(op_id::sum, {}, dtype::f16, {}, dtype::f64)})
      for (const auto way : {at_once, gathered, scattered}) {
        const gpu::kernel k = gpu::kernel_of_linked(r, ranks, way);
        if (!sample.takes(k)) continue;
        INFO(signature_of(k));
        CHECK(gpu::compile(gpu::source_of(k), 9, 0).image.size() > 1000);
        ++kernels;
      }
  std::printf("%d kernels of linked ranks\n", kernels);
}
