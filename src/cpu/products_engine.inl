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

/// A multiplication takes the even lanes of a vector, which hold its first columns; the odd ones
/// hold the others.
inline int column_place(int column) {
  const int in = column % lanes;
  return column - in + (in < half ? 2 * in : 2 * (in - half) + 1);
}

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

inline void add(const panel_pair* pairs, int count, std::size_t n, std::size_t run, tile_sums to) {
  const wide w;
  const auto lower = hn::Set(w, 0xffffffff);
  for (std::size_t begin = 0; begin < n; begin += run) {
    const std::size_t end = std::min(n, begin + run);
    sums s;
    BITFOLD_UNROLL
    for (int r = 0; r < rows; ++r) BITFOLD_UNROLL
    for (int v = 0; v < 2 * vectors; ++v) s[r][v] = hn::Zero(w);
    for (int k = 0; k < count; ++k) add_terms(pairs[k], begin, end, s);
    BITFOLD_UNROLL
    for (int r = 0; r < rows; ++r) BITFOLD_UNROLL
    for (int v = 0; v < 2 * vectors; ++v) {
      const std::ptrdiff_t at = r * to.pitch + v * half;
      hn::StoreU(hn::Add(hn::LoadU(w, to.high + at), hn::ShiftRight<32>(s[r][v])), w, to.high + at);
      hn::StoreU(hn::Add(hn::LoadU(w, to.low + at), hn::And(s[r][v], lower)), w, to.low + at);
    }
  }
}

}  // namespace products

inline product_kernels find(const product_request&) {
  return {products::rows,        products::vectors * products::lanes,
          elements_of,           products::column_place,
          products::add,         sums_as_doubles<true>,
          sums_as_doubles<false>};
}
