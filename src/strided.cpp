#include "strided.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace bitfold::detail {
namespace {

// Calls run(offset, stride, count) for the positions first, ..., first + n - 1 of some axes: once
// for each run along the last axis.
template <class Run>
void for_each_run(const axes& a, std::int64_t axes::axis::* stride, std::uint64_t first,
                  std::uint64_t n, Run run) {
  if (a.rank == 0) return run(std::int64_t{0}, std::int64_t{0}, n);
  const axes::axis& last = a.dims[a.rank - 1];
  std::uint64_t digit[max_axes];
  std::int64_t at = 0;
  for (int k = a.rank - 1; k >= 0; --k) {
    digit[k] = first % a.dims[k].extent;
    first /= a.dims[k].extent;
    at += static_cast<std::int64_t>(digit[k]) * (a.dims[k].*stride);
  }
  while (n > 0) {
    const std::uint64_t here = std::min(n, last.extent - digit[a.rank - 1]);
    run(at, last.*stride, here);
    n -= here;
    at += static_cast<std::int64_t>(here) * (last.*stride);
    digit[a.rank - 1] += here;
    for (int k = a.rank - 1; k > 0 && digit[k] == a.dims[k].extent; --k) {
      at += a.dims[k - 1].*stride - static_cast<std::int64_t>(digit[k]) * (a.dims[k].*stride);
      digit[k] = 0;
      ++digit[k - 1];
    }
  }
}

// Element (r, c) is at from + r * down + c * across, at any alignment, and goes to to + r * pitch +
// c. Strides are in elements.
template <class T>
struct rectangle {
  const T* from;
  std::ptrdiff_t down, across;
  std::ptrdiff_t rows, columns;
  T* to;
  std::ptrdiff_t pitch;
};

template <class T, int Bytes>
struct packed {
  typedef T type [[gnu::vector_size(Bytes)]];
};
template <class T, int Bytes>
using pack = typename packed<T, Bytes>::type;
template <class T>
constexpr int square = 16 / sizeof(T);  // elements in 16 bytes

// Of each 16 bytes of two packs the first halves, or else the second, one element of each in turn.
template <class T, int Bytes, bool Second, std::size_t... I>
[[gnu::always_inline]] inline void interleave(const pack<T, Bytes>& a, const pack<T, Bytes>& b,
                                              pack<T, Bytes>& to, std::index_sequence<I...>) {
  constexpr int n = square<T>;
  to = __builtin_shufflevector(
      a, b,
      (static_cast<int>(I) / n * n + (Second ? n / 2 : 0) + static_cast<int>(I) % n / 2 +
       (I % 2 ? Bytes / int{sizeof(T)} : 0))...);
}
// 16 bytes from p on, and, of 32, those at q too.
template <class T, std::size_t... I>
[[gnu::always_inline]] inline void load(const T* p, const T*, pack<T, 16>& to,
                                        std::index_sequence<I...>) {
  std::memcpy(&to, p, 16);
}
template <class T, std::size_t... I>
[[gnu::always_inline]] inline void load(const T* p, const T* q, pack<T, 32>& to,
                                        std::index_sequence<I...>) {
  pack<T, 16> a, b;
  std::memcpy(&a, p, 16);
  std::memcpy(&b, q, 16);
  to = __builtin_shufflevector(a, b, static_cast<int>(I)...);
}

// Columns that lie `across` apart, 16 bytes of each, to rows that are as long as a pack: the first
// `rows` of them.
template <class T, int Bytes>
[[gnu::always_inline]] inline void transpose_square(const T* from, std::ptrdiff_t across, T* to,
                                                    std::ptrdiff_t pitch,
                                                    std::ptrdiff_t rows = square<T>) {
  constexpr int n = square<T>;
  constexpr auto all = std::make_index_sequence<Bytes / sizeof(T)>();
  pack<T, Bytes> v[n], w[n];
#pragma GCC unroll 16
  for (int c = 0; c < n; ++c) load<T>(from + c * across, from + (n + c) * across, v[c], all);
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (int c = 0; c < n / 2; ++c) {
      interleave<T, Bytes, false>(v[c], v[c + n / 2], w[2 * c], all);
      interleave<T, Bytes, true>(v[c], v[c + n / 2], w[2 * c + 1], all);
    }
#pragma GCC unroll 16
    for (int c = 0; c < n; ++c) v[c] = w[c];
  }
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r)
    if (r < rows) std::memcpy(to + r * pitch, &v[r], Bytes);
}

