#include "device.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include <bitfold/cuda.hpp>

#include "bench/gpu_time.hpp"
#include "gpu/devices.hpp"
#include "gpu/launcher.hpp"
#include "load_only_kernels.hpp"  // made by CMakeLists.txt

namespace bitfold::accuracy {
namespace {

void need_gpu() {
  if (cuda::devices().empty()) throw error(errc::no_device, "cuda: no usable GPU on this machine");
}

// Grows, and never shrinks. Lives until the process ends: freeing it then could come after the
// driver's own end.
struct buffer {
  std::unique_ptr<gpu::device_memory>* memory = new std::unique_ptr<gpu::device_memory>;
  std::size_t size = 0;
  std::byte* reserve(std::size_t bytes) {
    if (!*memory || bytes > size) {
      (void)gpu::current_device();
      memory->reset();
      size = std::max<std::size_t>(bytes, 4096);
      *memory = std::make_unique<gpu::device_memory>(size);
    }
    return (*memory)->begin();
  }
};

}  // namespace

array_view on_device(const array_view& x) {
  static buffer copy;
  static std::optional<std::uint64_t> kept;
  need_gpu();
  if (kept != x.id) {
    kept.reset();
    gpu::copy_to_device(copy.reserve(x.bytes()), x.data, x.bytes());
    kept = x.id;
  }
  array_view there = x;
  there.data = copy.reserve(0);
  return there;
}

void* scratch(std::size_t bytes) {
  static buffer memory;
  need_gpu();
  return memory.reserve(bytes);
}

scalar fetch(dtype t, const void* device) {
  need_gpu();
  std::byte host[8];
  gpu::copy_to_host(host, device, size_of(t));
  return load_scalar(t, host);
}

std::vector<double> time_on_device(const std::function<void(CUstream_st*)>& enqueue, int times) {
  constexpr double enough = 200e-6;
  constexpr int most = 4096;
  need_gpu();
  const speed::stopwatch watch;
  const auto sample = [&](const speed::graph& g) {
    return watch.milliseconds([&] { g.launch(); }) * 1e-3;
  };
  for (int copies = 1;;) {
    const speed::graph g(watch.stream, copies, enqueue);
    sample(g);  // warms up
    const double once = sample(g);
    if (once < enough && copies < most) {
      const double more = std::clamp(1.2 * enough / once, 2.0, double{most});
      copies = static_cast<int>(std::min(std::ceil(copies * more), double{most}));
      continue;
    }
    std::vector<double> out;
    for (int i = 0; i < times; ++i) out.push_back(sample(g) / copies);
    return out;
  }
}

double read_ceiling_cuda(const array_view& x, int times) {
  need_gpu();
  constexpr std::size_t mib = std::size_t{1} << 20;
  const void* const data = on_device(x).data;
  const std::size_t packs = x.bytes() / 16;
  // As in bench/load_only.cuh.
  const bool is_short = x.bytes() <= 4 * mib, is_long = x.bytes() >= 1024 * mib;
  const std::size_t each = is_long ? 256 * 8 : 256;
  std::size_t blocks = std::max<std::size_t>(1, (packs + each - 1) / each);
  if (!is_short && !is_long) blocks = std::min<std::size_t>(blocks, 132 * 8);
  gpu::plan read;
  gpu::pass p{gpu::instantiation{"loads", "bitfold/cuda/device.cuh", load_only_kernels,
                                 is_short  ? "kernel::load_only_blocks<1>"
                                 : is_long ? "kernel::load_only_blocks<8>"
                                           : "kernel::load_only_grid<void>"},
              static_cast<unsigned>(blocks), 256};
  p.with.add(data).add(packs).add(scratch(256));
  read.steps.emplace_back(std::move(p));
  gpu::prepare(read, gpu::current_device());
  const auto samples = time_on_device([&](gpu::stream s) { gpu::run(read, {}, s); }, times);
  return static_cast<double>(x.bytes()) / *std::min_element(samples.begin(), samples.end()) * 1e-9;
}

std::optional<std::uint64_t> gpu_cache() {
  if (cuda::devices().empty()) return {};
  constexpr int bytes_of_l2 = 38;  // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
  int bytes = 0;
  if (gpu::the_driver().cuDeviceGetAttribute(&bytes, bytes_of_l2, gpu::current_device().device) !=
          0 ||
      bytes <= 0)
    return {};
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace bitfold::accuracy
