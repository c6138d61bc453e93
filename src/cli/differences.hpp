// How far apart two arrays of one type and shape are.
#pragma once

#include <cstdint>
#include <optional>

#include <bitfold/dtype.hpp>
#include <bitfold/reduction.hpp>

#include "io/arrays.hpp"

namespace bitfold::cli {

/// The elements that are furthest apart, by one measure; of several the first.
template <class Distance>
struct furthest {
  Distance distance{};
  std::uint64_t at = 0;  ///< counted row-major
  scalar a{}, b{};
};

struct differences {
  std::uint64_t count = 0;  ///< of elements whose bits differ
  std::uint64_t first = 0;  ///< the first of them
  /// Of those the elements of which one alone is a NaN: they have no distance.
  std::uint64_t nan = 0;
  /// Steps of the type, as testing::ulp_distance; |a - b| of integers. Where a distance is above 0.
  std::optional<furthest<std::uint64_t>> ulps;
  /// |a - b|, and over the larger of |a| and |b|, rounded to double. Of floats alone.
  std::optional<furthest<double>> absolute, relative;
};

/// Whether such elements have distances: not those without arithmetic, and not bool.
constexpr bool has_distances(io::element_type t) { return io::arithmetic_of(t) && !io::is_bool(t); }

/// x and y have one type and shape. Of types without distances there are count and first alone. On
/// up to `threads` threads (0: one per core), whose number does not show.
differences differences_of(const io::array& x, const io::array& y, int threads);

}  // namespace bitfold::cli
