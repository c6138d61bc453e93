// The seam between exact sums and the code compiled once per instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <bitfold/totals.hpp>

#include "../fp_environment.hpp"
#include "backend.hpp"

namespace bitfold::cpu {

/// A sum as cells that overlap: whatever is added falls into one, or into two, without carries.
/// There is room for 2^28 terms.
template <class T, int Degree>
struct cells {
  using total = exact::sum<T, Degree>;
  static constexpr int bits = Degree * (exact::range<T>::mantissa + 1);  // of a term
  static constexpr int spacing = bits <= 24 ? 8 : 32;
  static constexpr int count = total::words * 64 / spacing;
  using cell = std::conditional_t<bits <= 24, exact::word, exact::wide>;

  cell values[2][count] = {};  // of positive and of negative ones
  unsigned flags = 0;

  void deposit(exact::wide m, int shift, bool negative) {
    put(static_cast<exact::word>(m), shift, negative);
    if constexpr (bits > 64) put(static_cast<exact::word>(m >> 64), shift + 64, negative);
  }
  void put(exact::word m, int shift, bool negative) {
    values[negative][shift / spacing] += cell{m} << (shift % spacing);
  }
  void add_to(total& s) const {
    __extension__ typedef __int128 signed_wide;
    total sum;
    signed_wide carry = 0;
    for (int i = 0; i < count; ++i) {
      carry += static_cast<signed_wide>(values[0][i]) - static_cast<signed_wide>(values[1][i]);
      const auto digit = static_cast<exact::word>(carry) & ((exact::word{1} << spacing) - 1);
      sum.w[i * spacing / 64] |= digit << (i * spacing % 64);
      carry >>= spacing;
    }
    sum.flags = flags;
    s.merge(sum);
  }
};

/// Elements by their sign and exponent: each is added as its bits, and 2^unit to count it, so that
/// nothing has to be looked at. There is room for `most` elements: the sum of their bits stays
/// below 2^unit, their count above it. Of types of up to 32 bits.
template <class T>
struct cells_by_exponent {
  using R = exact::range<T>;
  using cell = exact::word;
  static constexpr int unit = (64 + R::width) / 2;
  static constexpr std::size_t max = (std::size_t{1} << (unit - R::width)) - 1;
  static constexpr int count = 1 << (R::width - R::mantissa);

  cell values[count] = {};

  void add(typename R::bits x) { values[x >> R::mantissa] += (cell{1} << unit) + x; }
  void add_to(cells<T, 1>& s) const {
    for (int i = 0; i < count; ++i) {
      if (values[i] == 0) continue;
      const cell n = values[i] >> unit, bits = values[i] & ((cell{1} << unit) - 1);
      cell m = bits - n * (static_cast<cell>(i) << R::mantissa);  // the sum of the fractions
      const int biased = i & (count / 2 - 1);
      const bool negative = i >= count / 2;
      if (biased == count / 2 - 1) {
        if (m)
          s.flags |= exact::a_nan;  // and infinities, if there are any, show no more
        else
          exact::detail::add_infinity(s, negative);
        continue;
      }
      s.flags |= exact::something_else >> (negative && biased == 0 && m == 0);
      if (biased) m += n << R::mantissa;
      s.put(m, biased ? biased - 1 : 0, negative);
    }
  }
};

/// Doubles by their sign and exponent, 2^Group exponents together: their integers, shifted by what
/// they are above the first of these, are added, and carries, which are few, counted. (A count of
/// elements beside each sum would take longer.) There is room for `most`. Flags are for others to
/// set; where they say that the sum is not finite, nobody asks for the rest, and so what is not
/// finite may be added to the last cell of a sign.
template <int Group>
struct cells_of_doubles {
  using R = exact::range<double>;
  static constexpr std::size_t max = Group > 0 ? std::size_t{1} << 12 : std::size_t{1} << 26;
  static constexpr int half = 1 << (R::width - R::mantissa - 1 - Group);

  exact::word values[2 * half] = {};  // of positive ones, and of negative ones
  std::uint16_t carries[2 * half] = {};

