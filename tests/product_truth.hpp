// What method `fixed` gives, from docs/products.md and in big integers: slow, and with nothing of
// the library's but its types.
#pragma once

#include <bitfold/dtype.hpp>
#include <bitfold/view.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>

namespace bitfold::test {

using boost::multiprecision::cpp_int;

/// Of a float type: bits of the significand, and q: the smallest subnormal number is 2^q.
struct float_format {
  int width, p, q;
  std::uint64_t infinity() const { return ((std::uint64_t{1} << (width - p)) - 1) << (p - 1); }
  std::uint64_t nan() const { return infinity() | std::uint64_t{1} << (p - 2); }
};
inline float_format format_of(dtype t) {
  switch (t) {
    case dtype::f16: return {16, 11, -24};
    case dtype::bf16: return {16, 8, -133};
    case dtype::f32: return {32, 24, -149};
    default: return {64, 53, -1074};
  }
}

/// m 2^q, or what is not finite.
struct element_value {
  cpp_int m = 0;
  bool nan = false, infinite = false, negative = false;
};
inline element_value value_of(dtype t, std::uint64_t bits) {
  const float_format f = format_of(t);
  const std::uint64_t magnitude = bits & ((std::uint64_t{1} << (f.width - 1)) - 1);
  element_value v;
  v.negative = bits >> (f.width - 1);
  v.nan = magnitude > f.infinity();
  v.infinite = magnitude == f.infinity();
  if (magnitude < f.infinity()) {
    const int e = static_cast<int>(magnitude >> (f.p - 1));
    const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << (f.p - 1)) - 1);
    v.m = e == 0 ? cpp_int(fraction) : cpp_int(fraction | std::uint64_t{1} << (f.p - 1)) << (e - 1);
    if (v.negative) v.m = -v.m;
  }
  return v;
}

/// x / 2^down to the nearest integer, ties to even; x 2^-down where that is negative.
inline cpp_int shifted(const cpp_int& x, int down) {
  if (down <= 0) return x << -down;
  const cpp_int size = abs(x), unit = cpp_int(1) << down;
  cpp_int floor = size >> down;
  const cpp_int rest = size - (floor << down);
  if (2 * rest > unit || (2 * rest == unit && floor % 2 == 1)) ++floor;
  return x < 0 ? cpp_int(-floor) : floor;
}

/// The bits of x 2^e in t, to nearest even.
inline std::uint64_t rounded_bits(const cpp_int& x, int e, dtype t) {
  if (x == 0) return 0;
  const float_format f = format_of(t);
  const int top = static_cast<int>(msb(cpp_int(abs(x)))) + e, last = std::max(top - f.p + 1, f.q);
  const cpp_int m = shifted(abs(x), last - e);  // at most 2^p
  const cpp_int bits = (cpp_int(last - f.q) << (f.p - 1)) + m;
  const std::uint64_t sign = x < 0 ? std::uint64_t{1} << (f.width - 1) : 0;
  return sign | (bits < f.infinity() ? static_cast<std::uint64_t>(bits) : f.infinity());
}

/// A row or a column: its elements, and its integers with their scale.
struct fixed_vector {
  std::vector<element_value> elements;
  std::vector<cpp_int> integers;
  int unit = 0;  ///< an integer 1 is 2^unit
};
inline fixed_vector fixed(dtype t, const std::vector<std::uint64_t>& bits, int product_bits) {
  fixed_vector v;
  cpp_int largest = 0;
  for (const std::uint64_t b : bits) {
    v.elements.push_back(value_of(t, b));
    largest = std::max(largest, cpp_int(abs(v.elements.back().m)));
  }
  // The largest s with largest 2^q 2^s <= 63 2^(bits - 7), found by trying them all.
  const int q = format_of(t).q;
  int s = 0;
  if (largest != 0) {
    const auto fits = [&](int at) {
      const int shift = q + at - (product_bits - 7);
      return shift <= 0 ? largest <= cpp_int(63) << -shift : largest << shift <= 63;
    };
    for (s = 1200; !fits(s); --s) {
    }
  }
  for (const element_value& e : v.elements) v.integers.push_back(shifted(e.m, -(q + s)));
  v.unit = -s;
  return v;
}

/// The bits of one element of a product, to which an element of its type is added.
inline std::uint64_t fixed_product(const fixed_vector& a, const fixed_vector& b, dtype out,
                                   std::uint64_t addend = 0) {
  const float_format f = format_of(out);
  const element_value c = value_of(out, addend);
  bool nan = c.nan, plus = c.infinite && !c.negative, minus = c.infinite && c.negative;
  cpp_int sum = 0;
  for (std::size_t p = 0; p < a.elements.size(); ++p) {
    const element_value &x = a.elements[p], &y = b.elements[p];
    if (x.nan || y.nan || (x.infinite && !y.infinite && y.m == 0) ||
        (y.infinite && !x.infinite && x.m == 0))
      nan = true;
    else if (x.infinite || y.infinite)
      (x.negative != y.negative ? minus : plus) = true;
    else
      sum += a.integers[p] * b.integers[p];
  }
  if (nan || (plus && minus)) return f.nan();
  if (plus || minus) return f.infinity() | (minus ? std::uint64_t{1} << (f.width - 1) : 0);
  const int unit = a.unit + b.unit, lowest = std::min(unit, f.q);
  return rounded_bits((sum << (unit - lowest)) + (c.m << (f.q - lowest)), lowest, out);
}

}  // namespace bitfold::test
