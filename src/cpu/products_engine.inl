// Products of panels in vectors of 64-bit sums. Included once per target, after simd.inl, inside
// that target's namespace.

#include "products_any.inl"

namespace products {

namespace hn = simd::hn;
using narrow = simd::tag<std::int32_t>;
using wide = simd::tag<std::int64_t>;

constexpr int lanes = simd::width<std::int32_t>, half = lanes / 2;
/// With 32 registers, and with 16: sums, two vectors of columns for each of these, one of a row.
constexpr bool many_registers = this_target == target::avx512;
constexpr int rows = 6, vectors = many_registers ? 2 : 1;

/// A multiplication takes the even lanes of a vector: of each one of columns there are two vectors
/// of sums, of its even columns and of the odd ones.
using sums = hn::Vec<wide>[rows][2 * vectors];

BITFOLD_INLINE void add_terms(const panel_pair& pair, std::size_t begin, std::size_t end, sums& s) {
  const narrow d;
  const std::int32_t *row = pair.rows + begin * rows,
                     *column = pair.columns + begin * lanes * vectors;
  for (std::size_t p = begin; p < end; ++p, row += rows, column += lanes * vectors) {
    hn::Vec<narrow> b[2 * vectors];
    BITFOLD_UNROLL
    for (int v = 0; v < vectors; ++v) {
      b[2 * v] = hn::LoadU(d, column + v * lanes);
      b[2 * v + 1] =
          hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(simd::tag<std::uint64_t>(), b[2 * v])));
    }
    BITFOLD_UNROLL
    for (int r = 0; r < rows; ++r) {
      const auto a = hn::Set(d, row[r]);
      BITFOLD_UNROLL
      for (int v = 0; v < 2 * vectors; ++v) s[r][v] = hn::Add(s[r][v], hn::MulEven(a, b[v]));
    }
  }
}

/// Writes the halves of sums of even and odd columns, or adds them to what is there.
BITFOLD_INLINE void put_sums(hn::Vec<wide> even, hn::Vec<wide> odd, bool fresh, std::int64_t* to) {
  const wide w;
  if (!fresh) {
    hn::Vec<wide> old_even, old_odd;
    hn::LoadInterleaved2(w, to, old_even, old_odd);
    even = hn::Add(even, old_even);
    odd = hn::Add(odd, old_odd);
  }
  hn::StoreInterleaved2(even, odd, w, to);
}

inline void add(const panel_pair* pairs, int count, std::size_t n, std::size_t run, bool fresh,
                tile_sums to) {
  const wide w;
  const auto lower = hn::Set(w, 0xffffffff);
  alignas(64) std::int64_t made[rows][2 * vectors][half];
  for (std::size_t begin = 0; begin < n; begin += run) {
    const std::size_t end = std::min(n, begin + run);
    sums s;
    BITFOLD_UNROLL
    for (int r = 0; r < rows; ++r) BITFOLD_UNROLL
    for (int v = 0; v < 2 * vectors; ++v) s[r][v] = hn::Zero(w);
    for (int k = 0; k < count; ++k) add_terms(pairs[k], begin, end, s);
    // From memory, as registers hold no more than the sums.
    BITFOLD_UNROLL
    for (int r = 0; r < rows; ++r) BITFOLD_UNROLL
    for (int v = 0; v < 2 * vectors; ++v) hn::StoreU(s[r][v], w, made[r][v]);
#pragma GCC unroll 1
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < 2 * vectors; v += 2) {
        const std::ptrdiff_t at = r * to.pitch + v * half;
        const auto even = hn::LoadU(w, made[r][v]), odd = hn::LoadU(w, made[r][v + 1]);
        put_sums(hn::ShiftRight<32>(even), hn::ShiftRight<32>(odd), fresh, to.high + at);
        put_sums(hn::And(even, lower), hn::And(odd, lower), fresh, to.low + at);
      }
    fresh = false;
  }
}

// ---- Pairs of 16 bits ---------------------------------------------------------------------------

