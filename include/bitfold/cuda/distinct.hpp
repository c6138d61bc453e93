// What plans and kernels of count_distinct that sort nothing both know.
#pragma once

#include <bitfold/config.hpp>
#include <cstddef>

namespace bitfold::cuda {

inline constexpr int distinct_threads = 1024;

/// Elements of 4 or 8 bytes that one block puts into a table: as many as leave a third of it free.
BITFOLD_HD constexpr std::size_t elements_of_table(std::size_t size) {
  return (std::size_t{32} << 10) / size;
}
/// Slots for n of them, half of which stay free where there is room: 48 KiB, which any block may
/// have, less what it counts with.
constexpr std::size_t slots_of_table(std::size_t n, std::size_t size) {
  const std::size_t most = ((std::size_t{48} << 10) - 64) / size;
  return 2 * n < most ? 2 * n : most;
}

/// Words of a bit for each pattern that elements of 1 or 2 bytes may be.
BITFOLD_HD constexpr std::size_t words_of_patterns(std::size_t size) {
  return (std::size_t{1} << (8 * size)) / 32;
}
/// Bytes of the elements that are worth a block.
inline constexpr std::size_t bytes_of_pattern_block = std::size_t{32} << 10;

}  // namespace bitfold::cuda
