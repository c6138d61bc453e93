// Products of matrices by method `fixed` (docs/products.md): vectors are measured, their integers
// become digits of 8 bits, a library multiplies those exactly, and here their sums become results.
#pragma once

#include <bitfold/cuda/packets.cuh>
#include <bitfold/cuda/places.cuh>
#include <bitfold/cuda/product_digits.cuh>
#include <bitfold/cuda/products.hpp>
#include <bitfold/product_sum.hpp>

namespace bitfold::cuda {

// ---- Elements -----------------------------------------------------------------------------------

__device__ inline std::int64_t offset_along(const detail::axes& of, index i) {
  return of.rank > 1 ? far_offset(of, i).x : static_cast<std::int64_t>(i) * of.dims[0].x;
}
template <class T>
__device__ inline const T* begin_of(const product_vectors& of, index matrix, index vector) {
  return static_cast<const T*>(of.x) + offset_along(of.matrices, matrix) +
         offset_along(of.places, vector);
}
/// Of those of all matrices.
template <class T>
__device__ inline const T* begin_of(const product_vectors& of, index vector) {
  const index matrix = quotient(vector, of.vectors);
  return begin_of<T>(of, matrix, vector - matrix * of.vectors);
}
template <bool Listed>
__device__ inline std::int64_t offset_in(const product_vectors& of, index element) {
  if constexpr (Listed)
    return of.offsets[element];
  else
    return static_cast<std::int64_t>(element) * of.element_stride;
}
__device__ inline std::int64_t offset_in(const product_vectors& of, index element) {
  return of.offsets ? offset_in<true>(of, element) : offset_in<false>(of, element);
}

/// Where elements lie from where their vector begins; and as many zeros as fill a quad.
template <class Offset>
__global__ void __launch_bounds__(threads_on_products)
    list_offsets(const __grid_constant__ detail::axes elements, index n, Offset* to) {
  const index i = index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n)
    to[i] = static_cast<Offset>(far_offset(elements, i).x);
  else if (i / elements_of_quad == n / elements_of_quad && n % elements_of_quad != 0)
    to[i] = 0;
}

/// Pack neighbouring elements, or one, at any address where Pack is 1.
template <class T, int Pack>
struct neighbours {
  T x[Pack];
  __device__ explicit neighbours(const T* p) {
    if constexpr (Pack == 1) {
      x[0] = *p;
    } else {
      const auto some = packet<T, Pack>::load(p);
#pragma unroll
      for (int i = 0; i < Pack; ++i) x[i] = some[i];
    }
  }
};

template <class T>
using magnitude_of_element = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// The bits of the largest finite magnitude, and whether there was something else.
template <class T>
struct largest_magnitude {
  using word = magnitude_of_element<T>;
  using bits = typename arith::detail::format_of<T>::bits;
  static constexpr word any = static_cast<bits>(~bits{0}) >> 1,
                        infinity = any & ~((word{1} << exact::range<T>::mantissa) - 1);
  word finite = 0;
  std::uint32_t specials = 0;

  __device__ static word of(T x) { return arith::bit_cast<bits>(x) & any; }
  /// The larger one of any kind.
  __device__ static word larger(word m, T x) { return m < of(x) ? of(x) : m; }
  __device__ void add(T x) {
    const word m = of(x);
    if (m < infinity)
      finite = finite < m ? m : finite;
    else
      specials |= m > infinity ? product::not_a_number : product::plus;
  }
  /// Of elements of which the largest magnitude of any kind is known: where that is finite, it is
  /// all there is to know. for_each(f) calls f(x) for each of them.
  template <class ForEach>
  __device__ static largest_magnitude of_all(word largest, ForEach for_each) {
    largest_magnitude found;
    if (largest < infinity)
      found.finite = largest;
    else
      for_each([&](T x) { found.add(x); });
    return found;
  }
  __device__ void join(const largest_magnitude& o) {
    finite = finite < o.finite ? o.finite : finite;
    specials |= o.specials;
  }
  /// Of all threads of a team.
  template <int Team = warp>
  __device__ void join_team() {
#pragma unroll
    for (int bit = 1; bit < Team; bit *= 2) {
      largest_magnitude other;
      other.finite = shuffle_across(finite, bit);
      other.specials = shuffle_across(specials, bit);
      join(other);
    }
  }
  __device__ void note(const product_vectors& of, index vector) const {
    if (finite != 0) raise_to(of.largest[vector], static_cast<std::uint64_t>(finite));
    if (specials != 0) set_bits_of(of.specials[vector], specials);
  }
};

