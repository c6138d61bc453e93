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

/// 2^s in two steps, since a row of subnormals has a scale above any double (or float, where A is
/// one). What the first step rounds is far below 1/2.
template <class A>
struct scale_factors {
  explicit scale_factors(int s) {
    constexpr int most = sizeof(A) == 4 ? 100 : 1000;
    first = std::ldexp(A{1}, std::min(s, most));
    second = std::ldexp(A{1}, s - std::min(s, most));
  }
  A first, second;
};

/// The integers of n floats; high digits and low ones, if low is not null.
template <class T>
BITFOLD_INLINE void scale_floats(const T* x, std::size_t n, const scale_factors<double>& f,
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

/// Sums high 2^32 + low of a row of a tile, times 2^(row + columns[c]), as doubles: rounded to odd,
/// which any narrower rounding then sees as exact, or to nearest. |high| < 2^50, 0 <= low < 2^62,
/// and no result is near a double's ends.
template <bool Odd>
void sums_as_doubles(const std::int64_t* high, const std::int64_t* low, std::size_t n, int row,
                     const int* columns, double* to) {
  using bitfold::arith::bit_cast;
  for (std::size_t c = 0; c < n; ++c) {
    const std::int64_t h = high[c] + (low[c] >> 32), l = low[c] & 0xffffffff;
    // Both are exact as doubles, made by their bits, which is also a vector's way.
    const double upper = (bit_cast<double>(h + 0x4338000000000000) - 0x1.8p52) * 0x1p32,
                 lower = bit_cast<double>(l | 0x4330000000000000) - 0x1p52;
    double sum = upper + lower;
    if constexpr (Odd) {
      const double error = lower - (sum - upper);  // exact, since |upper| > lower or upper = 0
      const auto bits = bit_cast<std::int64_t>(sum);
      // The double on the other side of the true sum, where this one is even. (By integers alone,
      // of which compilers make vectors.)
      const auto error_bits = bit_cast<std::int64_t>(error);
      const std::int64_t away = ((error_bits ^ bits) >> 63) | 1,
                         inexact = (error_bits << 1) != 0 ? -1 : 0, even = (bits & 1) - 1;
      sum = bit_cast<double>(bits + (away & inexact & even));
    }
    const std::int64_t power = (std::int64_t{1023} + row + columns[c]) << 52;
    to[c] = sum * bit_cast<double>(power);
  }
}
