// Exact sums on a GPU, of one element type. Each thread adds its terms to numbers of its own,
// without an error; those become integers, which the block adds up in cells, and one block adds up
// the cells of all. docs/exact.md says why each step is exact. No order of additions shows, so
// nothing here cares for one.
#pragma once

#include <cuda_runtime.h>

#include <bitfold/cuda/engine.cuh>

#include "exact.hpp"
#include "places.cuh"

namespace bitfold::cuda {
namespace {

using exact::term;
using exact::wide;
using word = unsigned long long;  // as CUDA's functions spell it
__extension__ typedef __int128 signed_wide;

// ---- Cells: a sum as signed 64-bit integers 32 bits apart, and its flags behind them ------------

template <class T, int Degree>
inline constexpr int cells_of = 2 * exact::sum<T, Degree>::words + 1;
constexpr unsigned any_term = ~0u;

__device__ inline std::uint64_t warp_sum(std::uint64_t v) {
#pragma unroll
  for (int d = warp / 2; d > 0; d /= 2) v += __shfl_xor_sync(all_threads, v, d);
  return v;
}
// Adds v 2^shift, the same v of all threads of a warp: a number below 2^32 to each of some cells.
__device__ inline void add_to_cells(std::int64_t* cells, int count, signed_wide v, int shift) {
  const int k = threadIdx.x % warp, at = shift / 32 + k, down = 32 * k - shift % 32;
  if (v == 0 || k > 4 || at >= count - 1) return;
  const wide m = v < 0 ? -static_cast<wide>(v) : static_cast<wide>(v);
  const auto digit = static_cast<std::uint32_t>(down >= 128 ? 0
                                                : down < 0  ? m << -down
                                                            : m >> down);
  if (digit) atomicAdd(reinterpret_cast<word*>(cells + at), v < 0 ? 0 - word{digit} : word{digit});
}
// Adds all v 2^shift of a warp.
__device__ inline void add_all_to_cells(std::int64_t* cells, int count, std::int64_t v, int shift) {
  if (!__any_sync(all_threads, v != 0)) return;
  const auto sum_at = [=](int at) {
    return signed_wide{__reduce_add_sync(all_threads, static_cast<unsigned>(v >> at) & 0xffff)}
           << at;
  };
  const signed_wide top = __reduce_add_sync(all_threads, static_cast<int>(v >> 48));
  add_to_cells(cells, count, sum_at(0) + sum_at(16) + sum_at(32) + (top << 48), shift);
}
// Adds v to a cell in shared memory that nobody reads meanwhile: hardware adds 32 bits there, and
// only swaps 64.
__device__ inline void add_halves(std::int64_t& cell, std::int64_t v) {
  auto* const half = reinterpret_cast<unsigned*>(&cell);
  const auto low = static_cast<unsigned>(v);
  const bool carry = low && atomicAdd(half, low) + low < low;
  if (const auto high = static_cast<unsigned>(v >> 32) + carry) atomicAdd(half + 1, high);
}
// Adds v 2^shift, of each thread its own, to such cells.
__device__ inline void add_each_to_cells(std::int64_t* cells, int count, std::int64_t v,
                                         int shift) {
  if (v == 0) return;
  const std::uint64_t m = v < 0 ? 0 - static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
  const auto low = static_cast<std::uint32_t>(m), high = static_cast<std::uint32_t>(m >> 32);
  const std::uint32_t digits[3] = {low << shift % 32, __funnelshift_l(low, high, shift % 32),
                                   __funnelshift_l(high, 0, shift % 32)};
#pragma unroll
  for (int k = 0; k < 3; ++k)
    if (digits[k] && shift / 32 + k < count - 1)
      add_halves(cells[shift / 32 + k], v < 0 ? -std::int64_t{digits[k]} : std::int64_t{digits[k]});
}
// Leaves 32 bits, and a carry, in each cell but the topmost, of whose bits the lower 32 count. By
// `threads` threads, of which this is the t-th, and which may add to them meanwhile.
__device__ inline void carry_cells(std::int64_t* cells, int count, int t, int threads) {
  const auto at = [=](int i) { return reinterpret_cast<word*>(cells + i); };
  for (int i = t; i < count - 2; i += threads) {
    const word v = atomicExch(at(i), 0);
    atomicAdd(at(i), v & 0xffffffff);
    atomicAdd(at(i + 1), static_cast<word>(static_cast<std::int64_t>(v) >> 32));
  }
}
// ---- What adds up terms -------------------------------------------------------------------------
//
// An adder is one thread's. It has
//   begin()                   before all else
//   expect(n)                 one thread's is told of n elements that the grid, or of several
//   arrays its block, will take take(x, y, packs, cells)  adds the elements of some packs; called
//   by whole warps, of whose block's first thread the
//                             first `packs` are not past the end
//   spill(cells)              moves what it has to the cells of its block; called by whole blocks,
//   after every
//                             `takes` takes at least
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
template <term What, int Threads = 512>
struct in_registers {
  static constexpr unsigned terms = only(What);
  static constexpr int degree = 1, threads = Threads;
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
          v = fabs(arith::widen<double>(x[u][i]) - arith::widen<double>(y[u][i]));
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
/// `room` of them are at most 2^53 times that. The last one has what is not finite.
template <term What, class T>
struct bins_of;
template <term What>
struct bins_of<What, float> {  // of 8 binades
  static constexpr int count = 32, room = 1 << 20;
  static constexpr bool halves = false;
  __device__ static double value(float x, float) {
    return __uint_as_float(term_bits<What, float>(__float_as_uint(x)));
  }
  __device__ static unsigned index(float x, double) { return __float_as_uint(x) >> 26 & 31; }
  __device__ static int first(int bin) { return bin ? 8 * bin - 1 : 0; }
};
template <term What>
  requires(What == term::square || What == term::product)
struct bins_of<What, bfloat16> {  // of 16 binades, from 2^-271 on
  static constexpr int lowest = (1023 - 271) / 16, count = 34, room = 1 << 20;
  static constexpr bool halves = false;
  __device__ static double value(bfloat16 x, bfloat16 y) {
    return static_cast<double>(arith::widen<float>(x)) *
           static_cast<double>(arith::widen<float>(What == term::square ? x : y));
  }
  __device__ static unsigned index(bfloat16, double v) {
    return static_cast<unsigned>(
        min(max(__double2hiint(v) >> 24 & 127, lowest), lowest + count - 1) - lowest);
  }
  __device__ static int first(int bin) { return max(0, 16 * bin - 20); }
};
/// Doubles of all 53 bits, by exponent / 20. A term is the sum of two halves: a multiple of 2^unit
/// of the bin after the next, for that bin, and what is left, for its own. Lowest and Highest are
/// the exponents, biased, of the least and of the largest term; what is not finite is above them,
/// or in the last bin of all.
template <term What, class T, int Lowest, int Highest>
struct bins_of_halves {
  static constexpr int width = 20, lowest = Lowest / width, room = 1 << 14;
  static constexpr int top = (Highest + width < 2047 ? Highest + width : 2047) / width,
                       count = top - lowest + 3;
  static constexpr bool halves = true;
  __device__ static unsigned index(T, double v) {
    const auto exponent = static_cast<std::uint32_t>(__double2hiint(v)) & 0x7ff00000;
    const auto quotient =
        static_cast<int>(__umulhi(exponent, ((1u << 23) + width - 1) / width) >> 11);
    return static_cast<unsigned>(min(max(quotient, lowest), top) - lowest);
  }
  __device__ static int unit(int bin) { return width * (bin + lowest) - 1075; }
  __device__ static int first(int bin) {
    return max(0, unit(bin) - exact::sum<T, exact::degree(What)>::low);
  }
  /// A bin has its terms times 2^scale, so that neither they nor their sums overflow.
  __device__ static int scale(int bin) { return 51 - bin - lowest; }
};
template <term What>
struct bins_of<What, double> : bins_of_halves<What, double, 0, 2046> {
  __device__ static double value(double x, double) {
    return from_bits<double>(term_bits<What, double>(to_bits(x)));
  }
};
template <>
struct bins_of<term::product, float>
    : bins_of_halves<term::product, float, 1023 - 298, 1023 + 255> {
  __device__ static double value(float x, float y) {
    return static_cast<double>(x) * static_cast<double>(y);
  }
};

/// A column of doubles, one for each bin, of which each has room for as many terms.
template <term What, class T, int Threads>
struct in_bins {
  using which = bins_of<What, T>;
  static constexpr unsigned terms = only(What);
  static constexpr int degree = exact::degree(What), threads = Threads, bins = which::count;
  static constexpr std::size_t column_bytes = bins * sizeof(double);
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
    constexpr int size = pack<T>::size, at_once = 4;
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
        upper[i] = __fma_rn(v[i], scale, rounds) - rounds;
        v[i] = __fma_rn(v[i], scale, -upper[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const double sum = bin[i][0];
      if constexpr (which::halves) {
        double& above = bin[i][2 * Threads];
        const double sum_above = above;
        above = __fma_rn(upper[i], 0x1p-2, sum_above);
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
    __syncwarp();
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
                      : __double_as_longlong(v[i]) != __double_as_longlong(-0.0);
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
    __syncwarp();
    return flags;
  }
  // 2^e, and what else its upper half has.
  __device__ static double power(int e, int more = 0) {
    return __hiloint2double(((e + 1023) << 20) + more, 0);
  }
};

/// bf16 of degree 1: a column of floats, each of 8 binades, of which it has room for 2^9 terms; all
/// terms times 2^-16, so that no sum overflows. Every so often a warp gathers them in integers, a
/// bin to each thread.
template <term What, int Threads>
struct in_floats {
  static constexpr unsigned terms = only(What);
  static constexpr int degree = 1, threads = Threads, bins = 32;
  static_assert(bins == warp);
  static constexpr std::size_t column_bytes = bins * sizeof(float);
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
      *bin = *bin + __uint_as_float(b) * 0x1p-16f;
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
      other |= __float_as_uint(v) ^ 0x80000000u;
      if (b == bins - 1 && !(v - v == 0)) {
        flags |= flags_of_total(v);
        v = 0;
      }
      constexpr auto power = [](int e) {
        return arith::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
      };
      const int up =
          150 - (b ? 8 * b : 1);  // in units of 2^-133 2^(8 b - 1), which is 2^-149 ... after 2^-16
      const int sum =
          __reduce_add_sync(all_threads, static_cast<int>(v * power(up / 2) * power(up - up / 2)));
      if (lane == b) total += sum;
    }
    flags |= other ? exact::something_else : exact::a_minus_zero;
    taken = 0;
  }
  static constexpr int takes = 1 << 30;
  __device__ void spill(std::int64_t* cells) {
    gather();
    for (unsigned some = __ballot_sync(all_threads, total != 0); some; some &= some - 1) {
      const int b = __ffs(static_cast<int>(some)) - 1;
      add_to_cells(cells, count, __shfl_sync(all_threads, total, b), b ? 8 * b - 1 : 0);
    }
    total = 0;
  }
};

/// How many terms are not NaN: of those that are expected, without those that are.
template <class T, int Threads = 512>
struct counting_terms {
  static constexpr unsigned terms = only(term::presence);
  static constexpr int degree = 1, threads = Threads;
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

// ---- Anything else: levels, or a column of limbs ------------------------------------------------

/// A term as doubles whose sum it is.
template <term What, class T>
struct double_parts {
  using enum exact::term;
  static constexpr int digits = exact::range<T>::mantissa + 1;
  static constexpr bool is_wide = digits == 53, half = digits == 11;
  static constexpr int count = What == squared_difference ? (half      ? 2
                                                             : is_wide ? 6
                                                                       : 3)
                               : What == difference       ? (half ? 1 : 2)
                               : exact::degree(What) == 2 ? (is_wide ? 2 : 1)
                                                          : 1;
  /// All parts are below 2^fixed, and two levels, or one of degree 1, take all of any finite one.
  static constexpr bool is_fixed = half;
  static constexpr int fixed = exact::degree(What) == 1 ? 17 : 34;

