// The seam between host code and the kernels of exact sums.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <bitfold/exact.hpp>

#include "kernels.hpp"
#include "views.hpp"

namespace bitfold::cuda {

/// Sets of terms.
BITFOLD_HD constexpr unsigned only(exact::term what) { return 1u << static_cast<int>(what); }
inline constexpr unsigned of_two_inputs = only(exact::term::difference) |
                                          only(exact::term::product) |
                                          only(exact::term::squared_difference);

/// A kernel that adds the terms of a set to the cells of its block.
struct exact_kernel {
  const void* function = nullptr;
  const void* of_pieces = nullptr;   ///< the same of exact_pieces; of floats and one input
  const void* finish = nullptr;      ///< makes results of the cells of all blocks, in one block
  const void* finish_all = nullptr;  ///< the same of any terms, up to most_slots of them
  bool alone = false;                ///< a block that is the only one makes the results as well
  int threads = 0;                   ///< of a block, at most
  std::size_t shared = 0;            ///< bytes of dynamic shared memory
  std::size_t elements = 0;          ///< that a block takes at once
  int cells[2] = {};                 ///< of a term of degree 1 and 2, its flags among them
};
/// The kernel for a set of terms of elements T that has one of its own, as each term has, and that
/// for any set of as many inputs; without a function where there is none. Each T is compiled in a
/// file of its own, integers as std::int64_t.
template <class T>
exact_kernel exact_kernel_of(unsigned terms);
template <class T>
exact_kernel exact_kernel_of_any(unsigned terms);
inline constexpr int finish_threads = 512;
/// Of a pass: its cells are added up in 64 bits (docs/exact.md).
inline constexpr int most_blocks = 1 << 13;

/// The cells of one term, those of a block one behind the other.
struct exact_slot {
  exact::term what;
  int blocks, cells;  ///< cells of a block
  std::int64_t* at;
};
inline constexpr int most_slots = 8;
struct exact_slots {
  int count;
  exact_slot each[most_slots];
};

/// Arrays that one kernel takes, in stripes: item k of the first piece's, then of the second's, and
/// so on.
inline constexpr int most_pieces = 160;
struct exact_pieces {
  int count;
  index stripe;  ///< elements
  piece each[most_pieces];
  unsigned first[most_pieces + 1];  ///< item of each; behind them how many there are
};

/// The passes of several exact reductions of elements of one type: one, if there is room for the
/// columns of all terms. Their cells lie in the workspace one behind the other.
struct exact_plan {
  struct pass {
    exact_kernel kernel;
    int threads, blocks;  ///< of each part
    exact_slots slots;    ///< of all parts
  };
  std::vector<pass> passes;
  std::size_t part;  ///< elements of each but the last
  bool alone;        ///< one block, which finishes
  std::size_t workspace;
};
/// Of n elements that come in parts of `part`; those of a part are added to cells of its own.
/// Errors: errc::usage (a launch shape that is not allowed; more than 2^13 parts), errc::cuda (no
/// GPU). A block may have `room` bytes of shared memory; without, what the current device gives it.
exact_plan plan_exact(std::span<const exact::term> terms, dtype type, std::size_t n,
                      std::size_t part, const launch& shape, std::optional<std::size_t> room = {});
/// Enqueues what is to be done with the elements that are there; with the last of them it writes
/// a.how's results. Returns the name of the CUDA error, or null.
const char* launch_exact(const exact_plan& p, const arguments& a);

/// The passes over several arrays: of each set of terms that go together, one for each list of
/// arrays, into cells of their own; all finish together.
struct exact_pieces_plan {
  struct pass {
    exact_kernel kernel;
    exact_slots slots;  ///< of all lists
    int blocks;         ///< of each
  };
  std::vector<pass> passes;
  std::vector<exact_pieces> lists;
  std::size_t n, workspace;
};
/// Errors: errc::usage (a kernel that is not there).
exact_pieces_plan plan_exact_pieces(const reduction& r, std::span<const piece> pieces);
const char* launch_exact_pieces(const exact_pieces_plan& p, const reduction& r, void* out,
                                void* workspace, stream where);

/// Kernels of many outputs, whose elements are read once for each of up to most_slots terms: of
/// any, or of term::element.
struct exact_outputs_kernels {
  const void* whole[2] = {};   ///< whole outputs
  const void* chunks[2] = {};  ///< chunks of long ones, to cells of each output
  const void* columns[2] =
      {};  ///< the same of neighbouring outputs, a thread for each; not of integers
  const void* finish = nullptr;
  int elements = 0;                            ///< that a thread takes at once
  int cells[2] = {};                           ///< of terms of degree 1 and 2
  std::size_t (*shared)(int slots) = nullptr;  ///< bytes for a warp
};
template <class T>
exact_outputs_kernels exact_outputs_kernels_of();
inline constexpr int output_threads = 128;
/// Elements that a warp adds up before it carries. 2^14 of them are less than 2^63 in any level.
inline constexpr index output_chunk = 1 << 14;

/// How those are shared out.
struct exact_outputs_plan {
  int team, rows;  ///< threads that take an output; outputs that a warp takes
  bool columns;    ///< a thread takes an output, or a chunk of one
  index chunks;    ///< of an output
  index chunk;     ///< elements of each
  int threads, blocks, finish_blocks;
  std::size_t workspace;  ///< none: whole outputs
};
/// Errors: errc::usage (a launch shape that is not allowed). No blocks: this build has no kernels
/// of that type.
exact_outputs_plan plan_exact_outputs(std::span<const exact::term> terms,
                                      const output_elements& from, const launch& shape);
const char* launch_exact_outputs(const exact_outputs_plan& p, std::span<const exact::term> terms,
                                 const output_elements& from, const output_results& how,
                                 void* workspace, stream where);

}  // namespace bitfold::cuda
