// Contractions to test: operands whose vectors and elements lie along several axes, and the
// matrices of copies of which a product has the same bits.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include <bitfold/matmul.hpp>
#include <bitfold/strides.hpp>

namespace bitfold::test {

/// Of axes of a batch, of vectors, and of elements; in an array of 20,000 elements.
struct contracted_operand {
  std::vector<std::int64_t> extents, strides;
  std::int64_t first = 0;
  int of_vectors;

  view at(dtype type, const void* data) const {
    view x{type,
           static_cast<const std::byte*>(data) + first * static_cast<std::int64_t>(size_of(type)),
           static_cast<int>(extents.size()),
           {},
           {}};
    std::copy(extents.begin(), extents.end(), x.extent.begin());
    std::copy(strides.begin(), strides.end(), x.stride.begin());
    return x;
  }
};

/// All vectors, one after the other.
struct copies {
  copies(const contracted_operand& v, int batch_axes, dtype t, const std::vector<std::byte>& from)
      : type(t) {
    const std::size_t size = size_of(t);
    detail::axes all;
    for (std::size_t k = 0; k < v.extents.size(); ++k) {
      all.dims[all.rank++] = {static_cast<std::uint64_t>(v.extents[k]), v.strides[k], 0};
      const int axis = static_cast<int>(k) - batch_axes;
      (axis < 0 ? batch : axis < v.of_vectors ? vectors : elements) *= v.extents[k];
    }
    bytes.resize(all.size() * size);
    for (std::size_t i = 0; i < all.size(); ++i)
      std::memcpy(bytes.data() + i * size,
                  from.data() + static_cast<std::size_t>(v.first + all.offset_of(i).x) * size,
                  size);
  }
  view as_rows() const { return row_major(type, bytes.data(), {batch, vectors, elements}); }
  view as_columns() const {
    view v = as_rows();
    std::swap(v.extent[1], v.extent[2]);
    std::swap(v.stride[1], v.stride[2]);
    return v;
  }

  dtype type;
  std::int64_t batch = 1, vectors = 1, elements = 1;
  std::vector<std::byte> bytes;
};

struct contraction {
  int batch;
  contracted_operand a, b;
  bool with_addend;  ///< one for each of a's vectors

  contracted_axes axes() const { return {batch, a.of_vectors, b.of_vectors}; }
};

inline std::vector<contraction> contractions() {
  // Patches of 3 x 2 of images of 4 channels, 9 x 8, every other one, upside down, and what a
  // filter's gradient is: over samples and places.
  const contracted_operand filters{{1, 5, 4, 3, 2}, {0, 24, 6, 2, 1}, 0, 1},
      patches{{3, 4, 4, 4, 3, 2}, {288, 16, 2, 72, 8, 1}, 0, 2},
      neighbours{{3, 7, 7, 4, 3, 2}, {288, 8, 1, 72, 8, 1}, 0, 2},
      flipped{{3, 4, 4, 4, 3, 2}, {288, -16, 2, 72, 8, 1}, 60, 2},
      gradient{{5, 3, 4, 4}, {48, 240, 4, 1}, 0, 1},
      met{{4, 3, 2, 3, 4, 4}, {72, 8, 1, 288, 16, 2}, 0, 3};
  // Of one filter for each channel: short rows; and what its gradient is, of long ones.
  const contracted_operand depthwise{{3, 6, 1, 1, 3, 3}, {0, 9, 9, 9, 3, 1}, 0, 1},
      of_one_channel{{3, 6, 7, 5, 1, 3, 3}, {900, 90, 10, 1, 0, 10, 1}, 4, 2},
      of_places{{2, 1, 19, 16, 16}, {256, 0, 512, 16, 1}, 0, 1},
      of_taps{{2, 1, 3, 7, 19, 16, 16}, {324, 0, 18, 1, 648, 18, 1}, 0, 3};
  // The same of 37 channels that lie last.
  const contracted_operand each{{5, 9, 11, 37, 3, 3}, {0, 0, 0, 9, 3, 1}, 0, 0},
      of_each{{5, 9, 11, 37, 3, 3}, {1500, 370, 37, 1, 370, 37}, 5, 0},
      gradients{{37, 70, 60}, {1, 200, 3}, 9, 0},
      met_beside{{37, 3, 2, 70, 60}, {1, 400, 7, 200, 3}, 0, 2};
  return {
      {1, filters, patches, true},
      {1, filters, neighbours, true},
      {1, neighbours, filters, false},
      {1, filters, flipped, false},
      {0, gradient, met, false},
      // Elements that are neighbours after all, and one vector.
      {0, {{4, 5, 6}, {30, 6, 1}, 0, 1}, {{2, 3, 30}, {90, 30, 1}, 7, 2}, true},
      {0, {{1, 30}, {0, 2}, 0, 1}, {{40, 5, 6}, {1, 240, 40}, 0, 1}, false},
      {2, depthwise, of_one_channel, true},
      {2, {{3, 6, 3, 9}, {0, 18, 9, 1}, 0, 1}, {{3, 6, 35, 9}, {1900, 315, 1, 35}, 0, 1}, false},
      {0, {{4, 32}, {40, 1}, 3, 1}, {{700, 32}, {25, 1}, 0, 1}, true},
      {0, {{2, 1}, {1, 1}, 0, 1}, {{300, 1}, {3, 1}, 0, 1}, false},
      {1, of_places, of_taps, false},
      {4, each, of_each, true},
      // Of many matrices, of which a warp takes more columns than it has threads.
      {1,
       {{70, 2, 3, 3}, {18, 9, 3, 1}, 0, 1},
       {{70, 13, 10, 3, 3}, {40, 12, 1, 12, 1}, 0, 2},
       true},
      {1, gradients, met_beside, false},
      {1,
       {{37, 2, 70, 60}, {1, 41, 200, 3}, 9, 1},
       {{37, 19, 70, 60}, {1, 40, 200, 3}, 0, 1},
       true},
      {0,
       {{3, 19, 16, 16}, {256, 512, 16, 1}, 0, 1},
       {{5, 3, 19, 16, 16}, {324, 18, 648, 18, 1}, 0, 2},
       true},
  };
}

}  // namespace bitfold::test
