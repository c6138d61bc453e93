// What functions of channels (channels.hpp) take: for host code and kernels alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include <bitfold/dtype.hpp>

namespace bitfold {

/// What is done with each element: channels.hpp has the formulas.
enum class channel_function : std::uint8_t {
  channel_norm,
  channel_norm_at_rest,
  channel_norm_backward,
  channel_norm_at_rest_backward
};

/// Elements of a float type, row-major of extents outer, count and inner, of which the second are
/// the channels: images are (N, C, H W) or, where channels come last, (N H W, C, 1). Statistics are
/// of a channel, or of `sharing` neighbouring channels together; of all elements, or in each
/// `outer` by itself. What is given for channels and statistics is f32 or, for f64, f64.
struct channels {
  dtype type;
  std::size_t outer, count, inner;
  std::size_t sharing = 1;                      ///< divides `count`
  bool of_each_outer = false;                   ///< statistics
  const void* x = nullptr;                      ///< of a gradient: g
  const void* y = nullptr;                      ///< of a gradient: what the norm took
  const void* w = nullptr;                      ///< a weight for each channel; none: 1
  const void* b = nullptr;                      ///< a bias for each channel; none: nothing is added
  const void *mean = nullptr, *rstd = nullptr;  ///< of each statistic, as all that follow
  const void* low = nullptr;                    ///< of channel_norm: the exact mean less `mean`
  const void* mean_g = nullptr;                 ///< of channel_norm_backward: mean(g w)
  const void* slope = nullptr;                  ///< of channel_norm_backward: dot(g w, z) / n

  /// How many statistics there are.
  std::size_t statistics() const { return (of_each_outer ? outer : 1) * (count / sharing); }
  /// How many elements there are.
  std::size_t size() const { return outer * count * inner; }
};

/// Where the sums that gradients take go, of the type of statistics; null: they are not wanted.
struct channel_sums {
  void *mean_g = nullptr, *slope = nullptr;  ///< one of each statistic
  void *dw = nullptr, *db = nullptr;         ///< one of each channel
};

}  // namespace bitfold