  /// Whether they are not the term, which is too small.
  __device__ static bool get(T px, T py, double (&v)[count]) {
    const double x = arith::widen<double>(px), y = arith::widen<double>(py);
    bool bad = false;
    if constexpr (What == element) {
      v[0] = x;
    } else if constexpr (What == number) {
      v[0] = x == x ? x : 0.0;
    } else if constexpr (What == magnitude) {
      v[0] = fabs(x);
    } else if constexpr (What == square) {
      bad = multiply(x, x, v, 0);
    } else if constexpr (What == product) {
      bad = multiply(x, y, v, 0);
    } else if constexpr (What == difference) {
      const auto d = arith::two_sum(x, -y);
      v[0] = d.sum < 0 ? -d.sum : d.sum;
      if constexpr (count == 2) v[1] = d.sum < 0 ? -d.error : d.error;
    } else if constexpr (half) {
      const double d = x - y;
      const auto p = arith::two_prod(d, d);
      v[0] = p.sum;
      v[1] = p.error;
    } else {
      bad = multiply(x, x, v, 0);
      bad |= multiply(y, y, v, count / 3);
      bad |= multiply(x + x, -y, v, 2 * (count / 3));
    }
    return bad;
  }

 private:
  __device__ static bool multiply(double x, double y, double (&v)[count], int at) {
    if constexpr (!is_wide) {
      v[at] = x * y;
      return false;
    } else {
      const auto p = arith::two_prod(x, y);
      v[at] = p.sum;
      v[at + 1] = p.error;
      // The error has bits down to 2^-105 of the product, which must not underflow.
      return fabs(p.sum) < 0x1p-960 && x != 0 && y != 0;
    }
  }
};

// Keeps the flags of terms alone.
struct only_flags {
  unsigned flags = 0;
  __device__ void deposit(wide, int, bool) {}
};

/// By levels as the CPU does (docs/exact.md), whose numbers all threads of a warp choose together;
/// packs whose terms are not taken without a rest go to a column of integers 24 bits apart.
template <class Parts, int Degree>
inline constexpr int levels_of =
    Parts::is_fixed && Degree == 1                                                     ? 1
    : !Parts::is_fixed && (Parts::count == 3 || (Parts::is_wide && Parts::count == 1)) ? 3
                                                                                       : 2;
template <term What, class T, int Threads,
          int Levels = levels_of<double_parts<What, T>, exact::degree(What)>>
struct in_levels {
  using parts = double_parts<What, T>;
  static constexpr unsigned terms = only(What);
  static constexpr int degree = exact::degree(What), threads = Threads, levels = Levels;
  static constexpr bool is_fixed = parts::is_fixed;
  static constexpr int count = cells_of<T, degree>, low = exact::sum<T, degree>::low;
  // A part that is the rounding error of the one before is below 2^-53 of it, and has levels of its
  // own.
  static constexpr int groups = parts::count % 2 == 0 && !parts::is_fixed ? 2 : 1;

