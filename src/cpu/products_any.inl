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

/// A sum that was rounded to nearest, with what that left out, rounded to odd: the double on the
/// other side of the true sum, where this one is even. (By integers alone, of which compilers make
/// vectors.)
BITFOLD_INLINE double to_odd(double sum, double error) {
  using bitfold::arith::bit_cast;
  const auto bits = bit_cast<std::int64_t>(sum), error_bits = bit_cast<std::int64_t>(error);
  const std::int64_t away = ((error_bits ^ bits) >> 63) | 1,
                     inexact = (error_bits << 1) != 0 ? -1 : 0, even = (bits & 1) - 1;
  return bit_cast<double>(bits + (away & inexact & even));
}
/// What the rounding of sum = a + b left out.
BITFOLD_INLINE double error_of(double sum, double a, double b) {
  const double b_part = sum - a;
  return (a - (sum - b_part)) + (b - b_part);
}

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
void sums_as_doubles(const std::int64_t* high, const std::int64_t* low, std::size_t n, int row,
                     const int* columns, const double*, double* to) {
  for (std::size_t c = 0; c < n; ++c) {
    const sum_parts s(high[c], low[c], row + columns[c]);
    const double sum = s.upper + s.lower;
    // (Exact, since |upper| > lower, or upper is 0.)
    to[c] = (Odd ? to_odd(sum, s.lower - (sum - s.upper)) : sum) * s.power;
  }
}

/// Each with an addend, rounded to odd. (Boldo and Melquiond, IEEE Trans. Comput. 57(4), 2008: of
/// three numbers, what the two larger ones leave is rounded to odd first.)
inline void sums_and_addends(const std::int64_t* high, const std::int64_t* low, std::size_t n,
                             int row, const int* columns, const double* addends, double* to) {
  for (std::size_t c = 0; c < n; ++c) {
    const sum_parts s(high[c], low[c], row + columns[c]);
    const double a = s.upper * s.power, b = s.lower * s.power, small = b + addends[c],
                 small_error = error_of(small, b, addends[c]), large = a + small,
                 large_error = error_of(large, a, small), left = large_error + small_error,
                 odd = to_odd(left, error_of(left, large_error, small_error)), sum = large + odd;
    to[c] = to_odd(sum, error_of(sum, large, odd));
  }
}

/// What comes of to_odd, as a float: rounded to odd again, so that a narrower type sees it as
/// exact.
BITFOLD_INLINE float odd_float(double x) {
  using bitfold::arith::bit_cast;
  const auto f = static_cast<float>(x);
  const auto bits = bit_cast<std::int32_t>(f);
  const auto error_bits = bit_cast<std::int64_t>(x - static_cast<double>(f));
  const std::int32_t away = (static_cast<std::int32_t>(error_bits >> 32) ^ bits) >> 31 | 1,
                     inexact = (error_bits << 1) != 0 ? -1 : 0, even = (bits & 1) - 1;
  return bit_cast<float>(bits + (away & inexact & even));
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
