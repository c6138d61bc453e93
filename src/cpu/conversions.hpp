// Elements of float types become the numbers that are computed with, and these become elements.
#pragma once

#include <cstddef>

#include <bitfold/cpu.hpp>
#include <bitfold/row_functions.hpp>

#include "../strided.hpp"

namespace bitfold::cpu {

using detail::far_ahead;

/// Of n elements each: arith::widen, and arith::round_to. Memory is asked for the elements that lie
/// `ahead` bytes further on, too.
template <class T>
struct conversions {
  using A = row::accumulator<T>;
  void (*widen)(const T* from, std::size_t n, A* to, std::size_t ahead);
  void (*round)(const A* from, std::size_t n, T* to, std::size_t ahead);
};
template <class T>
conversions<T> conversions_for(target used);

/// Writes n elements of a float type as doubles: the first at `from`, and so many bytes apart,
/// which are aligned to nothing. Returns whether all of them are finite.
using element_reader = bool (*)(const std::byte* from, std::int64_t apart, std::size_t n,
                                double* to);
element_reader reader_of(dtype type, target used);

/// Rounds n doubles, or exact sums of two where `low` is not null, to a float type, as
/// arith::round_to and round_sum_to do; `to` may be aligned to nothing.
using double_rounding = void (*)(const double* high, const double* low, std::size_t n, void* to);
double_rounding rounding_of_doubles(dtype to, target used);

}  // namespace bitfold::cpu