  // The column. A deposit adds less than 2^48 to a limb.
  static constexpr int limb = 24, adds = degree * parts::digits <= 64 ? 2 : 3;
  static constexpr int top_shift =
      degree * ((1 << (exact::range<T>::width - 1 - exact::range<T>::mantissa)) - 3) + 1;
  static constexpr int limbs = top_shift / limb + 2 * adds;
  static constexpr std::size_t column_bytes = limbs * sizeof(std::int64_t);
  static constexpr bool inlined =
      parts::is_wide && degree == 1 && exact::inputs(What) == 1;  // often enough
  static constexpr int deposits_of_term = What == term::squared_difference ? 4
                                          : What == term::difference       ? 2
                                                                           : 1;

  std::int64_t* rows;
  unsigned flags = 0;
  bool has_column = false;
  bool anchored = false;
  int hold = 0, hard = 0;  // takes to go on without trying levels; how many it was the last time
  int top[groups][levels];
  double start[groups][levels];             // 1.5 2^top
  std::int64_t taken[groups][levels] = {};  // in units of 2^(top - 52)

  __device__ explicit in_levels(std::byte* columns)
      : rows(reinterpret_cast<std::int64_t*>(columns)) {}
  __device__ void begin() {}
  __device__ void expect(index) {}

  // A block that adds `n` numbers to each level leaves it in its binade.
  template <int U>
  BITFOLD_HD static constexpr int headroom() {
    int h = 0;
    while ((1 << h) < U * pack<T>::size * parts::count) ++h;
    return h;
  }
  template <int U>
  __device__ void anchor(int highest) {
    constexpr int h = headroom<U>();
    anchored = true;
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      int k = highest + 2 + h - 53 * g;
#pragma unroll
      for (int l = 0; l < levels; ++l, k += h - 51) {
        top[g][l] = max(max(k, low + 52), -1022);
        anchored &= top[g][l] <= 1023;
        start[g][l] =
            1.5 * arith::bit_cast<double>(static_cast<std::uint64_t>(top[g][l] + 1023) << 52);
      }
    }
  }
  /// Where the levels are no question of the data.
  template <int U>
  __device__ void fix() {
    if constexpr (is_fixed)
      if (!anchored) anchor<U>(parts::fixed - 1);
  }
  __device__ void clear() {
    flags = 0;
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int l = 0; l < levels; ++l) taken[g][l] = 0;
  }
  __device__ int shift(int g, int l) const { return top[g][l] - 52 - low; }
  __device__ void flush(std::int64_t* cells) {
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int l = 0; l < levels; ++l) {
        if (anchored) add_all_to_cells(cells, count, taken[g][l], shift(g, l));
        taken[g][l] = 0;
      }
  }

