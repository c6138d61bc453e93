// Ranks whose GPUs write to one another's memory: processes of one host, with a GPU each, or with
// one that some of them share. What they have goes from one memory to the other, and is folded
// there, by one kernel (docs/distributed.md).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <bitfold/cuda.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::cuda {

/// By which another process opens memory of a GPU's.
using memory_handle = std::array<std::byte, 64>;

/// One of some ranks whose GPUs write to one another's memory: a process makes one for its GPU,
/// sends its handle() to the others by whatever way it has, and calls open() with the handles of
/// all.
class linked_ranks {
 public:
  static constexpr int most = 8;  ///< ranks

  /// Of `ranks` of them this one, on the current device. `seconds`: how long a kernel waits for the
  /// others before it ends with an error, as every call in its context does then. All ranks have
  /// done their calls before the first of them is destroyed. Errors: errc::usage (more ranks than
  /// `most`, or fewer than 2; a rank that is none of them); errc::no_device; errc::cuda.
  linked_ranks(int rank, int ranks, double seconds);
  ~linked_ranks();
  linked_ranks(const linked_ranks&) = delete;
  linked_ranks& operator=(const linked_ranks&) = delete;

  /// By which the others open this rank's memory. Errors: errc::cuda.
  memory_handle handle() const;
  /// Opens the memory of all ranks, once. Before the first call all ranks have done so.
  /// all: the handles of all ranks, in order, with this one's own.
  /// Errors: errc::usage (not one of each rank; opened already); errc::cuda, where a GPU does not
  /// reach another's memory.
  void open(std::span<const memory_handle> all);

  /// Whether this way takes r: one with a canonical order, or an exact sum or mean of floats of up
  /// to 32 bits, whose results have 1 or 2 times as many bytes as its elements.
  static bool takes(const reduction& r);

  /// To out, n results: of each element the reduction over the ranks, with the bits that
  /// reduce_contributions has for their x in order. All ranks make the same calls, each on one
  /// stream, or behind one another. Enqueues one kernel. After an error on one rank the others'
  /// kernels wait for it in vain, and no rank makes more calls.
  /// x: n elements of type r.in() in device memory, aligned to 16 bytes.
  /// out: room for n results of type r.out(), aligned to 16 bytes. It may be x where results have
  /// as many bytes as elements, and lies apart from it otherwise. Errors: errc::usage (not aligned;
  /// null; out overlaps x; what `takes` refuses; open() was not called); errc::cuda.
  void all_reduce(const reduction& r, const void* x, std::size_t n, void* out, stream s = nullptr);
  /// The same of n elements for each rank, one rank's behind the other's; to out this rank's n
  /// results, which may be its own elements of x. Errors, besides: n elements that are no multiple
  /// of 16 bytes (errc::usage).
  void reduce_scatter(const reduction& r, const void* x, std::size_t n, void* out,
                      stream s = nullptr);

  /// How calls are shared out. It moves no bit; all ranks have the same.
  struct shape {
    std::size_t at_once = 256 << 10;  ///< bytes up to which every rank gets all, and folds all
    int blocks = 128;                 ///< at most, up to 128
    int packets = 4096;  ///< of 16 bytes, that a block takes of a share at once: as many at most,
                         ///< of more than 2 ranks 2048, of more than 4 1024; two thirds of these
                         ///< where results have twice as many bytes as elements
  };
  shape how;

 private:
  struct state;
  void reduce(const reduction& r, const void* x, std::size_t n, std::size_t share, bool gather,
              void* out, stream s);
  const std::unique_ptr<state> of_;
};

}  // namespace bitfold::cuda
