// What has to be moved before it is reduced. by_key: the places of the elements, sorted by key and, of each key, in their order (CUB's radix sort is stable).
#include <algorithm>
#include <string>

#include <cub/device/device_radix_sort.cuh>

#include "places.cuh"

namespace bitfold::cuda {
namespace {

constexpr int block = 256;

int grid(index n) { return static_cast<int>(std::clamp<index>((n + block - 1) / block, 1, 1 << 14)); }

// Keys that name no output become the one after the last.
__global__ void make_keys(const std::int64_t* from, index n, index outputs, std::uint32_t* keys, std::uint32_t* places) {
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < n; i += index{gridDim.x} * block) {
    const auto key = static_cast<index>(from[i]);
    keys[i] = static_cast<std::uint32_t>(key < outputs ? key : outputs);
    places[i] = static_cast<std::uint32_t>(i);
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
  std::size_t begins, words, own;  // bytes: of where keys begin; of keys, as of places; CUB's
  std::size_t total() const { return begins + 4 * words + own; }
};
using pairs = cub::DoubleBuffer<std::uint32_t>;

cudaError_t sort(void* own, std::size_t& bytes, pairs& keys, pairs& places, index n, index outputs, stream where) {
  int bits = 1;
  while (outputs >> bits) ++bits;
  return cub::DeviceRadixSort::SortPairs(own, bytes, keys, places, static_cast<std::uint64_t>(n), 0, bits, where);
}
cudaError_t lay_out(index n, index outputs, room& to) {
  pairs none(nullptr, nullptr);
  to.begins = ((outputs + 2) * sizeof(std::int64_t) + 255) / 256 * 256;
  to.words = (n * sizeof(std::uint32_t) + 255) / 256 * 256;
  return sort(nullptr, to.own, none, none, n, outputs, nullptr);
}

}  // namespace

std::size_t keys_workspace(index n, index outputs) {
  room r{};
  if (const auto err = lay_out(n, outputs, r)) throw error(errc::cuda, std::string("workspace of the sort: ") + cudaGetErrorString(err));
  return (r.total() + 255) / 256 * 256;
}

const char* launch_keys(const std::int64_t* from, index n, index outputs, void* workspace, stream where, output_elements& to) {
  room r{};
  cudaError_t err = lay_out(n, outputs, r);
  auto* const first = static_cast<std::byte*>(workspace);
  auto* const begins = reinterpret_cast<std::int64_t*>(first);
  const auto words = [&](int k) { return reinterpret_cast<std::uint32_t*>(first + r.begins + static_cast<std::size_t>(k) * r.words); };
  pairs keys(words(0), words(1)), places(words(2), words(3));
  if (!err) make_keys<<<grid(n), block, 0, where>>>(from, n, outputs, keys.Current(), places.Current());
  if (!err) err = cudaGetLastError();
  if (!err) err = sort(words(4), r.own, keys, places, n, outputs, where);
  if (!err) find_begins<<<grid(n), block, 0, where>>>(keys.Current(), n, outputs, begins);
  if (!err) err = cudaGetLastError();
  to.offsets = begins;
  to.places = places.Current();
  return err ? cudaGetErrorString(err) : nullptr;
}

namespace {
template <class Bits>
__global__ void gather(const __grid_constant__ output_elements from, index output, Bits* to) {
  const finder find = finder::of(from, output);
  for (index i = index{blockIdx.x} * block + threadIdx.x; i < from.n; i += index{gridDim.x} * block)
    to[i] = static_cast<const Bits*>(from.x)[find(i).x];
}
}  // namespace

const char* launch_gather(const output_elements& from, index output, void* to, stream where) {
  if (from.n > 0)
    detail::with_bits(from.type, [&]<class Bits>(Bits) { gather<<<grid(from.n), block, 0, where>>>(from, output, static_cast<Bits*>(to)); });
  const cudaError_t err = cudaGetLastError();
  return err ? cudaGetErrorString(err) : nullptr;
}

}  // namespace bitfold::cuda
