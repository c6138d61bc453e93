// Arrays of more elements than 32 bits count, on a GPU that has room for them.

#include <sys/mman.h>

#include <cmath>
#include <memory>

#include "cuda_cases.hpp"

#include "gpu/devices.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// So many bytes that are 0x3c, or nothing where the GPU has no room.
std::unique_ptr<gpu::device_memory> memory_of(std::size_t bytes) {
  std::size_t free = 0, all = 0;
  (void)gpu::current_device();
  gpu::check(gpu::the_driver().cuMemGetInfo_v2(&free, &all), "cuMemGetInfo");
  if (free < bytes + (std::size_t{1} << 28)) {
    WARN("not run: this GPU has less than " << (bytes >> 30) << " GiB free");
    return nullptr;
  }
  auto memory = std::make_unique<gpu::device_memory>(bytes);
  set(memory->begin(), 0x3c, bytes);
  return memory;
}

std::vector<scalar> reduced(const list& all, const void* x, std::size_t n) {
  const std::size_t work = cuda::workspace_bytes(all, n);
  const device_memory out(8 * all.size()), workspace(work);
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k) to.push_back(out.as<std::byte>() + 8 * k);
  cuda::reduce(all, x, nullptr, n, to, workspace.p, work);
  std::vector<std::byte> host(8 * all.size());
  get(host.data(), out.p, host.size());
  std::vector<scalar> got;
  for (std::size_t k = 0; k < all.size(); ++k)
    got.push_back(load_scalar(all[k].out(), &host[8 * k]));
  return got;
}

}  // namespace

TEST_CASE("cuda: more than 2^33 elements", "[cuda][large]") {
  const std::size_t n = (std::size_t{1} << 33) + 3;
  const auto memory = memory_of(2 * n);
  if (!memory) return;
  void* const p = memory->begin();
  // As f16 each is 1 + 15/256; in f64 every partial sum is exact.
  const list halves{
      make_reduction(op_id::sum, method_id::tree, dtype::f16, dtype::f64, dtype::f64)};
  const double sum = static_cast<double>(n) * (1 + 15.0 / 256);
  CHECK(reduced(halves, p, n)[0] == load_scalar(dtype::f64, &sum));
  const list bytes{make_reduction(op_id::sum, method_id::tree, dtype::u8)};
  const std::uint64_t count = 2 * n * 0x3c;
  CHECK(reduced(bytes, p, 2 * n)[0] == load_scalar(dtype::u64, &count));

  // What counts elements, or where they are: with the CPU's bits, where these pages of zeros take
  // no memory.
  void* const host =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(host != MAP_FAILED);
  set(p, 0, n);
  for (const auto& [at, value] : {std::pair{std::size_t{0}, std::uint8_t{1}},
                                  {(std::size_t{1} << 32) + 7, std::uint8_t{9}},
                                  {n - 1, std::uint8_t{4}}}) {
    static_cast<std::uint8_t*>(host)[at] = value;
    set(static_cast<std::uint8_t*>(p) + at, value, 1);
  }
  list all;
  for (const op_id op : {op_id::argmax, op_id::count_nonzero, op_id::mean, op_id::var,
                         op_id::skewness, op_id::norm_l2})
    all.push_back(make_reduction(op, {}, dtype::u8));
  const std::vector<scalar> got = reduced(all, p, n);
  CHECK(to_string(got[0]) == std::to_string((std::size_t{1} << 32) + 7));
  CHECK(to_string(got[1]) == "3");
  for (std::size_t k = 2; k < all.size(); ++k) {
    INFO(name(all[k].op()));
    CHECK(got[k] == cpu::reduce(all[k], host, n));
  }
  munmap(host, n);
}

TEST_CASE("cuda: exact sums of more than 2^32 elements", "[cuda][exact][large]") {
  const std::size_t n = (std::size_t{1} << 32) + 5;
  const auto memory = memory_of(8 * n);
  if (!memory) return;
  for (const dtype t : types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64})) {
    CAPTURE(name(t));
    visit(t, [&]<class T>(std::type_identity<T>) {
      T v;
      std::memset(&v, 0x3c, sizeof v);
      int e;
      const double m = std::ldexp(std::frexp(arith::widen<double>(v), &e), 53);  // a whole number
      __extension__ typedef __int128 wide;
      const double sum =
          std::ldexp(static_cast<double>(static_cast<wide>(m) * static_cast<wide>(n)), e - 53);
      const std::vector<list> lists = exact_lists(t, 1);
      for (const list& all : {lists.front(), lists.back()}) {  // of elements; and their squares
        const std::vector<scalar> got = reduced(all, memory->begin(), n);
        for (std::size_t k = 0; k < all.size(); ++k) {
          if (all[k].out() != dtype::f64) continue;
          const double want = all[k].op() == op_id::sum    ? sum
                              : all[k].op() == op_id::mean ? arith::widen<double>(v)
                                                           : 0;
          INFO(name(all[k].op()));
          CHECK(got[k] == load_scalar(dtype::f64, &want));
        }
      }
    });
  }
}