BITFOLD_INLINE std::int32_t paired(std::int32_t first, std::int32_t second) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xffff) |
                                   static_cast<std::uint32_t>(second) << 16);
}
inline void pack_rows(const std::int32_t* from, std::size_t n, std::int32_t* to) {
  for (std::size_t p = 0; p < n; p += 2, from += 2 * rows, to += rows)
    for (int r = 0; r < rows; ++r) to[r] = paired(from[r], p + 1 < n ? from[rows + r] : 0);
}
inline void pack_columns(const std::int32_t* from, std::size_t n, std::int32_t* to) {
  constexpr std::int32_t none[lanes * vectors]{};
  for (std::size_t p = 0; p < n; p += 2, from += 2 * lanes * vectors, to += 2 * lanes * vectors) {
    const std::int32_t* const next = p + 1 < n ? from + lanes * vectors : none;
    for (int c = 0; c < lanes * vectors; ++c) {
      const std::int32_t upper = (from[c] + 128) >> 8, next_upper = (next[c] + 128) >> 8;
      to[c] = paired(upper, next_upper);
      to[lanes * vectors + c] = paired(from[c] - 256 * upper, next[c] - 256 * next_upper);
    }
  }
}

/// 256 times the sums of the upper digits, and those of the lower ones, in 64 bits.
BITFOLD_INLINE void put_pair_sums(hn::Vec<narrow> upper, hn::Vec<narrow> lower, bool fresh,
                                  std::int64_t* high, std::int64_t* low) {
  const wide w;
  const hn::Half<narrow> h;
  const auto below = hn::Set(w, 0xffffffff);
  const hn::Vec<hn::Half<narrow>> uppers[] = {hn::LowerHalf(h, upper), hn::UpperHalf(h, upper)},
                                  lowers[] = {hn::LowerHalf(h, lower), hn::UpperHalf(h, lower)};
  BITFOLD_UNROLL
  for (int k = 0; k < 2; ++k) {
    const auto sum =
        hn::Add(hn::ShiftLeft<8>(hn::PromoteTo(w, uppers[k])), hn::PromoteTo(w, lowers[k]));
    auto to_high = hn::ShiftRight<32>(sum), to_low = hn::And(sum, below);
    if (!fresh) {
      to_high = hn::Add(to_high, hn::LoadU(w, high + k * half));
      to_low = hn::Add(to_low, hn::LoadU(w, low + k * half));
    }
    hn::StoreU(to_high, w, high + k * half);
    hn::StoreU(to_low, w, low + k * half);
  }
}

inline void add_pairs(const panel_pair* panels, int, std::size_t n, std::size_t, bool fresh,
                      tile_sums to) {
  const narrow d;
  const simd::tag<std::int16_t> d16;
  hn::Vec<narrow> s[rows][2 * vectors];
  BITFOLD_UNROLL
  for (int r = 0; r < rows; ++r) BITFOLD_UNROLL
  for (int v = 0; v < 2 * vectors; ++v) s[r][v] = hn::Zero(d);
  const std::int32_t *row = panels->rows, *column = panels->columns;
  for (std::size_t p = 0; p < n; p += 2, row += rows, column += 2 * lanes * vectors) {
    hn::Vec<decltype(d16)> b[2 * vectors];
    BITFOLD_UNROLL
    for (int v = 0; v < 2 * vectors; ++v) b[v] = hn::BitCast(d16, hn::LoadU(d, column + v * lanes));
    BITFOLD_UNROLL
    for (int r = 0; r < rows; ++r) {
      const auto a = hn::BitCast(d16, hn::Set(d, row[r]));
      BITFOLD_UNROLL
      for (int v = 0; v < 2 * vectors; ++v) s[r][v] = simd::add_pair_products(a, b[v], s[r][v]);
    }
  }
  alignas(64) std::int32_t made[rows][2 * vectors][lanes];  // as in `add`
  BITFOLD_UNROLL
  for (int r = 0; r < rows; ++r) BITFOLD_UNROLL
  for (int v = 0; v < 2 * vectors; ++v) hn::StoreU(s[r][v], d, made[r][v]);
#pragma GCC unroll 1
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      const std::ptrdiff_t at = r * to.pitch + v * lanes;
      put_pair_sums(hn::LoadU(d, made[r][v]), hn::LoadU(d, made[r][vectors + v]), fresh,
                    to.high + at, to.low + at);
    }
}