  void add(exact::word x) {
    const exact::word exponent = x >> R::mantissa, normal = (exponent & (2 * R::bias + 1)) != 0;
    const exact::word shift = exponent - normal;  // the sign is above it
    const exact::word m = (x - (shift << R::mantissa)) << (shift & ((1 << Group) - 1));
    const exact::word i = shift >> Group, sum = values[i] + m;
    values[i] = sum;
    if (sum < m) [[unlikely]]
      ++carries[i];
  }
  /// Says whether the sum of either sign is more than 0.
  bool add_to(cells<double, 1>& s) const {
    constexpr int cells_at_once = cells<double, 1>::spacing >> Group,
                  finite = ((2 * R::bias - 1) >> Group) + 1;
    bool any = false;
    for (int negative = 0; negative < 2; ++negative)
      for (int first = 0; first < finite; first += cells_at_once) {
        exact::wide sum = 0;  // below 2^(64 + 16 + 32)
        for (int i = std::min(first + cells_at_once, finite) - 1; i >= first; --i)
          sum = (sum << (1 << Group)) + value(negative * half + i);
        s.values[negative][first / cells_at_once] += sum;
        any |= sum != 0;
      }
    return any;
  }
  /// Whether there was something that is not finite; where Group is 0.
  bool has_specials() const { return value(half - 2) != 0 || value(2 * half - 2) != 0; }

 private:
  exact::wide value(int i) const { return exact::wide{carries[i]} << 64 | values[i]; }
};

/// What is summed, of elements of which type.
struct exact_terms {
  exact::term what;
  dtype type;
};

/// Adds n terms to `state`, the exact::sum_of the type and the term. In round to nearest,
/// subnormals kept. Says which target it was compiled for. Calls for parts of an array, and states
/// of parts, may be merged in any order.
using depositor = target (*)(inputs data, std::size_t n, void* state);

/// n >= 1 elements one behind the other.
struct element_row {
  const void* x;
  std::size_t n;
};

/// Sums of floats in doubles, by plain additions: one of elements of up to 32 bits, and of f64 two,
/// of their upper bits and of their lower ones. Where no addition is rounded, which the processor
/// says (inexact_flag), and the sums are finite, they are exact, and a zero has its sign: the first
/// one is -0 where all elements are -0.
struct double_sums {
  std::size_t parts = 0;  ///< sums of an output; of `count` outputs the first ones, then the second
  /// Of some rows.
  void (*of_rows)(const element_row* rows, std::size_t count, double* sums) = nullptr;
  /// Of so many neighbours, at least column_width: adds the elements of `n` rows, those of row i
  /// from x + rows[i] on, to the sums `from`, and writes them to `to`.
  using adder = void (*)(const void* x, const std::ptrdiff_t* rows, std::size_t n,
                         std::size_t neighbours, const double* from, double* to);
  adder add = nullptr;
  /// The same, but of what would be rounded the first sum becomes a NaN, and so stays one.
  adder add_or_lose = nullptr;
};

struct exact_kernels {
  depositor add = nullptr;
  double_sums in_doubles{};  ///< of floats, where there are vectors
};

/// Those of a target; null if this build does not hold them or this machine does not run them.
template <target>
exact_kernels find_kernels_of(const exact_terms& t);
template <>
exact_kernels find_kernels_of<target::scalar>(const exact_terms& t);
template <>
exact_kernels find_kernels_of<target::avx2>(const exact_terms& t);
template <>
exact_kernels find_kernels_of<target::avx512>(const exact_terms& t);
template <>
exact_kernels find_kernels_of<target::neon>(const exact_terms& t);

exact_kernels find_exact_kernels(target t, const exact_terms& terms);
inline depositor find_depositor(target t, const exact_terms& terms) {
  return find_exact_kernels(t, terms).add;
}

/// Adds n elements to all of them; says as a depositor which target it was compiled for.
inline target deposit(detail::exact_sums& sums, target t, inputs data, std::size_t n) {
  for (auto& s : sums.sums()) t = find_depositor(t, {s.what, sums.type()})(data, n, s.state);
  return t;
}

/// What `all`, by method exact, sum of n elements. Errors as cpu::reduce's.
detail::exact_sums sums_of(std::span<const reduction> all, inputs data, std::size_t n,
                           const options& opts);

}  // namespace bitfold::cpu