  template <int U, bool Two>
  __device__ bool attempt(const pack<T> (&x)[U], const pack<T> (&y)[Two ? U : 1]) {
    double s[groups][levels];
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int l = 0; l < levels; ++l) s[g][l] = start[g][l];
    std::uint32_t moved = 0, left = 0;
    bool bad = false;
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int i = 0; i < pack<T>::size; ++i) {
        double v[parts::count];
        bad |= parts::get(x[u][i], Two ? y[Two ? u : 0][i] : T{}, v);
#pragma unroll
        for (int p = 0; p < parts::count; ++p) {
          const int g = p % groups;
          double r = v[p];
#pragma unroll
          for (int l = 0; l < levels; ++l) {
            double& sum = s[g][l];
            const double next = sum + r;
            if (l == 0)
              moved |=
                  static_cast<std::uint32_t>(__double2hiint(next) ^ __double2hiint(start[g][0]));
            if (l + 1 < levels) {
              r = r - (next - sum);
            } else if (!parts::is_fixed) {
              const double t = next - sum;
              left |=
                  static_cast<std::uint32_t>(__double2loint(r) ^ __double2loint(t)) |
                  static_cast<std::uint32_t>((__double2hiint(r) ^ __double2hiint(t)) & 0x7fffffff);
            }
            sum = next;
          }
        }
      }
    // In the first level's binade at every step (one that is not finite is never again), and
    // nothing left but signs of zeros.
    if (bad || (moved & 0xfff00000u) || left) return false;
    bool took = false;
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int l = 0; l < levels; ++l) {
        const std::int64_t part = __double_as_longlong(s[g][l]) - __double_as_longlong(start[g][l]);
        taken[g][l] += part;
        took |= part != 0;
      }
    if (!(flags & exact::something_else)) {
      if (took)
        flags |= exact::something_else;
      else
        flags |= each<U, Two>(x, y, only_flags{});  // zeros: of which sign?
    }
    return true;
  }

  // A thread's column.
  struct to_column {
    std::int64_t* mine;
    unsigned flags = 0;
    __device__ void deposit(wide m, int shift, bool negative) {
      const int k = shift / limb, s = shift - limb * k;
      std::int64_t* const at = mine + k * Threads;
      constexpr std::uint64_t mask = (std::uint64_t{1} << 48) - 1;
      const std::uint64_t sign = negative ? ~std::uint64_t{0} : 0;
      const auto signed_value = [=](std::uint64_t v) {
        return static_cast<std::int64_t>((v ^ sign) - sign);
      };
      const auto l = static_cast<std::uint64_t>(m);
      if constexpr (adds == 2) {
        at[0] += signed_value(l << s & mask);
        at[2 * Threads] += signed_value(l >> (48 - s));
      } else {
        const auto h = static_cast<std::uint64_t>(m >> 64);
        const std::uint64_t low_part = l << s, middle = s ? h << s | l >> (64 - s) : h,
                            high = s ? h >> (64 - s) : 0;
        at[0] += signed_value(low_part & mask);
        at[2 * Threads] += signed_value((middle << 16 | low_part >> 48) & mask);
        at[4 * Threads] += signed_value(high << 32 | middle >> 32);
      }
    }
  };
  // Adds all elements to `to`, one by one; returns its flags. It is called seldom: with copies, so
  // that all else stays in registers.
  template <int N>
  struct packs {
    pack<T> p[N];
    __device__ packs(const pack<T> (&from)[N]) {
#pragma unroll
      for (int i = 0; i < N; ++i) p[i] = from[i];
    }
  };
  template <int U, bool Two, class To>
  __device__ static unsigned each(const pack<T> (&x)[U], const pack<T> (&y)[Two ? U : 1], To to) {
    if constexpr (inlined && std::is_same_v<To, to_column>) {
      // Without a branch, so that several are on their way together.
      bool special = false;
      std::uint64_t other = 0;
#pragma unroll
      for (int u = 0; u < U; ++u)
#pragma unroll
        for (int i = 0; i < pack<T>::size; ++i) {
          const exact::decomposed p =
              exact::split(from_bits<T>(term_bits<What, T>(to_bits(x[u][i]))));
          special |= p.what != exact::decomposed::finite;
          to.deposit(p.what == exact::decomposed::finite ? p.m : 0, p.shift, p.negative);
          other |= to_bits(x[u][i]) ^ (std::uint64_t{1} << 63);
        }
      to.flags = What == term::element && other == 0 ? exact::a_minus_zero : exact::something_else;
      if (!special) return to.flags;
      return to.flags | each_of<U, Two>(packs<U>(x), packs<1>(y), only_flags{});
    } else {
      return each_of<U, Two>(packs<U>(x), packs<Two ? U : 1>(y), to);
    }
  }
  template <int U, bool Two, class To>
  __device__ __noinline__ static unsigned each_of(const packs<U>& x, const packs<Two ? U : 1>& y,
                                                  To to) {
#pragma unroll 1
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int i = 0; i < pack<T>::size; ++i)
        exact::deposit<What>(to, x.p[u][i], Two ? y.p[Two ? u : 0][i] : T{});
    return to.flags;
  }

  // The largest exponent among the parts of all threads to whom that matters.
  template <int U, bool Two>
  __device__ __noinline__ static int highest(const packs<U>& x, const packs<Two ? U : 1>& y,
                                             bool mine) {
    std::uint32_t most = 0;
    if (mine) {
#pragma unroll 1
      for (int u = 0; u < U; ++u)
#pragma unroll
        for (int i = 0; i < pack<T>::size; ++i) {
          double v[parts::count];
          parts::get(x.p[u][i], Two ? y.p[Two ? u : 0][i] : T{}, v);
#pragma unroll
          for (int p = 0; p < parts::count; ++p) {
            const std::uint32_t exponent =
                static_cast<std::uint32_t>(__double2hiint(v[p])) >> 20 & 2047;
            if (exponent < 2047) most = max(most, exponent);
          }
        }
    }
    return static_cast<int>(__reduce_max_sync(all_threads, most)) - 1023;
  }

  template <int U, bool Two>
  __device__ void take(const pack<T> (&x)[U], const pack<T> (&y)[Two ? U : 1], int,
                       std::int64_t* cells) {
    fix<U>();
    bool done = false;
    if (hold > 0) {
      --hold;
    } else {
      for (int tries = 0;; ++tries) {
        if (anchored && !done) done = attempt<U, Two>(x, y);
        if (__all_sync(all_threads, done)) {
          hard /= 2;
          return;
        }
        if (tries == 1 || is_fixed) break;
        flush(cells);
        anchor<U>(highest<U, Two>(packs<U>(x), packs<Two ? U : 1>(y), !done));
      }
      hard = min(2 * hard + 1, 255);
      hold = hard - 1;
    }
    if (done) return;
    if (!has_column) {
      for (int k = 0; k < limbs; ++k) rows[k * Threads + threadIdx.x] = 0;
      has_column = true;
    }
    flags |= each<U, Two>(x, y, to_column{rows + threadIdx.x});
  }
  BITFOLD_HD static constexpr int takes_of(int elements) {
    const int n = (1 << 14) / (elements * deposits_of_term);
    return n < (1 << 11) ? n : 1 << 11;
  }
  static constexpr int takes = takes_of(64);
  __device__ void spill(std::int64_t* cells) {
    flush(cells);
    const bool columns = __syncthreads_or(has_column);
    carry_cells(cells, count, threadIdx.x, blockDim.x);
    if (!columns) return;
    if (!has_column)
      for (int k = 0; k < limbs; ++k) rows[k * Threads + threadIdx.x] = 0;
    has_column = true;
    __syncthreads();
    for (int k = threadIdx.x / warp; k < limbs; k += blockDim.x / warp) {
      // Below 2^62 each: halves do not overflow.
      std::int64_t low_half = 0, high_half = 0;
      for (int t = threadIdx.x % warp; t < blockDim.x; t += warp) {
        std::int64_t& v = rows[k * Threads + t];
        low_half += static_cast<std::uint32_t>(v);
        high_half += v >> 32;
        v = 0;
      }
      add_all_to_cells(cells, count, low_half, limb * k);
      add_all_to_cells(cells, count, high_half, limb * k + 32);
    }
    __syncthreads();
  }
};

