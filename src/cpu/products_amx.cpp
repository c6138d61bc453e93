// Panels of integers multiplied by AMX, the matrix unit of some x86 processors: in digits of 8 or 7
// bits, which are integers of 8 bits with a sign, into sums of 32 bits.
#include <array>
#include <cstdlib>
#include <cstring>

#include "products.hpp"

#if defined(__x86_64__) && defined(__linux__) && \
    (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define BITFOLD_HAS_AMX
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bitfold::cpu {

#ifdef BITFOLD_HAS_AMX
namespace {

#define BITFOLD_AMX_CODE [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-int8")]]

// A tile of the unit has 16 rows of 64 bytes. One of a left operand has a digit of 64 terms of 16
// rows. One of a right operand has at its row q those of the terms 4 q, ..., 4 q + 3 of 16 columns.
constexpr int tile_side = 16, tile_terms = 64, tile_words = 256;
constexpr int columns = amx_columns, tiles_across = columns / tile_side;
static_assert(terms_at_once % tile_terms == 0);

/// Of which the sums of products of digits are at most 2^27, and what is made of them below 2^31.
constexpr std::size_t most_terms = 1024;

/// What the unit is told: the sizes of its eight tiles.
struct alignas(64) tile_sizes {
  std::uint8_t palette = 1, start_row = 0, reserved[14]{};
  std::uint16_t bytes_of_row[16]{64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(tile_sizes) == 64);
constexpr tile_sizes whole_tiles;

/// How integers are taken apart, and which products of their parts are summed up where.
template <int Digits, int DigitBits>
struct scheme {
  /// Digits of 7 bits share products: of two digits' sums, where two would be of two digits each.
  static constexpr bool shares = DigitBits == 7;
  static constexpr int digits = Digits, weights = 2 * Digits - 1, pairs = Digits * (Digits - 1) / 2;
  /// Digits, then the sums of two.
  static constexpr int parts = shares ? Digits + pairs : Digits;
  /// Of each weight; or of each digit with itself, and of each weight but the first and the last
  /// the products of two digits' sums.
  static constexpr int sums = shares ? Digits + weights - 2 : weights;
  struct product {
    int sum, left, right;  ///< which
  };
  static constexpr int count = shares ? parts : Digits * Digits;

  /// Sorted by the sum.
  static constexpr std::array<product, count> products() {
    std::array<product, count> all{};
    int n = 0;
    for (int i = 0; shares && i < Digits; ++i) all[n++] = {i, i, i};
    for (int w = 0; w < weights; ++w)
      for (int i = 0, part = Digits; i < Digits; ++i)
        for (int j = shares ? i + 1 : 0; j < Digits; ++j, ++part)
          if (i + j == w) {
            if (shares)
              all[n++] = {Digits + w - 1, part, part};
            else
              all[n++] = {w, i, j};
          }
    return all;
  }
  /// Where those of each sum begin, and where all end.
  static constexpr std::array<int, sums + 1> begins() {
    std::array<int, sums + 1> found{};
    for (const product& p : products()) ++found[p.sum + 1];
    for (int s = 0; s < sums; ++s) found[s + 1] += found[s];
    return found;
  }
};

/// The digits of one term of 16 vectors: of each its four, the lowest first.
template <class Scheme>
BITFOLD_AMX_CODE inline __m512i digits_of(const std::int32_t* from) {
  const __m512i x = _mm512_loadu_si512(from);
  if constexpr (!Scheme::shares) {
    const __m512i half = _mm512_set1_epi32(static_cast<int>(0x80808080));
    return _mm512_xor_si512(_mm512_add_epi32(x, half), half);
  } else {
    constexpr int half = 64 * (1 + (1 << 7) + (1 << 14) + (1 << 21));
    const __m512i y = _mm512_add_epi32(x, _mm512_set1_epi32(half)), digit = _mm512_set1_epi32(127);
    __m512i apart = _mm512_and_si512(y, digit);
    apart = _mm512_or_si512(apart,
                            _mm512_and_si512(_mm512_slli_epi32(y, 1), _mm512_slli_epi32(digit, 8)));
    apart = _mm512_or_si512(
        apart, _mm512_and_si512(_mm512_slli_epi32(y, 2), _mm512_slli_epi32(digit, 16)));
    apart = _mm512_or_si512(
        apart, _mm512_and_si512(_mm512_slli_epi32(y, 3), _mm512_slli_epi32(digit, 24)));
    return _mm512_sub_epi8(apart, _mm512_set1_epi8(64));
  }
}

/// Of the digits of four terms to each digit of all four.
BITFOLD_AMX_CODE inline void by_digits(const __m512i* terms, __m512i* digits) {
  const __m512i even = _mm512_set1_epi32(0x00ff00ff), first = _mm512_set1_epi32(0xffff);
  __m512i evens[2], odds[2];
  for (int k = 0; k < 2; ++k) {
    const __m512i x = terms[2 * k], y = terms[2 * k + 1];
    evens[k] =
        _mm512_or_si512(_mm512_and_si512(x, even), _mm512_slli_epi32(_mm512_and_si512(y, even), 8));
    odds[k] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(x, 8), even),
                              _mm512_andnot_si512(even, y));
  }
  digits[0] = _mm512_or_si512(_mm512_and_si512(evens[0], first), _mm512_slli_epi32(evens[1], 16));
  digits[1] = _mm512_or_si512(_mm512_and_si512(odds[0], first), _mm512_slli_epi32(odds[1], 16));
  digits[2] =
      _mm512_or_si512(_mm512_srli_epi32(evens[0], 16), _mm512_andnot_si512(first, evens[1]));
  digits[3] = _mm512_or_si512(_mm512_srli_epi32(odds[0], 16), _mm512_andnot_si512(first, odds[1]));
}

/// Rows of 16 integers become columns.
BITFOLD_AMX_CODE inline void transpose(__m512i* x) {
  __m512i y[16];
  for (int k = 0; k < 16; k += 4) {
    const __m512i a = _mm512_unpacklo_epi32(x[k], x[k + 1]),
                  b = _mm512_unpackhi_epi32(x[k], x[k + 1]),
                  c = _mm512_unpacklo_epi32(x[k + 2], x[k + 3]),
                  d = _mm512_unpackhi_epi32(x[k + 2], x[k + 3]);
    y[k] = _mm512_unpacklo_epi64(a, c);
    y[k + 1] = _mm512_unpackhi_epi64(a, c);
    y[k + 2] = _mm512_unpacklo_epi64(b, d);
    y[k + 3] = _mm512_unpackhi_epi64(b, d);
  }
  for (int k = 0; k < 4; ++k) {
    const __m512i a = _mm512_shuffle_i32x4(y[k], y[4 + k], 0x88),
                  b = _mm512_shuffle_i32x4(y[k], y[4 + k], 0xdd),
                  c = _mm512_shuffle_i32x4(y[8 + k], y[12 + k], 0x88),
                  d = _mm512_shuffle_i32x4(y[8 + k], y[12 + k], 0xdd);
    x[k] = _mm512_shuffle_i32x4(a, c, 0x88);
    x[4 + k] = _mm512_shuffle_i32x4(b, d, 0x88);
    x[8 + k] = _mm512_shuffle_i32x4(a, c, 0xdd);
    x[12 + k] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}

/// Of one vector's terms, its 16 groups of four: each digit of all.
template <class Scheme>
BITFOLD_AMX_CODE inline void by_digits_along(const std::int32_t* from, __m512i* digits) {
  const __m512i turned = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
  __m512i x[4];  // at 4 g + i digit i of group g
  for (int k = 0; k < 4; ++k)
    x[k] = _mm512_shuffle_epi8(digits_of<Scheme>(from + k * tile_side), turned);
  for (int i = 0; i < 4; i += 2) {
    const __m512i two = _mm512_add_epi32(
        _mm512_set1_epi32(i),
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29));
    const __m512i first = _mm512_permutex2var_epi32(x[0], two, x[1]),
                  second = _mm512_permutex2var_epi32(x[2], two, x[3]);
    digits[i] = _mm512_shuffle_i64x2(first, second, 0x44);
    digits[i + 1] = _mm512_shuffle_i64x2(first, second, 0xee);
  }
}

template <class Scheme>
BITFOLD_AMX_CODE inline void put_parts(const __m512i* digits, __m512i (*made)[tile_side],
                                       std::size_t at) {
  for (int i = 0, part = Scheme::digits; i < Scheme::digits; ++i) {
    made[i][at] = digits[i];
    for (int j = i + 1; Scheme::shares && j < Scheme::digits; ++j)
      made[part++][at] = _mm512_add_epi8(digits[i], digits[j]);
  }
}

template <int Parts, int Tiles, bool Transposed>
BITFOLD_AMX_CODE inline void put_tiles(__m512i (*made)[tile_side], int tile, std::int32_t* to) {
  for (int i = 0; i < Parts; ++i) {
    if constexpr (Transposed) transpose(made[i]);
    std::int32_t* const at = to + (i * Tiles + tile) * tile_words;
    for (int q = 0; q < tile_side; ++q) _mm512_storeu_si512(at + q * tile_side, made[i][q]);
  }
}

/// 64 terms at a time: part after part, the tiles of a panel beside one another.
template <class Scheme>
BITFOLD_AMX_CODE void pack_columns(const std::int32_t* from, std::size_t n, std::int32_t* to) {
  constexpr int parts = Scheme::parts;
  for (std::size_t begin = 0; begin < n;
       begin += tile_terms, to += parts * tiles_across * tile_words)
    for (int tile = 0; tile < tiles_across; ++tile) {
      __m512i made[parts][tile_side];
      for (std::size_t q = 0; q < tile_side; ++q) {
        __m512i terms[4], digits[4];
        for (std::size_t k = 0; k < 4; ++k) {
          const std::size_t p = begin + 4 * q + k;
          terms[k] = p < n ? digits_of<Scheme>(from + p * columns + tile * tile_side)
                           : _mm512_setzero_si512();
        }
        by_digits(terms, digits);
        put_parts<Scheme>(digits, made, q);
      }
      put_tiles<parts, tiles_across, false>(made, tile, to);
    }
}

/// The same of 64 terms of one vector after the other.
template <class Scheme, int Tiles, bool OfRows>
BITFOLD_AMX_CODE void pack_vectors(const std::int32_t* from, std::int32_t* to) {
  for (int tile = 0; tile < Tiles; ++tile) {
    __m512i made[Scheme::parts][tile_side];
    for (std::size_t v = 0; v < tile_side; ++v, from += tile_terms) {
      __m512i digits[4];
      by_digits_along<Scheme>(from, digits);
      put_parts<Scheme>(digits, made, v);
    }
    put_tiles<Scheme::parts, Tiles, !OfRows>(made, tile, to);
  }
}

/// One sum of products of parts.
template <class Scheme, int Tiles>
BITFOLD_AMX_CODE inline void multiply(const panel_pair* pairs, int count, std::size_t n, int sum,
                                      std::int32_t (*to)[columns]) {
  constexpr int pitch = columns * sizeof(std::int32_t);
  static constexpr auto products = Scheme::products();
  static constexpr auto begins = Scheme::begins();
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (Tiles == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int k = 0; k < count; ++k)
    for (int i = begins[sum]; i < begins[sum + 1]; ++i) {
      const std::int32_t* row = pairs[k].rows + products[i].left * Tiles * tile_words;
      const std::int32_t* column = pairs[k].columns + products[i].right * tiles_across * tile_words;
      for (std::size_t p = 0; p < n; p += tile_terms) {
        _tile_loadd(4, row, 64);
        _tile_loadd(6, column, 64);
        _tile_loadd(7, column + tile_words, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        if constexpr (Tiles == 2) {
          _tile_loadd(5, row + tile_words, 64);
          _tile_dpbssd(2, 5, 6);
          _tile_dpbssd(3, 5, 7);
        }
        row += Scheme::parts * Tiles * tile_words;
        column += Scheme::parts * tiles_across * tile_words;
      }
    }
  _tile_stored(0, to[0], pitch);
  _tile_stored(1, to[0] + tile_side, pitch);
  if constexpr (Tiles == 2) {
    _tile_stored(2, to[tile_side], pitch);
    _tile_stored(3, to[tile_side] + tile_side, pitch);
  }
}

/// Of sums of products of parts those of products of digits of each weight.
template <class Scheme>
BITFOLD_AMX_CODE inline void by_weights(const __m512i* sums, __m512i* weights) {
  for (int w = 0; w < Scheme::weights; ++w)
    weights[w] = !Scheme::shares                      ? sums[w]
                 : w == 0 || w == Scheme::weights - 1 ? _mm512_setzero_si512()
                                                      : sums[Scheme::digits + w - 1];
  for (int i = 0; Scheme::shares && i < Scheme::digits; ++i) {
    weights[2 * i] = _mm512_add_epi32(weights[2 * i], sums[i]);
    for (int j = 0; j < Scheme::digits; ++j)
      if (j != i) weights[i + j] = _mm512_sub_epi32(weights[i + j], sums[i]);
  }
}

template <class Scheme, int Tiles>
using digit_sums = std::int32_t[Scheme::sums][Tiles * tile_side][columns];

/// Each sum is of at most eight products of parts of each term.
template <int Digits, int DigitBits, int Tiles>
BITFOLD_AMX_CODE void add(const panel_pair* pairs, int count, std::size_t n, std::size_t,
                          bool fresh, tile_sums to) {
  using taken = scheme<Digits, DigitBits>;
  static_assert(8 * 128 * 128 * most_terms <= std::size_t{1} << 27);
  auto& sums = *reinterpret_cast<digit_sums<taken, Tiles>*>(to.room);
  _tile_loadconfig(&whole_tiles);
  for (int k = 0; k < taken::sums; ++k) multiply<taken, Tiles>(pairs, count, n, k, sums[k]);
  _tile_release();
  const __m512i below = _mm512_set1_epi64(0xffffffff);
  for (int r = 0; r < Tiles * tile_side; ++r)
    for (int c = 0; c < columns; c += tile_side) {
      __m512i all[taken::sums], weights[taken::weights];
      for (int k = 0; k < taken::sums; ++k) all[k] = _mm512_load_si512(&sums[k][r][c]);
      by_weights<taken>(all, weights);
      for (int half = 0; half < 2; ++half) {
        __m512i words[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};  // of 32 bits
        for (int w = 0; w < taken::weights; ++w) {
          const __m512i sum = _mm512_cvtepi32_epi64(half ? _mm512_extracti64x4_epi64(weights[w], 1)
                                                         : _mm512_castsi512_si256(weights[w]));
          const int place = DigitBits * w;
          words[place / 32] = _mm512_add_epi64(
              words[place / 32], _mm512_slli_epi64(sum, static_cast<unsigned>(place % 32)));
        }
        __m512i high = _mm512_add_epi64(words[1], _mm512_srai_epi64(words[0], 32)),
                low = _mm512_and_si512(words[0], below);
        const std::ptrdiff_t at = r * to.pitch + c + 8 * half;
        if (!fresh) {
          high = _mm512_add_epi64(high, _mm512_loadu_si512(to.high + at));
          low = _mm512_add_epi64(low, _mm512_loadu_si512(to.low + at));
        }
        _mm512_storeu_si512(to.high + at, high);
        _mm512_storeu_si512(to.low + at, low);
      }
    }
}

/// Whether the processor has it, and the system lets this process use it. BITFOLD_AMX=0 says no.
bool has_amx() {
  static const bool has = [] {
    const char* const wanted = std::getenv("BITFOLD_AMX");
    if (wanted && std::strcmp(wanted, "0") == 0) return false;
    constexpr unsigned tiles_and_int8 = 3u << 24;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tiles_and_int8) != tiles_and_int8)
      return false;
    constexpr long ask_for = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, ask_for, tile_data) == 0;
  }();
  return has;
}