/// The scale of a vector by the bits of its largest finite magnitude. It is noted where that is
/// asked for.
template <class T>
__device__ inline int scale_of(const product_vectors& of, index vector, std::uint64_t largest,
                               std::uint32_t specials, int bits, bool notes) {
  using word = typename arith::detail::format_of<T>::bits;
  const int s =
      product::scale_of(arith::widen<double>(arith::bit_cast<T>(static_cast<word>(largest))), bits);
  if (notes) of.scales[vector] = s * 8 + static_cast<int>(specials);
  return s;
}

// Vectors whose elements are neighbours, a team of a warp's threads to a part of each; or that are
// neighbours themselves, Pack of them to a thread.
template <class T, bool Across, int Pack, int Team>
__global__ void __launch_bounds__(threads_on_products)
    measure_vectors(const __grid_constant__ product_vectors of, index count) {
  const int lane = static_cast<int>(threadIdx.x) % warp,
            own_warp = static_cast<int>(threadIdx.x) / warp;
  constexpr int warps = threads_on_products / warp;
  constexpr index step = Across ? measured_across : measured_along;
#pragma unroll 1
  for (index begin = blockIdx.y * step; begin < of.n; begin += gridDim.y * step) {
    const index end = of.n < begin + step ? of.n : begin + step;
    if constexpr (Across) {
      const index first = (index{blockIdx.x} * warp + static_cast<index>(lane)) * Pack;
      largest_magnitude<T> found[Pack];
      if (first < count) {
        const T* p =
            begin_of<T>(of, first) +
            static_cast<std::int64_t>(begin + static_cast<index>(own_warp)) * of.element_stride;
#pragma unroll 8
        for (index i = begin + static_cast<index>(own_warp); i < end; i += warps) {
          const neighbours<T, Pack> some(p);
          p += warps * of.element_stride;
#pragma unroll
          for (int k = 0; k < Pack; ++k) found[k].add(some.x[k]);
        }
      }
      // The warps' together: what is noted by one thread is noted quicker.
      const auto of_warps = reinterpret_cast<largest_magnitude<T>(*)[warp * Pack]>(shared_bytes);
      wait_for_the_block();
#pragma unroll
      for (int k = 0; k < Pack; ++k) of_warps[own_warp][lane * Pack + k] = found[k];
      wait_for_the_block();
      const int own = static_cast<int>(threadIdx.x);
      const index vector = index{blockIdx.x} * (warp * Pack) + static_cast<index>(own);
      if (own < warp * Pack && vector < count) {
        largest_magnitude<T> all = of_warps[0][own];
#pragma unroll
        for (int k = 1; k < warps; ++k) all.join(of_warps[k][own]);
        all.note(of, vector);
      }
    } else {
      const index vector = (index{blockIdx.x} * threads_on_products + threadIdx.x) / Team;
      const bool is_there = vector < count;
      const int own = lane % Team;
      largest_magnitude<T> found;
      const T* const p = begin_of<T>(of, is_there ? vector : 0);
#pragma unroll 4
      for (index i = begin + static_cast<index>(own * Pack); i < end; i += Team * Pack) {
        const neighbours<T, Pack> some(p + static_cast<std::int64_t>(i) * of.element_stride);
#pragma unroll
        for (int k = 0; k < Pack; ++k) found.add(some.x[k]);
      }
      found.template join_team<Team>();
      if (own == 0 && is_there) found.note(of, vector);
    }
  }
}

// As measure_vectors, of elements that are listed: a thread to a part of each vector, or a warp.
template <class T, bool Across>
__global__ void __launch_bounds__(threads_on_products)
    measure_listed(const __grid_constant__ product_vectors of, index count) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const index thread = index{blockIdx.x} * blockDim.x + threadIdx.x,
              vector = Across ? thread : thread / warp;
  constexpr index step = Across ? measured_across : measured_along;
  if (vector >= count) return;
  const T* const x = begin_of<T>(of, vector);
#pragma unroll 1
  for (index begin = blockIdx.y * step; begin < of.n; begin += gridDim.y * step) {
    const index end = of.n < begin + step ? of.n : begin + step;
    using magnitude = largest_magnitude<T>;
    const index own = begin + (Across ? 0 : static_cast<index>(lane)), next = Across ? 1 : warp;
    typename magnitude::word largest = 0;
#pragma unroll 8
    for (index i = own; i < end; i += next) largest = magnitude::larger(largest, x[of.offsets[i]]);
    auto found = magnitude::of_all(largest, [&](auto add) {
      for (index i = own; i < end; i += next) add(x[of.offsets[i]]);
    });
    if constexpr (!Across) found.join_team();
    if (Across || lane == 0) found.note(of, vector);
  }
}

