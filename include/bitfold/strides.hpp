// Where the elements of some axes lie: extents and strides, for host and device.
#pragma once

#include <cstdint>

#include <bitfold/config.hpp>

namespace bitfold {

/// The most axes that an array may have.
inline constexpr int max_axes = 8;

namespace detail {

/// Some axes, the last one moving fastest, of two inputs: strides in elements.
struct axes {
  struct axis {
    std::uint64_t extent;
    std::int64_t x, y;
  };
  int rank = 0;
  axis dims[max_axes];

  std::uint64_t size() const {
    std::uint64_t n = 1;
    for (int k = 0; k < rank; ++k) n *= dims[k].extent;
    return n;
  }
  struct offset {
    std::int64_t x = 0, y = 0;
  };
  offset offset_of(std::uint64_t i) const {
    offset o;
    if (i == 0) return o;  // which axes of no elements have, too
    for (int k = rank - 1; k >= 0; --k) {
      const auto digit = static_cast<std::int64_t>(i % dims[k].extent);
      i /= dims[k].extent;
      o.x += digit * dims[k].x;
      o.y += digit * dims[k].y;
    }
    return o;
  }
};

}  // namespace detail
}  // namespace bitfold
