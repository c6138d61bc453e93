// For the tests that ask whether sums, inputs and conversions are true.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>

#include <bitfold/reference.hpp>

#include "accuracy/bounds.hpp"
#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "tests/catch.hpp"
#include "tests/float_reductions.hpp"

namespace bitfold::test::truth {

using namespace accuracy;
using boost::multiprecision::cpp_int;

inline constexpr std::size_t lanes = order::lanes, leaf = order::leaf;
inline constexpr std::array<std::size_t, 11> sizes{
    1, 2, 3, lanes - 1, lanes, lanes + 1, leaf - 1, leaf, leaf + 1, 3 * leaf + 17, 100000};

template <class T>
scalar rounded(double x) {
  return scalar_of(arith::round_to<T>(x));
}

template <class T>
exact_sum sum_of(const std::vector<T>& x) {
  return sum_exactly(dtype_of<T>, x.data(), x.size());
}

inline scalar reduce(method_id method, dtype in, dtype acc, dtype out,
                     const std::vector<std::byte>& x) {
  return reference(make_reduction(op_id::sum, method, in, acc, out), x.data(),
                   x.size() / size_of(in));
}

// A finite float times 2^1074, as an integer, straight from its bits.
inline cpp_int as_integer(dtype t, std::uint64_t bits) {
  const float_format f = format_of(t);
  const int stored = f.precision - 1, width = 8 * static_cast<int>(size_of(t));
  const std::uint64_t rest = bits & ((1ull << (width - 1)) - 1);
  const auto biased = static_cast<int>(rest >> stored);
  cpp_int k = rest & ((1ull << stored) - 1);
  if (biased > 0) k += cpp_int(1) << stored;
  k <<= f.min_exponent + 1074 + std::max(biased, 1) - 1;
  return bits >> (width - 1) ? cpp_int(-k) : k;
}

inline bool is_finite_pattern(dtype t, std::uint64_t bits) { return isfinite(value_of({t, bits})); }

}  // namespace bitfold::test::truth
