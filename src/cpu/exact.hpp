// The seam between exact sums and the code compiled once per instruction set.
#pragma once

#include <cstddef>
#include <type_traits>

#include <bitfold/exact.hpp>

#include "backend.hpp"

namespace bitfold::cpu {

/// A sum as cells that overlap: whatever is added falls into one, or two, without carries. `most` deposits
/// fit into one of T's.
template <class T, int Degree>
struct cells {
  using total = exact::sum<T, Degree>;
  static constexpr int bits = Degree * (is_float(dtype_of<T>) ? exact::range<T>::mantissa + 1 : 64);
  using cell = std::conditional_t<bits <= 24, exact::word, exact::wide>;
  static constexpr int spacing = bits <= 24 ? 8 : 32;
  static constexpr std::size_t most = std::size_t{1} << 28;

  cell of[2][total::words * 64 / spacing] = {};
  unsigned flags = 0;

  void deposit(exact::wide m, int shift, bool negative) {
    put(static_cast<exact::word>(m), shift, negative);
    if constexpr (bits > 64) put(static_cast<exact::word>(m >> 64), shift + 64, negative);
  }
  void put(exact::word m, int shift, bool negative) {
    of[negative][shift / spacing] += cell{m} << (shift % spacing);
  }
  void add_to(total& s) const {
    for (const bool negative : {false, true})
      for (int i = 0; i < total::words * 64 / spacing; ++i)
        if (of[negative][i]) s.deposit(of[negative][i], i * spacing, negative);
    s.flags |= flags;
  }
};

/// What is summed, of elements of which type.
struct exact_terms {
  exact::term what;
  dtype type;
};

/// Adds n terms to `state`, the exact::sum_of the type and the term. In round to nearest, subnormals kept.
/// Says which target it was compiled for. Calls for parts of an array, and states of parts, may be merged
/// in any order.
using depositor = target (*)(inputs data, std::size_t n, void* state);

/// That of a target; null if this build does not hold it or this machine does not run it.
template <target>
depositor find_kernels_of(const exact_terms& t);
template <>
depositor find_kernels_of<target::scalar>(const exact_terms& t);
template <>
depositor find_kernels_of<target::avx2>(const exact_terms& t);
template <>
depositor find_kernels_of<target::avx512>(const exact_terms& t);

depositor find_depositor(target by, const exact_terms& t);

}  // namespace bitfold::cpu
