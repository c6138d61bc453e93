// What adds up terms of one element type. Each thread adds its terms to numbers of its own, without
// an error; those become integers, which the block adds up in cells.
#pragma once

#include <bitfold/cuda/exact_cells.cuh>

namespace bitfold::cuda {

// An adder is one thread's, of one term. It has
//   begin()                   before all else
//   expect(n)                 one thread's is told of n elements that the grid, or of several
//   arrays
//                             its block, will take
//   take(x, y, packs, cells)  adds the elements of some packs; called by whole warps, of whose
//                             block's first thread the first `packs` are not past the end
//   spill(cells)              moves what it has to the cells of its block; called by whole blocks,
//                             after every `takes` takes at least
//   column_bytes              of shared memory for each thread, in rows of Threads columns
// Elements past the end are padding: x is -0, and y is 0.

template <class T>
using bits_of_type = typename exact::range<T>::bits;

// Of degree 1 and one input, as bits.
template <term What, class T>
__device__ bits_of_type<T> term_bits(bits_of_type<T> b) {
  constexpr bits_of_type<T> sign = bits_of_type<T>{1} << (exact::range<T>::width - 1);
  constexpr bits_of_type<T> infinity =
      (sign - 1) ^ ((bits_of_type<T>{1} << exact::range<T>::mantissa) - 1);
  if constexpr (What == term::magnitude) b &= sign - 1;
  if constexpr (What == term::number)
    if ((b & (sign - 1)) > infinity) b = 0;
  return b;
}
template <class T>
__device__ T from_bits(bits_of_type<T> b) {
  return arith::bit_cast<T>(b);
}
template <class T>
__device__ bits_of_type<T> to_bits(T x) {
  return arith::bit_cast<bits_of_type<T>>(x);
}

// What a number says that began as -0 and to which terms were added.
template <class F>
__device__ unsigned flags_of_total(F v) {
  if (v == 0)
    return (arith::bit_cast<std::conditional_t<sizeof(F) == 8, std::uint64_t, std::uint32_t>>(v) >>
            (8 * sizeof(F) - 1))
               ? exact::a_minus_zero
               : exact::something_else;
  if (v - v == 0) return exact::something_else;
  return v != v ? exact::a_nan : v > 0 ? exact::plus_infinity : exact::minus_infinity;
}

/// f16 of degree 1: in doubles, which have room for 2^12 terms.
template <term What, int Threads>
struct in_registers {
  static constexpr term what = What;
  static constexpr int threads = Threads;
  static constexpr std::size_t column_bytes = 0;
  static constexpr int count = cells_of<float16, 1>;
  double sum[2] = {-0.0, -0.0};
  std::int64_t total = 0;
  unsigned flags = 0;
  int taken = 0;

  __device__ explicit in_registers(std::byte*) {}
  __device__ void begin() {}
  __device__ void expect(index) {}
  template <int U, bool Two>
  __device__ void take(const pack<float16> (&x)[U], const pack<float16> (&y)[Two ? U : 1], int,
                       std::int64_t*) {
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        double v;
        if constexpr (What == term::difference)
          v = magnitude_of(arith::widen<double>(x[u][i]) - arith::widen<double>(y[u][i]));
        else
          v = arith::widen<double>(from_bits<float16>(term_bits<What, float16>(to_bits(x[u][i]))));
        sum[i % 2] = sum[i % 2] + v;
      }
    if ((taken += 4 * U) > (1 << 12) - 4 * U) gather();
  }
  __device__ void gather() {
#pragma unroll
    for (double& s : sum) {
      const unsigned f = flags_of_total(s);
      flags |= f;
      if (f == exact::something_else) total += static_cast<std::int64_t>(s * 0x1p24);
      s = -0.0;
    }
    taken = 0;
  }
  static constexpr int takes = 1 << 14;  // of 32 terms below 2^41 at most
  __device__ void spill(std::int64_t* cells) {
    gather();
    add_all_to_cells(cells, count, total, 0);
    total = 0;
  }
};

