// count_distinct: the keys, sorted by CUB, and how many of them differ from the one before; of
// segments, sorted by segment too.
#include <algorithm>
#include <string>
#include <utility>

#include <cub/device/device_radix_sort.cuh>

#include "kernels.hpp"
#include "places.cuh"
#include "room.hpp"

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
  to.keys = rounded_up(n * sizeof(Key));
  return cub::DeviceRadixSort::SortKeys(nullptr, to.own, none, static_cast<std::uint64_t>(n), 0,
                                        bits);
}

template <class Key>
cudaError_t sort_and_count(const arguments& a) {
  const int bits = static_cast<int>(8 * size_of(a.data.type));
  layout room{};
  if (const auto err = lay_out<Key>(a.n, bits, room)) return err;
  auto* const first = static_cast<std::byte*>(a.workspace);
  cub::DoubleBuffer<Key> keys(reinterpret_cast<Key*>(first),
                              reinterpret_cast<Key*>(first + room.keys));
  const auto blocks =
      static_cast<unsigned>(std::min<std::size_t>((a.n + block - 1) / block, 1 << 12));
  make_keys<Key><<<blocks, block, 0, a.where>>>(a.data.x, a.data.type, a.n, keys.Current());
  if (const auto err = cudaGetLastError()) return err;
  if (const auto err = cub::DeviceRadixSort::SortKeys(
          first + 2 * room.keys, room.own, keys, static_cast<std::uint64_t>(a.n), 0, bits, a.where))
    return err;
  auto* const count = static_cast<unsigned long long*>(a.how.each[0].out);
  if (const auto err = cudaMemsetAsync(count, 0, sizeof *count, a.where)) return err;
  count_runs<Key><<<blocks, block, 0, a.where>>>(keys.Current(), a.n, count);
  return cudaGetLastError();
}

// ---- Segments -----------------------------------------------------------------------------------

// Narrow keys and their segments are one key.
struct packed_keys {
  std::uint64_t* both;
  __device__ void set(index i, std::uint32_t segment, std::uint64_t key) const {
    both[i] = std::uint64_t{segment} << 32 | key;
  }
  __device__ std::uint32_t segment(index i) const {
    return static_cast<std::uint32_t>(both[i] >> 32);
  }
  __device__ bool repeats(index i) const { return both[i] == both[i - 1]; }
};
struct wide_keys {
  std::uint64_t* keys;
  std::uint32_t* segments;
  __device__ void set(index i, std::uint32_t segment, std::uint64_t key) const {
    keys[i] = key, segments[i] = segment;
  }
  __device__ std::uint32_t segment(index i) const { return segments[i]; }
  __device__ bool repeats(index i) const {
    return keys[i] == keys[i - 1] && segments[i] == segments[i - 1];
  }
};
// The segment that an element of some segment lies in: not an empty one, and of several that begin
// there the last.
__device__ index segment_of(const output_elements& from, std::int64_t element) {
  index segment = 0, end = from.outputs;  // offsets[segment] <= element < offsets[end]
  while (end - segment > 1) {
    const index middle = (segment + end) / 2;
    (from.offsets[middle] <= element ? segment : end) = middle;
  }
  return segment;
}
__device__ bool is_in_a_segment(const output_elements& from, std::int64_t element) {
  return element >= from.offsets[0] && element < from.offsets[from.outputs];
}

template <class Keys>
__global__ void make_keys_of_segments(const __grid_constant__ output_elements from, Keys to) {
  visit(from.type, [&]<class T>(std::type_identity<T>) {
    for (index i = index{blockIdx.x} * block + threadIdx.x; i < from.total;
         i += index{gridDim.x} * block) {
      // What lies in no segment goes to one after the last.
      const auto at = static_cast<std::int64_t>(i);
      to.set(i,
             static_cast<std::uint32_t>(is_in_a_segment(from, at) ? segment_of(from, at)
                                                                  : from.outputs),
             arith::key_of(static_cast<const T*>(from.x)[i]));
    }
  });
}
// Adds to integers, as above: a thread looks at neighbours, which are mostly of one segment.
template <class Keys>
__global__ void count_runs_of_segments(Keys keys, index n, index outputs,
                                       unsigned long long* counts) {
  constexpr index each = 16;
  const index first = (index{blockIdx.x} * block + threadIdx.x) * each,
              end = first + each < n ? first + each : n;
  std::uint32_t segment = 0;
  unsigned count = 0;
  const auto add = [&] {
    if (count > 0 && segment < outputs)
      atomicAdd(counts + segment, static_cast<unsigned long long>(count));
  };
  for (index i = first; i < end; ++i) {
    if (const std::uint32_t s = keys.segment(i); s != segment) {
      add();
      segment = s;
      count = 0;
    }
    count += i == 0 || !keys.repeats(i);
  }
  add();
}

