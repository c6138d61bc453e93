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
  return product::scale_of(arith::widen<float>(arith::bit_cast<T>(static_cast<word>(found.finite))),
                           bits);
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
    T elements[N];
#pragma unroll
    for (int i = 0; i < N; ++i) elements[i] = *element_at(x, offsets[i]);
    typename magnitude::word largest = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) largest = magnitude::larger(largest, elements[i]);
    const auto found = magnitude::of_all(largest, [&](auto add) {
#pragma unroll
      for (int i = 0; i < N; ++i) add(elements[i]);
    });
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

// Where a vector begins: as offset_of, without a loop for vectors along two axes, as patches are.
__device__ inline std::int64_t place_of_few(const few_vectors& of, index vector) {
  if (of.places.rank != 2 || !of.by_places.narrow)
    return offset_of(of.places, of.by_places, vector).x;
  const auto &outer = of.places.dims[0], &inner = of.places.dims[1];
  const auto v = static_cast<std::uint32_t>(vector), q = quotient(of.by_places, 1, v);
  return static_cast<std::int64_t>(q) * outer.x +
         static_cast<std::int64_t>(v - q * static_cast<std::uint32_t>(inner.extent)) * inner.x;
}

/// Of a row and a column, of which x() and y() say where they begin; `addend`: where it is, of
/// those that are added.
template <class T, class Out, bool Added, class Row, int N, class X, class Y>
__device__ inline Out result_of_few(const few_problem& of, const Row& left,
                                    const few_column<T, N>& right, X x, Y y, std::int64_t addend) {
  std::int64_t sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum = add_product(left.of[i], right.of[i], sum);
  double added = 0;
  bool special = (left.specials | right.specials) != 0;
  if constexpr (Added) {
    added = arith::widen<double>(static_cast<const Out*>(of.out.addend)[addend]);
    special = special || !arith::is_finite(added);
  }
  if (special) return special_of_few<T, Out, N>(of, x(), y(), added);
  return result_of<Out>(sum >> 32, static_cast<std::uint32_t>(sum), -left.scale - right.scale,
                        added);
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
  Out* const results = static_cast<Out*>(of.out.to) + matrix * of.out.rows * of.out.columns;
#pragma unroll 1
  for (index column = first + static_cast<index>(lane); column < end; column += warp) {
    const T* const y = static_cast<const T*>(of.b.x) + at.y + place_of_few(of.b, column);
    const few_column<T, N> right(y, of.b.offsets, of.bits);
#pragma unroll 1
    for (index row = 0; row < of.out.rows; ++row)
      results[row * of.out.columns + column] = result_of_few<T, Out, Added>(
          of, rows[row], right, [&] { return row_at(row); }, [&] { return y; },
          addends + static_cast<std::int64_t>(row) * of.out.addend_row_stride +
              static_cast<std::int64_t>(column) * of.out.addend_column_stride);
  }
}

/// Matrices of one row and one column of N elements, side by side: a thread has a row, and meets
/// the columns of some results with it.
template <class T, class Out, bool Added, int N>
__global__ void __launch_bounds__(threads_on_products)
    multiply_short_beside(const __grid_constant__ beside_problem all) {
  const few_problem& of = all.of;
  const index unit = (index{blockIdx.x} * threads_on_products + threadIdx.x) / warp;
  if (unit >= of.warps) return;
  const index group = quotient(unit, of.warps_of_matrix), first = group * all.matrices_of_warp,
              left_over = all.matrices - first,
              end = first + (left_over < all.matrices_of_warp ? left_over : all.matrices_of_warp),
              column = (unit - group * of.warps_of_matrix) * warp + threadIdx.x % warp;
  if (column >= of.out.columns) return;
  const auto own = static_cast<std::int64_t>(column);
  const T *const x = static_cast<const T*>(of.a.x) + own * of.a.places.dims[0].x,
                 *const columns = static_cast<const T*>(of.b.x) + own * of.b.places.dims[0].x;
  const few_column<T, N> left(x, of.a.offsets, of.bits);
  Out* to = static_cast<Out*>(of.out.to) + first * of.out.columns + column;
  const T* y = columns;
  index run = 0;  // so many results that follow lie along the last axis
  const auto& last = of.results.dims[of.results.rank > 0 ? of.results.rank - 1 : 0];
#pragma unroll 1
  for (index matrix = first; matrix < end; ++matrix, --run, to += of.out.columns) {
    if (run == 0) {
      y = columns + offset_of(of.results, of.by_results, matrix).y;
      run = of.results.rank > 0 ? last.extent - matrix % last.extent : 1;
    }
    std::int64_t addend = 0;
    if constexpr (Added)
      addend = offset_of(of.out.addend_matrices, of.by_results, matrix).x +
               own * of.out.addend_column_stride;
    const few_column<T, N> right(y, of.b.offsets, of.bits);
    *to =
        result_of_few<T, Out, Added>(of, left, right, [&] { return x; }, [&] { return y; }, addend);
    y += last.y;
  }
}

