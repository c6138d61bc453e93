// How elements become integers, and sums doubles, in plain C++. Included once per target, inside
// its namespace.

template <class T>
BITFOLD_INLINE T element_at(const T* p, std::size_t i) {
  T x;
  std::memcpy(&x, p + i, sizeof x);  // the data may be aligned to nothing
  return x;
}

/// The bits of T's magnitudes, which have the order of these; those of an infinity.
template <class T>
using bits_of =
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
template <class T>
constexpr bits_of<T> magnitude_bits = static_cast<bits_of<T>>(~bits_of<T>{0}) >> 1;
template <class T>
constexpr bits_of<T> infinity_bits = static_cast<bits_of<T>>(
    magnitude_bits<T> & ~((bits_of<T>{1} << exact::range<T>::mantissa) - 1));

/// The largest magnitudes, as bits: of the finite elements, and of any.
template <class T>
struct largest_bits {
  bits_of<T> finite = 0, any = 0;

  BITFOLD_INLINE void add(const T* x, std::size_t n) {
    for (std::size_t p = 0; p < n; ++p) {
      const bits_of<T> a =
          element_at(reinterpret_cast<const bits_of<T>*>(x), p) & magnitude_bits<T>;
      if (a < infinity_bits<T>) finite = std::max(finite, a);
      any = std::max(any, a);
    }
  }
  magnitudes result() const {
    return {bitfold::arith::widen<double>(bitfold::arith::bit_cast<T>(finite)),
            any >= infinity_bits<T>};
  }
};

/// The integers of n floats; high digits and low ones, if low is not null.
template <class T>
BITFOLD_INLINE void scale_floats(const T* x, std::size_t n, const product::scale_factors<double>& f,
                                 std::int32_t* high, std::int32_t* low) {
  for (std::size_t p = 0; p < n; ++p) {
    const double a = bitfold::arith::widen<double>(element_at(x, p)),
                 y = std::isfinite(a) ? a * f.first * f.second : 0;
    if (!low) {
      high[p] = static_cast<std::int32_t>(std::nearbyint(y));
      continue;
    }
    // A multiple of 2^29 is even: what is left is rounded as the whole would be.
    const double h = std::nearbyint(y * 0x1p-29);
    high[p] = static_cast<std::int32_t>(h);
    low[p] = static_cast<std::int32_t>(std::nearbyint(y - h * 0x1p29));
  }
}
static_assert(digit_bits == 29);

template <class T>
void copy_integers(const void* elements, std::size_t n, int, std::int32_t* high, std::int32_t*) {
  const T* const x = static_cast<const T*>(elements);
  for (std::size_t p = 0; p < n; ++p) high[p] = static_cast<std::int32_t>(element_at(x, p));
}

inline void interleave_any(const std::int32_t* vectors, std::size_t count, std::size_t pitch,
                           std::size_t n, std::int32_t* to, std::size_t width) {
  for (std::size_t v = 0; v < count; ++v)
    for (std::size_t p = 0; p < n; ++p) to[p * width + v] = vectors[v * pitch + p];
}

#include <bitfold/product_sum.inl>

/// A sum high 2^32 + low of a tile as two doubles, and the power of two by which both count.
struct sum_parts {
  BITFOLD_INLINE sum_parts(std::int64_t high, std::int64_t low, int e) {
    using bitfold::arith::bit_cast;
    // Exact as doubles, made by their bits, which is also a vector's way.
    upper = (bit_cast<double>(high + (low >> 32) + 0x4338000000000000) - 0x1.8p52) * 0x1p32;
    lower = bit_cast<double>((low & 0xffffffff) | 0x4330000000000000) - 0x1p52;
    power = bit_cast<double>((std::int64_t{1023} + e) << 52);
  }
  double upper, lower, power;
};

/// Of a row of a tile as doubles: rounded to odd, which any narrower rounding then sees as exact,
/// or to nearest. |high| < 2^50, 0 <= low < 2^62, and no result is near a double's ends.
template <bool Odd>
void sums_as_doubles(const std::int64_t* high, const std::int64_t* low, std::size_t n,
                     const int* exponents, const double*, double* to) {
  for (std::size_t c = 0; c < n; ++c) {
    const sum_parts s(high[c], low[c], exponents[c]);
    // (|upper| > lower, or upper is 0.)
    to[c] = (Odd ? odd_sum(s.upper, s.lower) : s.upper + s.lower) * s.power;
  }
}

/// Each with an addend, as a double that any type of up to 32 bits rounds as it would the true sum.
/// Mostly the sum in doubles is one. It is not surely where it lies next to a number of 25 bits, as
/// numbers of such types and their midpoints are, or where most of it cancelled: there, and in what
/// is done with it together, the true sum is rounded to odd.
inline void sums_and_addends(const std::int64_t* high, const std::int64_t* low, std::size_t n,
                             const int* exponents, const double* addends, double* to) {
  using bitfold::arith::bit_cast;
  constexpr std::size_t together = 32;
  // Of the sum's last places: with so many leading bits lost it is off by a quarter of `near`.
  constexpr int lost = 12;
  constexpr std::int64_t near = std::int64_t{1} << (lost + 2), of_25 = std::int64_t{1} << 28;
  const auto exponent = [](double x) { return (bit_cast<std::uint64_t>(x) >> 52) & 2047; };
  for (std::size_t first = 0; first < n; first += together) {
    const std::size_t end = std::min(n, first + together);
    std::int64_t all_sure = -1;
    for (std::size_t c = first; c < end; ++c) {
      const sum_parts s(high[c], low[c], exponents[c]);
      const double product = (s.upper + s.lower) * s.power, sum = product + addends[c];
      const std::int64_t above = (bit_cast<std::int64_t>(sum) + near) & (of_25 - 1),
                         cancelled = static_cast<std::int64_t>(exponent(product) - exponent(sum));
      all_sure &= (2 * near - 1 - above) & (cancelled - lost - 1);  // both negative
      to[c] = sum;
    }
    if (all_sure < 0) continue;
    for (std::size_t c = first; c < end; ++c) {
      const sum_parts s(high[c], low[c], exponents[c]);
      to[c] = odd_sum(s.upper * s.power, s.lower * s.power, addends[c]);
    }
  }
}

template <class Out>
void round_odd_doubles(const double* x, std::size_t n, void* to) {
  for (std::size_t c = 0; c < n; ++c) {
    const Out v = [&] {
      if constexpr (sizeof(Out) == 2)
        return bitfold::arith::round_to<Out>(odd_float(x[c]));
      else
        return static_cast<Out>(x[c]);
    }();
    std::memcpy(static_cast<Out*>(to) + c, &v, sizeof v);
  }
}
inline sum_rounding rounding_to(dtype out) {
  switch (out) {
    case dtype::f16: return round_odd_doubles<float16>;
    case dtype::bf16: return round_odd_doubles<bfloat16>;
    case dtype::f32: return round_odd_doubles<float>;
    default: return round_odd_doubles<double>;
  }
}
