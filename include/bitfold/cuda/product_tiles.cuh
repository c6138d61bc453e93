// Products of matrices by method `fixed` (docs/products.md) in tiles of results: a block makes
// digits of the elements of its rows and columns a step at a time, multiplies them by the units for
// integers of 8 bits, and rounds its results. Beside operands and results there go through memory
// digits that many tiles need, which products.cuh's kernels make ahead, and sums of parts of rows.
#pragma once

#include <bitfold/cuda/product_tiles.hpp>
#include <bitfold/cuda/products.cuh>

namespace bitfold::cuda {

/// What a block knows of a vector.
struct tile_scale {
  int scale;  ///< 8 s and its specials
  product::scale_factors<float> factors;

  template <class T>
  __device__ static tile_scale of(const product_vectors& v, index vector, int bits) {
    if (v.digits) return {v.scales[vector], product::scale_factors<float>(0)};
    using word = typename arith::detail::format_of<T>::bits;
    const auto largest = arith::bit_cast<T>(static_cast<word>(v.largest[vector]));
    const int s = product::scale_of(arith::widen<float>(largest), bits);
    return {s * 8 + static_cast<int>(v.specials[vector]), product::scale_factors<float>(s)};
  }
};

// ---- Digits -------------------------------------------------------------------------------------

/// Digits to the base 256 of integers of up to 8 N bits, from -128 to 127: the lowest first. Short:
/// of up to 23 bits, which a float holds beside its own first two.
template <int N, bool Short>
struct tile_digits {
  static constexpr int digits = N, weights = 2 * N - 1, words = N > 2 ? 3 : 2,
                       bits = N > 2 ? 84 : 64, sum_words = words_of_tile_sum(N);
  static constexpr std::uint32_t carries = N == 1 ? 0 : N == 2 ? 0x80 : N == 3 ? 0x8080 : 0x808080;

  /// The integer of an element, and what makes bytes of its digits, but for their highest bits. Of
  /// an element that is not finite it is of no account, as such a vector's results are not sums.
  template <class T>
  __device__ static std::uint32_t integer_of(T x, const product::scale_factors<float>& f) {
    const float y = arith::mul(arith::mul(arith::widen<float>(x), f.first), f.second);
    if constexpr (Short) {
      constexpr float large = 0x1.8p23f;  // to which an integer is added without another exponent
      return arith::bit_cast<std::uint32_t>(arith::add(y, large)) +
             (carries - arith::bit_cast<std::uint32_t>(large));
    } else {
      return static_cast<std::uint32_t>(nearest_integer_of(y)) + carries;
    }
  }

  /// The digits of four integers, of each weight in a word.
  __device__ static void split(const std::uint32_t (&x)[elements_of_quad], std::uint32_t (&to)[N]) {
    // The digits of two of them alternate, then those of all four.
    const std::uint32_t low = bytes_of(x[0], x[1], 0x5140), lower = bytes_of(x[2], x[3], 0x5140);
    to[0] = bytes_of(low, lower, 0x5410);
    if constexpr (N > 1) to[1] = bytes_of(low, lower, 0x7632);
    if constexpr (N > 2) {
      const std::uint32_t high = bytes_of(x[0], x[1], 0x7362),
                          higher = bytes_of(x[2], x[3], 0x7362);
      to[2] = bytes_of(high, higher, 0x5410);
      if constexpr (N > 3) to[3] = bytes_of(high, higher, 0x7632);
    }
#pragma unroll
    for (int d = 0; d + 1 < N; ++d) to[d] ^= 0x80808080;
  }

  /// What the sums of products of each weight make together; in 64 bits those of weights that these
  /// have room for, and the others.
  struct sum {
    std::int64_t of[sum_words];
    template <class WeightSum>
    __device__ explicit sum(WeightSum f) : of{} {
#pragma unroll
      for (int w = weights - 1; w >= 0; --w) {
        std::int64_t& to = of[w / 4];
        to = to * 256 + f(w);
      }
    }
    __device__ sum() {}
    __device__ void join(std::uint32_t (&w)[words]) const {
      w[0] = static_cast<std::uint32_t>(of[0]);
      std::int64_t rest = of[0] >> 32;
      if constexpr (sum_words > 1) rest += of[1];
      w[1] = static_cast<std::uint32_t>(rest);
      if constexpr (words > 2) w[2] = static_cast<std::uint32_t>(rest >> 32);
    }
  };
};

// The elements of a step, a quad of them for each thread and turn: on their way from memory.
template <class Way, class T, int Threads, int Vectors, int Step, tile_reading Reading>
struct step_of_elements {
  static constexpr bool across = Reading == tile_reading::across;
  static constexpr int quads = Step / elements_of_quad, all = Vectors * quads,
                       turns = (all + Threads - 1) / Threads;
  // Where neighbouring threads have neighbouring vectors, words that are stored one by one meet in
  // few banks. So a thread has quads of a vector in a row, and stores up to four of them at once.
  static constexpr bool in_a_row = across && Threads % Vectors == 0 && all % Threads == 0;
  static constexpr int stored = !in_a_row || turns % 2 != 0 ? 1 : turns % 4 != 0 ? 2 : 4;
  T x[turns][elements_of_quad];

