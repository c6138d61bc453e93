// Exact sums: a fixed-point number wide enough for every sum of elements of a type, or of products
// of two (Kulisch and Miranker, SIAM Review 28(1), 1986), what can be added to one, and every
// rounding of one. It is the reference of the fast kernels, and the state that they add to.
// docs/exact.md has the proofs.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <bitfold/arith.hpp>
#include <bitfold/config.hpp>
#include <bitfold/dtype.hpp>
#include <bitfold/formats.hpp>

namespace bitfold::exact {

using word = std::uint64_t;
__extension__ typedef unsigned __int128 wide;
// Roundings are long, and run once: a kernel calls them.
#ifdef __CUDA_ARCH__
#define BITFOLD_HD_CALLED BITFOLD_HD __noinline__
#define BITFOLD_ROLLED _Pragma("unroll 1")
#else
#define BITFOLD_HD_CALLED BITFOLD_HD inline
#define BITFOLD_ROLLED
#endif
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// What is summed, of elements x or of pairs x, y.
enum class term : std::uint8_t {
  element,
  number,    ///< x, or +0 for a NaN
  presence,  ///< 1, or +0 for a NaN
  magnitude,
  difference,  ///< |x - y|
  square,
  product,
  squared_difference,  ///< (x - y)^2
};
BITFOLD_HD constexpr int degree(term t) { return t < term::square ? 1 : 2; }
BITFOLD_HD constexpr int inputs(term t) {
  return t == term::difference || t == term::product || t == term::squared_difference ? 2 : 1;
}

/// Calls f(std::integral_constant<term, What>{}).
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class F>
BITFOLD_HD decltype(auto) visit(term what, F&& f) {
  switch (what) {
    case term::element: break;
#define BITFOLD_TERM(name) \
  case term::name: return f(std::integral_constant<term, term::name>{})
      BITFOLD_TERM(number);
      BITFOLD_TERM(presence);
      BITFOLD_TERM(magnitude);
      BITFOLD_TERM(difference);
      BITFOLD_TERM(square);
      BITFOLD_TERM(product);
      BITFOLD_TERM(squared_difference);
#undef BITFOLD_TERM
  }
  return f(std::integral_constant<term, term::element>{});
}

/// The finite values of T: multiples of 2^low, none larger than 2^high.
template <class T>
struct range {
  static constexpr int low = 0, high = std::numeric_limits<T>::digits;
};
template <class T>
  requires(!std::is_integral_v<T>)
struct range<T> {
  using bits = typename arith::detail::format_of<T>::bits;
  static constexpr int mantissa = arith::detail::format_of<T>::mantissa;
  static constexpr int width = 8 * static_cast<int>(sizeof(T));
  static constexpr int bias = (1 << (width - 2 - mantissa)) - 1;
  static constexpr int low = 1 - bias - mantissa, high = bias + 1;
};

// ---- One element --------------------------------------------------------------------------------

/// (-1)^negative m 2^(low + shift), or a NaN or an infinity.
struct decomposed {
  enum special : std::uint8_t { finite, infinite, nan };
  word m;
  int shift;
  bool negative;
  special what;
};

template <class T>
BITFOLD_HD inline decomposed split(T x) {
  if constexpr (!std::is_integral_v<T>) {
    using R = range<T>;
    const word bits = arith::bit_cast<typename R::bits>(x), one = word{1} << R::mantissa;
    const word fraction = bits & (one - 1);
    const int biased = static_cast<int>(bits >> R::mantissa) & (2 * R::bias + 1);
    const bool normal = biased != 0;
    const auto what = biased <= 2 * R::bias ? decomposed::finite
                      : fraction            ? decomposed::nan
                                            : decomposed::infinite;
    return {fraction | (normal ? one : 0), biased - normal, (bits >> (R::width - 1)) != 0, what};
  } else {
    const bool negative = x < 0;
    const word m = static_cast<word>(x);
    return {negative ? 0 - m : m, 0, negative, decomposed::finite};
  }
}

// ---- Numbers of several words, lowest first -----------------------------------------------------

BITFOLD_HD inline word add_carry(word a, word b, bool& carry) {
  const word s = a + b, t = s + carry;
  carry = s < a || t < s;
  return t;
}
BITFOLD_HD inline word sub_borrow(word a, word b, bool& borrow) {
  const word d = a - b, t = d - borrow;
  borrow = a < b || d < t;
  return t;
}

BITFOLD_HD inline int bit_length(const word* w, int n) {
  while (n > 0 && w[n - 1] == 0) --n;
  return n ? 64 * n - arith::leading_zeros(w[n - 1]) : 0;
}
/// Bits at .. at + 63 of a number of n words; any `at`.
BITFOLD_HD inline word bits_at(const word* w, int n, int at) {
  const int i = at >> 6, s = at & 63;
  const word low = i >= 0 && i < n ? w[i] : 0, high = i + 1 >= 0 && i + 1 < n ? w[i + 1] : 0;
  return s ? low >> s | high << (64 - s) : low;
}
BITFOLD_HD inline bool any_below(const word* w, int n, int at) {
  for (int i = 0; i < n && 64 * i < at; ++i)
    if (at - 64 * i >= 64 ? w[i] : w[i] << (64 - (at - 64 * i))) return true;
  return false;
}

/// floor(sqrt(x)) for x >= 2^126.
BITFOLD_HD inline word square_root(wide x) {
  const word top = static_cast<word>(x >> 64);
#ifdef __CUDA_ARCH__
  const double guess = arith::sqrt(static_cast<double>(top)) * 0x1p32;
  wide r = guess >= 0x1p64 ? ~word{0} : static_cast<word>(guess);
#else
  // In integers: doubles would raise the caller's inexact flag. A line within 5 %, and three of
  // Newton's steps.
  word guess = 0x5AAC0000 + (top >> 32) * 2 / 3;
  for (int k = 0; k < 3; ++k) guess = (guess + top / guess) >> 1;
  wide r = wide{guess} << 32;
#endif
  // One more leaves some units of that error.
  r = (r + x / r) >> 1;
  if (r >> 64) r = ~word{0};
  while (r * r > x) --r;
  while (r != ~word{0} && (r + 1) * (r + 1) <= x) ++r;
  return static_cast<word>(r);
}

/// What a sum is; the order is that of the serialised form.
enum class kind : std::uint8_t {
  empty,       ///< of nothing: rounds to +0, and changes no sum
  minus_zero,  ///< of -0s only
  finite,
  plus_infinity,
  minus_infinity,
  nan,
};

/// A result before its rounding, to any float: a float of its kind or, if that is finite and m is
/// not 0,
/// (-1)^negative m 2^e, where the last bit of m is set if anything below it was lost.
struct unrounded {
  word m;
  int e;
  bool negative;
  exact::kind kind;
};

namespace detail {
/// Of what is not finite, or is zero.
template <class Out>
BITFOLD_HD inline Out of_kind(kind k) {
  if constexpr (std::is_same_v<Out, unrounded>) {
    return {0, 0, false, k};
  } else {
    switch (k) {
      case kind::nan: return arith::canonical_nan<Out>;
      case kind::plus_infinity: return arith::round_to<Out>(infinity);
      case kind::minus_infinity: return arith::round_to<Out>(-infinity);
      case kind::minus_zero: return arith::round_to<Out>(-0.0);
      case kind::empty:
      case kind::finite: break;
    }
    return arith::round_to<Out>(0.0);
  }
}
template <class Out>
BITFOLD_HD inline Out round_odd(bool negative, word m, int e) {
  if constexpr (std::is_same_v<Out, unrounded>)
    return {m, e, negative, kind::finite};
  else
    return arith::detail::round_odd_to<Out>(negative, m, e);
}
}  // namespace detail

template <class Out>
BITFOLD_HD inline Out round(const unrounded& x) {
  if (x.kind != kind::finite || x.m == 0) return detail::of_kind<Out>(x.kind);
  return detail::round_odd<Out>(x.negative, x.m, x.e);
}

/// A number w 2^e > 0 for one rounding: its 256 leading bits, the first of them set, and whether
/// what is below them, or what a division left over, was lost.
class leading {
 public:
  leading() = default;
  BITFOLD_HD leading(word w0, word w1, word w2, word w3, int e, bool inexact)
      : w_{w0, w1, w2, w3}, e_(e), inexact_(inexact) {}
  /// Of n words.
  BITFOLD_HD leading(const word* w, int n, int e) {
    const int first = bit_length(w, n) - 256;
    for (int i = 0; i < 4; ++i) w_[i] = bits_at(w, n, first + 64 * i);
    e_ = e + first;
    inexact_ = any_below(w, n, first);
  }
  /// At most twice: 128 bits are left then, and zeros follow them.
  BITFOLD_HD void divide(word by) {
    wide rest = 0;
    BITFOLD_ROLLED
    for (int i = 3; i >= 0; --i) {
      rest = rest << 64 | w_[i];
      w_[i] = static_cast<word>(rest / by);
      rest -= wide{w_[i]} * by;
    }
    inexact_ = inexact_ || rest != 0;
    if (w_[3] == 0) {
      for (int i = 3; i > 0; --i) w_[i] = w_[i - 1];
      w_[0] = 0;
      e_ -= 64;
    }
    if (const int s = arith::leading_zeros(w_[3])) {
      for (int i = 3; i > 0; --i) w_[i] = w_[i] << s | w_[i - 1] >> (64 - s);
      w_[0] <<= s;
      e_ -= s;
    }
  }
  template <class Out>
  BITFOLD_HD Out round(bool negative) const {
    const bool odd = inexact_ || (w_[2] | w_[1] | w_[0]) != 0;
    return detail::round_odd<Out>(negative, w_[3] | (odd ? 1 : 0), e_ + 192);
  }
  template <class Out>
  BITFOLD_HD Out root() const {
    const int half = e_ & 1;
    const wide top = wide{w_[3]} << 64 | w_[2], x = top >> half;
    const word r = square_root(x);
    const bool odd = inexact_ || (w_[1] | w_[0]) != 0 || x << half != top || wide{r} * r != x;
    return detail::round_odd<Out>(false, r | (odd ? 1 : 0), (e_ + 128 + half) / 2);
  }
  /// A whole number below 2^64 itself.
  BITFOLD_HD word integer() const { return w_[3] >> (-e_ - 192); }

