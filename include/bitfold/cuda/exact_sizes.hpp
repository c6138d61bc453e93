// What plans and kernels of exact sums both know: what adds up which terms, and how much memory
// that takes. docs/exact.md says why sums are exact.
#pragma once

#include <bitfold/cuda/tile.hpp>
#include <bitfold/exact.hpp>

namespace bitfold::cuda {

using exact::term;

// ---- Cells: a sum as signed 64-bit integers 32 bits apart, and its flags behind them ------------

template <class T, int Degree>
inline constexpr int cells_of = 2 * exact::sum<T, Degree>::words + 1;
template <class T>
BITFOLD_HD constexpr int cells_of_term(term what) {
  return exact::degree(what) == 1 ? cells_of<T, 1> : cells_of<T, 2>;
}
/// Columns begin where a row of banks does: a row of columns shares the fewest banks then.
inline constexpr std::size_t row_of_banks = 128;
BITFOLD_HD constexpr std::size_t whole_rows(std::size_t bytes) {
  return (bytes + row_of_banks - 1) / row_of_banks * row_of_banks;
}
BITFOLD_HD constexpr std::size_t bytes_of_cells(int cells) {
  return whole_rows(static_cast<std::size_t>(cells) * sizeof(std::int64_t));
}

/// Where a kernel's cells are, those of `blocks` blocks one behind the other, of each of its terms.
template <int Terms>
struct exact_cells {
  std::int64_t* at[static_cast<std::size_t>(Terms)];
  int blocks[static_cast<std::size_t>(Terms)];
};
/// Of a pass: its cells are added up in 64 bits (docs/exact.md).
inline constexpr int most_blocks = 1 << 13;
inline constexpr int finish_threads = 512, integer_threads = 256;

// ---- Adders: what one thread adds up the elements' terms with -----------------------------------

enum class adder : std::uint8_t {
  registers,  ///< doubles that have room for any element of f16
  floats,     ///< a column of floats, each of some binades
  bins,       ///< a column of doubles, likewise
  counts,     ///< how many there are
  levels      ///< by levels; and a column of integers for what these do not take
};

/// Bins: which there are, and how many terms each has room for. The last one has what is not
/// finite.
template <term What, class T>
struct bin_layout;
template <term What>
struct bin_layout<What, float> {  // of 8 binades
  static constexpr int count = 32, room = 1 << 20;
  static constexpr bool halves = false;
};
template <term What>
  requires(What == term::square || What == term::product)
struct bin_layout<What, bfloat16> {  // of 16 binades, from 2^-271 on
  static constexpr int lowest = (1023 - 271) / 16, count = 34, room = 1 << 20;
  static constexpr bool halves = false;
};
/// Of doubles of all 53 bits, by exponent / 20. Lowest and Highest are the exponents, biased, of
/// the least and of the largest term.
template <int Lowest, int Highest>
struct bin_layout_of_halves {
  static constexpr int width = 20, lowest = Lowest / width, room = 1 << 14;
  static constexpr int top = (Highest + width < 2047 ? Highest + width : 2047) / width,
                       count = top - lowest + 3;
  static constexpr bool halves = true;
};
template <term What>
struct bin_layout<What, double> : bin_layout_of_halves<0, 2046> {};
template <>
struct bin_layout<term::product, float> : bin_layout_of_halves<1023 - 298, 1023 + 255> {};
inline constexpr int bins_of_floats = 32;

/// The column of integers, 24 bits apart. A deposit adds less than 2^48 to a limb.
template <term What, class T>
struct limb_layout {
  static constexpr int degree = exact::degree(What), digits = exact::range<T>::mantissa + 1;
  static constexpr int limb = 24, adds = degree * digits <= 64 ? 2 : 3;
  static constexpr int top_shift =
      degree * ((1 << (exact::range<T>::width - 1 - exact::range<T>::mantissa)) - 3) + 1;
  static constexpr int limbs = top_shift / limb + 2 * adds;
};

/// Bytes of shared memory for each thread.
template <adder By, term What, class T>
BITFOLD_HD constexpr std::size_t bytes_of_column() {
  if constexpr (By == adder::floats)
    return bins_of_floats * sizeof(float);
  else if constexpr (By == adder::bins)
    return bin_layout<What, T>::count * sizeof(double);
  else if constexpr (By == adder::levels)
    return limb_layout<What, T>::limbs * sizeof(std::int64_t);
  else
    return 0;
}

// ---- Several arrays -----------------------------------------------------------------------------

/// Arrays that one kernel takes, in stripes: item k of the first piece's, then of the second's, and
/// so on.
inline constexpr int most_pieces = 160;
struct exact_pieces {
  int count;
  index stripe;  ///< elements
  struct {
    const void* data;
    index n;
  } each[most_pieces];
  unsigned first[most_pieces + 1];  ///< item of each; behind them how many there are
};

// ---- Sums, and what a warp of many outputs has --------------------------------------------------

/// A sum, and what most results are made of.
template <class T>
struct summed {
  exact::normalized front;
  alignas(8) std::byte state[sizeof(exact::sum<T, 2>)];
};

inline constexpr int output_threads = 128;
/// That a thread takes at once.
inline constexpr int packs_at_once = 4;
/// Elements that a warp adds up before it carries. 2^14 of them are less than 2^63 in any level.
inline constexpr index output_chunk = 1 << 14;
/// Bytes of shared memory for a warp: cells of one term, and the sums of all.
template <class T>
BITFOLD_HD constexpr std::size_t bytes_of_warp(int sums) {
  return bytes_of_cells(cells_of<T, 2>) +
         whole_rows(static_cast<std::size_t>(sums) * sizeof(summed<T>));
}

}  // namespace bitfold::cuda
