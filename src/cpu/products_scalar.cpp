// The kernels of products for a machine without the SIMD targets.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include <bitfold/product_sum.hpp>

#include "products.hpp"

#define BITFOLD_INLINE inline

namespace bitfold::cpu {
namespace products_scalar {

constexpr int rows = 2, columns = 4;

#include "products_any.inl"

template <class T>
magnitudes measure(const void* x, std::size_t n) {
  largest_bits<T> l;
  l.add(static_cast<const T*>(x), n);
  return l.result();
}

template <class T>
void scale(const void* x, std::size_t n, int s, std::int32_t* high, std::int32_t* low) {
  scale_floats(static_cast<const T*>(x), n, product::scale_factors<double>(s), high, low);
}

product_elements elements_of(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) -> product_elements {
    if constexpr (std::is_integral_v<T>)
      return {nullptr, copy_integers<T>};
    else
      return {measure<T>, scale<T>};
  });
}

void add(const panel_pair* pairs, int count, std::size_t n, std::size_t run, bool fresh,
         tile_sums sums) {
  for (std::size_t begin = 0; begin < n; begin += run) {
    const std::size_t end = std::min(n, begin + run);
    std::uint64_t total[rows][columns]{};  // integers of one type wrap, as `dot` of them does
    for (int k = 0; k < count; ++k)
      for (std::size_t p = begin; p < end; ++p)
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < columns; ++c)
            total[r][c] += static_cast<std::uint64_t>(
                std::int64_t{pairs[k].rows[p * rows + static_cast<std::size_t>(r)]} *
                pairs[k].columns[p * columns + static_cast<std::size_t>(c)]);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) {
        const std::ptrdiff_t at = r * sums.pitch + c;
        const auto high = static_cast<std::int64_t>(total[r][c]) >> 32,
                   low = static_cast<std::int64_t>(total[r][c] & 0xffffffffu);
        sums.high[at] = high + (fresh ? 0 : sums.high[at]);
        sums.low[at] = low + (fresh ? 0 : sums.low[at]);
      }
    fresh = false;
  }
}

}  // namespace products_scalar

template <>
product_kernels find_kernels_of<target::scalar>(const product_request&) {
  using namespace products_scalar;
  return {.tile_columns = columns,
          .panels = {.tile_rows = rows, .add = add},
          .interleave = interleave_any,
          .elements = elements_of,
          .as_odd = sums_as_doubles<true>,
          .as_nearest = sums_as_doubles<false>,
          .with_addends = sums_and_addends,
          .round = rounding_to};
}

}  // namespace bitfold::cpu