 private:
  word w_[4];
  int e_;
  bool inexact_;
};

/// What roundings of a sum begin with.
struct normalized {
  exact::kind kind;  ///< finite if it is finite and not 0; of zeros as they round
  bool negative;
  leading bits;  ///< of the magnitude, if it is finite
};

// ---- The state ----------------------------------------------------------------------------------

/// What was among the terms.
enum flag : unsigned {
  a_minus_zero = 1,
  something_else = 2,  ///< finite, and not -0; twice a_minus_zero
  plus_infinity = 4,
  minus_infinity = 8,
  a_nan = 16,
};

/// Sums of up to 2^60 terms of a degree: 1 for elements, magnitudes and differences, 2 for
/// products. The value is the two's complement number w 2^low, so that equal sums have equal words,
/// in whatever order and in however many parts they were added up. Where there was an infinity or a
/// NaN it means nothing.
template <class T, int Degree = 1>
struct sum {
  using element = T;
  static constexpr int low = Degree * range<T>::low;
  // 1 bit more for a difference, 60 for as many terms, 1 for the sign.
  static constexpr int words = (Degree * (range<T>::high - range<T>::low + 1) + 60 + 1 + 63) / 64;

  word w[static_cast<std::size_t>(words)] = {};
  unsigned flags = 0;