  __device__ static bool is_there(int turn) {
    return all % Threads == 0 || turn * Threads + static_cast<int>(threadIdx.x) < all;
  }
  struct place {
    int vector, quad;
    __device__ explicit place(int turn) {
      const int thread = static_cast<int>(threadIdx.x), k = turn * Threads + thread;
      vector = across ? k % Vectors : k / quads;
      quad = in_a_row ? thread / Vectors * turns + turn : across ? k / Vectors : k % quads;
    }
  };

  __device__ static const void* start(const product_vectors& of, index vector) {
    return begin_of<T>(of, vector);
  }
  // `left`: elements from `begin` on, at most those of a step.
  __device__ void load(const product_vectors& of, const void* const* starts, index begin,
                       int left) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      if (!is_there(turn)) break;
      const place at(turn);
      const auto from = static_cast<const T*>(starts[at.vector]);
      const int first = at.quad * elements_of_quad, count = left - first;
      const index i = begin + static_cast<index>(first);
      if constexpr (Reading == tile_reading::packed) {
        const auto some = count > 0 ? packet<T, elements_of_quad>::load(from + i)
                                    : packet<T, elements_of_quad>::of(T{});
#pragma unroll
        for (int j = 0; j < elements_of_quad; ++j) x[turn][j] = some[j];
      } else if (of.offsets) {
        packet<std::int32_t, elements_of_quad> offsets =
            packet<std::int32_t, elements_of_quad>::of(0);
        if (count > 0) offsets = packet<std::int32_t, elements_of_quad>::load(of.offsets + i);
        load_quad(turn, count, [&](int j) { return from + offsets[j]; });
      } else {
        const T* const p = from + static_cast<std::int64_t>(i) * of.element_stride;
        load_quad(turn, count, [&](int j) { return p + j * of.element_stride; });
      }
    }
  }
  template <class Address>
  __device__ void load_quad(int turn, int count, Address address) {
    if (count >= elements_of_quad) {
#pragma unroll
      for (int j = 0; j < elements_of_quad; ++j) x[turn][j] = *address(j);
    } else {
#pragma unroll
      for (int j = 0; j < elements_of_quad; ++j) x[turn][j] = j < count ? *address(j) : T{};
    }
  }

  // `to`: the digits of one weight, those of the next are `apart` bytes behind.
  __device__ void store(const tile_scale* scales, std::byte* to, int pitch, int apart) const {
#pragma unroll
    for (int turn = 0; turn < turns; turn += stored) {
      if (!is_there(turn)) break;
      const place at(turn);
      const product::scale_factors<float> f = scales[at.vector].factors;
      packet<std::uint32_t, stored> packs[Way::digits];
#pragma unroll
      for (int k = 0; k < stored; ++k) {
        std::uint32_t integers[elements_of_quad], words[Way::digits];
#pragma unroll
        for (int j = 0; j < elements_of_quad; ++j) integers[j] = Way::integer_of(x[turn + k][j], f);
        Way::split(integers, words);
#pragma unroll
        for (int d = 0; d < Way::digits; ++d) packs[d].set(k, words[d]);
      }
      std::byte* const p = to + at.vector * pitch + at.quad * elements_of_quad;
#pragma unroll
      for (int d = 0; d < Way::digits; ++d)
        packs[d].store(reinterpret_cast<std::uint32_t*>(p + d * apart));
    }
  }
};

// Digits that are made, of whole steps: 16 of one weight for each thread and turn.
template <class Way, class T, int Threads, int Vectors, int Step>
struct step_of_elements<Way, T, Threads, Vectors, Step, tile_reading::digits> {
  using pack = packet<std::uint32_t, 4>;
  static constexpr int packs = Step / 16, of_digit = Vectors * packs, all = of_digit * Way::digits,
                       turns = (all + Threads - 1) / Threads;
  pack x[turns];