// ---- Results ------------------------------------------------------------------------------------

/// A sum, and what most results are made of.
struct summed {
  exact::normalized front;
  alignas(8) std::byte state[sizeof(exact::sum<double, 2>)];
};

// A number over a warp, N words of it in each thread: a += b + carry. A thread's words pass a carry
// on if they are all ones, and a sum of masks says where all carries go.
template <int N>
__device__ void add_words(word (&a)[N], const word (&b)[N], bool carry) {
  bool over = false, ones = true;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    a[i] = exact::add_carry(a[i], b[i], over);
    ones = ones && a[i] == ~word{0};
  }
  const unsigned gives = __ballot_sync(all_threads, over),
                 passes = __ballot_sync(all_threads, ones);
  over = (((gives | passes) + gives + carry) ^ passes) >> threadIdx.x % warp & 1;
#pragma unroll
  for (int i = 0; i < N; ++i) a[i] = exact::add_carry(a[i], 0, over);
}
// Makes a state, and its front, of cells; by a warp.
template <class S>
__device__ void sum_cells(const std::int64_t* cells, summed& to) {
  constexpr int words = S::words, own = (words + warp - 1) / warp;
  const int t = threadIdx.x % warp, first_word = t * own;
  signed_wide v[own];
  word w[own], up[own], down[own];
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const std::int64_t* const c = cells + 2 * (first_word + i);
    v[i] = first_word + i < words ? c[0] + (static_cast<signed_wide>(c[1]) << 32) : 0;
  }
  // What is above a word, of either sign, belongs to the next one.
  auto high = static_cast<std::int64_t>(v[own - 1] >> 64);
  high = __shfl_up_sync(all_threads, high, 1);
  if (t == 0) high = 0;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    w[i] = static_cast<word>(v[i]);
    up[i] = high > 0 ? high : 0;
    down[i] = ~static_cast<word>(high < 0 ? -high : 0);
    high = static_cast<std::int64_t>(v[i] >> 64);
  }
  add_words(w, up, false);
  add_words(w, down, true);

  S& s = *reinterpret_cast<S*>(to.state);
#pragma unroll
  for (int i = 0; i < own; ++i)
    if (first_word + i < words) s.w[first_word + i] = w[i];
  const bool negative = __shfl_sync(all_threads, w[(words - 1) % own], (words - 1) / own) >> 63;
  if (negative) {
    constexpr word zero[own] = {};
#pragma unroll
    for (word& x : w) x = ~x;
    add_words(w, zero, true);
  }
  int length = 0;  // in bits
#pragma unroll
  for (int i = 0; i < own; ++i) {
    if (first_word + i >= words) w[i] = 0;
    if (w[i]) length = 64 * (first_word + i + 1) - arith::leading_zeros(w[i]);
  }
  length = __reduce_max_sync(all_threads, length);
  // Bits from `from` on lead: thread t gets word t of five, and what is lost is below.
  const int from = length - 256, at = (from >> 6) + t, shift = from & 63;
  word x = 0;
  bool lost = false;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const word there = __shfl_sync(all_threads, w[i], max(at, 0) / own);
    if (at >= 0 && at % own == i) x = there;
    const int above = 64 * (first_word + i + 1) - from;  // bits of this word that lead
    lost |= above < 64 && (above <= 0 ? w[i] : w[i] << above) != 0;
  }
  lost = __any_sync(all_threads, lost);
  const word next = __shfl_down_sync(all_threads, x, 1);
  if (shift) x = x >> shift | next << (64 - shift);
  word lead[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) lead[i] = __shfl_sync(all_threads, x, i);
  if (t == 0) {
    s.flags = static_cast<unsigned>(cells[2 * words]);
    exact::kind k = s.kind();
    if (k <= exact::kind::finite && length)
      k = exact::kind::finite;
    else if (k == exact::kind::finite)
      k = exact::kind::empty;
    to.front = {k, negative, {lead[0], lead[1], lead[2], lead[3], S::low + from, lost}};
  }
}

