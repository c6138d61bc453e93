#include "strided.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

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

template <class T>
using pack [[gnu::vector_size(16)]] = T;

// The first, or else the second, halves of two packs, one element of each in turn.
template <bool Second, class T>
[[gnu::always_inline]] inline pack<T> interleaved(pack<T> a, pack<T> b) {
  constexpr int n = 16 / sizeof(T), i = Second ? n / 2 : 0;
  if constexpr (n == 2)
    return __builtin_shufflevector(a, b, i, i + 2);
  else if constexpr (n == 4)
    return __builtin_shufflevector(a, b, i, i + 4, i + 1, i + 5);
  else if constexpr (n == 8)
    return __builtin_shufflevector(a, b, i, i + 8, i + 1, i + 9, i + 2, i + 10, i + 3, i + 11);
  else
    return __builtin_shufflevector(a, b, i, i + 16, i + 1, i + 17, i + 2, i + 18, i + 3, i + 19,
                                   i + 4, i + 20, i + 5, i + 21, i + 6, i + 22, i + 7, i + 23);
}

// As many columns as a pack has elements, each a pack.
template <class T>
[[gnu::always_inline]] inline void transpose_square(const T* from, std::ptrdiff_t across, T* to,
                                                    std::ptrdiff_t pitch) {
  constexpr int n = 16 / sizeof(T);
  pack<T> v[n], w[n];
#pragma GCC unroll 16
  for (int c = 0; c < n; ++c) std::memcpy(&v[c], from + c * across, 16);
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (int c = 0; c < n / 2; ++c) {
      w[2 * c] = interleaved<false, T>(v[c], v[c + n / 2]);
      w[2 * c + 1] = interleaved<true, T>(v[c], v[c + n / 2]);
    }
#pragma GCC unroll 16
    for (int c = 0; c < n; ++c) v[c] = w[c];
  }
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) std::memcpy(to + r * pitch, &v[r], 16);
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

// Columns that lie one behind the other in memory (down is 1). Memory sees a few long streams; the
// next ones are asked for early, as they are mostly too far apart to be foreseen. (To ask for what
// is not there does nothing.)
template <class T>
void transpose(const rectangle<T> m) {
  constexpr std::ptrdiff_t n = 16 / sizeof(T), ahead = std::max<std::ptrdiff_t>(16, n);
  const std::ptrdiff_t across = m.across, pitch = m.pitch, rows = m.rows / n * n,
                       columns = m.columns / n * n,
                       bytes = rows * static_cast<std::ptrdiff_t>(sizeof(T));
  const T* from = m.from;
  T* to = m.to;
  for (std::ptrdiff_t c = 0; c < columns; c += n, from += n * across, to += n) {
    for (std::ptrdiff_t k = ahead; k < ahead + n; ++k) {
      const auto next = reinterpret_cast<std::uintptr_t>(from) +
                        static_cast<std::uintptr_t>(k * across) * sizeof(T);
      for (std::ptrdiff_t b = 0; b < bytes; b += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(next + static_cast<std::uintptr_t>(b)));
    }
    for (std::ptrdiff_t r = 0; r < rows; r += n)
      transpose_square(from + r, across, to + r * pitch, pitch);
  }
  copy_elements<T>({m.from + rows, 1, across, m.rows - rows, columns, m.to + rows * pitch, pitch});
  copy_elements<T>({from, 1, across, m.rows, m.columns - columns, to, pitch});
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

template <class T>
void copy_rectangle(const rectangle<T>& m) {
  if (m.across == 1)
    for (std::ptrdiff_t r = 0; r < m.rows; ++r)
      std::memcpy(m.to + r * m.pitch, m.from + r * m.down,
                  static_cast<std::size_t>(m.columns) * sizeof(T));
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
  with_bits(type, [&]<class T>(T) {
    // Runs of rows times runs of elements.
    for_each_run(
        rows, stride, row, count, [&](std::int64_t begin, std::int64_t down, std::uint64_t taken) {
          T* target = reinterpret_cast<T*>(to);
          for_each_run(columns, stride, first, n,
                       [&](std::int64_t at, std::int64_t across, std::uint64_t elements) {
                         copy_rectangle<T>({reinterpret_cast<const T*>(data) + begin + at, down,
                                            across, static_cast<std::ptrdiff_t>(taken),
                                            static_cast<std::ptrdiff_t>(elements), target,
                                            static_cast<std::ptrdiff_t>(pitch / sizeof(T))});
                         target += elements;
                       });
          to += taken * pitch;
        });
  });
}

}  // namespace bitfold::detail