/// Which bin a term goes to, all of whose terms are multiples of 2^first(bin) in the sum's unit;
/// `room` of them are at most 2^53 times that.
template <term What, class T>
struct bins_of;
template <term What>
struct bins_of<What, float> : bin_layout<What, float> {
  __device__ static double value(float x, float) {
    return from_bits<float>(term_bits<What, float>(to_bits(x)));
  }
  __device__ static unsigned index(float x, double) { return to_bits(x) >> 26 & 31; }
  __device__ static int first(int bin) { return bin ? 8 * bin - 1 : 0; }
};
template <term What>
struct bins_of<What, bfloat16> : bin_layout<What, bfloat16> {
  using layout = bin_layout<What, bfloat16>;
  __device__ static double value(bfloat16 x, bfloat16 y) {
    return static_cast<double>(arith::widen<float>(x)) *
           static_cast<double>(arith::widen<float>(What == term::square ? x : y));
  }
  __device__ static unsigned index(bfloat16, double v) {
    return static_cast<unsigned>(
        min(max(upper_half(v) >> 24 & 127, layout::lowest), layout::lowest + layout::count - 1) -
        layout::lowest);
  }
  __device__ static int first(int bin) { return max(0, 16 * bin - 20); }
};
/// Doubles of all 53 bits: a term is the sum of two halves, a multiple of 2^unit of the bin after
/// the next, for that bin, and what is left, for its own. What is not finite is above the last
/// term's bin, or in the last of all.
template <term What, class T>
struct bins_of_halves : bin_layout<What, T> {
  using layout = bin_layout<What, T>;
  __device__ static unsigned index(T, double v) {
    const auto exponent = static_cast<std::uint32_t>(upper_half(v)) & 0x7ff00000;
    const auto quotient = static_cast<int>(
        high_product(exponent, ((1u << 23) + layout::width - 1) / layout::width) >> 11);
    return static_cast<unsigned>(min(max(quotient, layout::lowest), layout::top) - layout::lowest);
  }
  __device__ static int unit(int bin) { return layout::width * (bin + layout::lowest) - 1075; }
  __device__ static int first(int bin) {
    return max(0, unit(bin) - exact::sum<T, exact::degree(What)>::low);
  }
  /// A bin has its terms times 2^scale, so that neither they nor their sums overflow.
  __device__ static int scale(int bin) { return 51 - bin - layout::lowest; }
};
template <term What>
struct bins_of<What, double> : bins_of_halves<What, double> {
  __device__ static double value(double x, double) {
    return from_bits<double>(term_bits<What, double>(to_bits(x)));
  }
};
template <>
struct bins_of<term::product, float> : bins_of_halves<term::product, float> {
  __device__ static double value(float x, float y) {
    return static_cast<double>(x) * static_cast<double>(y);
  }
};

/// A column of doubles, one for each bin, of which each has room for as many terms.
template <term What, class T, int Threads>
struct in_bins {
  using which = bins_of<What, T>;
  static constexpr term what = What;
  static constexpr int degree = exact::degree(What), threads = Threads, bins = which::count;
  static constexpr std::size_t column_bytes = bytes_of_column<adder::bins, What, T>();
  static constexpr int count = cells_of<T, degree>, low = exact::sum<T, degree>::low;
  double* mine;
  unsigned flags = 0;