// ---- Elements as integers -----------------------------------------------------------------------

template <class T>
magnitudes measure(const void* elements, std::size_t n) {
  using bits = bits_of<T>;
  const simd::tag<bits> d;
  const T* const x = static_cast<const T*>(elements);
  const auto magnitude = hn::Set(d, magnitude_bits<T>);
  auto any = hn::Zero(d);
  std::size_t p = 0;
  for (; p + simd::width<bits> <= n; p += simd::width<bits>)
    any = hn::Max(any, hn::And(hn::LoadU(d, reinterpret_cast<const bits*>(x + p)), magnitude));
  const bits largest = simd::first(hn::MaxOfLanes(d, any));
  largest_bits<T> l{largest, largest};
  if (largest >= infinity_bits<T>) {
    l.finite = 0;
    l.add(x, p);
  }
  l.add(x + p, n - p);
  return l.result();
}

/// A vector of numbers as integers, in one digit or in two; those that are not finite as 0.
BITFOLD_INLINE void put_integers(hn::Vec<simd::tag<float>> y, std::int32_t* high, std::int32_t*) {
  hn::StoreU(simd::nearest(y), narrow(), high);
}
BITFOLD_INLINE void put_integers(hn::Vec<simd::tag<double>> x, std::int32_t* high,
                                 std::int32_t* low) {
  const simd::tag<double> d;
  const hn::Rebind<std::int32_t, simd::tag<double>> to;
  const auto y = hn::IfThenElseZero(hn::IsFinite(x), x);
  if (!low) {
    hn::StoreU(hn::DemoteTo(to, hn::Round(y)), to, high);
    return;
  }
  const auto h = hn::Round(hn::Mul(y, hn::Set(d, 0x1p-29)));  // as in scale_floats
  hn::StoreU(hn::DemoteTo(to, h), to, high);
  hn::StoreU(hn::DemoteTo(to, hn::Round(hn::Sub(y, hn::Mul(h, hn::Set(d, 0x1p29))))), to, low);
}

/// In numbers A; the last few elements are left.
template <class T, class A>
std::size_t scale_in(const T* x, std::size_t n, int s, std::int32_t* high, std::int32_t* low) {
  const simd::tag<A> d;
  const product::scale_factors<A> f(s);
  const auto first = hn::Set(d, f.first), second = hn::Set(d, f.second);
  std::size_t p = 0;
  for (; p + simd::width<A> <= n; p += simd::width<A>) {
    const auto y = hn::Mul(hn::Mul(simd::load<A>(x + p), first), second);
    put_integers(y, high + p, low ? low + p : nullptr);
  }
  return p;
}
/// In floats where one digit is wanted and the elements are no doubles: its integers below 2^29
/// are exact there as well.
template <class T>
void scale(const void* elements, std::size_t n, int s, std::int32_t* high, std::int32_t* low) {
  const T* const x = static_cast<const T*>(elements);
  std::size_t done = 0;
  if (low || std::is_same_v<T, double>)
    done = scale_in<T, double>(x, n, s, high, low);
  else if constexpr (!std::is_same_v<T, double>)
    done = scale_in<T, float>(x, n, s, high, low);
  scale_floats(x + done, n - done, product::scale_factors<double>(s), high + done,
               low ? low + done : nullptr);
}

/// Four vectors by their fours; what is left, and fewer of them, one by one.
inline void interleave(const std::int32_t* x, std::size_t count, std::size_t pitch, std::size_t n,
                       std::int32_t* to, std::size_t width) {
  const narrow d;
  std::size_t p = 0;
  for (; count == 4 && p + lanes <= n; p += lanes) {
    alignas(64) std::int32_t fours[4 * lanes];
    hn::StoreInterleaved4(hn::LoadU(d, x + p), hn::LoadU(d, x + pitch + p),
                          hn::LoadU(d, x + 2 * pitch + p), hn::LoadU(d, x + 3 * pitch + p), d,
                          fours);
    for (std::size_t q = 0; q < lanes; ++q)
      std::memcpy(to + (p + q) * width, fours + 4 * q, 4 * sizeof *to);
  }
  interleave_any(x + p, count, pitch, n - p, to + p * width, width);
}

constexpr int columns = vectors * lanes;

