// How elements become integers, in plain C++ of which compilers make vectors. Included once per
// target, inside its namespace.

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

template <class T>
magnitudes measure(const void* elements, std::size_t n) {
  magnitudes m;
  if constexpr (!std::is_integral_v<T>) {
    const auto* const x = static_cast<const bits_of<T>*>(elements);
    bits_of<T> largest = 0, any = 0;
    for (std::size_t p = 0; p < n; ++p) {
      const bits_of<T> a = element_at(x, p) & magnitude_bits<T>;
      const bits_of<T> finite = a < infinity_bits<T> ? a : bits_of<T>{0};
      largest = std::max(largest, finite);
      any = std::max(any, a);
    }
    m = {bitfold::arith::widen<double>(bitfold::arith::bit_cast<T>(largest)),
         any >= infinity_bits<T>};
  }
  return m;
}

/// y rounded to an integer, ties to even, for |y| < 2^51.
BITFOLD_INLINE double nearest_integer(double y) { return y + 0x1.8p52 - 0x1.8p52; }

template <class T, bool Two>
BITFOLD_INLINE void scale_floats(const T* x, std::size_t n, int s, std::int32_t* high,
                                 std::int32_t* low) {
  // In two steps, since a row of subnormals has a scale above any double. What the first step
  // rounds is far below 1/2.
  const double first = std::ldexp(1.0, std::min(s, 1000)),
               second = std::ldexp(1.0, s - std::min(s, 1000));
  for (std::size_t p = 0; p < n; ++p) {
    auto bits = element_at(reinterpret_cast<const bits_of<T>*>(x), p);
    bits = (bits & infinity_bits<T>) == infinity_bits<T> ? bits_of<T>{0} : bits;
    const double y =
        bitfold::arith::widen<double>(bitfold::arith::bit_cast<T>(bits)) * first * second;
    if constexpr (Two) {
      // A multiple of 2^29 is even: what is left is rounded as the whole would be.
      const double h = nearest_integer(y * 0x1p-29);
      high[p] = static_cast<std::int32_t>(h);
      low[p] = static_cast<std::int32_t>(nearest_integer(y - h * 0x1p29));
    } else {
      high[p] = static_cast<std::int32_t>(nearest_integer(y));
    }
  }
}
static_assert(digit_bits == 29);

template <class T>
void scale(const void* elements, std::size_t n, int s, std::int32_t* high, std::int32_t* low) {
  const T* const x = static_cast<const T*>(elements);
  if constexpr (!std::is_integral_v<T>) {
    if (low)
      scale_floats<T, true>(x, n, s, high, low);
    else
      scale_floats<T, false>(x, n, s, high, nullptr);
  } else {
    for (std::size_t p = 0; p < n; ++p) high[p] = static_cast<std::int32_t>(element_at(x, p));
  }
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
      // The double on the other side of the true sum, where this one is even.
      const std::int64_t away = (bit_cast<std::int64_t>(error) ^ bits) < 0 ? -1 : 1;
      const bool odd = (bits & 1) != 0, exact = error == 0;
      sum = bit_cast<double>(bits + (odd | exact ? 0 : away));
    }
    const std::int64_t power = (std::int64_t{1023} + row + columns[c]) << 52;
    to[c] = sum * bit_cast<double>(power);
  }
}

inline product_elements elements_of(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) -> product_elements {
    return {measure<T>, scale<T>};
  });
}