  __device__ explicit in_bins(std::byte* columns)
      : mine(reinterpret_cast<double*>(columns) + threadIdx.x) {}
  __device__ void expect(index) {}
  __device__ void begin() {
#pragma unroll 16
    for (int b = 0; b < bins; ++b) mine[b * Threads] = -0.0;
  }
  template <int U, bool Two>
  __device__ void take(const pack<T> (&x)[U], const pack<T> (&y)[Two ? U : 1], int packs,
                       std::int64_t*) {
    static_assert(U <= most_packs);
    constexpr int size = pack<T>::size, at_once = U * size % 4 ? 2 : 4;
    if (packs == U) {  // the usual case, without a question between packs
#pragma unroll
      for (int i = 0; i < U * size; i += at_once) add<at_once>(x, y, i);
    } else {
#pragma unroll
      for (int i = 0; i < U * size; ++i)
        if (i / size < packs) add<1>(x, y, i);
    }
  }
  // N elements, from number `first` on: what is to be added, before anything is.
  template <int N, int U, int V>
  __device__ void add(const pack<T> (&x)[U], const pack<T> (&y)[V], int first) {
    double *bin[N], v[N], upper[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int u = (first + i) / pack<T>::size, place = (first + i) % pack<T>::size;
      const T one = x[u][place];
      v[i] = which::value(one, exact::inputs(What) == 2 ? y[V == 1 ? 0 : u][place] : T{});
      const auto k = which::index(one, v[i]);
      bin[i] = mine + k * Threads;
      if constexpr (which::halves) {
        const int b = static_cast<int>(k);
        const double scale = power(which::scale(b)),
                     rounds = power(52 + which::unit(b + 2) + which::scale(b), 0x80000);
        upper[i] = arith::fma(v[i], scale, rounds) - rounds;
        v[i] = arith::fma(v[i], scale, -upper[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const double sum = bin[i][0];
      if constexpr (which::halves) {
        double& above = bin[i][2 * Threads];
        const double sum_above = above;
        above = arith::fma(upper[i], 0x1p-2, sum_above);
      }
      bin[i][0] = sum + v[i];
    }
  }
  static constexpr int most_packs = 16, takes = which::room / (most_packs * pack<T>::size);
  __device__ void spill(std::int64_t* cells) { flags |= spill_columns(mine, cells); }

 private:
  // A warp adds up its columns, a bin to each thread, in the order in which they are in different
  // banks.
  __device__ static __noinline__ unsigned spill_columns(double* mine, std::int64_t* cells) {
    const int lane = threadIdx.x % warp;
    double* const own = mine - lane;
    unsigned flags = 0;
    wait_for_the_warp();
#pragma unroll 1
    for (int b = lane; b < bins; b += warp) {
      const int first = which::first(b);
      int scaled = low + first;
      if constexpr (which::halves) scaled += which::scale(b);
      const double units = power(-scaled);
      std::int64_t all = 0;
      double other = 0;  // not finite
      constexpr int at_once = 8;
#pragma unroll 1
      for (int t = 0; t < warp; t += at_once) {
        double v[at_once];
        bool here = false;
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          v[i] = own[b * Threads + (lane + t + i) % warp];
          // The upper half of a zero is +0.
          here |= which::halves && b == 2
                      ? v[i] != 0
                      : arith::bit_cast<std::int64_t>(v[i]) != arith::bit_cast<std::int64_t>(-0.0);
        }
        flags |= here ? exact::something_else : exact::a_minus_zero;
        if (!here) continue;
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          own[b * Threads + (lane + t + i) % warp] = -0.0;
          const bool finite = v[i] - v[i] == 0;
          all += static_cast<std::int64_t>(finite ? v[i] * units : 0);
          other += finite ? 0 : v[i];
        }
      }
      if (b == bins - 1 && other != 0) flags |= flags_of_total(other);
      add_each_to_cells(cells, count, all, first);
    }
    wait_for_the_warp();
    return flags;
  }
  // 2^e, and what else its upper half has.
  __device__ static double power(int e, int more = 0) {
    return double_of(((e + 1023) << 20) + more, 0);
  }
};

/// bf16 of degree 1: a column of floats, each of 8 binades, of which it has room for 2^9 terms; all
/// terms times 2^-16, so that no sum overflows. Every so often a warp gathers them in integers, a
/// bin to each thread.
template <term What, int Threads>
struct in_floats {
  static constexpr term what = What;
  static constexpr int threads = Threads, bins = bins_of_floats;
  static_assert(bins == warp);
  static constexpr std::size_t column_bytes = bytes_of_column<adder::floats, What, bfloat16>();
  static constexpr int count = cells_of<bfloat16, 1>;
  float* rows;
  std::int64_t total = 0;
  unsigned flags = 0;
  int taken = 0;