  BITFOLD_HD exact::kind kind() const {
    constexpr int infinities = plus_infinity | minus_infinity;
    if (flags & a_nan || (flags & infinities) == infinities) return exact::kind::nan;
    if (flags & plus_infinity) return exact::kind::plus_infinity;
    if (flags & minus_infinity) return exact::kind::minus_infinity;
    if (flags & something_else) return exact::kind::finite;
    return flags ? exact::kind::minus_zero : exact::kind::empty;
  }
  BITFOLD_HD bool is_finite() const { return kind() <= exact::kind::finite; }
  BITFOLD_HD bool is_negative() const { return w[words - 1] >> 63; }
  BITFOLD_HD bool is_zero() const {
    BITFOLD_ROLLED
    for (const word x : w)
      if (x) return false;
    return is_finite();
  }

  /// Adds (-1)^negative m 2^(low + shift).
  BITFOLD_HD void deposit(wide m, int shift, bool negative) {
    const int s = shift & 63;
    const word l = static_cast<word>(m), h = static_cast<word>(m >> 64);
    const word part[3] = {l << s, s ? h << s | l >> (64 - s) : h, s ? h >> (64 - s) : 0};
    bool carry = false;
    for (int k = 0, i = shift >> 6; i < words && (k < 3 || carry); ++k, ++i) {
      const word x = k < 3 ? part[k] : 0;
      w[i] = negative ? sub_borrow(w[i], x, carry) : add_carry(w[i], x, carry);
    }
  }

