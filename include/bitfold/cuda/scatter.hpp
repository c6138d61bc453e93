// What plans and kernels of scatters both know.
#pragma once

#include <bitfold/cuda/outputs.hpp>

namespace bitfold::cuda {

/// Where keys lie and which outputs they name: those of an element are at axis.x of each of some
/// axes, and key k there names output axis.y of each, and k `stride`.
struct keys_on_axes {
  const std::int64_t* keys;
  detail::axes all;
  divisors by;
  index n, places, stride;  ///< keys; what a key is below; outputs from one key to the next
  index lost;               ///< the output of a key that names no place
  std::uint32_t* any_lost;  ///< becomes 1 if there is such a key; null: nobody asks
};

/// How the result of an output's elements meets what lay there.
struct meeting {
  const void* base;           ///< of outputs without elements, 0 where it is null
  std::int32_t joins, means;  ///< base is an element, too; the result is divided by their number
};

/// Outputs of rows, column by column: output k has numbers offsets[k] to offsets[k + 1] - 1 of an
/// order of rows.
struct keyed_rows {
  const void* x;
  index columns, outputs, total;  ///< of rows; outputs; rows that are in order
  const std::int64_t* offsets;
  const std::uint32_t* order;  ///< their places in the list; null: themselves
  const std::int64_t* list;    ///< rows of x; null: themselves
  const void* weights;         ///< one for each place of the list, or null
  meeting met;
  void* out;
  std::int64_t* largest;  ///< of op max: of each output, the row with it that comes first, or -1
};
inline constexpr int threads_on_places = 256, threads_on_rows = 128;
/// An output of more rows is folded in nodes of so many.
inline constexpr index rows_of_node = order::leaf;
/// Of the rows in order `rows_of_node` at a time, a chunk: two nodes at most begin in one, of which
/// one is its output's first.
constexpr index nodes_of_rows(index total) { return 2 * (total / rows_of_node + 1); }
inline constexpr int warps_on_nodes_of_rows = 16;

/// Lines of elements with a key each, that go to places of the same line.
struct keyed_lines {
  const void* x;
  const std::int64_t* keys;
  meeting met;
  void* out;
  std::uint32_t* any_lost;
  index lines;
  std::int32_t n, places;     ///< of a line
  std::int32_t together;      ///< lines that a warp takes at once
  std::uint32_t per_element;  ///< 2^32 / n, rounded up
};
inline constexpr int warps_on_lines = 4;
/// Elements of a line, and places; its bytes; and elements of several lines at once.
inline constexpr int most_of_lines = 1024, most_bytes_of_line = 4096, elements_together = 256;
/// Bytes of shared memory of a warp, for elements of so many.
constexpr std::size_t bytes_of_lines(std::size_t elements, std::size_t places,
                                     std::size_t element) {
  return ((elements + 3) / 4 * 4 * element + (elements + places + 1) * sizeof(std::uint32_t) + 15) /
         16 * 16;
}

}  // namespace bitfold::cuda
