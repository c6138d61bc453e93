// What has to be moved before it is reduced. by_key: the elements, or of two inputs their places,
// sorted by key and, of each key, in their order (CUB's radix sort is stable).
#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>

#include <cub/device/device_radix_sort.cuh>

#include "places.cuh"
#include "room.hpp"

namespace bitfold::cuda {
namespace {

constexpr int block = 256;

int grid(index n) {
  return static_cast<int>(std::clamp<index>((n + block - 1) / block, 1, 1 << 14));
}

// Keys that name no output become the one after the last. With each goes its element; where there
// are two, their place.
__global__ void make_keys(const std::int64_t* from, index n, index outputs, std::uint32_t* keys,
                          std::uint32_t* places) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < n; i += index{gridDim.x} * block) {
    const auto key = static_cast<index>(from[i]);
    keys[i] = static_cast<std::uint32_t>(key < outputs ? key : outputs);
    if (places) places[i] = static_cast<std::uint32_t>(i);
  }
}

// Where each key begins; what lies between two keys begins where the second does.
__global__ void find_begins(const std::uint32_t* keys, index n, index outputs,
                            std::int64_t* begins) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i <= n; i += index{gridDim.x} * block) {
    const index from = i == 0 ? 0 : index{keys[i - 1]} + 1, to = i == n ? outputs : index{keys[i]};
    for (index k = from; k <= to; ++k) begins[k] = static_cast<std::int64_t>(i);
  }
}

// The same, by a search for each: of few elements among many outputs much would lie between two
// keys.
__global__ void search_begins(const std::uint32_t* keys, index n, index outputs,
                              std::int64_t* begins) {
  for (index k = index{blockIdx.x} * block + threadIdx.x; k <= outputs;
       k += index{gridDim.x} * block) {
    index first = 0;
    for (index end = n; first < end;) {
      const index middle = first + (end - first) / 2;
      if (keys[middle] < k)
        first = middle + 1;
      else
        end = middle;
    }
    begins[k] = static_cast<std::int64_t>(first);
  }
}

// From where keys begin, on: keys and places before the sort, keys and what goes with them after
// it, and what the sort wants.
template <class Bits>
struct room {
  std::int64_t* begins = nullptr;
  std::uint32_t *keys = nullptr, *sorted = nullptr;
  std::uint32_t* places = nullptr;
  Bits* values = nullptr;
  void* own = nullptr;
  std::size_t own_bytes = 0, bytes = 0;

  cudaError_t lay_out(void* workspace, bool two, index n, index outputs) {
    const auto take = [&]<class T>(T*& to, std::size_t count) {
      if (workspace) to = reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + bytes);
      bytes += rounded_up(count * sizeof(T));
    };
    take(begins, outputs + 2);
    take(keys, n);
    take(sorted, n);
    take(values, n);
    if (two) take(places, n);
    const cudaError_t failed = sort(nullptr, n, outputs, nullptr);
    if (workspace) own = static_cast<std::byte*>(workspace) + bytes;
    bytes += rounded_up(own_bytes);
    return failed;
  }
  // Without room of its own it says how much that is.
  cudaError_t sort(const Bits* from, index n, index outputs, stream where) {
    return cub::DeviceRadixSort::SortPairs(own, own_bytes, keys, sorted, from, values,
                                           static_cast<std::uint64_t>(n), 0,
                                           std::bit_width(outputs | 1), where);
  }
};
// f of the type of what goes with a key.
template <class Function>
auto with_values(dtype in, bool two, Function f) {
  return two ? f(std::uint32_t{}) : detail::with_bits(in, f);
}

}  // namespace

std::size_t keys_workspace(dtype in, bool two, index n, index outputs) {
  return with_values(in, two, [&]<class Bits>(Bits) {
    room<Bits> r;
    const cudaError_t err = r.lay_out(nullptr, two, n, outputs);
    if (err)
      throw error(errc::cuda, std::string("workspace of the sort: ") + cudaGetErrorString(err));
    return r.bytes;
  });
}

const char* launch_keys(const std::int64_t* from, index n, index outputs, void* workspace,
                        stream where, output_elements& to) {
  const bool two = to.y != nullptr;
  const cudaError_t err = with_values(to.type, two, [&]<class Bits>(Bits) {
    room<Bits> r;
    if (const auto failed = r.lay_out(workspace, two, n, outputs)) return failed;
    make_keys<<<grid(n), block, 0, where>>>(from, n, outputs, r.keys, r.places);
    if (const auto failed = cudaGetLastError()) return failed;
    const void* const values = two ? r.places : to.x;
    if (const auto failed = r.sort(static_cast<const Bits*>(values), n, outputs, where))
      return failed;
    if (outputs / 16 > n)
      search_begins<<<grid(outputs), block, 0, where>>>(r.sorted, n, outputs, r.begins);
    else
      find_begins<<<grid(n), block, 0, where>>>(r.sorted, n, outputs, r.begins);
    to.offsets = r.begins;
    if constexpr (std::is_same_v<Bits, std::uint32_t>)
      if (two) to.places = r.values;
    if (!two) to.x = r.values;
    return cudaGetLastError();
  });
  return err ? cudaGetErrorString(err) : nullptr;
}

namespace {
template <class Bits>
__global__ void gather(const __grid_constant__ output_elements from, index output, Bits* to) {
  const finder find = finder::of(from, output);
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < from.n; i += index{gridDim.x} * block)
    to[i] = static_cast<const Bits*>(from.x)[find(i).x];
}
template <class Bits>
__global__ void scatter(const Bits* from, index n, const __grid_constant__ detail::axes places,
                        const __grid_constant__ divisors by, Bits* to) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < n; i += index{gridDim.x} * block)
    to[offset_of(places, by, i).x] = from[i];
}
}  // namespace

const char* launch_gather(const output_elements& from, index output, void* to, stream where) {
  if (from.n > 0)
    detail::with_bits(from.type, [&]<class Bits>(Bits) {
      gather<<<grid(from.n), block, 0, where>>>(from, output, static_cast<Bits*>(to));
    });
  const cudaError_t err = cudaGetLastError();
  return err ? cudaGetErrorString(err) : nullptr;
}

const char* launch_scatter(const void* results, dtype type, const detail::axes& places,
                           const divisors& by, index first, void* to, stream where) {
  const index n = places.size();
  if (n > 0)
    detail::with_bits(type, [&]<class Bits>(Bits) {
      scatter<<<grid(n), block, 0, where>>>(static_cast<const Bits*>(results), n, places, by,
                                            static_cast<Bits*>(to) + first);
    });
  const cudaError_t err = cudaGetLastError();
  return err ? cudaGetErrorString(err) : nullptr;
}

}  // namespace bitfold::cuda