// One by one, in rectangles that stay in the first-level cache.
template <class T>
void copy_elements(const rectangle<T>& m) {
  const std::ptrdiff_t apart = std::max<std::ptrdiff_t>(1, std::abs(m.across)) *
                               static_cast<std::ptrdiff_t>(sizeof(T)),
                       side = 16, width = std::max(side, 16384 / apart);
  for (std::ptrdiff_t i = 0; i < m.rows; i += side)
    for (std::ptrdiff_t j = 0; j < m.columns; j += width)
      for (std::ptrdiff_t r = i; r < std::min(m.rows, i + side); ++r) {
        const T* from = m.from + r * m.down + j * m.across;
        T* const to = m.to + r * m.pitch;
        const std::ptrdiff_t across = m.across, end = std::min(m.columns, j + width);
        for (std::ptrdiff_t c = j; c < end; ++c, from += across)
          std::memcpy(to + c, from, sizeof(T));
      }
}

template <class T>
std::uintptr_t address_at(const T* from, std::ptrdiff_t offset) {
  return reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(offset) * sizeof(T);
}

// Columns that lie one behind the other in memory (down is 1), as far as packs go; says how far.
// Memory sees a few long streams; the next ones are asked for early, as they are mostly too far
// apart to be foreseen.
struct extents {
  std::ptrdiff_t rows, columns;  // whole packs;
  std::ptrdiff_t last_columns;   // and of the rows that are left over
};
template <class T, int Bytes>
[[gnu::always_inline]] inline extents transpose_packs(const rectangle<T>& m) {
  constexpr std::ptrdiff_t n = square<T>, width = Bytes / sizeof(T),
                           ahead = std::max<std::ptrdiff_t>(16, width), near = 1024 / sizeof(T);
  const std::ptrdiff_t across = m.across, pitch = m.pitch, rows = m.rows / n * n,
                       last_rows = m.rows - rows, columns = m.columns / width * width;
  // A pack reads over the end of few rows: into columns that follow closely, if there are any.
  const std::ptrdiff_t room = (m.columns - 1) * across + last_rows - n;
  const std::ptrdiff_t last_columns = last_rows > 0 && across > 0 && across <= near && room >= 0
                                          ? std::min(columns, (room / across + 1) / width * width)
                                          : 0;
  const auto bytes = static_cast<std::size_t>(m.rows) * sizeof(T);
  const bool packed =  // columns without much between them
      across > 0 && across <= std::max<std::ptrdiff_t>(m.rows, 64 / sizeof(T));
  // Of long ones as much is asked for as is read: of many lines at once most would wait.
  const bool as_read = packed && rows > near / 4;
  const T* from = m.from;
  T* to = m.to;
  for (std::ptrdiff_t c = 0; c < columns; c += width, from += width * across, to += width) {
    if (packed && !as_read)
      foresee(address_at(from, std::max(near, 2 * width * across)),
              static_cast<std::size_t>(width * across) * sizeof(T));
    else if (!packed)
      for (std::ptrdiff_t k = ahead; k < ahead + width; ++k)
        foresee(address_at(from, k * across), bytes);
    for (std::ptrdiff_t r = 0; r < rows; r += n) {
      if (as_read) foresee(address_at(from, width * (across + r)), n * width * sizeof(T));
      transpose_square<T, Bytes>(from + r, across, to + r * pitch, pitch);
    }
    if (c < last_columns)
      transpose_square<T, Bytes>(from + rows, across, to + rows * pitch, pitch, last_rows);
  }
  return {rows, columns, last_columns};
}
#if defined(__x86_64__) || defined(_M_X64)
template <class T>
[[gnu::target("avx2")]] extents transpose_with_avx2(const rectangle<T>& m) {
  return transpose_packs<T, 32>(m);
}
#endif
template <class T>
extents transpose_here(const rectangle<T>& m) {
#if defined(__x86_64__) || defined(_M_X64)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return transpose_with_avx2(m);
#endif
  return transpose_packs<T, 16>(m);
}
template <class T>
void transpose(const rectangle<T>& m) {
  const auto [rows, columns, last] = transpose_here(m);
  copy_elements<T>({m.from + rows + last * m.across, 1, m.across, m.rows - rows, columns - last,
                    m.to + rows * m.pitch + last, m.pitch});
  copy_elements<T>({m.from + columns * m.across, 1, m.across, m.rows, m.columns - columns,
                    m.to + columns, m.pitch});
}

