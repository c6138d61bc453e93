// bitfold's radix sort on the GPU beside CUB's, in one run: 32-bit keys with values of 4 bytes, by
// all bits, and 32-bit keys alone, by 17 bits. A line for each case; both results are equal, or it
// stops.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 -Iinclude bench/gpu_sort.cu -o gpu_sort && ./gpu_sort
//
// Times are the medians of 11, each of a CUDA graph that holds the sort several times.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include <cub/device/device_radix_sort.cuh>

#include <bitfold/cuda/sort.cuh>

#include "gpu_time.hpp"

namespace {

using namespace bitfold::cuda;
using bitfold::speed::check;
using key = std::uint32_t;

template <class T>
class array {
 public:
  explicit array(std::size_t n) : n_(n) { check(cudaMalloc(&p_, n * sizeof(T)), "cudaMalloc"); }
  ~array() { cudaFree(p_); }
  array(const array&) = delete;
  operator T*() const { return p_; }
  std::vector<T> copy() const {
    std::vector<T> out(n_);
    check(cudaMemcpy(out.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return out;
  }

 private:
  T* p_ = nullptr;
  std::size_t n_;
};

__global__ void fill_random(key* keys, key* values, std::size_t n, key mask) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += stride) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    keys[i] = static_cast<key>(z >> 32) & mask;
    values[i] = static_cast<key>(i);
  }
}

/// As the plans of src/gpu/sort.cpp have it.
template <class Value>
class own_sort {
 public:
  own_sort(std::size_t n, int bits)
      : n_(n),
        bits_(bits),
        tile_(static_cast<std::size_t>(
            sort_tile(sizeof(key), std::is_same_v<Value, no_value> ? 0 : sizeof(Value)))),
        tiles_((n + tile_ - 1) / tile_),
        passes_(digits_of(bits)),
        counts_(begun() + 64 + tiles_ * digits),
        next_status_(tiles_ * digits) {}
  /// The first pass reads the keys, the others go there and back between two buffers; gives the
  /// number of the one that has the result.
  int enqueue(const key* keys, const void* values, key* const (&key_buffers)[2],
              void* const (&value_buffers)[2], cudaStream_t s) const {
    if (tiles_ == 1) {
      sort_few<key, Value>
          <<<1, sort_threads, 0, s>>>({keys, key_buffers[0], values, value_buffers[0], nullptr,
                                       nullptr, nullptr, nullptr, n_, 0, bits_});
      check(cudaGetLastError(), "launch");
      return 0;
    }
    std::uint32_t* const first = counts_;
    auto* const counts = reinterpret_cast<std::uint64_t*>(first);
    std::uint32_t *const begun_at = first + begun(), *const status[] = {begun_at + 64,
                                                                        next_status_};
    check(cudaMemsetAsync(first, 0, sizeof(key) * (begun() + 64 + tiles_ * digits), s));
    const std::size_t blocks = std::min<std::size_t>((n_ + 4095) / 4096, 512);
    count_digits<key><<<static_cast<unsigned>(blocks), counting_threads, 0, s>>>(
        keys, n_, {counts, begun_at, 0, bits_});
    for (int k = 0; k < passes_; ++k) {
      const int to = k % 2;
      sort_step step{};
      step.keys = keys, step.sorted_keys = key_buffers[to];
      step.values = values, step.sorted_values = value_buffers[to];
      step.begins = counts + k * digits;
      step.tiles_begun = begun_at + 1 + k;
      step.status = status[k % 2];
      step.next_status = k + 1 < passes_ ? status[(k + 1) % 2] : nullptr;
      step.n = n_;
      step.first_bit = k * digit_bits, step.bits = bits_ - k * digit_bits;
      sort_pass<key, Value, std::uint32_t>
          <<<static_cast<unsigned>(tiles_), sort_threads, 0, s>>>(step);
      keys = key_buffers[to];
      values = value_buffers[to];
    }
    check(cudaGetLastError(), "launch");
    return (passes_ - 1) % 2;
  }

 private:
  std::size_t begun() const { return static_cast<std::size_t>(2 * passes_ * digits); }
  std::size_t n_;
  int bits_;
  std::size_t tile_, tiles_;
  int passes_;
  array<std::uint32_t> counts_, next_status_;
};

template <class Enqueue>
double milliseconds(std::size_t n, const Enqueue& enqueue) {
  const int copies = static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 26) / n, 1, 100));
  const bitfold::speed::stopwatch watch;
  const bitfold::speed::graph graph(watch.stream, copies, enqueue);
  for (int i = 0; i < 3; ++i) graph.launch();
  std::vector<double> times;
  for (int i = 0; i < 11; ++i)
    times.push_back(watch.milliseconds([&] { graph.launch(); }) / copies);
  std::nth_element(times.begin(), times.begin() + 5, times.end());
  return times[5];
}

void require(bool same, std::size_t n) {
  if (same) return;
  std::fprintf(stderr, "n = %zu: the results differ\n", n);
  std::exit(1);
}

void compare(std::size_t n, int bits, bool pairs) {
  const key mask = bits == 32 ? ~key{} : (key{1} << bits) - 1;
  array<key> keys(n), values(n), sorted(n), sorted_values(n), between(n), values_between(n),
      right(n), right_values(n);
  fill_random<<<1024, 256>>>(keys, values, n, mask);
  check(cudaDeviceSynchronize(), "fill_random");
  std::size_t bytes = 0;
  const auto cub_sort = [&](void* room, cudaStream_t s) {
    check(pairs
              ? cub::DeviceRadixSort::SortPairs(
                    room, bytes, static_cast<const key*>(keys), static_cast<key*>(right),
                    static_cast<const key*>(values), static_cast<key*>(right_values), n, 0, bits, s)
              : cub::DeviceRadixSort::SortKeys(room, bytes, static_cast<const key*>(keys),
                                               static_cast<key*>(right), n, 0, bits, s));
  };
  cub_sort(nullptr, nullptr);
  const array<char> room(bytes);
  const own_sort<key> own_pairs(n, bits);
  const own_sort<no_value> own_keys(n, bits);
  int at = 0;
  const auto sort = [&](cudaStream_t s) {
    key* const k[] = {sorted, between};
    void* const v[] = {sorted_values, values_between};
    at = pairs ? own_pairs.enqueue(keys, values, k, v, s) : own_keys.enqueue(keys, values, k, v, s);
  };
  cub_sort(room, nullptr);
  sort(nullptr);
  check(cudaDeviceSynchronize(), "sort");
  require((at ? between : sorted).copy() == right.copy(), n);
  if (pairs) require((at ? values_between : sorted_values).copy() == right_values.copy(), n);
  const double own = milliseconds(n, sort),
               cub = milliseconds(n, [&](cudaStream_t s) { cub_sort(room, s); });
  std::printf("%s, %2d bits, n = %10zu: bitfold %9.4f ms, CUB %9.4f ms, ratio %.2f\n",
              pairs ? "pairs" : "keys ", bits, n, own, cub, own / cub);
}

}  // namespace

int main() {
  for (const bool pairs : {true, false})
    for (const int power : {10, 16, 20, 24, 27})
      compare(std::size_t{1} << power, pairs ? 32 : 17, pairs);
}