/// As product::scale_of, of some vectors by the bits of their largest magnitudes.
template <class T>
BITFOLD_INLINE void scales_of(const bits_of<T>* largest, int n, int bits, int* scales) {
  if constexpr (!std::is_same_v<T, double>) {
    // A step of the exponent is `one`; a magnitude above 63/64 of a power of two counts as that.
    constexpr std::int32_t one = 1 << 23, most = (63 << 18) - one, carrying = one - 1 - most;
    const narrow d;
    const auto none = hn::Zero(d), normal = hn::Set(d, one),
               scale_of_none = hn::Set(d, bits - 1 + 126);
    auto subnormal = hn::Lt(none, none);
    for (int v = 0; v < n; v += lanes) {
      const auto word = hn::BitCast(d, simd::load<float>(reinterpret_cast<const T*>(largest) + v));
      const auto is_none = hn::Eq(word, none);
      const auto exponent = hn::ShiftRight<23>(hn::Add(word, hn::Set(d, carrying)));
      hn::StoreU(hn::IfThenZeroElse(is_none, hn::Sub(scale_of_none, exponent)), d, scales + v);
      subnormal = hn::Or(subnormal, hn::AndNot(is_none, hn::Lt(word, normal)));
    }
    if (hn::AllFalse(d, subnormal)) return;
  }
  for (int v = 0; v < n; ++v)
    scales[v] = product::scale_of(
        bitfold::arith::widen<double>(bitfold::arith::bit_cast<T>(largest[v])), bits);
}

/// `Columns`: of neighbours.
template <class T, int Columns>
BITFOLD_INLINE void measure_neighbours(const T* elements, const std::ptrdiff_t* places,
                                       std::size_t n, int bits_wanted, int* scales,
                                       char* specials) {
  using bits = bits_of<T>;
  const hn::CappedTag<bits, Columns> d;
  constexpr int at_once = std::min(Columns, simd::width<bits>), groups = Columns / at_once;
  const auto* const all = reinterpret_cast<const bits*>(elements);
  const auto magnitude = hn::Set(d, magnitude_bits<T>), infinity = hn::Set(d, infinity_bits<T>);
  // The largest of each vector, or of its elements below an infinity.
  const auto find = [&](auto of_element, bits* to) {
    hn::Vec<decltype(d)> found[groups];
    BITFOLD_UNROLL
    for (int g = 0; g < groups; ++g) found[g] = hn::Zero(d);
    for (std::size_t p = 0; p < n; ++p) {
      const bits* const x = all + places[p];
      BITFOLD_UNROLL
      for (int g = 0; g < groups; ++g)
        found[g] = hn::Max(found[g], of_element(hn::And(hn::LoadU(d, x + g * at_once), magnitude)));
    }
    auto most = found[0];
    for (int g = 0; g < groups; ++g) {
      hn::StoreU(found[g], d, to + g * at_once);
      most = hn::Max(most, found[g]);
    }
    return hn::AllTrue(d, hn::Lt(most, infinity));
  };
  bits largest[Columns];
  std::fill_n(specials, Columns, 0);
  if (!find([](auto a) { return a; }, largest)) {
    for (int v = 0; v < Columns; ++v) specials[v] = largest[v] >= infinity_bits<T> ? 1 : 0;
    find([&](auto a) { return hn::IfThenElseZero(hn::Lt(a, infinity), a); }, largest);
  }
  scales_of<T>(largest, Columns, bits_wanted, scales);
}

template <class T>
void measure_across(const void* elements, const std::ptrdiff_t* places, std::size_t n,
                    int bits_wanted, int* scales, char* specials) {
  measure_neighbours<T, columns>(static_cast<const T*>(elements), places, n, bits_wanted, scales,
                                 specials);
}