/// x 2^s, rounded; 0 if x is not finite.
template <class Integer>
__device__ inline Integer integer_of(double x, const product::scale_factors<double>& f) {
  const double y = arith::mul(arith::mul(x, f.first), f.second);
  return arith::is_finite(x) ? static_cast<Integer>(product::nearest_integer(y)) : 0;
}

// The digits of two or four neighbouring integers, one byte each.
template <class Way, int K, int N>
__device__ inline void write_digits(const typename Way::integer (&x)[N], std::int8_t* to,
                                    index digit_bytes) {
  if constexpr (K < Way::digits) {
    using word = std::conditional_t<N == 4, std::uint32_t, std::uint16_t>;
    std::uint32_t all = 0;
#pragma unroll
    for (int j = 0; j < N; ++j)
      all |= (static_cast<std::uint32_t>(Way::template digit<K>(x[j])) & 0xffu) << (8 * j);
    *reinterpret_cast<word*>(to + K * digit_bytes) = static_cast<word>(all);
    write_digits<Way, K + 1>(x, to, digit_bytes);
  }
}

// A tile of integers, by way of shared memory: read as the elements lie, written as digits do.
template <class Way, class T, bool Across, int Pack, bool Listed>
__global__ void __launch_bounds__(threads_on_products)
    make_digits(const __grid_constant__ product_vectors of,
                const __grid_constant__ product_digits to, int bits) {
  using integer = typename Way::integer;
  integer* const tile = reinterpret_cast<integer*>(shared_bytes);
  auto* const factors =
      reinterpret_cast<product::scale_factors<double>*>(tile + vectors_of_tile * pitch_of_tile);
  const auto starts = reinterpret_cast<const T**>(factors + vectors_of_tile);
  const int thread = static_cast<int>(threadIdx.x);
  const index first = index{blockIdx.x} * vectors_of_tile;  // of the vectors that are asked for
  const auto here =
      static_cast<int>(to.count - first < vectors_of_tile ? to.count - first : vectors_of_tile);
  if (thread < here) {
    const index vector = to.first + first + static_cast<index>(thread);
    factors[thread] = product::scale_factors<double>(
        scale_of<T>(of, vector, of.largest[vector], of.specials[vector], bits, blockIdx.y == 0));
    starts[thread] = begin_of<T>(of, vector);
  }
  constexpr int packs = (Across ? vectors_of_tile : elements_of_tile) / Pack,
                lines = Across ? elements_of_tile : vectors_of_tile;
#pragma unroll 1
  for (index begin = index{blockIdx.y} * elements_of_tile; begin < to.pitch;
       begin += index{gridDim.y} * elements_of_tile) {
    wait_for_the_block();
#pragma unroll 4
    for (int k = thread; k < packs * lines; k += threads_on_products) {
      const int line = k / packs, some = k % packs * Pack, vector = Across ? some : line,
                element = Across ? line : some;
      const index i = begin + static_cast<index>(element);
      if (vector >= here || i >= to.n) continue;
      const neighbours<T, Pack> from(starts[vector] + offset_in<Listed>(of, to.begin + i));
#pragma unroll
      for (int j = 0; j < Pack; ++j) {
        const int v = Across ? vector + j : vector, e = Across ? element : element + j;
        tile[v * pitch_of_tile + e] =
            integer_of<integer>(arith::widen<double>(from.x[j]), factors[v]);
      }
    }
    wait_for_the_block();
    const int element = thread % warp * 4;
    const index i = begin + static_cast<index>(element);
    if (i >= to.pitch) continue;
#pragma unroll 1
    for (int v = thread / warp; v < here; v += threads_on_products / warp) {
      integer x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        x[j] = i + static_cast<index>(j) < to.n ? tile[v * pitch_of_tile + element + j] : 0;
      const index vector = first + static_cast<index>(v), matrix = vector / to.matrix_vectors;
      std::int8_t* const there =
          to.to + matrix * to.matrix_bytes + (vector - matrix * to.matrix_vectors) * to.pitch + i;
      write_digits<Way, 0>(x, there, to.digit_bytes);
    }
  }
}