  struct place {
    int digit, vector, at;
    bool is_there;
    __device__ explicit place(int turn) {
      const int k = turn * Threads + static_cast<int>(threadIdx.x);
      digit = k / of_digit;
      vector = k % of_digit / packs;
      at = k % packs * 16;
      is_there = all % Threads == 0 || k < all;
    }
  };

  __device__ static const void* start(const product_vectors& of, index vector) {
    return of.digits + vector * of.digit_pitch;
  }
  __device__ void load(const product_vectors& of, const void* const* starts, index begin, int) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const place p(turn);
      if (!p.is_there) break;
      x[turn] = pack::load(reinterpret_cast<const std::uint32_t*>(
          static_cast<const std::byte*>(starts[p.vector]) +
          static_cast<index>(p.digit) * of.digit_bytes + begin + p.at));
    }
  }
  __device__ void store(const tile_scale*, std::byte* to, int pitch, int apart) const {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const place p(turn);
      if (!p.is_there) break;
      x[turn].store(
          reinterpret_cast<std::uint32_t*>(to + p.digit * apart + p.vector * pitch + p.at));
    }
  }
};

// ---- Tiles --------------------------------------------------------------------------------------

// A result whose row, column or addend is not finite.
template <class T, class Out>
__device__ __noinline__ Out special_of_tile(const tile_problem& of, index a, index b,
                                            double addend) {
  const auto specials_of = [](const product_vectors& v, index vector) {
    return v.digits ? static_cast<unsigned>(v.scales[vector]) : v.specials[vector];
  };
  unsigned seen = product::special_bit(addend) |
                  ((specials_of(of.a, a) | specials_of(of.b, b)) & product::not_a_number);
  const T *const x = begin_of<T>(of.a, a), *const y = begin_of<T>(of.b, b);
#pragma unroll 1
  for (index i = 0; i < of.a.n && seen < product::not_a_number; ++i)
    seen |= product::special_product(arith::widen<double>(x[offset_in(of.a, i)]),
                                     arith::widen<double>(y[offset_in(of.b, i)]));
  return product::special_result<Out>(seen);
}

/// What a result shares with the others of its row, or of its column. Rows go through all matrices
/// where the left operand has several and the right one has one, columns where it is the other way
/// around.
struct tile_line {
  std::int64_t result, addend;  ///< from the first one, in elements

  template <bool Added>
  __device__ static tile_line row(const tile_problem& of, index matrix, index at) {
    tile_line line{static_cast<std::int64_t>((matrix * of.out.rows + at) * of.out.columns), 0};
    if constexpr (Added) {
      const index before = quotient(at, of.out.rows);
      line.addend = static_cast<std::int64_t>(at - before * of.out.rows) * of.out.addend_row_stride;
      if (of.column_count <= of.out.columns) line.addend += matrix_of_addend(of, matrix + before);
    }
    return line;
  }
  template <bool Added>
  __device__ static tile_line column(const tile_problem& of, index matrix, index at) {
    const index before = quotient(at, of.out.columns), column = at - before * of.out.columns;
    tile_line line{static_cast<std::int64_t>(before * of.out.rows * of.out.columns + column), 0};
    if constexpr (Added) {
      line.addend = static_cast<std::int64_t>(column) * of.out.addend_column_stride;
      if (of.column_count > of.out.columns) line.addend += matrix_of_addend(of, matrix + before);
    }
    return line;
  }

 private:
  __device__ static std::int64_t matrix_of_addend(const tile_problem& of, index matrix) {
    return of.out.addend_matrices.rank > 0 ? far_offset(of.out.addend_matrices, matrix).x : 0;
  }
};

// Whether a row, a column or an addend is not finite. Scales: 8 s and specials.
__device__ inline bool is_special(int scale_a, int scale_b, double addend) {
  return ((scale_a | scale_b) & 7) != 0 || !arith::is_finite(addend);
}
// The result of a sum, where nothing is special.
template <class Way, class T, class Out>
__device__ inline Out result_of_tile(const typename Way::sum& total, int scale_a, int scale_b,
                                     double addend) {
  const int e = -(scale_a >> 3) - (scale_b >> 3);
  if constexpr (Way::sum_words == 1 && sizeof(Out) < sizeof(double)) {
    // 2^20 products of 30 bits.
    const double power = product::scale_factors<double>::power(e),
                 sum = arith::mul(as_double(total.of[0]), power);
    return product::round_odd<Out>(addend == 0 ? sum : product::odd_sum_of_any(sum, addend));
  } else {
    std::uint32_t w[Way::words];
    total.join(w);
    return result_of<T, Out, Way>(w, e, addend);
  }
}

