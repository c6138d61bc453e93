// Products of matrices by method `fixed` (docs/products.md) of few rows, of which the tiles of
// units for integers would hold next to nothing: by the processors' own multiplication of 32 bits.
#pragma once

#include <bitfold/cuda/few_products.hpp>
#include <bitfold/cuda/product_tiles.cuh>

namespace bitfold::cuda {

/// Of at most 32 bits: a float holds an element times a power of two.
template <class T>
__device__ inline std::int32_t few_integer_of(T x, const product::scale_factors<float>& f) {
  return nearest_integer_of(arith::mul(arith::mul(arith::widen<float>(x), f.first), f.second));
}
template <class T>
__device__ inline int few_scale_of(const largest_magnitude<T>& found, int bits) {
  using word = typename arith::detail::format_of<T>::bits;
  return product::scale_of(
      arith::widen<double>(arith::bit_cast<T>(static_cast<word>(found.finite))), bits);
}

/// The integers of a row, in shared memory.
template <int N>
struct few_row {
  std::int32_t of[N];
  int scale;
  std::uint32_t specials;

  /// By a warp, a thread to an element.
  template <class T>
  __device__ void make(const T* x, const std::int32_t* offsets, int bits) {
    const int lane = static_cast<int>(threadIdx.x) % warp;
    const T element = lane < N ? x[offsets[lane]] : T{};
    largest_magnitude<T> found;
    found.add(element);
    found.join_team();
    const int s = few_scale_of(found, bits);
    if (lane < N) of[lane] = few_integer_of(element, product::scale_factors<float>(s));
    if (lane == 0) scale = s, specials = found.specials;
  }
};
static_assert(most_few_elements <= warp);

/// The integers of a column, in registers.
template <class T, int N>
struct few_column {
  std::int32_t of[N];
  int scale;
  std::uint32_t specials;

  __device__ few_column(const T* x, const std::int32_t* offsets, int bits) {
    using magnitude = largest_magnitude<T>;
    using word = typename magnitude::bits;
    T elements[N];
#pragma unroll
    for (int i = 0; i < N; ++i) elements[i] = x[offsets[i]];
    // Where the largest one is finite, so are all.
    magnitude found;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const typename magnitude::word m = arith::bit_cast<word>(elements[i]) & magnitude::any;
      found.finite = found.finite < m ? m : found.finite;
    }
    if (found.finite >= magnitude::infinity) {
      found = magnitude();
#pragma unroll
      for (int i = 0; i < N; ++i) found.add(elements[i]);
    }
    specials = found.specials;
    scale = few_scale_of(found, bits);
    const product::scale_factors<float> f(scale);
#pragma unroll
    for (int i = 0; i < N; ++i) of[i] = few_integer_of(elements[i], f);
  }
};

// Of a vector or an addend that is not finite.
template <class T, class Out, int N>
__device__ __noinline__ Out special_of_few(const few_problem& of, const T* x, const T* y,
                                           double addend) {
  unsigned seen = product::special_bit(addend);
#pragma unroll 1
  for (int i = 0; i < N; ++i)
    seen |= product::special_product(arith::widen<double>(x[of.a.offsets[i]]),
                                     arith::widen<double>(y[of.b.offsets[i]]));
  return product::special_result<Out>(seen);
}