/// In numbers A: floats or doubles, as in scale.
template <class T, class A>
void scale_across_in(const T* all, const std::ptrdiff_t* places, std::size_t n, const int* scales,
                     std::int32_t* high, std::int32_t* low) {
  const simd::tag<A> d;
  constexpr int at_once = simd::width<A>, groups = columns / at_once;
  A first[columns], second[columns];
  for (int v = 0; v < columns; ++v) {
    const product::scale_factors<A> f(scales[v]);
    first[v] = f.first;
    second[v] = f.second;
  }
  for (std::size_t p = 0; p < n; ++p, high += columns) {
    const T* const x = all + places[p];
    BITFOLD_UNROLL
    for (int g = 0; g < groups; ++g) {
      const int v = g * at_once;
      const auto y =
          hn::Mul(hn::Mul(simd::load<A>(x + v), hn::LoadU(d, first + v)), hn::LoadU(d, second + v));
      put_integers(y, high + v, low ? low + v : nullptr);
    }
    if (low) low += columns;
  }
}
template <class T>
void scale_across(const void* elements, const std::ptrdiff_t* places, std::size_t n,
                  const int* scales, std::int32_t* high, std::int32_t* low) {
  const T* const x = static_cast<const T*>(elements);
  if (low || std::is_same_v<T, double>)
    scale_across_in<T, double>(x, places, n, scales, high, low);
  else if constexpr (!std::is_same_v<T, double>)
    scale_across_in<T, float>(x, places, n, scales, high, low);
}

// ---- One row, directly --------------------------------------------------------------------------

/// Integers times a row's, in 64-bit sums of the even lanes and of the odd ones.
struct row_sums {
  hn::Vec<wide> even, odd;

  BITFOLD_INLINE row_sums() : even(hn::Zero(wide())), odd(hn::Zero(wide())) {}
  static BITFOLD_INLINE hn::Vec<narrow> odd_lanes(hn::Vec<narrow> x) {
    return hn::BitCast(narrow(), hn::ShiftRight<32>(hn::BitCast(simd::tag<std::uint64_t>(), x)));
  }
  BITFOLD_INLINE void add(hn::Vec<narrow> x, hn::Vec<narrow> row, hn::Vec<narrow> odd_row) {
    even = hn::Add(even, hn::MulEven(x, row));
    odd = hn::Add(odd, hn::MulEven(odd_lanes(x), odd_row));
  }
};

/// Floats as integers. Of those that are not finite these say nothing, as no sum with them counts.
BITFOLD_INLINE hn::Vec<narrow> integers_of(hn::Vec<simd::tag<float>> a,
                                           hn::Vec<simd::tag<float>> first,
                                           hn::Vec<simd::tag<float>> second) {
  return simd::nearest_of_finite(hn::Mul(hn::Mul(a, first), second));
}

template <class T>
void along(const std::int32_t* row, const void* elements, std::size_t n, int scale, std::size_t run,
           std::int64_t* high, std::int64_t* low) {
  const simd::tag<float> d;
  const T* const x = static_cast<const T*>(elements);
  const product::scale_factors<float> f(scale);
  const auto first = hn::Set(d, f.first), second = hn::Set(d, f.second);
  const wide w;
  const auto below = hn::Set(w, 0xffffffff);
  auto highs = hn::Zero(w), lows = highs;
  const auto put = [&](const row_sums& s) {
    highs = hn::Add(highs, hn::Add(hn::ShiftRight<32>(s.even), hn::ShiftRight<32>(s.odd)));
    lows = hn::Add(lows, hn::Add(hn::And(s.even, below), hn::And(s.odd, below)));
  };
  std::size_t p = 0;
  while (p + lanes <= n) {
    const std::size_t end = p + lanes * std::min(run, (n - p) / lanes);
    row_sums s;
    for (; p < end; p += lanes) {
      const auto r = hn::LoadU(narrow(), row + p);
      s.add(integers_of(simd::load<float>(x + p), first, second), r, row_sums::odd_lanes(r));
    }
    put(s);
  }
  if (p < n) {
    std::int32_t last[lanes] = {};
    std::memcpy(last, row + p, (n - p) * sizeof *row);
    const auto r = hn::LoadU(narrow(), last);
    row_sums s;
    s.add(integers_of(simd::load_first<float>(x + p, static_cast<int>(n - p)), first, second), r,
          row_sums::odd_lanes(r));
    put(s);
  }
  *high = simd::first(hn::SumOfLanes(w, highs));
  *low = simd::first(hn::SumOfLanes(w, lows));
}

/// As product::scale_factors, of a vector's scales.
struct vector_factors {
  hn::Vec<simd::tag<float>> first, second;

