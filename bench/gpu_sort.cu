// bitfold's radix sort on the GPU beside CUB's, in one run: 32-bit keys with values of 4 bytes, by
// all bits, and 32-bit keys alone, by 17 bits. A line for each case; both results are equal, or it
// stops. The shapes of tiles are those of src/gpu/tuning.cpp for sm_90, which scripts/tune sweeps.
//
//   nvcc -std=c++20 -O3 -arch=sm_90 -Iinclude bench/gpu_sort.cu src/gpu/driver.cpp -o gpu_sort
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

template <class T>
class array {
 public:
  explicit array(std::size_t n) { check(cudaMalloc(&p_, n * sizeof(T)), "cudaMalloc"); }
  ~array() { cudaFree(p_); }
  array(const array&) = delete;
  operator T*() const { return p_; }

 private:
  T* p_ = nullptr;
};

template <class Function>
__device__ void for_each_of(std::size_t n, Function f) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += stride) f(i);
}

template <class Key, class Value>
__global__ void fill_random(Key* keys, Value* values, std::size_t n, int bits) {
  for_each_of(n, [&](std::size_t i) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    keys[i] = static_cast<Key>(z >> (64 - bits));
    if constexpr (!std::is_same_v<Value, no_value>) values[i] = static_cast<Value>(i);
  });
}

template <class T>
__global__ void find_differences(const T* a, const T* b, std::size_t n, int* differ) {
  for_each_of(n, [&](std::size_t i) {
    if (a[i] != b[i]) *differ = 1;
  });
}

template <class T>
void require_same(const T* a, const T* b, std::size_t n) {
  const array<int> differ(1);
  check(cudaMemset(differ, 0, sizeof(int)), "cudaMemset");
  find_differences<<<1024, 256>>>(a, b, n, differ);
  int found = 0;
  check(cudaMemcpy(&found, differ, sizeof found, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (!found) return;
  std::fprintf(stderr, "n = %zu: the results differ\n", n);
  std::exit(1);
}

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

/// As the plans of src/gpu/sort.cpp have it.
template <class Key, class Value, class Shape>
class own_sort {
 public:
  own_sort(std::size_t n, int bits)
      : n_(n),
        bits_(bits),
        tiles_((n + tile - 1) / tile),
        passes_(digits_of(bits)),
        counts_(begun() + 64 + tiles_ * digits),
        next_status_(tiles_ * digits) {}
  /// The first pass reads the keys, the others go there and back between two buffers; gives the
  /// number of the one that has the result.
  int enqueue(const Key* keys, const Value* values, Key* const (&key_buffers)[2],
              Value* const (&value_buffers)[2], cudaStream_t s) const {
    if (tiles_ == 1) {
      sort_few<Key, Value, Shape>
          <<<1, Shape::threads, 0, s>>>({keys, key_buffers[0], values, value_buffers[0], nullptr,
                                         nullptr, nullptr, nullptr, n_, 0, bits_});
      check(cudaGetLastError(), "launch");
      return 0;
    }
    std::uint32_t* const first = counts_;
    auto* const counts = reinterpret_cast<std::uint64_t*>(first);
    std::uint32_t *const begun_at = first + begun(), *const status[] = {begun_at + 64,
                                                                        next_status_};
    check(cudaMemsetAsync(first, 0, sizeof(*first) * (begun() + 64 + tiles_ * digits), s));
    const std::size_t blocks = std::min<std::size_t>((n_ + 4095) / 4096, 512);
    count_digits<Key><<<static_cast<unsigned>(blocks), counting_threads, 0, s>>>(
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
      sort_pass<Key, Value, std::uint32_t, Shape>
          <<<static_cast<unsigned>(tiles_), Shape::threads, 0, s>>>(step);
      keys = key_buffers[to];
      values = value_buffers[to];
    }
    check(cudaGetLastError(), "launch");
    return (passes_ - 1) % 2;
  }

 private:
  static constexpr std::size_t tile = std::size_t{Shape::threads} * Shape::items;
  std::size_t begun() const { return static_cast<std::size_t>(2 * passes_ * digits); }
  std::size_t n_;
  int bits_;
  std::size_t tiles_;
  int passes_;
  array<std::uint32_t> counts_, next_status_;
};

/// Random keys of that many bits, and CUB's result and time.
template <class Key, class Value>
class comparison {
  static constexpr bool pairs = !std::is_same_v<Value, no_value>;

 public:
  comparison(std::size_t n, int bits)
      : n_(n),
        bits_(bits),
        keys_(n),
        sorted_(n),
        between_(n),
        right_(n),
        values_(n),
        sorted_values_(n),
        values_between_(n),
        right_values_(n) {
    fill_random<Key, Value><<<1024, 256>>>(keys_, values_, n, bits);
    check(cudaDeviceSynchronize(), "fill_random");
    std::size_t bytes = 0;
    cub_sort(nullptr, bytes, nullptr);
    const array<char> room(bytes);
    cub_sort(room, bytes, nullptr);
    check(cudaDeviceSynchronize(), "CUB");
    cub_ = milliseconds(n, [&](cudaStream_t s) { cub_sort(room, bytes, s); });
  }

  template <class Shape>
  void print() const {
    const own_sort<Key, Value, Shape> own(n_, bits_);
    int at = 0;
    const auto sort = [&](cudaStream_t s) {
      Key* const k[] = {sorted_, between_};
      Value* const v[] = {sorted_values_, values_between_};
      at = own.enqueue(keys_, values_, k, v, s);
    };
    sort(nullptr);
    check(cudaDeviceSynchronize(), "sort");
    require_same<Key>(at ? between_ : sorted_, right_, n_);
    if constexpr (pairs)
      require_same<Value>(at ? values_between_ : sorted_values_, right_values_, n_);
    const double ms = milliseconds(n_, sort);
    std::printf(
        "keys of %zu bytes, values of %zu, %2d bits, n = %10zu, %d x %2d, %d blocks: bitfold "
        "%9.4f ms, CUB %9.4f ms, ratio %.2f\n",
        sizeof(Key), pairs ? sizeof(Value) : 0, bits_, n_, Shape::threads, Shape::items,
        Shape::least_blocks, ms, cub_, ms / cub_);
    std::fflush(stdout);
  }

 private:
  void cub_sort(void* room, std::size_t& bytes, cudaStream_t s) const {
    using sort = cub::DeviceRadixSort;
    const Key* const keys = keys_;
    const Value* const values = values_;
    Key* const right = right_;
    Value* const right_values = right_values_;
    if constexpr (pairs)
      check(sort::SortPairs(room, bytes, keys, right, values, right_values, n_, 0, bits_, s));
    else
      check(sort::SortKeys(room, bytes, keys, right, n_, 0, bits_, s));
  }

  std::size_t n_;
  int bits_;
  array<Key> keys_, sorted_, between_, right_;
  array<Value> values_, sorted_values_, values_between_, right_values_;
  double cub_ = 0;
};

template <class Key, class Value, class Shape>
void compare(int bits) {
  for (const int power : {10, 16, 20, 24, 27})
    comparison<Key, Value>(std::size_t{1} << power, bits).template print<Shape>();
}

}  // namespace

int main() {
  using std::uint32_t;
  compare<uint32_t, uint32_t, sort_shape<384, 20, 2>>(32);
  compare<uint32_t, no_value, sort_shape<512, 19, 2>>(17);
}