__device__ __noinline__ void write(const result& how, const exact::unrounded& v) {
  visit(how.type, [&]<class Out>(std::type_identity<Out>) {
    if constexpr (!std::is_integral_v<Out>) *static_cast<Out*>(how.out) = exact::round<Out>(v);
  });
}
// The same of a sum, without a call.
__device__ inline void write_rounded(const result& how, const exact::normalized& v) {
  visit(how.type, [&]<class Out>(std::type_identity<Out>) {
    if constexpr (!std::is_integral_v<Out>)
      *static_cast<Out*>(how.out) = v.kind == exact::kind::finite
                                        ? v.bits.template round<Out>(v.negative)
                                        : exact::detail::of_kind<Out>(v.kind);
  });
}
template <class Form>
inline constexpr bool is_sum = false;
template <term What>
inline constexpr bool is_sum<fold::exact_sum<What>> = true;
// Whether fronts will do.
template <class Form>
inline constexpr int term_count = std::size(Form::terms);
template <class Form>
inline constexpr bool of_fronts =
    exact::degree(Form::terms[0]) ==
    exact::degree(Form::terms[term_count<Form> - 1]);  // not a variance
template <class Form>
inline constexpr unsigned terms_of = [] {
  unsigned all = 0;
  for (int i = 0; i < term_count<Form>; ++i) all |= only(Form::terms[i]);
  return all;
}();
// Sums in the order of some slots: each gives a front, or a state.
template <unsigned Terms>
struct sums_of_cells {
  static constexpr unsigned terms = Terms;  // which there may be
  static constexpr bool has_states = true;
  const summed* each;
  template <class T, term What, bool Front>
  __device__ const auto& get(int k) const {
    if constexpr (Front)
      return each[k].front;
    else
      return *reinterpret_cast<const exact::sum_of<T, What>*>(each[k].state);
  }
};
template <class Op>
__device__ constexpr bool of_states() {
  if constexpr (detail::has_form<Op>)
    return !of_fronts<typename Op::exact>;
  else
    return false;
}
template <class Form, typing Types, class T, class Sums>
__device__ void write_form(const result& how, index n, const exact_slots& slots, const Sums& sums) {
  const auto finish = [&]<class Out, bool Fronts>(std::type_identity<Out>,
                                                  std::bool_constant<Fronts>) {
    const auto sum_of = [&]<term What>(std::integral_constant<term, What>) -> decltype(auto) {
      int k = 0;
      while (k < slots.count - 1 && slots.each[k].what != What) ++k;
      return sums.template get<T, What, Fronts>(k);
    };
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Form::template finish<Out>(fold::finish_parameters{n, how.ddof},
                                        sum_of(std::integral_constant<term, Form::terms[I]>{})...);
    }(std::make_index_sequence<term_count<Form>>());
  };
  if (visit(how.type,
            []<class Out>(std::type_identity<Out>) { return !std::is_integral_v<Out>; })) {
    if constexpr (Sums::terms == terms_of<Form> && is_sum<Form>)
      write_rounded(how, sums.template get<T, Form::terms[0], true>(0));
    else
      write(how,
            finish(std::type_identity<exact::unrounded>{}, std::bool_constant<of_fronts<Form>>{}));
  } else if constexpr (std::is_integral_v<T> && Types == typing::additive) {
    const auto v = finish(std::type_identity<std::int64_t>{}, std::false_type{});
    visit(how.type, [&]<class Out>(std::type_identity<Out>) {
      if constexpr (std::is_integral_v<Out>) *static_cast<Out*>(how.out) = static_cast<Out>(v);
    });
  }
}

template <class Op, typing Types, class T, class Sums>
__device__ void write_op(const result& how, index n, const exact_slots& slots, const Sums& sums) {
  if constexpr (detail::has_form<Op>)
    if constexpr ((Sums::terms & terms_of<typename Op::exact>) == terms_of<typename Op::exact> &&
                  (Sums::has_states || of_fronts<typename Op::exact>))
      write_form<typename Op::exact, Types, T>(how, n, slots, sums);
}
template <class T, class Sums>
__device__ __forceinline__ void write_here(const result& how, index n, const exact_slots& slots,
                                           const Sums& sums) {
#define BITFOLD_OP(name, inputs, takes_method, has_exact, types, ...) \
  if (how.op == op_id::name) write_op<op::name##_op, typing::types, T>(how, n, slots, sums);
  BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
}
template <class T, class Sums>
__device__ __noinline__ void write_one(const result& how, index n, const exact_slots& slots,
                                       const Sums& sums) {
  write_here<T>(how, n, slots, sums);
}

template <class T, unsigned Terms = any_term>
__device__ void sum_slot(term what, const std::int64_t* cells, summed& to) {
  constexpr unsigned of_degree_1 = only(term::square) - 1;
  if constexpr ((Terms & of_degree_1) == 0)
    sum_cells<exact::sum<T, 2>>(cells, to);
  else if ((Terms & ~of_degree_1) == 0 || exact::degree(what) == 1)
    sum_cells<exact::sum<T, 1>>(cells, to);
  else
    sum_cells<exact::sum<T, 2>>(cells, to);
}
// The cells of all slots, added up over the blocks, become results. Of few terms the code is short,
// which counts here: it runs once.
template <class T, unsigned Terms = any_term>
__device__ __noinline__ void write_results(const exact_slots& slots,
                                           const std::int64_t* const (&cells)[most_slots], index n,
                                           const result_list& how, summed* sums) {
  const int w = threadIdx.x / warp, t = threadIdx.x % warp;
  for (int k = w; k < slots.count; k += blockDim.x / warp)
    sum_slot<T, Terms>(slots.each[k].what, cells[k], sums[k]);
  __syncthreads();
  for (int k = w; k < how.count; k += blockDim.x / warp)
    if (t == 0) {
      if constexpr (Terms == any_term)
        write_one<T>(how.each[k], n, slots, sums_of_cells<Terms>{sums});
      else
        write_here<T>(how.each[k], n, slots, sums_of_cells<Terms>{sums});
    }
}

// ---- Kernels ------------------------------------------------------------------------------------