  BITFOLD_HD void merge(const sum& o) {
    bool carry = false;
    for (int i = 0; i < words; ++i) w[i] = add_carry(w[i], o.w[i], carry);
    flags |= o.flags;
  }
  /// Takes a sum away; of two zeros that leaves +0.
  BITFOLD_HD void subtract(const sum& o) {
    bool borrow = false;
    for (int i = 0; i < words; ++i) w[i] = sub_borrow(w[i], o.w[i], borrow);
    flags |= o.flags & a_nan;
    if (o.flags & (a_minus_zero | something_else)) flags |= something_else;
    if (o.flags & plus_infinity) flags |= minus_infinity;
    if (o.flags & minus_infinity) flags |= plus_infinity;
  }

  /// The magnitude of the value, into `words` words.
  BITFOLD_HD void magnitude(word* to) const {
    bool borrow = false;
    BITFOLD_ROLLED
    for (int i = 0; i < words; ++i) to[i] = is_negative() ? sub_borrow(0, w[i], borrow) : w[i];
  }

  friend std::partial_ordering operator<=>(const sum& a, const sum& b) {
    const auto x = a.kind(), y = b.kind();
    if (x == exact::kind::nan || y == exact::kind::nan) return std::partial_ordering::unordered;
    const auto rank = [](exact::kind k) {
      return k == exact::kind::plus_infinity ? 1 : k == exact::kind::minus_infinity ? -1 : 0;
    };
    if (rank(x) || rank(y)) return rank(x) <=> rank(y);
    if (a.is_negative() != b.is_negative())
      return a.is_negative() ? std::partial_ordering::less : std::partial_ordering::greater;
    for (int i = words - 1; i >= 0; --i)
      if (a.w[i] != b.w[i]) return a.w[i] <=> b.w[i];
    return std::partial_ordering::equivalent;
  }
  friend bool operator==(const sum& a, const sum& b) { return (a <=> b) == 0; }
};

template <class T, term What>
using sum_of = sum<T, degree(What)>;

// ---- Adding one term ----------------------------------------------------------------------------

namespace detail {
/// Adds (-1)^negative m 2^(low + shift), of which a zero has its sign.
template <class S>
BITFOLD_HD inline void add_finite(S& s, wide m, int shift, bool negative) {
  s.flags |= something_else >> (negative & (m == 0));  // signs are hard to predict: no branch
  s.deposit(m, shift, negative);
}
template <class S>
BITFOLD_HD inline void add_infinity(S& s, bool negative) {
  s.flags |= negative ? minus_infinity : plus_infinity;
}
}  // namespace detail

/// Adds one term, whatever it is, to a sum_of<T, What> or to what has the same flags and deposit().
/// y counts for terms of two inputs only.
template <term What, class S, class T>
BITFOLD_HD inline void deposit(S& s, T x, T y = {}) {
  decomposed a = split(x), b = split(What == term::square ? x : y);
  if constexpr (What == term::presence) {
    s.flags |= something_else;
    if (a.what != decomposed::nan) s.deposit(1, -range<T>::low, false);
  } else if constexpr (inputs(What) == 1 && What != term::square) {
    if constexpr (What == term::number)
      if (a.what == decomposed::nan) a = {0, 0, false, decomposed::finite};
    if constexpr (What == term::magnitude) a.negative = false;
    if (a.what == decomposed::nan)
      s.flags |= a_nan;
    else if (a.what == decomposed::infinite)
      detail::add_infinity(s, a.negative);
    else
      detail::add_finite(s, a.m, a.shift, a.negative);
  } else if (a.what == decomposed::nan || b.what == decomposed::nan) {
    s.flags |= a_nan;
  } else if constexpr (What == term::square || What == term::product) {
    const bool negative = a.negative != b.negative,
               infinite = a.what != decomposed::finite || b.what != decomposed::finite;
    const auto zero = [](const decomposed& p) { return p.what == decomposed::finite && p.m == 0; };
    if (infinite && (zero(a) || zero(b)))
      s.flags |= a_nan;
    else if (infinite)
      detail::add_infinity(s, negative);
    else
      detail::add_finite(
          s, wide{a.m} * b.m, a.shift + b.shift,
          negative && !(std::is_integral_v<T> && (zero(a) || zero(b))));  // an integer has no -0
  } else if (a.what == decomposed::infinite || b.what == decomposed::infinite) {
    if (a.what == b.what && a.negative == b.negative)
      s.flags |= a_nan;
    else
      detail::add_infinity(s, false);
  } else if constexpr (What == term::difference) {
    const bool less = a.negative != b.negative ? a.negative
                      : a.shift != b.shift     ? (a.shift < b.shift) != a.negative
                                               : (a.m < b.m) != a.negative;
    s.flags |= something_else;
    s.deposit(a.m, a.shift, a.negative != less);
    s.deposit(b.m, b.shift, b.negative == less);
  } else {
    s.flags |= something_else;
    s.deposit(wide{a.m} * a.m, 2 * a.shift, false);
    s.deposit(wide{b.m} * b.m, 2 * b.shift, false);
    // 2 x y: a product may have all of 128 bits
    for (int twice = 0; twice < 2; ++twice)
      s.deposit(wide{a.m} * b.m, a.shift + b.shift, a.negative == b.negative);
  }
}

// ---- Rounding -----------------------------------------------------------------------------------

template <class T, int Degree>
BITFOLD_HD inline normalized normalize(const sum<T, Degree>& s) {
  const exact::kind k = s.kind();
  if (!s.is_finite() || s.is_zero()) return {k == kind::finite ? kind::empty : k, false, {}};
  word m[sum<T, Degree>::words];
  s.magnitude(m);
  return {kind::finite, s.is_negative(), {m, s.words, s.low}};
}

/// The value rounded once: to nearest even for floats, modulo 2^bits for integers (of integers).
template <class Out>
BITFOLD_HD_CALLED Out round(const normalized& x) {
  return x.kind == kind::finite ? x.bits.round<Out>(x.negative) : detail::of_kind<Out>(x.kind);
}
template <class Out, class T, int Degree>
BITFOLD_HD inline Out round(const sum<T, Degree>& s) {
  if constexpr (std::is_integral_v<Out>) {
    static_assert(std::is_integral_v<T>, "bitfold: a sum of floats rounds to a float");
    return static_cast<Out>(s.w[0]);
  } else {
    return round<Out>(normalize(s));
  }
}
/// Whether the value is one of Out's: then round is exact. Of integers.
template <class Out, class T, int Degree>
BITFOLD_HD inline bool fits(const sum<T, Degree>& s) {
  static_assert(std::is_integral_v<Out> && std::is_integral_v<T>);
  sum<T, Degree> back;
  const decomposed p = split(round<Out>(s));
  back.deposit(p.m, 0, p.negative);
  for (int i = 0; i < s.words; ++i)
    if (back.w[i] != s.w[i]) return false;
  return true;
}
/// The value of a sum of term::presence.
BITFOLD_HD inline std::uint64_t count(const normalized& x) {
  return x.kind == kind::finite ? x.bits.integer() : 0;
}
/// The quotient by n, rounded once; NaN for n = 0.
template <class Out>
BITFOLD_HD_CALLED Out round_quotient(const normalized& x, std::uint64_t n) {
  if (n == 0) return detail::of_kind<Out>(kind::nan);
  if (x.kind != kind::finite) return detail::of_kind<Out>(x.kind);
  leading quotient = x.bits;
  quotient.divide(n);
  return quotient.round<Out>(x.negative);
}
/// The square root, rounded once; NaN for a negative value.
template <class Out>
BITFOLD_HD_CALLED Out round_root(const normalized& x) {
  if (x.kind == kind::minus_infinity || (x.kind == kind::finite && x.negative))
    return detail::of_kind<Out>(kind::nan);
  return x.kind == kind::finite ? x.bits.root<Out>() : detail::of_kind<Out>(x.kind);
}
// The same of sums.
template <class T>
BITFOLD_HD inline std::uint64_t count(const sum<T, 1>& s) {
  return count(normalize(s));
}
template <class Out, class T, int Degree>
BITFOLD_HD inline Out round_quotient(const sum<T, Degree>& s, std::uint64_t n) {
  return round_quotient<Out>(normalize(s), n);
}
template <class Out, class T, int Degree>
BITFOLD_HD inline Out round_root(const sum<T, Degree>& s) {
  return round_root<Out>(normalize(s));
}

namespace detail {
/// n times the sum of the squares minus the square of the sum, over n and max(0, n - ddof): the
/// variance.
template <class Out, class T, class Finish>
BITFOLD_HD inline Out variance(const sum<T, 1>& s, const sum<T, 2>& squares, std::uint64_t n,
                               std::uint64_t ddof, Finish f) {
  constexpr int half = sum<T, 1>::words,
                words = 2 * half > sum<T, 2>::words ? 2 * half : sum<T, 2>::words + 1;
  if (!s.is_finite() || !squares.is_finite() || n == 0) return of_kind<Out>(kind::nan);
  word m[static_cast<std::size_t>(half)], d[static_cast<std::size_t>(words)] = {};
  wide carry = 0;
  BITFOLD_ROLLED
  for (int i = 0; i < sum<T, 2>::words; ++i) {
    carry += wide{squares.w[i]} * n;
    d[i] = static_cast<word>(carry);
    carry >>= 64;
  }
  d[sum<T, 2>::words] = static_cast<word>(carry);
  s.magnitude(m);
  BITFOLD_ROLLED
  for (int i = 0; i < half; ++i) {
    wide product = 0;
    bool borrow = false;
    BITFOLD_ROLLED
    for (int k = 0; i + k < words; ++k) {
      product += k < half ? wide{m[i]} * m[k] : 0;
      d[i + k] = sub_borrow(d[i + k], static_cast<word>(product), borrow);
      product >>= 64;
    }
  }
  if (d[words - 1] >> 63) return of_kind<Out>(kind::nan);  // n is not theirs
  const bool zero = bit_length(d, words) == 0;
  if (n <= ddof) return of_kind<Out>(zero ? kind::nan : kind::plus_infinity);
  if (zero) return of_kind<Out>(kind::empty);
  leading x(d, words, 2 * sum<T, 1>::low);
  x.divide(n);
  x.divide(n - ddof);
  return f(x);
}
}  // namespace detail

/// The variance of n elements from their sum and that of their squares, rounded once: over n -
/// ddof. NaN for no elements or if one is not finite; for n <= ddof inf, or NaN where nothing
/// varies.
template <class Out, class T>
BITFOLD_HD_CALLED Out round_variance(const sum<T, 1>& s, const sum<T, 2>& squares, std::uint64_t n,
                                     std::uint64_t ddof = 0) {
  return detail::variance<Out>(s, squares, n, ddof, [](leading x) { return x.round<Out>(false); });
}
/// Its square root, rounded once.
template <class Out, class T>
BITFOLD_HD_CALLED Out round_deviation(const sum<T, 1>& s, const sum<T, 2>& squares, std::uint64_t n,
                                      std::uint64_t ddof = 0) {
  return detail::variance<Out>(s, squares, n, ddof, [](leading x) { return x.root<Out>(); });
}

}  // namespace bitfold::exact

#undef BITFOLD_HD_CALLED
#undef BITFOLD_ROLLED