// Of vectors whose elements are neighbours, and few enough for a team's registers: measured, and
// made digits of, in one read. A thread has Packs packs of each, a team's apart.
template <class Way, class T, int Pack, int Team, int Packs>
__global__ void __launch_bounds__(threads_on_products)
    make_digits_of_rows(const __grid_constant__ product_vectors of,
                        const __grid_constant__ product_digits to, int bits) {
  using integer = typename Way::integer;
  constexpr int teams = threads_on_products / Team;
  const int thread = static_cast<int>(threadIdx.x) % Team,
            team = static_cast<int>(threadIdx.x) / Team;
  const index own = index{blockIdx.x} * teams + static_cast<index>(team);
  const bool is_there = own < to.count;
  const index vector = to.first + (is_there ? own : 0);
  const T* const x = begin_of<T>(of, vector) + offset_in(of, to.begin);
  packet<T, Pack> some[Packs];
  largest_magnitude<T> found;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    const index i = static_cast<index>((k * Team + thread) * Pack);
    some[k] = i < to.n ? packet<T, Pack>::load(x + i) : packet<T, Pack>::of(T{});
  }
#pragma unroll
  for (int k = 0; k < Packs; ++k)
#pragma unroll
    for (int j = 0; j < Pack; ++j) found.add(some[k][j]);
  constexpr int joined = Team < warp ? Team : warp;
  found.template join_team<joined>();
  if constexpr (Team > warp) {
    largest_magnitude<T>* const of_warps = reinterpret_cast<largest_magnitude<T>*>(shared_bytes);
    if (thread % warp == 0) of_warps[thread / warp] = found;
    wait_for_the_block();
#pragma unroll
    for (int k = 0; k < Team / warp; ++k) found.join(of_warps[k]);
  }
  if (!is_there) return;
  const product::scale_factors<double> f(
      scale_of<T>(of, vector, found.finite, found.specials, bits, thread == 0));
  const index matrix = own / to.matrix_vectors;
  std::int8_t* const there =
      to.to + matrix * to.matrix_bytes + (own - matrix * to.matrix_vectors) * to.pitch;
#pragma unroll
  for (int k = 0; k < Packs; ++k) {
    const index i = static_cast<index>((k * Team + thread) * Pack);
    if (i >= to.pitch) break;
    constexpr int group = Pack < 4 ? Pack : 4;
#pragma unroll
    for (int j = 0; j < Pack; j += group) {
      integer y[group];
#pragma unroll
      for (int g = 0; g < group; ++g)
        y[g] = integer_of<integer>(arith::widen<double>(some[k][j + g]), f);
      write_digits<Way, 0>(y, there + i + j, to.digit_bytes);
    }
  }
}

// ---- Results ------------------------------------------------------------------------------------

template <class Way, int K>
__device__ inline void reduce_one(std::int32_t* sum, index each) {
  if constexpr (K < Way::sums) {
    *sum = static_cast<std::int32_t>(modulo<moduli[K]>(*sum));
    reduce_one<Way, K + 1>(sum + each, each);
  }
}

/// Sums of residues become residues again, before more is added to them.
template <class Way>
__global__ void __launch_bounds__(threads_on_products)
    reduce_sums(std::int32_t* sums, index each, index matrices) {
  const index threads = index{gridDim.x} * blockDim.x;
#pragma unroll 1
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < each * matrices; i += threads)
    reduce_one<Way, 0>(sums + i / each * each * Way::sums + i % each, each);
}

// A number in two's complement times 2^e, rounded once.
template <class Out, int Words>
__device__ inline Out rounded_words(const std::uint32_t (&w)[Words], int e) {
  const bool negative = w[Words - 1] >> 31;
  std::uint32_t m[Words], below[Words];  // its magnitude; whether there is a bit below a word
  std::uint32_t carry = negative ? 1 : 0, seen = 0;
#pragma unroll
  for (int i = 0; i < Words; ++i) {
    m[i] = (negative ? ~w[i] : w[i]) + carry;
    carry = carry && m[i] == 0 ? 1 : 0;
    below[i] = seen;
    seen |= m[i];
  }
  if (seen == 0) return arith::round_to<Out>(0.0);
  // The highest word that is not 0, the two below it, and what is lost.
  std::uint32_t first = 0, second = 0, third = 0, rest = 0;
  int top = 0;
#pragma unroll
  for (int i = 0; i < Words; ++i)
    if (m[i] != 0) {
      first = m[i];
      second = i > 0 ? m[i - 1] : 0;
      third = i > 1 ? m[i - 2] : 0;
      rest = i > 1 ? below[i - 2] : 0;
      top = i;
    }
  const int zeros = arith::leading_zeros(std::uint64_t{first}) - 32;
  const std::uint64_t high = std::uint64_t{first} << 32 | second,
                      lost = std::uint64_t{third} << zeros;
  const std::uint64_t word =
      high << zeros | lost >> 32 | ((static_cast<std::uint32_t>(lost) | rest) != 0 ? 1 : 0);
  return product::rounded_word<Out>(negative, word, e + 32 * top - 32 - zeros);
}

