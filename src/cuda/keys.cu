// What has to be moved before it is reduced. by_key: the elements, or of two inputs their places, sorted by key and, of each
// key, in their order (CUB's radix sort is stable).
#include <algorithm>
#include <string>

#include <cub/device/device_radix_sort.cuh>

#include "places.cuh"

namespace bitfold::cuda {
namespace {

constexpr int block = 256;

int grid(index n) { return static_cast<int>(std::clamp<index>((n + block - 1) / block, 1, 1 << 14)); }

// Keys that name no output become the one after the last. With each goes x's element, or its place where x is null.
template <class Bits>
__global__ void make_keys(const std::int64_t* from, const Bits* x, index n, index outputs, std::uint32_t* keys, Bits* values) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < n; i += index{gridDim.x} * block) {
    const auto key = static_cast<index>(from[i]);
    keys[i] = static_cast<std::uint32_t>(key < outputs ? key : outputs);
    values[i] = x ? x[i] : static_cast<Bits>(i);
  }
}

// Where each key begins; what lies between two keys begins where the second does.
__global__ void find_begins(const std::uint32_t* keys, index n, index outputs, std::int64_t* begins) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i <= n; i += index{gridDim.x} * block) {
    const index from = i == 0 ? 0 : index{keys[i - 1]} + 1, to = i == n ? outputs : index{keys[i]};
    for (index k = from; k <= to; ++k) begins[k] = static_cast<std::int64_t>(i);
  }
}

struct room {
  std::size_t begins, keys, values, own;  // bytes: of where keys begin; of keys; of what goes with them; CUB's
  std::size_t total() const { return begins + 2 * (keys + values) + own; }
};
template <class T>
using buffers = cub::DoubleBuffer<T>;

template <class Bits>
cudaError_t sort(void* own, std::size_t& bytes, buffers<std::uint32_t>& keys, buffers<Bits>& values, index n, index outputs, stream where) {
  int bits = 1;
  while (outputs >> bits) ++bits;
  return cub::DeviceRadixSort::SortPairs(own, bytes, keys, values, static_cast<std::uint64_t>(n), 0, bits, where);
}
constexpr std::size_t rounded_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
template <class Bits>
cudaError_t lay_out(index n, index outputs, room& to) {
  buffers<std::uint32_t> no_keys(nullptr, nullptr);
  buffers<Bits> none(nullptr, nullptr);
  to = {rounded_up((outputs + 2) * sizeof(std::int64_t)), rounded_up(n * sizeof(std::uint32_t)), rounded_up(n * sizeof(Bits)), 0};
  return sort(nullptr, to.own, no_keys, none, n, outputs, nullptr);
}
// f of the type of what goes with a key.
template <class Function>
auto with_values(dtype in, bool two, Function f) {
  return two ? f(std::uint32_t{}) : detail::with_bits(in, f);
}

}  // namespace

std::size_t keys_workspace(dtype in, bool two, index n, index outputs) {
  room r{};
  const cudaError_t err = with_values(in, two, [&]<class Bits>(Bits) { return lay_out<Bits>(n, outputs, r); });
  if (err) throw error(errc::cuda, std::string("workspace of the sort: ") + cudaGetErrorString(err));
  return rounded_up(r.total());
}

const char* launch_keys(const std::int64_t* from, index n, index outputs, void* workspace, stream where, output_elements& to) {
  const bool two = to.y != nullptr;
  const cudaError_t err = with_values(to.type, two, [&]<class Bits>(Bits) {
    room r{};
    if (const auto failed = lay_out<Bits>(n, outputs, r)) return failed;
    auto* const first = static_cast<std::byte*>(workspace);
    auto* const begins = reinterpret_cast<std::int64_t*>(first);
    auto* const words = reinterpret_cast<std::uint32_t*>(first + r.begins);
    std::byte* const values_at = first + r.begins + 2 * r.keys;
    buffers<std::uint32_t> keys(words, words + r.keys / sizeof *words);
    buffers<Bits> values(reinterpret_cast<Bits*>(values_at), reinterpret_cast<Bits*>(values_at + r.values));
    make_keys<<<grid(n), block, 0, where>>>(from, two ? nullptr : static_cast<const Bits*>(to.x), n, outputs, keys.Current(), values.Current());
    if (const auto failed = cudaGetLastError()) return failed;
    if (const auto failed = sort(values_at + 2 * r.values, r.own, keys, values, n, outputs, where)) return failed;
    find_begins<<<grid(n), block, 0, where>>>(keys.Current(), n, outputs, begins);
    to.offsets = begins;
    if (two) to.places = reinterpret_cast<const std::uint32_t*>(values.Current());
    else to.x = values.Current();
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
__global__ void scatter(const Bits* from, index n, const __grid_constant__ detail::axes places, const __grid_constant__ divisors by, Bits* to) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < n; i += index{gridDim.x} * block) to[offset_of(places, by, i).x] = from[i];
}
}  // namespace

const char* launch_gather(const output_elements& from, index output, void* to, stream where) {
  if (from.n > 0)
    detail::with_bits(from.type, [&]<class Bits>(Bits) { gather<<<grid(from.n), block, 0, where>>>(from, output, static_cast<Bits*>(to)); });
  const cudaError_t err = cudaGetLastError();
  return err ? cudaGetErrorString(err) : nullptr;
}

const char* launch_scatter(const void* results, dtype type, const detail::axes& places, const divisors& by, index first, void* to, stream where) {
  const index n = places.size();
  if (n > 0)
    detail::with_bits(type, [&]<class Bits>(Bits) {
      scatter<<<grid(n), block, 0, where>>>(static_cast<const Bits*>(results), n, places, by, static_cast<Bits*>(to) + first);
    });
  const cudaError_t err = cudaGetLastError();
  return err ? cudaGetErrorString(err) : nullptr;
}

}  // namespace bitfold::cuda