  __device__ explicit in_floats(std::byte* columns) : rows(reinterpret_cast<float*>(columns)) {}
  __device__ void expect(index) {}
  __device__ void begin() {
#pragma unroll
    for (int b = 0; b < bins; ++b) rows[b * Threads + threadIdx.x] = -0.0f;
  }
  template <int U, bool>
  __device__ void take(const pack<bfloat16> (&x)[U], const pack<bfloat16> (&)[1], int packs,
                       std::int64_t*) {
    if (packs == U) {
#pragma unroll
      for (int u = 0; u < U; ++u) add(x[u]);
    } else {
#pragma unroll
      for (int u = 0; u < U; ++u)
        if (u < packs) add(x[u]);
    }
    if ((taken += 8 * U) > (1 << 9) - 8 * U) gather();
  }
  __device__ void add(const pack<bfloat16>& x) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t b =
          term_bits<What, float>(i % 2 ? x.word[i / 2] & 0xffff0000u : x.word[i / 2] << 16);
      float* const bin = rows + ((b >> 26 & 31) * Threads + threadIdx.x);
      *bin = *bin + from_bits<float>(b) * 0x1p-16f;
    }
  }
  __device__ void gather() {
    const int lane = threadIdx.x % warp;
    std::uint32_t other = 0;
#pragma unroll
    for (int b = 0; b < bins; ++b) {
      float& bin = rows[b * Threads + threadIdx.x];
      float v = bin;
      bin = -0.0f;
      other |= to_bits(v) ^ 0x80000000u;
      if (b == bins - 1 && !(v - v == 0)) {
        flags |= flags_of_total(v);
        v = 0;
      }
      constexpr auto power = [](int e) {
        return arith::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
      };
      const int up =
          150 - (b ? 8 * b : 1);  // in units of 2^-133 2^(8 b - 1), which is 2^-149 ... after 2^-16
      const int sum = sum_of_the_warp(static_cast<int>(v * power(up / 2) * power(up - up / 2)));
      if (lane == b) total += sum;
    }
    flags |= other ? exact::something_else : exact::a_minus_zero;
    taken = 0;
  }
  static constexpr int takes = 1 << 30;
  __device__ void spill(std::int64_t* cells) {
    gather();
    for (unsigned some = ballot(total != 0); some; some &= some - 1) {
      const int b = first_bit(some);
      add_to_cells(cells, count, shuffle(total, b), b ? 8 * b - 1 : 0);
    }
    total = 0;
  }
};

/// How many terms are not NaN: of those that are expected, without those that are.
template <class T, int Threads>
struct counting_terms {
  static constexpr term what = term::presence;
  static constexpr int threads = Threads;
  static constexpr std::size_t column_bytes = 0;
  static constexpr int count = cells_of<T, 1>;
  std::int64_t numbers = 0;
  unsigned flags = exact::something_else;

  __device__ explicit counting_terms(std::byte*) {}
  __device__ void begin() {}
  __device__ void expect(index n) { numbers += static_cast<std::int64_t>(n); }
  template <int U, bool>
  __device__ void take(const pack<T> (&x)[U], const pack<T> (&)[1], int, std::int64_t*) {
    numbers -= nans_of(x);
  }
  template <int U>
  __device__ static int nans_of(const pack<T> (&x)[U]) {
    int nans = 0;
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int i = 0; i < pack<T>::size; ++i) {
        const auto v = arith::widen<std::conditional_t<sizeof(T) == 8, double, float>>(x[u][i]);
        nans += v != v;
      }
    return nans;
  }
  static constexpr int takes = 1 << 30;
  __device__ void spill(std::int64_t* cells) {
    add_all_to_cells(cells, count, numbers, -exact::range<T>::low);
    numbers = 0;
  }
};

}  // namespace bitfold::cuda