// A conversion takes longer than to add to a number to which an integer is added without another
// exponent.
template <int Power = 0>
__device__ inline double as_double(std::int64_t x) {  // of 51 bits and a sign, times 2^Power
  constexpr double large = static_cast<double>(std::uint64_t{1} << Power) * 0x1.8p52;
  return arith::sub(arith::bit_cast<double>(arith::bit_cast<std::int64_t>(large) + x), large);
}
__device__ inline double as_double(std::uint32_t x) {
  constexpr double large = 0x1p52;
  return arith::sub(arith::bit_cast<double>(arith::bit_cast<std::uint64_t>(large) | x), large);
}

// (upper 2^32 + lower) 2^e + addend, rounded once, of upper's 51 bits and a sign.
template <class Out>
__device__ inline Out result_of(std::int64_t upper, std::uint32_t lower, int e, double addend) {
  const double power = product::scale_factors<double>::power(e), a = as_double<32>(upper),
               b = as_double(lower);
  return product::round_odd<Out>(
      addend == 0 ? arith::mul(product::odd_sum(a, b), power)
                  : product::odd_sum(arith::mul(a, power), arith::mul(b, power), addend));
}

// Exact as two doubles, of which the lower one has 32 bits.
template <class T, class Out, class Way>
constexpr bool is_exact_in_doubles =
    sizeof(T) < sizeof(double) && sizeof(Out) < sizeof(double) && Way::bits <= 32 + 52;

template <class T, class Out, class Way>
__device__ inline Out result_of(const std::uint32_t (&w)[Way::words], int e, double addend) {
  constexpr int words = Way::words;
  if constexpr (is_exact_in_doubles<T, Out, Way>) {
    static_assert(words == 2 || words == 3);
    std::int64_t upper = static_cast<std::int32_t>(w[words - 1]);
    if constexpr (words == 3)
      upper = static_cast<std::int64_t>(static_cast<std::uint64_t>(upper) << 32 | w[1]);
    return result_of<Out>(upper, w[0], e, addend);
  } else {
    if (addend == 0) return rounded_words<Out>(w, e);
    constexpr int low = words < 4 ? words - 1 : 3;
    product::signed_wide lower = 0, upper = static_cast<std::int32_t>(w[words - 1]);
#pragma unroll
    for (int i = low - 1; i >= 0; --i) lower = lower << 32 | w[i];
#pragma unroll
    for (int i = words - 2; i >= low; --i)
      upper = static_cast<product::signed_wide>(static_cast<exact::wide>(upper) << 32 | w[i]);
    product::exact_sum sum(e);
    sum.add(lower, 0);
    sum.add(upper, 32 * low);
    sum.add(addend);
    return sum.template round<Out>();
  }
}

// Of a row, a column and an addend of which one is not finite.
template <class T, class Out>
__device__ __noinline__ Out special_of(const product_results& of, index row, index column,
                                       double addend) {
  unsigned seen =
      product::special_bit(addend) |
      ((static_cast<unsigned>(of.a.scales[row]) | static_cast<unsigned>(of.b.scales[column])) &
       product::not_a_number);
  const T *const x = begin_of<T>(of.a, row), *const y = begin_of<T>(of.b, column);
#pragma unroll 1
  for (index i = 0; i < of.a.n && seen < product::not_a_number; ++i)
    seen |= product::special_product(arith::widen<double>(x[offset_in(of.a, i)]),
                                     arith::widen<double>(y[offset_in(of.b, i)]));
  return product::special_result<Out>(seen);
}