// Rows whose elements are a known stride apart, which compilers make vectors of.
template <std::ptrdiff_t Across, class T>
void copy_rows(const rectangle<T>& m) {
  for (std::ptrdiff_t r = 0; r < m.rows; ++r) {
    const T* const from = m.from + r * m.down;
    T* __restrict const to = m.to + r * m.pitch;
    for (std::ptrdiff_t c = 0; c < m.columns; ++c)
      std::memcpy(to + c, from + c * Across, sizeof(T));
  }
}

// A long run is asked for as it is copied, a short one some runs ahead.
template <class T>
constexpr bool is_long(std::ptrdiff_t elements) {
  return elements * static_cast<std::ptrdiff_t>(sizeof(T)) > 2048;
}

// Copies most of a long run, in pieces, and says how many elements that is. (Not inlined: g++ would
// know that the rest is short, and copy that word by word.)
template <class T>
[[gnu::noinline]] std::ptrdiff_t copy_pieces(const T* from, std::ptrdiff_t n, T* to) {
  constexpr std::ptrdiff_t piece = 1024 / sizeof(T);
  std::ptrdiff_t i = 0;
  for (; n - i >= 2 * piece; i += piece) {
    foresee(address_at(from, i + 2 * piece), piece * sizeof(T));
    std::memcpy(to + i, from + i, piece * sizeof(T));
  }
  return i;
}

template <class T>
void copy_rectangle(const rectangle<T>& m) {
  if (m.across == 1)
    for (std::ptrdiff_t r = 0; r < m.rows; ++r) {
      const T* const from = m.from + r * m.down;
      T* const to = m.to + r * m.pitch;
      const std::ptrdiff_t copied = is_long<T>(m.columns) ? copy_pieces(from, m.columns, to) : 0;
      std::memcpy(to + copied, from + copied,
                  static_cast<std::size_t>(m.columns - copied) * sizeof(T));
    }
  else if (m.across == -1)
    copy_rows<-1>(m);
  else if (m.across == 2)
    copy_rows<2>(m);
  else if (m.down == 1)
    transpose(m);
  else if (m.down == -1)
    transpose<T>({m.from - (m.rows - 1), 1, m.across, m.rows, m.columns,
                  m.to + (m.rows - 1) * m.pitch, -m.pitch});
  else
    copy_elements(m);
}

}  // namespace

void offsets_of(const axes& a, std::uint64_t first, std::uint64_t n, std::ptrdiff_t* x,
                std::ptrdiff_t* y) {
  const auto put = [&](std::int64_t axes::axis::* stride, std::ptrdiff_t* to) {
    for_each_run(a, stride, first, n,
                 [&](std::int64_t at, std::int64_t across, std::uint64_t count) {
                   for (; count > 0; --count, at += across) *to++ = at;
                 });
  };
  put(&axes::axis::x, x);
  if (y) put(&axes::axis::y, y);
}

void strided_matrix::copy(std::uint64_t row, std::uint64_t count, std::uint64_t first,
                          std::uint64_t n, std::byte* to, std::size_t pitch) const {
  // From a short run to one that follows it: memory cannot foresee these.
  std::int64_t ahead = 0;
  if (columns.rank > 1) {
    const std::uint64_t run_bytes = columns.dims[columns.rank - 1].extent * size_of(type);
    const auto runs = std::max<std::uint64_t>(2, far_ahead / std::max<std::uint64_t>(1, run_bytes));
    ahead = static_cast<std::int64_t>(runs) * (columns.dims[columns.rank - 2].*stride);
  }
  with_bits(type, [&]<class T>(T) {
    const auto to_next = static_cast<std::ptrdiff_t>(pitch / sizeof(T));
    // Runs of rows times runs of elements.
    for_each_run(
        rows, stride, row, count, [&](std::int64_t begin, std::int64_t down, std::uint64_t taken) {
          T* target = reinterpret_cast<T*>(to);
          for_each_run(columns, stride, first, n,
                       [&](std::int64_t at, std::int64_t across, std::uint64_t elements) {
                         const T* const from = reinterpret_cast<const T*>(data) + begin + at;
                         const rectangle<T> m{from,
                                              down,
                                              across,
                                              static_cast<std::ptrdiff_t>(taken),
                                              static_cast<std::ptrdiff_t>(elements),
                                              target,
                                              to_next};
                         if (ahead != 0 && across == 1 && !is_long<T>(m.columns))
                           for (std::ptrdiff_t r = 0; r < m.rows; ++r)
                             foresee(address_at(from, ahead + r * down), elements * sizeof(T));
                         copy_rectangle(m);
                         target += elements;
                       });
          to += taken * pitch;
        });
  });
}

}  // namespace bitfold::detail
