// What an emulated GPU and the kernels that run on it share. Needs no other header.
#pragma once

namespace emulated {

struct triple {
  unsigned x, y, z;
};
/// As the thread that runs sees it.
struct machine {
  triple thread, block, threads, blocks;  ///< threadIdx, blockIdx, blockDim, gridDim
  char* shared;
  void (*wait_for_the_block)();
  /// The value of lane `from` of the warp, all of whose lanes in `mask` call it.
  unsigned long (*exchange)(unsigned long value, unsigned mask, int from);
  /// A bit for each lane of the warp, all of which call it.
  unsigned (*ballot)(bool condition);
};

}  // namespace emulated