template <int Digits, int DigitBits, int Tiles>
panel_kernels kernels_of() {
  using taken = scheme<Digits, DigitBits>;
  return {.tile_rows = Tiles * tile_side,
          .terms = tile_terms,
          .row_words = tile_side * taken::parts,
          .column_words = tile_side * taken::parts,
          .most_terms = most_terms,
          .room = sizeof(digit_sums<taken, Tiles>),
          .pack_columns = pack_columns<taken>,
          .pack_row_vectors = pack_vectors<taken, Tiles, true>,
          .pack_column_vectors = pack_vectors<taken, tiles_across, false>,
          .add = add<Digits, DigitBits, Tiles>};
}

/// What takes fewest products. (Magnitudes of B bits are at most 63 * 2^(B - 7), which digits of 7
/// bits from -64 to 63 reach, and of 8 bits.)
template <int Tiles>
panel_kernels kernels_of(int bits) {
  if (bits <= 8) return kernels_of<1, 8, Tiles>();
  if (bits <= 16) return kernels_of<2, 8, Tiles>();
  if (bits <= 21) return kernels_of<3, 7, Tiles>();
  if (bits <= 28) return kernels_of<4, 7, Tiles>();
  return kernels_of<4, 8, Tiles>();
}

}  // namespace

panel_kernels find_amx_kernels(int bits, std::uint64_t rows) {
  if (!has_amx()) return {};
  return rows > tile_side ? kernels_of<2>(bits) : kernels_of<1>(bits);
}

#else

panel_kernels find_amx_kernels(int, std::uint64_t) { return {}; }

#endif

}  // namespace bitfold::cpu