/// A long vector, as a thread knows it.
template <class T>
struct few_vector {
  const T* x;
  product::scale_factors<float> factors;
  /// number: of those of all matrices
  __device__ static few_vector of(const product_vectors& from, index number, const T* begin,
                                  int bits) {
    return {begin, tile_scale::of<T>(from, number, bits).factors};
  }
  __device__ std::int32_t integer(std::int64_t at) const { return few_integer_of(x[at], factors); }
};
/// Of an element of each, the rows first.
template <class T, int Rows, int Columns>
__device__ inline void add_products(std::int64_t (&sums)[Rows][Columns],
                                    const few_vector<T>* vectors, std::int64_t at_a,
                                    std::int64_t at_b) {
  std::int32_t rows[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) rows[r] = vectors[r].integer(at_a);
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    const std::int32_t column = vectors[Rows + c].integer(at_b);
#pragma unroll
    for (int r = 0; r < Rows; ++r) sums[r][c] = add_product(rows[r], column, sums[r][c]);
  }
}

/// A sum as the words in which those of all parts meet.
template <class Way>
struct few_words {
  static constexpr int words = Way::sum_words;
  std::int64_t of[words];

  __device__ explicit few_words(std::int64_t sum) {
    if constexpr (words > 1) {
      of[0] = sum & 0xffffffff;
      of[1] = sum >> 32;
    } else {
      of[0] = sum;
    }
  }
  __device__ void add(const tile_problem& to, index all_results, index matrix, int row,
                      index column) const {
    if (column >= to.column_count) return;
    const index at = (matrix * to.row_count + static_cast<index>(row)) * to.column_count + column;
#pragma unroll
    for (int k = 0; k < words; ++k)
      add_to(to.sums[static_cast<index>(k) * all_results + at], static_cast<std::uint64_t>(of[k]));
  }
};

/// What a thread takes of few long vectors: a matrix, one of the tiles of its columns, and elements
/// from `begin` to `end` in steps. Beside: of matrices that lie side by side neighbouring threads
/// take one each; else a warp takes one (tile_planner::blocks_of_warps).
template <bool Beside>
struct few_unit {
  index matrix, tile, begin, end;
  static constexpr int step = Beside ? 1 : warp;

  __device__ few_unit(index tiles, index matrices, index part, index n) {
    const index lane = threadIdx.x % warp, units = Beside ? (matrices + warp - 1) / warp : matrices,
                own = (index{blockIdx.x} * threads_on_products + threadIdx.x) / warp,
                others = quotient(own, units), unit = own - others * units,
                number = quotient(others, tiles), first = number * part;
    matrix = Beside ? unit * warp + lane : unit;
    tile = others - number * tiles;
    begin = first + (Beside ? 0 : lane);
    end = n < first + part ? n : first + part;
  }
};

