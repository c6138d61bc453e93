// What the benches of the GPU share: arrays, and the time of a call inside a CUDA graph.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <type_traits>

#include <bitfold/cuda.hpp>

#include "gpu_time.hpp"
#include "gpu_types.hpp"
#include "session.hpp"

namespace {

using bitfold::speed::check;
using bitfold::speed::stored;

struct buffers {
  const void* in;
  void* out;
  void* temp;
  std::size_t temp_size;
  cudaStream_t stream;
};

__global__ void fill_random(std::uint32_t* p, std::size_t words, std::uint32_t keep,
                            std::uint32_t set) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words; i += stride) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    p[i] = (static_cast<std::uint32_t>(z >> 32) & keep) | set;
  }
}

constexpr std::size_t max_bytes = std::size_t{8} << 30;
void* data;
void* scratch;
const void* filled_for = nullptr;                           // which type's values `data` holds
constexpr std::size_t scratch_size = std::size_t{5} << 30;  // for a sort

template <class T>
__global__ void fill_normal(T* p, std::size_t n, bool positive, bool relu) {
  using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += stride) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const F u = (static_cast<F>(z >> 40) + F(0.5)) * F(0x1p-24),
            angle = static_cast<F>(z & 0xffffff) * F(0x1p-23);
    const F x = sqrt(-2 * log(u)) * cospi(angle);  // Box and Muller
    p[i] = static_cast<T>(positive ? fabs(x) : relu && x < 0 ? F(0) : x);
  }
}

// Values of magnitude in [1, 2), both signs; any bits whatever; normal ones, their magnitudes, or
// zero for the negative ones.
enum class values { one_binade, any_bits, normal, positive, relu };

// One array for all lengths of a type.
template <class T, values Of>
void fill() {
  static const char tag = 0;
  if (filled_for == &tag) return;
  filled_for = &tag;
  if (Of != values::one_binade && Of != values::any_bits) {
    fill_normal<<<1056, 256>>>(static_cast<T*>(data), max_bytes / sizeof(T), Of == values::positive,
                               Of == values::relu);
    check(cudaDeviceSynchronize());
    return;
  }
  if (Of == values::any_bits) {
    fill_random<<<1056, 256>>>(static_cast<std::uint32_t*>(data), max_bytes / 4, 0xffffffff, 0);
    check(cudaDeviceSynchronize());
    return;
  }
  if (std::is_same_v<T, __half>)
    fill_random<<<1056, 256>>>(static_cast<std::uint32_t*>(data), max_bytes / 4, 0x83ff83ff,
                               0x3c003c00);
  else if (std::is_same_v<T, __nv_bfloat16>)
    fill_random<<<1056, 256>>>(static_cast<std::uint32_t*>(data), max_bytes / 4, 0x807f807f,
                               0x3f803f80);
  else if (std::is_same_v<T, float>)
    fill_random<<<1056, 256>>>(static_cast<std::uint32_t*>(data), max_bytes / 4, 0x807fffff,
                               0x3f800000);
  else
    fill_random<<<1056, 256>>>(static_cast<std::uint32_t*>(data), max_bytes / 4, 0xbfffffff,
                               0x3f000000);
  check(cudaDeviceSynchronize());
}

// `enqueue` reads `inputs` arrays of n elements each, one behind the other.
template <class T, values Of = values::one_binade, class Enqueue>
void measure(benchmark::State& state, std::size_t n, int inputs, Enqueue enqueue) {
  const int copies =
      static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 28) / (n * sizeof(T)), 1, 200));
  fill<T, Of>();
  const bitfold::speed::stopwatch watch;
  const buffers b{data, scratch, static_cast<char*>(scratch) + 256, scratch_size - 256,
                  watch.stream};
  const bitfold::speed::graph graph(watch.stream, copies, [&](cudaStream_t) {
    enqueue(b, n);
    check(cudaGetLastError());
  });
  for (int i = 0; i < 3; ++i) graph.launch();
  for (auto _ : state)
    state.SetIterationTime(watch.milliseconds([&] { graph.launch(); }) * 1e-3 / copies);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(n * sizeof(T)) * inputs);
}

template <class T>
const std::string type_name{bitfold::name(stored<T>)};

// Once, before anything is measured: finds the GPU; or gives the exit status.
inline std::optional<int> begin(bitfold::bench::session& session, const char* program) {
  if (bitfold::cuda::devices().empty()) {
    std::fprintf(stderr, "%s: no usable GPU\n", program);
    return 4;
  }
  check(cudaMalloc(&data, max_bytes));
  check(cudaMalloc(&scratch, scratch_size));
  session.header["gpu"] = bitfold::cuda::devices()[0];
  return {};
}

}  // namespace