  vector_factors() = default;
  BITFOLD_INLINE explicit vector_factors(const int* scales) {
    const narrow d;
    const auto all = hn::LoadU(d, scales), some = hn::Min(all, hn::Set(d, 100));
    first = power(some);
    second = power(hn::Sub(all, some));
  }
  static BITFOLD_INLINE hn::Vec<simd::tag<float>> power(hn::Vec<narrow> e) {
    return hn::BitCast(simd::tag<float>(), hn::ShiftLeft<23>(hn::Add(e, hn::Set(narrow(), 127))));
  }
};

/// Some vectors of neighbours. `OfEach`: each column has a row of its own.
template <class T, bool OfEach, int Vectors>
BITFOLD_INLINE void across_vectors(const neighbour_columns& of, std::size_t first_column, int bits,
                                   std::size_t run, const column_results& to) {
  constexpr int own = Vectors * lanes;
  const wide w;
  const T* const all = static_cast<const T*>(of.x) + first_column;
  const std::int32_t* const row = of.row + (OfEach ? first_column : 0);
  int* const scales = to.scales + first_column;
  measure_neighbours<T, own>(all, of.places, of.n, bits, scales, to.specials + first_column);
  vector_factors factors[Vectors];
  BITFOLD_UNROLL
  for (int v = 0; v < Vectors; ++v) factors[v] = vector_factors(scales + v * lanes);
  const auto below = hn::Set(w, 0xffffffff);
  for (std::size_t p = 0; p < of.n;) {
    const bool fresh = p == 0;
    row_sums s[Vectors];
    for (const std::size_t end = std::min(of.n, p + run); p < end; ++p) {
      const T* const x = all + of.places[p];
      BITFOLD_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        const int c = v * lanes;
        const auto r = OfEach ? hn::LoadU(narrow(), row + p * of.pitch + c)
                              : hn::Set(narrow(), row[p * of.pitch]);
        s[v].add(integers_of(simd::load<float>(x + c), factors[v].first, factors[v].second), r,
                 OfEach ? row_sums::odd_lanes(r) : r);
      }
    }
    BITFOLD_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      const std::size_t c = first_column + static_cast<std::size_t>(v * lanes);
      put_sums(hn::ShiftRight<32>(s[v].even), hn::ShiftRight<32>(s[v].odd), fresh, to.high + c);
      put_sums(hn::And(s[v].even, below), hn::And(s[v].odd, below), fresh, to.low + c);
    }
  }
}

/// The last vector is one that ends where the columns do: some of it is computed twice.
template <class T, bool OfEach>
void across(const neighbour_columns& of, int bits, std::size_t run, const column_results& to) {
  constexpr int at_once = 2;
  std::size_t c = 0;
  for (; c + at_once * lanes <= of.count; c += at_once * lanes)
    across_vectors<T, OfEach, at_once>(of, c, bits, run, to);
  for (; c < of.count; c += lanes) {
    c = std::min(c, of.count - lanes);
    across_vectors<T, OfEach, 1>(of, c, bits, run, to);
  }
}

inline direct_kernels direct_of(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) -> direct_kernels {
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      return {};
    else
      return {along<T>, across<T, false>, across<T, true>, lanes};
  });
}

inline product_elements elements_of(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) -> product_elements {
    if constexpr (std::is_integral_v<T>)
      return {nullptr, copy_integers<T>};
    else
      return {measure<T>, scale<T>, measure_across<T>, scale_across<T>};
  });
}

}  // namespace products

inline product_kernels find(const product_request&) {
  return {.tile_columns = products::columns,
          .panels = {.tile_rows = products::rows, .add = products::add},
          .pairs = {.tile_rows = products::rows,
                    .terms = 2,
                    .row_words = 1,
                    .column_words = 2,
                    .pack_rows = products::pack_rows,
                    .pack_columns = products::pack_columns,
                    .add = products::add_pairs},
          .interleave = products::interleave,
          .elements = products::elements_of,
          .direct = products::direct_of,
          .as_odd = sums_as_doubles<true>,
          .as_nearest = sums_as_doubles<false>,
          .with_addends = sums_and_addends,
          .round = rounding_to};
}