// The sums of a thread's neighbouring results: number k of those of one at c[j][k].
template <class Way>
__device__ inline void load_sums(const product_results& of, index part, index row, index column,
                                 std::int32_t (&c)[results_of_thread][Way::sums]) {
  // Digits to a base lie one above and beside the other in a matrix of sums.
  constexpr int across = Way::squared ? Way::digits : 1;
  const index plane = of.sum_rows * of.sum_columns;
#pragma unroll
  for (int k = 0; k < Way::sums; ++k) {
    const std::int32_t* p = of.sums + (row * of.sum_columns + column);
    if constexpr (Way::squared)
      p += part * plane + static_cast<index>(k / across) * (plane / across) +
           static_cast<index>(k % across) * (of.sum_columns / across);
    else
      p += (part * Way::sums + static_cast<index>(k)) * plane;
    const auto some = packet<std::int32_t, results_of_thread>::load(p);
#pragma unroll
    for (int j = 0; j < results_of_thread; ++j) c[j][k] = some[j];
  }
}

// Where a result lies, and its addend.
template <class Out>
struct product_place {
  Out* out;
  const Out* addend;
  index matrix, column;  // of the result

  // `columns`: through all matrices from `first` on.
  __device__ product_place(const product_output& of, index first, index row, index columns) {
    const index before = quotient(columns, of.columns);
    matrix = first + before;
    column = columns - before * of.columns;
    find(of, row);
  }
  __device__ void find(const product_output& of, index row) {
    out = static_cast<Out*>(of.to) + (matrix * of.rows + row) * of.columns + column;
    std::int64_t at = static_cast<std::int64_t>(row) * of.addend_row_stride +
                      static_cast<std::int64_t>(column) * of.addend_column_stride;
    if (of.addend_matrices.rank > 0) at += far_offset(of.addend_matrices, matrix).x;
    addend = static_cast<const Out*>(of.addend) + at;
  }
  /// To the next column.
  __device__ void advance(const product_output& of, index row) {
    if (++column == of.columns) {
      column = 0;
      ++matrix;
      return find(of, row);
    }
    ++out;
    addend += of.addend_column_stride;
  }
};

// As one store, where they are neighbours at a multiple of their size.
template <class Out>
__device__ inline void store_results(const Out (&results)[results_of_thread],
                                     Out* const (&to)[results_of_thread], int count) {
  constexpr int owned = results_of_thread;
  if constexpr (sizeof results <= 16)
    if (count == owned && to[owned - 1] == to[0] + owned - 1 &&
        reinterpret_cast<std::uintptr_t>(to[0]) % sizeof results == 0) {
      packet<Out, owned> all;
#pragma unroll
      for (int j = 0; j < owned; ++j) all.set(j, results[j]);
      return all.store(to[0]);
    }
#pragma unroll
  for (int j = 0; j < owned; ++j)
    if (j < count) *to[j] = results[j];
}

template <class Way, class T, class Out, bool Added>
__global__ void __launch_bounds__(threads_on_products)
    join_products(const __grid_constant__ product_results of) {
  constexpr int owned = results_of_thread;
  const index groups = (of.column_count + owned - 1) / owned,
              threads = index{gridDim.x} * blockDim.x,
              items = groups * of.row_count * of.matrix_count;
#pragma unroll 1
  for (index item = index{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += threads) {
    const index line = quotient(item, groups), column = (item - line * groups) * owned,
                part = quotient(line, of.row_count), row = line - part * of.row_count;
    std::int32_t c[owned][Way::sums];
    load_sums<Way>(of, part, row, column, c);
    const index all_rows = of.first_row + row, of_row = quotient(all_rows, of.out.rows),
                i = all_rows - of_row * of.out.rows;
    product_place<Out> at(of.out, of.first_matrix + part + of_row, i, of.first_column + column);
    Out results[owned];
    Out* to[owned];
    int count = 0;
#pragma unroll
    for (int j = 0; j < owned; ++j) {
      if (column + static_cast<index>(j) >= of.column_count) break;
      if (j > 0) at.advance(of.out, i);
      double addend = 0;
      if constexpr (Added) addend = arith::widen<double>(*at.addend);
      to[j] = at.out;
      ++count;
      const index a = of.one_a ? i : at.matrix * of.out.rows + i,
                  b = of.one_b ? at.column : at.matrix * of.out.columns + at.column;
      const int scale_a = of.a.scales[a], scale_b = of.b.scales[b];
      if (((scale_a | scale_b) & 7) != 0 || !arith::is_finite(addend)) {
        results[j] = special_of<T, Out>(of, a, b, addend);
      } else {
        std::uint32_t w[Way::words];
        Way::join(c[j], w);
        results[j] = result_of<T, Out, Way>(w, -(scale_a >> 3) - (scale_b >> 3), addend);
      }
    }
    store_results(results, to, count);
  }
}

}  // namespace bitfold::cuda