/// Long vectors, of few rows and columns: a block takes a part of the elements of some of them, and
/// adds its sums to those of the results, as multiply_tiles does.
template <class Way, class T, int Rows, int Columns>
__global__ void __launch_bounds__(threads_on_products)
    multiply_few(const __grid_constant__ tile_problem of) {
  const auto vectors = reinterpret_cast<few_vector<T>*>(shared_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const index matrix = quotient(index{blockIdx.x}, of.column_tiles),
              first = (blockIdx.x - matrix * of.column_tiles) * Columns;
  if (thread < Rows + Columns) {
    // Columns that are not there are others, whose sums are not written.
    const bool is_row = thread < Rows;
    const index at =
                    is_row ? static_cast<index>(thread) : first + static_cast<index>(thread - Rows),
                count = is_row ? of.row_count : of.column_count,
                own = (is_row ? of.one_a : of.one_b) ? 0 : matrix,
                v = own * (is_row ? of.a.vectors : of.b.vectors) + (at < count ? at : 0);
    const product_vectors& from = is_row ? of.a : of.b;
    vectors[thread] = few_vector<T>::of(from, v, begin_of<T>(from, v), of.bits);
  }
  wait_for_the_block();
  const index begin = index{blockIdx.y} * of.part,
              end = of.a.n < begin + of.part ? of.a.n : begin + of.part;
  std::int64_t sums[Rows][Columns] = {};
#pragma unroll 2
  for (index i = begin + static_cast<index>(thread); i < end; i += threads_on_products)
    add_products(sums, vectors, offset_in(of.a, i), offset_in(of.b, i));
  const index all_results = gridDim.x / of.column_tiles * of.row_count * of.column_count;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      few_words<Way> w(sums[r][c]);
#pragma unroll
      for (std::int64_t& k : w.of)
#pragma unroll
        for (int bit = 1; bit < warp; bit *= 2) k += shuffle_across(k, bit);
      if (thread % warp == 0) w.add(of, all_results, matrix, r, first + static_cast<index>(c));
    }
}

/// The same of matrices that lie side by side, where neighbouring threads take a matrix each: of
/// some elements, which are one behind the other.
template <class Way, class T, int Rows, int Columns>
__global__ void __launch_bounds__(threads_on_products)
    multiply_few_beside(const __grid_constant__ tile_problem of, index matrices) {
  const few_unit<true> unit(of.column_tiles, matrices, of.part, of.a.n);
  if (unit.matrix >= matrices) return;
  const index first = unit.tile * Columns;
  few_vector<T> vectors[Rows + Columns];
  const auto vector_of = [&](const product_vectors& from, index v) {
    return few_vector<T>::of(from, unit.matrix * from.vectors + v,
                             begin_of<T>(from, unit.matrix, v), of.bits);
  };
#pragma unroll
  for (int r = 0; r < Rows; ++r) vectors[r] = vector_of(of.a, static_cast<index>(r));
#pragma unroll
  for (int c = 0; c < Columns; ++c) {
    // Columns that are not there are others, whose sums are not written.
    const index column = first + static_cast<index>(c);
    vectors[Rows + c] = vector_of(of.b, column < of.column_count ? column : 0);
  }
  std::int64_t sums[Rows][Columns] = {};
#pragma unroll 2
  for (index i = unit.begin; i < unit.end; ++i)
    add_products(sums, vectors, offset_in(of.a, i), offset_in(of.b, i));
  const index all_results = matrices * of.row_count * of.column_count;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Columns; ++c)
      few_words<Way>(sums[r][c])
          .add(of, all_results, unit.matrix, r, first + static_cast<index>(c));
}

/// Notes what measure_vectors does, of `Vectors` of a matrix at once, by parts of so many elements:
/// a cache still has what they share.
template <class T, int Vectors, bool Beside>
__global__ void __launch_bounds__(threads_on_products)
    measure_few(const __grid_constant__ product_vectors of, index matrices, index part) {
  const few_unit<Beside> unit(1 + quotient(of.vectors - 1, Vectors), matrices, part, of.n);
  if (unit.matrix >= matrices) return;
  using magnitude = largest_magnitude<T>;
  const T* x[Vectors];
  index vector[Vectors];
  typename magnitude::word largest[Vectors] = {};
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const index own = unit.tile * Vectors + static_cast<index>(v);
    vector[v] = own < of.vectors ? own : 0;
    x[v] = begin_of<T>(of, unit.matrix, vector[v]);
  }
#pragma unroll 4
  for (index i = unit.begin; i < unit.end; i += few_unit<Beside>::step) {
    const std::int64_t at = offset_in(of, i);
#pragma unroll
    for (int v = 0; v < Vectors; ++v) largest[v] = magnitude::larger(largest[v], x[v][at]);
  }
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    auto found = magnitude::of_all(largest[v], [&](auto add) {
#pragma unroll 1
      for (index i = unit.begin; i < unit.end; i += few_unit<Beside>::step)
        add(x[v][offset_in(of, i)]);
    });
    if constexpr (!Beside) found.join_team();
    if (Beside || threadIdx.x % warp == 0) found.note(of, unit.matrix * of.vectors + vector[v]);
  }
}

}  // namespace bitfold::cuda