/// Some adders of a thread, or all of them (All), with their cells and columns one behind the
/// other. This one has none.
template <bool All, class...>
struct adder_list {
  static constexpr unsigned terms = 0;
  static constexpr int count = 0, takes = 1 << 30;
  static constexpr std::size_t column_bytes(unsigned) { return 0; }
  __device__ adder_list(unsigned, std::int64_t*, std::byte*) {}
  template <class F>
  __device__ void each(F&&) {}
};
template <bool All, class First, class... Rest>
struct adder_list<All, First, Rest...> {
  using rest_list = adder_list<All, Rest...>;
  static constexpr bool all = All;
  static constexpr unsigned terms = First::terms | rest_list::terms;
  static constexpr int threads = First::threads,
                       takes = First::takes < rest_list::takes ? First::takes : rest_list::takes;
  /// Of those of a set of terms.
  BITFOLD_HD static constexpr int cells_for(unsigned which) {
    if constexpr (sizeof...(Rest) > 0)
      return (which & First::terms ? First::count : 0) + rest_list::cells_for(which);
    else
      return which & First::terms ? First::count : 0;
  }
  static constexpr std::size_t column_bytes(unsigned which) {
    return (which & First::terms ? First::column_bytes : 0) + rest_list::column_bytes(which);
  }

  const bool here;
  std::int64_t* const cells;
  First first;
  rest_list rest;

  __device__ adder_list(unsigned which, std::int64_t* at, std::byte* columns)
      : here(All || (which & First::terms)),
        cells(at),
        first(columns),
        rest(which, at + (here ? First::count : 0),
             columns + (here ? threads * First::column_bytes : 0)) {}
  /// Calls f(adder, cells) with each that is here.
  template <class F>
  __device__ void each(F&& f) {
    if (here) f(first, cells);
    rest.each(f);
  }
};
// Columns begin where a row of banks does: a row of columns shares the fewest banks then.
extern __shared__ __align__(128) std::byte cells_and_columns[];
BITFOLD_HD constexpr std::size_t bytes_of_cells(int cells) {
  return (static_cast<std::size_t>(cells) * sizeof(std::int64_t) + 127) / 128 * 128;
}

// Pack j of n elements; where there are none, padding.
template <class T>
__device__ pack<T> load_or_pad(const T* p, index j, index n, bool aligned,
                               bits_of_type<T> padding) {
  constexpr int size = pack<T>::size;
  const index first = j * size;
  if (first + size <= n) return aligned ? load_pack<true>(p + first) : load_pack<false>(p + first);
  pack<T> v;
#pragma unroll
  for (int i = 0; i < size; ++i) v.set(i, first + i < n ? to_bits(p[first + i]) : padding);
  return v;
}

// What a block adds up: its cells and its threads' adders, in its shared memory.
template <class List>
struct adders_of_block {
  std::int64_t* const cells;
  List list;
  int until_spill = List::takes;

  __device__ explicit adders_of_block(unsigned which)
      : cells(reinterpret_cast<std::int64_t*>(cells_and_columns)),
        list(which, cells, cells_and_columns + bytes_of_cells(List::cells_for(which))) {
    list.each([](auto& adder, std::int64_t*) { adder.begin(); });
    for (int i = threadIdx.x; i < List::cells_for(which); i += blockDim.x) cells[i] = 0;
    __syncthreads();
  }
  __device__ void expect(index n) {
    list.each([=](auto& adder, std::int64_t*) { adder.expect(n); });
  }
  // Whether there is room for another take; if not, the block has to make_room().
  template <int U, bool Two, class T>
  __device__ bool take(const pack<T> (&x)[U], const pack<T> (&y)[Two ? U : 1], int here) {
    list.each([&](auto& adder, std::int64_t* to) { adder.template take<U, Two>(x, y, here, to); });
    return --until_spill > 0;
  }
  __device__ void make_room() {
    spill();
    until_spill = List::takes;
  }
  // All to the cells, of which each term's last has its flags.
  __device__ void end() {
    spill();
    list.each([](auto& adder, std::int64_t* to) { add_flags(to[adder.count - 1], adder.flags); });
    __syncthreads();
  }
  __device__ void write(const exact_slots& slots) {
    int k = 0;
    list.each([&](auto& adder, std::int64_t* from) {
      for (int i = threadIdx.x; i < adder.count; i += blockDim.x)
        slots.each[k].at[index{blockIdx.x} * adder.count + i] = from[i];
      ++k;
    });
  }

 private:
  __device__ void spill() {
    list.each([](auto& adder, std::int64_t* to) { adder.spill(to); });
  }
  __device__ static void add_flags(std::int64_t& cell, unsigned flags) {
    flags = __reduce_or_sync(all_threads, flags);
    if (threadIdx.x % warp == 0) atomicOr(reinterpret_cast<unsigned*>(&cell), flags);
  }
};

// Adds n elements, U packs of each input at a time, by `blocks` blocks, of which this is number
// `block`.
template <class T, bool Two, int U, class Adders>
__device__ void add_elements(Adders& to, const T* px, const T* py, index n, bool aligned,
                             index block, index blocks) {
  using bits = bits_of_type<T>;
  constexpr auto minus_zero = static_cast<bits>(bits{1} << (exact::range<T>::width - 1));
  const index packs = (n + pack<T>::size - 1) / pack<T>::size;
  const index stride = blocks * blockDim.x, block_first = block * blockDim.x,
              mine = block_first + threadIdx.x;
  const auto load = [&](index base, pack<T>(&x)[U], pack<T>(&y)[Two ? U : 1]) {
    if (aligned && (base + (U - 1) * stride + block_first + blockDim.x) * pack<T>::size <= n) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        x[u] = load_pack<true>(px + (base + mine + u * stride) * pack<T>::size);
        if constexpr (Two) y[u] = load_pack<true>(py + (base + mine + u * stride) * pack<T>::size);
      }
    } else {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        x[u] = load_or_pad(px, base + mine + u * stride, n, aligned, minus_zero);
        if constexpr (Two) y[u] = load_or_pad(py, base + mine + u * stride, n, aligned, bits{0});
      }
    }
  };
  if (mine == 0) to.expect(n);
  pack<T> next_x[U], next_y[Two ? U : 1];
  if (block_first < packs) load(0, next_x, next_y);
  for (index base = 0; base + block_first < packs;) {
    bool room = true;
    while (room && base + block_first < packs) {
      pack<T> x[U], y[Two ? U : 1];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        x[u] = next_x[u];
        if constexpr (Two) y[u] = next_y[u];
      }
      int here = U;  // packs that the block's first thread has
      while (base + (here - 1) * stride + block_first >= packs) --here;
      base += U * stride;
      if (base + block_first < packs) load(base, next_x, next_y);
      room = to.template take<U, Two>(x, y, here);
    }
    if (!room) to.make_room();
  }
}