/// Vectors of N elements: a warp takes all rows of a matrix, and some columns, a thread to each.
template <class T, class Out, bool Added, int N>
__global__ void __launch_bounds__(threads_on_products)
    multiply_short(const __grid_constant__ few_problem of) {
  constexpr int warps = threads_on_products / warp;
  const int lane = static_cast<int>(threadIdx.x) % warp,
            own_warp = static_cast<int>(threadIdx.x) / warp;
  const index unit = index{blockIdx.x} * warps + static_cast<index>(own_warp);
  if (unit >= of.warps) return;
  few_row<N>* const rows =
      reinterpret_cast<few_row<N>*>(shared_bytes) + own_warp * static_cast<int>(most_few_rows);
  const index matrix = quotient(unit, of.warps_of_matrix),
              first = (unit - matrix * of.warps_of_matrix) * of.columns,
              end = of.out.columns < first + of.columns ? of.out.columns : first + of.columns;
  const offset at = offset_of(of.results, of.by_results, matrix);
  const auto row_at = [&](index row) {
    return static_cast<const T*>(of.a.x) + at.x + offset_of(of.a.places, of.a.by_places, row).x;
  };
#pragma unroll 1
  for (index row = 0; row < of.out.rows; ++row) rows[row].make(row_at(row), of.a.offsets, of.bits);
  wait_for_the_warp();
  std::int64_t addends = 0;
  if constexpr (Added) addends = offset_of(of.out.addend_matrices, of.by_results, matrix).x;
#pragma unroll 1
  for (index column = first + static_cast<index>(lane); column < end; column += warp) {
    const T* const y =
        static_cast<const T*>(of.b.x) + at.y + offset_of(of.b.places, of.b.by_places, column).x;
    const few_column<T, N> right(y, of.b.offsets, of.bits);
#pragma unroll 1
    for (index row = 0; row < of.out.rows; ++row) {
      const few_row<N>& left = rows[row];
      std::int64_t sum = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) sum += std::int64_t{left.of[i]} * right.of[i];
      double addend = 0;
      if constexpr (Added)
        addend = arith::widen<double>(static_cast<const Out*>(
            of.out.addend)[addends + static_cast<std::int64_t>(row) * of.out.addend_row_stride +
                           static_cast<std::int64_t>(column) * of.out.addend_column_stride]);
      Out result;
      if ((left.specials | right.specials) != 0 || !arith::is_finite(addend)) {
        result = special_of_few<T, Out, N>(of, row_at(row), y, addend);
      } else {
        result = result_of<Out>(sum >> 32, static_cast<std::uint32_t>(sum),
                                -left.scale - right.scale, addend);
      }
      static_cast<Out*>(of.out.to)[(matrix * of.out.rows + row) * of.out.columns + column] = result;
    }
  }
}

/// Long vectors, of few rows and columns: a block takes a part of the elements of some of them, and
/// adds its sums to those of the results, as multiply_tiles does.
template <class Way, class T, int Rows, int Columns>
__global__ void __launch_bounds__(threads_on_products)
    multiply_few(const __grid_constant__ tile_problem of) {
  constexpr int vectors = Rows + Columns;
  struct vector {
    const T* x;
    product::scale_factors<float> factors;
  };
  const auto all = reinterpret_cast<vector*>(shared_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const index matrix = quotient(index{blockIdx.x}, of.column_tiles),
              first = (blockIdx.x - matrix * of.column_tiles) * Columns;
  if (thread < vectors) {
    // Columns that are not there are others, whose sums are not written.
    const bool is_row = thread < Rows;
    const index at =
                    is_row ? static_cast<index>(thread) : first + static_cast<index>(thread - Rows),
                count = is_row ? of.row_count : of.column_count,
                own = (is_row ? of.one_a : of.one_b) ? 0 : matrix,
                v = own * (is_row ? of.a.vectors : of.b.vectors) + (at < count ? at : 0);
    const product_vectors& from = is_row ? of.a : of.b;
    all[thread] = {begin_of<T>(from, v), tile_scale::of<T>(from, v, of.bits).factors};
  }
  wait_for_the_block();
  const index begin = index{blockIdx.y} * of.part,
              end = of.a.n < begin + of.part ? of.a.n : begin + of.part;
  std::int64_t sums[Rows][Columns] = {};
#pragma unroll 2
  for (index i = begin + static_cast<index>(thread); i < end; i += threads_on_products) {
    const std::int64_t at_a = offset_in(of.a, i), at_b = offset_in(of.b, i);
    std::int32_t rows[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) rows[r] = few_integer_of(all[r].x[at_a], all[r].factors);
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      const std::int32_t y = few_integer_of(all[Rows + c].x[at_b], all[Rows + c].factors);
#pragma unroll
      for (int r = 0; r < Rows; ++r) sums[r][c] += std::int64_t{rows[r]} * y;
    }
  }
  const index results = of.row_count * of.column_count,
              all_results = gridDim.x / of.column_tiles * results;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      constexpr int words = Way::sum_words;
      std::int64_t w[words];
      if constexpr (words > 1) {
        w[0] = sums[r][c] & 0xffffffff;
        w[1] = sums[r][c] >> 32;
      } else {
        w[0] = sums[r][c];
      }
#pragma unroll
      for (int k = 0; k < words; ++k) {
#pragma unroll
        for (int bit = 1; bit < warp; bit *= 2) w[k] += shuffle_across(w[k], bit);
        if (thread % warp == 0 && first + static_cast<index>(c) < of.column_count)
          add_to(of.sums[static_cast<index>(k) * all_results + matrix * results +
                         static_cast<index>(r) * of.column_count + first + static_cast<index>(c)],
                 static_cast<std::uint64_t>(w[k]));
      }
    }
}

}  // namespace bitfold::cuda