// 0 where there is none.
template <class Out, bool Added>
__device__ inline double addend_of(const tile_problem& of, const tile_line& row,
                                   const tile_line& column) {
  if constexpr (Added)
    return arith::widen<double>(static_cast<const Out*>(of.out.addend)[row.addend + column.addend]);
  return 0;
}

// Calls f(r, c, i, j, k) for each pair of neighbouring results of a thread: of the fragments r and
// c sums k and k + 1, in the tile's row i, columns j and j + 1.
template <int RowFragments, int ColumnFragments, class F>
__device__ inline void each_of_tile(int down, int across, F f) {
  const int lane = static_cast<int>(threadIdx.x) % warp, group = lane / 4, quarter = lane % 4;
#pragma unroll
  for (int r = 0; r < RowFragments; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < ColumnFragments; ++c)
        f(r, c, down + 16 * r + group + 8 * half, across + 8 * c + 2 * quarter, 2 * half);
}

/// Where a tile's results go.
template <class Out>
struct tile_results {
  const tile_problem& of;
  const tile_line *rows, *columns;
  const tile_scale *row_scales, *column_scales;
  int row_count, column_count;

  __device__ bool is_there(int i, int j) const { return i < row_count && j < column_count; }
  template <bool Added>
  __device__ double addend(int i, int j) const {
    return is_there(i, j) ? addend_of<Out, Added>(of, rows[i], columns[j]) : 0.0;
  }

  /// Of a thread, whose warp's begin `down` and `across`. `a`, `b`: the vectors of row and column
  /// 0.
  template <class Way, class T, bool Added, int RowFragments, int ColumnFragments>
  __device__ void write(const std::int32_t (&sums)[Way::weights][RowFragments][ColumnFragments][4],
                        int down, int across, index a, index b) const {
    // All as if they were finite: without branches their instructions overlap. Of those that are
    // not a bit is set, and they are made again.
    Out results[RowFragments][ColumnFragments][4];
    std::uint32_t specials = 0;
    static_assert(sizeof results / sizeof(Out) <= 32);
    const auto bit_of = [](int r, int c, int k) {
      return 1u << ((r * ColumnFragments + c) * 4 + k);
    };
    const auto each = [&](auto f) { each_of_tile<RowFragments, ColumnFragments>(down, across, f); };
    each([&](int r, int c, int i, int j, int k) {
#pragma unroll
      for (int next = 0; next < 2; ++next) {
        const typename Way::sum total([&](int w) { return std::int64_t{sums[w][r][c][k + next]}; });
        const int scale_a = row_scales[i].scale, scale_b = column_scales[j + next].scale;
        const double added = addend<Added>(i, j + next);
        results[r][c][k + next] = result_of_tile<Way, T, Out>(total, scale_a, scale_b, added);
        if (is_special(scale_a, scale_b, added)) specials |= bit_of(r, c, k + next);
      }
    });
    if (specials != 0)
      each([&](int r, int c, int i, int j, int k) {
#pragma unroll
        for (int next = 0; next < 2; ++next)
          if ((specials & bit_of(r, c, k + next)) != 0 && is_there(i, j + next))
            results[r][c][k + next] = special_of_tile<T, Out>(of, a + static_cast<index>(i),
                                                              b + static_cast<index>(j + next),
                                                              addend<Added>(i, j + next));
      });
    each([&](int r, int c, int i, int j, int k) {
      if (!is_there(i, j)) return;
      Out* const row = static_cast<Out*>(of.out.to) + rows[i].result;
      Out *const first = row + columns[j].result, *const second = row + columns[j + 1].result;
      packet<Out, 2> two;
      two.set(0, results[r][c][k]);
      two.set(1, results[r][c][k + 1]);
      if (!is_there(i, j + 1)) {
        *first = two[0];
      } else if (second == first + 1 &&
                 reinterpret_cast<std::uintptr_t>(first) % (2 * sizeof(Out)) == 0) {
        two.store(first);
      } else {
        *first = two[0];
        *second = two[1];
      }
    });
  }
};

