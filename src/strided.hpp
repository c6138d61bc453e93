// Elements that lie at the strides of some axes: their offsets, and copies of them that lie in
// rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include <bitfold/dtype.hpp>
#include <bitfold/strides.hpp>

namespace bitfold::detail {

/// Calls f with a type of the size of the elements, which can be copied.
template <class F>
auto with_bits(dtype type, F&& f) {
  switch (size_of(type)) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

/// Memory is asked for what is read or written so many bytes further on: alone it hardly keeps up.
inline constexpr std::size_t far_ahead = 2048;
/// Asks memory for bytes that are soon read. (To ask for what is not there does nothing.)
[[gnu::always_inline]] inline void foresee(std::uintptr_t begin, std::size_t bytes) {
  for (std::uintptr_t line = begin / 64 * 64; line < begin + bytes; line += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(line));
}

/// The offsets of positions first, ..., first + n - 1 of some axes, of y too if that is not null.
/// In elements.
void offsets_of(const axes& a, std::uint64_t first, std::uint64_t n, std::ptrdiff_t* x,
                std::ptrdiff_t* y);

/// Some rows of a matrix of elements: row r is at position r of `rows`, and its element c at
/// position c of `columns`, counted from there; in the strides of one of two inputs.
struct strided_matrix {
  dtype type;
  const std::byte* data;
  std::int64_t axes::axis::* stride;
  const axes &rows, &columns;

  /// Copies elements first, ..., first + n - 1 of rows row, ..., row + count - 1, to rows that are
  /// `pitch` bytes apart.
  void copy(std::uint64_t row, std::uint64_t count, std::uint64_t first, std::uint64_t n,
            std::byte* to, std::size_t pitch) const;
};

}  // namespace bitfold::detail
