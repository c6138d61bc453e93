// What plans and kernels of row functions both know.
#pragma once

#include <cstddef>

namespace bitfold::cuda {

inline constexpr int most_warps = 8;               ///< of a block that takes rows
inline constexpr int tiles_of_warps = 32;          ///< whose states a warp folds at once
inline constexpr int threads_on_short_rows = 128;  ///< of a block
inline constexpr int threads_across = 128;         ///< of a block, on rows that lie across
inline constexpr std::size_t least_places_across =
    8;                                      ///< that a thread takes, if there are as many
inline constexpr int warps_on_columns = 8;  ///< that share out the rows of some columns
inline constexpr int warps_on_parts = 16;   ///< that share out the parts of some columns

}  // namespace bitfold::cuda
