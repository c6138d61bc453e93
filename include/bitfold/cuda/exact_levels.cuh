// Terms of anything else: by levels as the CPU does (docs/exact.md), whose numbers all threads of a
// warp choose together; packs whose terms are not taken without a rest go to a column of integers.
#pragma once

#include <bitfold/cuda/exact_adders.cuh>

namespace bitfold::cuda {

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
      v[0] = magnitude_of(x);
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
      return magnitude_of(p.sum) < 0x1p-960 && x != 0 && y != 0;
    }
  }
};

// Keeps the flags of terms alone.
struct only_flags {
  unsigned flags = 0;
  __device__ void deposit(wide, int, bool) {}
};

// The CPU's levels.
template <class Parts, int Degree>
inline constexpr int levels_of =
    Parts::is_fixed && Degree == 1                                                     ? 1
    : !Parts::is_fixed && (Parts::count == 3 || (Parts::is_wide && Parts::count == 1)) ? 3
                                                                                       : 2;
template <term What, class T, int Threads,
          int Levels = levels_of<double_parts<What, T>, exact::degree(What)>>
struct in_levels {
  using parts = double_parts<What, T>;
  static constexpr term what = What;
  static constexpr int degree = exact::degree(What), threads = Threads, levels = Levels;
  static constexpr bool is_fixed = parts::is_fixed;
  static constexpr int count = cells_of<T, degree>, low = exact::sum<T, degree>::low;
  // A part that is the rounding error of the one before is below 2^-53 of it, and has levels of its
  // own.
  static constexpr int groups = parts::count % 2 == 0 && !parts::is_fixed ? 2 : 1;

  using layout = limb_layout<What, T>;
  static constexpr int limb = layout::limb, adds = layout::adds, limbs = layout::limbs;
  static constexpr std::size_t column_bytes = bytes_of_column<adder::levels, What, T>();
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
              moved |= static_cast<std::uint32_t>(upper_half(next) ^ upper_half(start[g][0]));
            if (l + 1 < levels) {
              r = r - (next - sum);
            } else if (!parts::is_fixed) {
              const double t = next - sum;
              left |= static_cast<std::uint32_t>(lower_half(r) ^ lower_half(t)) |
                      static_cast<std::uint32_t>((upper_half(r) ^ upper_half(t)) & 0x7fffffff);
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
        const std::int64_t part =
            arith::bit_cast<std::int64_t>(s[g][l]) - arith::bit_cast<std::int64_t>(start[g][l]);
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
                static_cast<std::uint32_t>(upper_half(v[p])) >> 20 & 2047;
            if (exponent < 2047) most = max(most, exponent);
          }
        }
    }
    return static_cast<int>(largest_of_the_warp(most)) - 1023;
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
        if (all_of_the_warp(done)) {
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
    const bool columns = any_of_the_block(has_column);
    carry_cells(cells, count, threadIdx.x, blockDim.x);
    if (!columns) return;
    if (!has_column)
      for (int k = 0; k < limbs; ++k) rows[k * Threads + threadIdx.x] = 0;
    has_column = true;
    wait_for_the_block();
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
    wait_for_the_block();
  }
};

}  // namespace bitfold::cuda