template <class Way, class T, class Out, bool Added, bool InParts, tile_reading ReadA,
          tile_reading ReadB, int RowFragments, int ColumnFragments, int WarpsDown, int WarpsAcross,
          int Step, int Blocks>
__global__ void __launch_bounds__(warp* WarpsDown* WarpsAcross, Blocks)
    multiply_tiles(const __grid_constant__ tile_problem of) {
  constexpr tile_shape shape{RowFragments, ColumnFragments, WarpsDown, WarpsAcross, Step, Blocks};
  static_assert(sizeof(void*) + sizeof(tile_line) + sizeof(tile_scale) == bytes_of_tile_vector);
  constexpr int threads = shape.threads(), rows = shape.rows(), vectors = shape.vectors(),
                pitch = shape.pitch(), apart = vectors * pitch,  // from a digit to the next
      of_step = Way::digits * apart;
  const auto steps = reinterpret_cast<std::byte*>(shared_bytes);
  const auto starts = reinterpret_cast<const void**>(steps + 2 * of_step);
  const auto lines = reinterpret_cast<tile_line*>(starts + vectors);
  const auto scales = reinterpret_cast<tile_scale*>(lines + vectors);
  const int thread = static_cast<int>(threadIdx.x);

  const index tile = quotient(index{blockIdx.x}, of.row_tiles),
              matrix = quotient(tile, of.column_tiles),
              first_row = (blockIdx.x - tile * of.row_tiles) * rows,
              first_column = (tile - matrix * of.column_tiles) * shape.columns();
  const index first_a = of.one_a ? 0 : matrix * of.a.vectors,
              first_b = of.one_b ? 0 : matrix * of.b.vectors;
  // Vectors that are not there are others, whose results are not written.
  const auto vector_of = [&](int v) {
    const bool is_row = v < rows;
    const index at = is_row ? first_row + static_cast<index>(v)
                            : first_column + static_cast<index>(v - rows),
                count = is_row ? of.row_count : of.column_count;
    return (is_row ? first_a : first_b) + (at < count ? at : 0);
  };
  step_of_elements<Way, T, threads, rows, Step, ReadA> of_a;
  step_of_elements<Way, T, threads, shape.columns(), Step, ReadB> of_b;
  // The first threads find where vectors begin, and the last ones meanwhile where results do.
  static_assert(vectors <= threads);
  if (thread < vectors)
    starts[thread] =
        thread < rows ? of_a.start(of.a, vector_of(thread)) : of_b.start(of.b, vector_of(thread));
  if (const int v = threads - 1 - thread; !InParts && v < vectors)
    lines[v] = v < rows ? tile_line::row<Added>(of, matrix, first_row + static_cast<index>(v))
                        : tile_line::column<Added>(of, matrix,
                                                   first_column + static_cast<index>(v - rows));
  wait_for_the_block();

  const index begin = index{blockIdx.y} * of.part,
              end = of.a.n < begin + of.part ? of.a.n : begin + of.part;
  const index count = begin < end ? (end - begin + Step - 1) / Step : 0;
  const auto load = [&](index step) {
    const index from = begin + step * Step, all = end - from;
    const int left = all < Step ? static_cast<int>(all) : Step;
    of_a.load(of.a, starts, from, left);
    of_b.load(of.b, starts + rows, from, left);
  };
  const auto store = [&](index step) {
    std::byte* const to = steps + (step % 2) * of_step;
    of_a.store(scales, to, pitch, apart);
    of_b.store(scales + rows, to + rows * pitch, pitch, apart);
  };

  std::int32_t sums[Way::weights][RowFragments][ColumnFragments][4] = {};
  const int own_warp = thread / warp, down = own_warp / WarpsAcross * RowFragments * 16,
            across = own_warp % WarpsAcross * ColumnFragments * 8;
  // Of b a load brings two fragments, the last one twice where their number is odd: those of a
  // digit, then the next digit's.
  constexpr int fragments = Way::digits * ColumnFragments;
  static_assert(ColumnFragments == 1 || ColumnFragments % 2 == 0);
  const int lane = thread % warp, own_a = (down + lane % 16) * pitch + lane / 16 * 16,
            own_b = (rows + across + lane % 8) * pitch + lane / 8 % 2 * 16,
            second = lane / 16 * (ColumnFragments > 1 ? 8 * pitch : apart);
  const auto multiply = [&](const std::byte* from) {
    std::uint32_t b[fragments + 1][2];
#pragma unroll
    for (int f = 0; f < fragments; f += 2) {
      std::uint32_t four[4];
      load_fragments(from + own_b + f / ColumnFragments * apart + f % ColumnFragments * 8 * pitch +
                         (f + 1 < fragments ? second : 0),
                     four);
#pragma unroll
      for (int k = 0; k < 4; ++k) b[f + k / 2][k % 2] = four[k];
    }
#pragma unroll
    for (int d = 0; d < Way::digits; ++d)
#pragma unroll
      for (int r = 0; r < RowFragments; ++r) {
        std::uint32_t a[4];
        load_fragments(from + d * apart + r * 16 * pitch + own_a, a);
#pragma unroll
        for (int e = 0; e < Way::digits; ++e)
#pragma unroll
          for (int c = 0; c < ColumnFragments; ++c)
            multiply_digits(sums[d + e][r][c], a, b[e * ColumnFragments + c]);
      }
  };

  // While the first elements are on their way.
  if (count > 0) load(0);
  if (thread < vectors)
    scales[thread] = tile_scale::of<T>(thread < rows ? of.a : of.b, vector_of(thread), of.bits);
  wait_for_the_block();
  if (count > 0) store(0);
  wait_for_the_block();
#pragma unroll 1
  for (index step = 0; step < count; ++step) {
    const bool is_last = step + 1 == count;
    if (!is_last) load(step + 1);
#pragma unroll
    for (int k = 0; k < Step; k += elements_of_fragment) multiply(steps + (step % 2) * of_step + k);
    if (!is_last) store(step + 1);
    wait_for_the_block();
  }

  const auto here = [](index first, index count, int most) {
    return count - first < static_cast<index>(most) ? static_cast<int>(count - first) : most;
  };
  const int rows_here = here(first_row, of.row_count, rows),
            columns_here = here(first_column, of.column_count, shape.columns());
  if constexpr (InParts) {
    const index results = of.row_count * of.column_count,
                all = gridDim.x / of.row_tiles / of.column_tiles * results;
    each_of_tile<RowFragments, ColumnFragments>(
        down, across, [&](int r, int c, int i, int j, int k) {
          if (i >= rows_here) return;
#pragma unroll
          for (int next = 0; next < 2; ++next) {
            if (j + next >= columns_here) break;
            const typename Way::sum total(
                [&](int w) { return std::int64_t{sums[w][r][c][k + next]}; });
#pragma unroll
            for (int w = 0; w < Way::sum_words; ++w)
              add_to(of.sums[static_cast<index>(w) * all + matrix * results +
                             (first_row + static_cast<index>(i)) * of.column_count + first_column +
                             static_cast<index>(j + next)],
                     static_cast<std::uint64_t>(total.of[w]));
          }
        });
    return;
  }
  const tile_results<Out> to{of,        lines,       lines + rows, scales, scales + rows,
                             rows_here, columns_here};
  to.template write<Way, T, Added>(sums, down, across, first_a + first_row, first_b + first_column);
}