struct layout_of_segments {
  std::size_t keys, segments, own;  // bytes
  std::size_t total() const { return 2 * (keys + segments) + own; }
};
using key_buffers = cub::DoubleBuffer<std::uint64_t>;
using segment_buffers = cub::DoubleBuffer<std::uint32_t>;
// Sorts n elements, whose keys are wide or narrow, by key within their segments; with room null it
// tells how much CUB needs.
cudaError_t sort_segments(void* room, std::size_t& bytes, bool narrow, key_buffers& keys,
                          segment_buffers& segments, index n, index outputs, int key_bits,
                          stream where) {
  int bits = 1;
  while (outputs >> bits) ++bits;
  const auto count = static_cast<std::uint64_t>(n);
  if (narrow) {
    // Between the bits of the key and those of the segment there are zeros.
    return cub::DeviceRadixSort::SortKeys(room, bytes, keys, count, 0, 32 + bits, where);
  }
  std::size_t by_key = bytes, by_segment = bytes;
  if (const auto err =
          cub::DeviceRadixSort::SortPairs(room, by_key, keys, segments, count, 0, key_bits, where))
    return err;
  if (const auto err =
          cub::DeviceRadixSort::SortPairs(room, by_segment, segments, keys, count, 0, bits, where))
    return err;
  bytes = std::max(by_key, by_segment);
  return cudaSuccess;
}
cudaError_t lay_out_segments(dtype type, index n, index outputs, layout_of_segments& to) {
  const bool narrow = is_narrow(type);
  key_buffers keys(nullptr, nullptr);
  segment_buffers segments(nullptr, nullptr);
  to = {rounded_up(n * sizeof(std::uint64_t)), narrow ? 0 : rounded_up(n * sizeof(std::uint32_t)),
        0};
  return sort_segments(nullptr, to.own, narrow, keys, segments, n, outputs,
                       static_cast<int>(8 * size_of(type)), nullptr);
}
template <class Keys>
cudaError_t count_segments(const output_elements& from, Keys made, auto sorted, std::int64_t* out,
                           stream where) {
  const auto blocks = [](index items) {
    return static_cast<unsigned>((items + block - 1) / block);
  };
  if (const auto err = cudaMemsetAsync(out, 0, from.outputs * sizeof *out, where)) return err;
  if (from.total == 0) return cudaSuccess;
  make_keys_of_segments<<<std::min(blocks(from.total), 1u << 14), block, 0, where>>>(from, made);
  if (const auto err = cudaGetLastError()) return err;
  Keys keys{};
  if (const auto err = sorted(keys)) return err;
  count_runs_of_segments<<<blocks((from.total + 15) / 16), block, 0, where>>>(
      keys, from.total, from.outputs, reinterpret_cast<unsigned long long*>(out));
  return cudaGetLastError();
}

}  // namespace

std::size_t sort_workspace_of_segments(dtype in, index n, index outputs) {
  layout_of_segments room{};
  if (const auto err = lay_out_segments(in, n, outputs, room))
    throw error(errc::cuda, std::string("workspace of the sort: ") + cudaGetErrorString(err));
  return room.total();
}

const char* launch_distinct_of_segments(const output_elements& from, std::int64_t* out,
                                        void* workspace, stream where) {
  layout_of_segments room{};
  const bool narrow = is_narrow(from.type);
  cudaError_t err = lay_out_segments(from.type, from.total, from.outputs, room);
  auto* const first = static_cast<std::byte*>(workspace);
  const auto keys_at = [&](std::size_t k) {
    return reinterpret_cast<std::uint64_t*>(first + k * room.keys);
  };
  const auto segments_at = [&](std::size_t k) {
    return reinterpret_cast<std::uint32_t*>(first + 2 * room.keys + k * room.segments);
  };
  key_buffers keys(keys_at(0), keys_at(1));
  segment_buffers segments(segments_at(0), segments_at(1));
  const auto sort = [&] {
    return sort_segments(first + 2 * (room.keys + room.segments), room.own, narrow, keys, segments,
                         from.total, from.outputs, static_cast<int>(8 * size_of(from.type)), where);
  };
  if (!err && narrow)
    err = count_segments(
        from, packed_keys{keys.Current()},
        [&](packed_keys& to) {
          const auto failed = sort();
          to = {keys.Current()};
          return failed;
        },
        out, where);
  else if (!err)
    err = count_segments(
        from, wide_keys{keys.Current(), segments.Current()},
        [&](wide_keys& to) {
          const auto failed = sort();
          to = {keys.Current(), segments.Current()};
          return failed;
        },
        out, where);
  return err ? cudaGetErrorString(err) : nullptr;
}

std::size_t sort_workspace(dtype in, std::size_t n) {
  if (n == 0) return 0;
  layout room{};
  const int bits = static_cast<int>(8 * size_of(in));
  const auto err =
      is_narrow(in) ? lay_out<std::uint32_t>(n, bits, room) : lay_out<std::uint64_t>(n, bits, room);
  if (err)
    throw error(errc::cuda, std::string("workspace of the sort: ") + cudaGetErrorString(err));
  return 2 * room.keys + room.own;
}

const char* launch_distinct(const arguments& a) {
  const auto err =
      is_narrow(a.data.type) ? sort_and_count<std::uint32_t>(a) : sort_and_count<std::uint64_t>(a);
  return err ? cudaGetErrorString(err) : nullptr;
}

}  // namespace bitfold::cuda
