// What plans and kernels of linked ranks both know: where a block's elements and flags lie in the
// memory of each GPU of a host that the others write to.
#pragma once

#include <bitfold/cuda/tile.hpp>

namespace bitfold::cuda {

inline constexpr int most_linked = 8;
/// A multiprocessor has two blocks, of which one reads and writes while the other waits for its
/// fellows.
inline constexpr int threads_on_links = 256, blocks_together = 2;
/// On half of a large GPU's multiprocessors, so that calls of two groups are there together, in
/// whatever order. They suffice for links.
inline constexpr int most_blocks_on_links = 128;

// First of all flags, of each block one by each rank, which that rank sets; then how often each
// block has met the others; then two slots, which steps take in turn. A kernel ends
// when its blocks have met those of all ranks, whose kernels before it have ended then: so nobody
// still reads what the call after the next one overwrites, whatever their layouts.
inline constexpr std::size_t flag_bytes =
    sizeof(std::uint32_t) * most_blocks_on_links * (most_linked + 1);
inline constexpr std::size_t bytes_ahead_of_slots = 8192;
static_assert(flag_bytes <= bytes_ahead_of_slots);

/// One call. In a step a block takes `packets` of 16 bytes of each share; its elements lie in the
/// slot behind those of the blocks before it.
struct linked_call {
  std::byte* memory[most_linked];  ///< of each rank
  int rank, ddof;
  unsigned slot;         ///< of the first step: 0 or 1
  index slot_bytes;      ///< of one
  index n, share;        ///< elements: of all, and of a rank
  index steps, packets;  ///< of a block
  std::uint64_t limit;   ///< nanoseconds that a block waits for the others
};

/// Bytes of a block in a slot: what each rank gives it, `packets` packets of elements and so many
/// times as many of results.
BITFOLD_HD constexpr index bytes_of_linked_block(index packets, int ranks, int result_packets) {
  return packets * 16 * static_cast<index>(ranks * (1 + result_packets));
}

}  // namespace bitfold::cuda
