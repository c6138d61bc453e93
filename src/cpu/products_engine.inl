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

template <class T>
magnitudes measure(const void* elements, std::size_t n) {
  using bits = bits_of<T>;
  const simd::tag<bits> d;
  const T* const x = static_cast<const T*>(elements);
  const auto magnitude = hn::Set(d, magnitude_bits<T>), infinity = hn::Set(d, infinity_bits<T>);
  auto finite = hn::Zero(d), any = hn::Zero(d);
  std::size_t p = 0;
  for (; p + simd::width<bits> <= n; p += simd::width<bits>) {
    const auto a = hn::And(hn::LoadU(d, reinterpret_cast<const bits*>(x + p)), magnitude);
    finite = hn::Max(finite, hn::IfThenElseZero(hn::Lt(a, infinity), a));
    any = hn::Max(any, a);
  }
  largest_bits<T> l;
  bits lanes_of[2 * simd::width<bits>];
  hn::StoreU(finite, d, lanes_of);
  hn::StoreU(any, d, lanes_of + simd::width<bits>);
  for (int k = 0; k < simd::width<bits>; ++k) {
    l.finite = std::max(l.finite, lanes_of[k]);
    l.any = std::max(l.any, lanes_of[simd::width<bits> + k]);
  }
  l.add(x + p, n - p);
  return l.result();
}

/// In floats where one digit is wanted and the elements are no doubles: its integers below 2^29
/// are exact there as well.
template <class T>
void scale(const void* elements, std::size_t n, int s, std::int32_t* high, std::int32_t* low) {
  const T* const x = static_cast<const T*>(elements);
  std::size_t p = 0;
  if (low || std::is_same_v<T, double>) {
    const simd::tag<double> d;
    const hn::Rebind<std::int32_t, simd::tag<double>> to;
    const scale_factors<double> f(s);
    const auto first = hn::Set(d, f.first), second = hn::Set(d, f.second);
    for (; p + simd::width<double> <= n; p += simd::width<double>) {
      const auto a = simd::load<double>(x + p);
      const auto y = hn::IfThenElseZero(hn::IsFinite(a), hn::Mul(hn::Mul(a, first), second));
      if (!low) {
        hn::StoreU(hn::DemoteTo(to, hn::Round(y)), to, high + p);
        continue;
      }
      const auto h = hn::Round(hn::Mul(y, hn::Set(d, 0x1p-29)));  // as in scale_floats
      const auto l = hn::Round(hn::Sub(y, hn::Mul(h, hn::Set(d, 0x1p29))));
      hn::StoreU(hn::DemoteTo(to, h), to, high + p);
      hn::StoreU(hn::DemoteTo(to, l), to, low + p);
    }
  } else if constexpr (!std::is_same_v<T, double>) {
    const simd::tag<float> d;
    const scale_factors<float> f(s);
    const auto first = hn::Set(d, f.first), second = hn::Set(d, f.second);
    for (; p + simd::width<float> <= n; p += simd::width<float>) {
      const auto a = simd::load<float>(x + p);
      const auto y = hn::IfThenElseZero(hn::IsFinite(a), hn::Mul(hn::Mul(a, first), second));
      hn::StoreU(hn::NearestInt(y), narrow(), high + p);
    }
  }
  scale_floats(x + p, n - p, scale_factors<double>(s), high + p, low ? low + p : nullptr);
}

inline product_elements elements_of(dtype type) {
  return visit(type, []<class T>(std::type_identity<T>) -> product_elements {
    if constexpr (std::is_integral_v<T>)
      return {nullptr, copy_integers<T>};
    else
      return {measure<T>, scale<T>};
  });
}

}  // namespace products

inline product_kernels find(const product_request&) {
  return {products::rows,        products::vectors * products::lanes,
          products::elements_of, products::column_place,
          products::add,         sums_as_doubles<true>,
          sums_as_doubles<false>};
}
