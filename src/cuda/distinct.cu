// count_distinct: the keys, sorted by CUB, and how many of them differ from the one before.
#include <algorithm>
#include <string>
#include <utility>

#include <cub/device/device_radix_sort.cuh>

#include "kernels.hpp"

namespace bitfold::cuda {
namespace {

constexpr int block = 256;

// Whether the keys of a type are sorted in 32 bits, or else in 64.
bool is_narrow(dtype t) { return size_of(t) <= 4; }

template <class Key>
__global__ void make_keys(const void* data, dtype type, index n, Key* keys) {
  visit(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) <= sizeof(Key))
      for (index i = index{blockIdx.x} * block + threadIdx.x; i < n; i += index{gridDim.x} * block)
        keys[i] = arith::key_of(static_cast<const T*>(data)[i]);
  });
}

// Adds to an integer, which no order of additions changes.
template <class Key>
__global__ void count_runs(const Key* keys, index n, unsigned long long* count) {
  unsigned long long all = 0;
  for (index first = index{blockIdx.x} * block; first < n; first += index{gridDim.x} * block) {
    const index i = first + threadIdx.x;
    all += static_cast<unsigned>(__syncthreads_count(i < n && (i == 0 || keys[i] != keys[i - 1])));
  }
  if (threadIdx.x == 0) atomicAdd(count, all);
}

// The keys, as many again for the sort to move them to, and CUB's own.
struct layout {
  std::size_t keys, own;  // bytes
};
template <class Key>
cudaError_t lay_out(std::size_t n, int bits, layout& to) {
  cub::DoubleBuffer<Key> none(nullptr, nullptr);
  to.keys = (n * sizeof(Key) + 255) / 256 * 256;
  return cub::DeviceRadixSort::SortKeys(nullptr, to.own, none, static_cast<std::uint64_t>(n), 0, bits);
}

template <class Key>
cudaError_t sort_and_count(const arguments& a) {
  const int bits = static_cast<int>(8 * size_of(a.data.type));
  layout room{};
  if (const auto err = lay_out<Key>(a.n, bits, room)) return err;
  auto* const first = static_cast<std::byte*>(a.workspace);
  cub::DoubleBuffer<Key> keys(reinterpret_cast<Key*>(first), reinterpret_cast<Key*>(first + room.keys));
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((a.n + block - 1) / block, 1 << 12));
  make_keys<Key><<<blocks, block, 0, a.where>>>(a.data.x, a.data.type, a.n, keys.Current());
  if (const auto err = cudaGetLastError()) return err;
  if (const auto err = cub::DeviceRadixSort::SortKeys(first + 2 * room.keys, room.own, keys,
                                                      static_cast<std::uint64_t>(a.n), 0, bits, a.where))
    return err;
  auto* const count = static_cast<unsigned long long*>(a.how.each[0].out);
  if (const auto err = cudaMemsetAsync(count, 0, sizeof *count, a.where)) return err;
  count_runs<Key><<<blocks, block, 0, a.where>>>(keys.Current(), a.n, count);
  return cudaGetLastError();
}

}  // namespace

std::size_t sort_workspace(dtype in, std::size_t n) {
  if (n == 0) return 0;
  layout room{};
  const int bits = static_cast<int>(8 * size_of(in));
  const auto err = is_narrow(in) ? lay_out<std::uint32_t>(n, bits, room) : lay_out<std::uint64_t>(n, bits, room);
  if (err) throw error(errc::cuda, std::string("workspace of the sort: ") + cudaGetErrorString(err));
  return 2 * room.keys + room.own;
}

const char* launch_distinct(const arguments& a) {
  const auto err = is_narrow(a.data.type) ? sort_and_count<std::uint32_t>(a) : sort_and_count<std::uint64_t>(a);
  return err ? cudaGetErrorString(err) : nullptr;
}

}  // namespace bitfold::cuda
