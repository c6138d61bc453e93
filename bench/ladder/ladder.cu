// The list of the rungs, and the calls of ladder.hpp.
#include "ladder.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

#include "frameworks.cuh"
#include "global_memory.cuh"

namespace bitfold::ladder {
namespace {

// bitfold's own engine, through its interface.
struct bitfold_tree {
  static constexpr rung info{"bitfold-tree",
                             "bitfold, method tree",
                             "The order is a function of n alone, so the bits are the same on "
                             "every GPU and CPU; two passes "
                             "over the grid, and no atomic.",
                             "docs/order.md",
                             "",
                             {}};
  static constexpr bool in_place = false;
  template <class T>
  static reduction what() {
    constexpr dtype t = std::is_same_v<T, float> ? dtype::f32 : dtype::i32;
    return make_reduction(op_id::sum, method_id::tree, t, t == dtype::f32 ? t : dtype::i64, t);
  }
  static std::size_t sums(std::size_t n) {
    return blocks_for(std::max(cuda::workspace_bytes(what<float>(), n),
                               cuda::workspace_bytes(what<std::uint32_t>(), n)),
                      sizeof(float));
  }
  template <class T>
  static void run(const arguments<T>& a) {
    const reduction r = what<T>();
    cuda::reduce(r, a.x, a.n, a.out, a.workspace, cuda::workspace_bytes(r, a.n), a.stream);
  }
};

struct entry {
  rung info;
  bool in_place;
  std::size_t (*sums)(std::size_t n);  // elements of workspace besides the copy
  void (*run_f32)(const arguments<float>&);
  void (*run_i32)(const arguments<std::uint32_t>&);  // unsigned, so that wrapping is defined
};

template <class... Rung>
constexpr std::array<entry, sizeof...(Rung)> entries() {
  return {{{Rung::info, Rung::in_place, Rung::sums, Rung::template run<float>,
            Rung::template run<std::uint32_t>}...}};
}

constexpr auto all = entries<
    // in global memory
    interleaved, contiguous_prefix,
    // in shared memory
    shared_memory, strided_index, sequential_addressing, read_two,
    // one launch, by atomics
    segmented_atomic, coarsened_2, coarsened_4, coarsened_8, coarsened_16, coarsened_32,
    // without the loop's cost
    unrolled_last_warp, fully_unrolled, cascading,
    // in registers
    shuffle_1, shuffle_2, shuffle_4, shuffle_8,
    // atomics, with and without a tree; and the way without
    naive_atomic, shuffle_atomic, two_pass,
    // today's
    pytorch_like, triton_like, bitfold_tree>();

constexpr auto infos = [] {
  std::array<rung, all.size()> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = all[i].info;
  return out;
}();

const entry& entry_of(const rung& r) {
  for (const entry& e : all)
    if (e.info.name == r.name) return e;
  throw std::invalid_argument("ladder: no rung is called " + std::string(r.name));
}

void require_supported(const rung& r, dtype t, std::size_t n) {
  if (!supports(r, t, n))
    throw std::invalid_argument("ladder: " + std::string(r.name) + " does not take " +
                                std::to_string(n) + " elements of " + std::string(name(t)));
}

void check(cudaError_t err, const rung& r) {
  if (err != cudaSuccess)
    throw error(errc::cuda, "ladder: " + std::string(r.name) + ": " + cudaGetErrorString(err));
}

template <class T>
arguments<T> typed(const void* data, std::size_t n, void* out, void* workspace,
                   CUstream_st* stream) {
  return {static_cast<const T*>(data), n, static_cast<T*>(out), static_cast<T*>(workspace), stream};
}

}  // namespace

std::span<const rung> all_rungs() { return infos; }

bool supports(const rung&, dtype t, std::size_t n) {
  return (t == dtype::f32 || t == dtype::i32) && n >= 1;
}

std::size_t workspace_bytes(const rung& r, dtype t, std::size_t n) {
  require_supported(r, t, n);
  const entry& e = entry_of(r);
  const std::size_t bytes = (e.sums(n) + (e.in_place ? n : 0)) * size_of(t);
  return (bytes + 255) / 256 * 256;
}

void prepare(const rung& r, dtype t, const void* data, std::size_t n, void* workspace,
             CUstream_st* stream) {
  require_supported(r, t, n);
  if (!entry_of(r).in_place) return;
  check(cudaMemcpyAsync(workspace, data, n * size_of(t), cudaMemcpyDeviceToDevice, stream), r);
}

void launch(const rung& r, dtype t, const void* data, std::size_t n, void* out, void* workspace,
            CUstream_st* stream) {
  require_supported(r, t, n);
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
    throw std::invalid_argument("ladder: data is not aligned to 16 bytes");
  const entry& e = entry_of(r);
  if (t == dtype::f32)
    e.run_f32(typed<float>(data, n, out, workspace, stream));
  else
    e.run_i32(typed<std::uint32_t>(data, n, out, workspace, stream));
  check(cudaGetLastError(), r);
}

}  // namespace bitfold::ladder