/// The results of sums of several parts.
template <class Way, class T, class Out, bool Added>
__global__ void __launch_bounds__(threads_on_products)
    finish_tiles(const __grid_constant__ tile_problem of, index all) {
  const index k = index{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k >= all) return;
  const index line = quotient(k, of.column_count), column = k - line * of.column_count,
              matrix = quotient(line, of.row_count), row = line - matrix * of.row_count;
  typename Way::sum total;
#pragma unroll
  for (int w = 0; w < Way::sum_words; ++w)
    total.of[w] = static_cast<std::int64_t>(of.sums[static_cast<index>(w) * all + k]);
  const auto of_row = tile_line::row<Added>(of, matrix, row),
             of_column = tile_line::column<Added>(of, matrix, column);
  const index a = (of.one_a ? 0 : matrix * of.a.vectors) + row,
              b = (of.one_b ? 0 : matrix * of.b.vectors) + column;
  const int scale_a = tile_scale::of<T>(of.a, a, of.bits).scale,
            scale_b = tile_scale::of<T>(of.b, b, of.bits).scale;
  const double addend = addend_of<Out, Added>(of, of_row, of_column);
  static_cast<Out*>(of.out.to)[of_row.result + of_column.result] =
      is_special(scale_a, scale_b, addend)
          ? special_of_tile<T, Out>(of, a, b, addend)
          : result_of_tile<Way, T, Out>(total, scale_a, scale_b, addend);
}

}  // namespace bitfold::cuda