// Which terms a kernel's slots are of.
template <class List>
__device__ unsigned terms_here(const exact_slots& slots) {
  if constexpr (List::all) return List::terms;
  unsigned all = 0;
  for (int k = 0; k < slots.count; ++k) all |= only(slots.each[k].what);
  return all;
}

// Adds the terms of all elements.
template <class T, bool Two, int U, class List>
__global__ void __launch_bounds__(List::threads)
    exact_pass(elements data, index n, const __grid_constant__ exact_slots slots,
               const __grid_constant__ result_list how) {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  adders_of_block<List> adders(terms_here<List>(slots));
  add_elements<T, Two, U>(adders, static_cast<const T*>(data.x), static_cast<const T*>(data.y), n,
                          data.aligned, blockIdx.x, gridDim.x);
  adders.end();
  if constexpr (List::all)
    if (gridDim.x == 1 && how.count > 0) {
      const std::int64_t* of[most_slots];
      int k = 0;
      adders.list.each([&](auto&, std::int64_t* cells) { of[k++] = cells; });
      __shared__ summed sums[2];
      write_results<T, List::terms>(slots, of, n, how, sums);
      return;
    }
  adders.write(slots);
}

// The same of several arrays, of which a block takes stripes.
template <class T, int U, class List>
__global__ void __launch_bounds__(List::threads)
    exact_pass_of_pieces(const __grid_constant__ exact_pieces of,
                         const __grid_constant__ exact_slots slots) {
  adders_of_block<List> adders(terms_here<List>(slots));
  for (unsigned item = blockIdx.x; item < of.first[of.count]; item += gridDim.x) {
    int k = 0, end = of.count;  // the last piece that begins there or before
    while (end - k > 1) (of.first[(k + end) / 2] <= item ? k : end) = (k + end) / 2;
    const index begin = index{item - of.first[k]} * of.stripe, left = of.each[k].n - begin;
    const T* const p = static_cast<const T*>(of.each[k].data) + begin;
    add_elements<T, false, U>(adders, p, static_cast<const T*>(nullptr),
                              left < of.stripe ? left : of.stripe,
                              reinterpret_cast<std::uintptr_t>(p) % 16 == 0, 0, 1);
  }
  adders.end();
  adders.write(slots);
}

// One block: the cells of all blocks, whose sums are below 2^63 (docs/exact.md), become results.
template <class T, unsigned Terms = any_term>
__global__ void __launch_bounds__(finish_threads)
    exact_finish(index n, const __grid_constant__ exact_slots slots,
                 const __grid_constant__ result_list how) {
  __shared__ std::int64_t cells[most_slots][cells_of<double, 2>];
  for (int i = threadIdx.x; i < most_slots * cells_of<double, 2>; i += blockDim.x) cells[0][i] = 0;
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  for (int k = 0; k < slots.count; ++k) {
    const exact_slot& s = slots.each[k];
    const int groups = finish_threads / s.cells, group = threadIdx.x / s.cells,
              cell = threadIdx.x % s.cells;
    if (group >= groups) continue;
    std::int64_t all = 0, flags = 0;
#pragma unroll 8
    for (int b = group; b < s.blocks; b += groups) {
      const std::int64_t v = s.at[static_cast<index>(b) * s.cells + cell];
      all += v;
      flags |= v;
    }
    if (cell < s.cells - 1)
      add_halves(cells[k][cell], all);
    else
      atomicOr(reinterpret_cast<unsigned*>(&cells[k][cell]), static_cast<unsigned>(flags));
  }
  __syncthreads();
  const std::int64_t* of[most_slots];
#pragma unroll
  for (int k = 0; k < most_slots; ++k) of[k] = cells[k];
  __shared__ summed sums[most_slots];
  write_results<T, Terms>(slots, of, n, how, sums);
}

template <class T, bool Two, int U, class List>
exact_kernel kernel_of_list(unsigned terms) {
  exact_kernel k;
  k.function = reinterpret_cast<const void*>(exact_pass<T, Two, U, List>);
  if constexpr (!Two && is_exact_compiled<T>)
    k.of_pieces = reinterpret_cast<const void*>(exact_pass_of_pieces<T, U, List>);
  k.finish_all = reinterpret_cast<const void*>(exact_finish<T>);
  if constexpr (List::all)
    k.finish = reinterpret_cast<const void*>(exact_finish<T, List::terms>);
  else
    k.finish = k.finish_all;
  k.alone = List::all;
  k.threads = List::threads;
  k.shared = bytes_of_cells(List::cells_for(terms)) + List::threads * List::column_bytes(terms);
  k.elements = std::size_t{U} * List::threads * pack<T>::size;
  k.cells[0] = cells_of<T, 1>;
  k.cells[1] = cells_of<T, 2>;
  return k;
}
// That of these adders' terms.
template <class T, bool Two, int U, class... Adders>
exact_kernel kernel_of() {
  using list = adder_list<true, Adders...>;
  return kernel_of_list<T, Two, U, list>(list::terms);
}
// That of some of these adders' terms.
template <class T, bool Two, int U, class... Adders>
exact_kernel kernel_of_some(unsigned terms) {
  if constexpr (is_exact_compiled<T>)
    return kernel_of_list<T, Two, U, adder_list<false, Adders...>>(terms);
  else
    return {};
}

}  // namespace
}  // namespace bitfold::cuda
