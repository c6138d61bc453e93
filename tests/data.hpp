// Test arrays: seeded, the same on every platform, of any dtype.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <bitfold/reduction.hpp>

namespace bitfold::test {

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
struct random_bits {
  std::uint64_t state;
  std::uint64_t operator()() {
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
};

enum class kind {
  near_one,  ///< magnitudes within a few binades, both signs: every addition rounds
  any_bits,  ///< every bit pattern, but no inf or nan
  special,   ///< near_one strewn with nan, inf, -0 and subnormals
  minus_zero,
};
inline constexpr kind all_kinds[] = {kind::near_one, kind::any_bits, kind::special,
                                     kind::minus_zero};
inline const char* name(kind k) {
  constexpr const char* names[] = {"near_one", "any_bits", "special", "minus_zero"};
  return names[static_cast<int>(k)];
}

/// n elements of type t as bytes.
inline std::vector<std::byte> make_data(dtype t, kind k, std::size_t n, std::uint64_t seed) {
  const std::size_t size = size_of(t);
  std::vector<std::byte> out(n * size);
  random_bits next{seed * 1000003 + static_cast<std::uint64_t>(t) * 17 +
                   static_cast<std::uint64_t>(k)};
  // Of the float formats: the bit of the exponent's end, and its width.
  const int mantissa = t == dtype::f16 ? 10 : t == dtype::bf16 ? 7 : t == dtype::f32 ? 23 : 52;
  const int width = static_cast<int>(8 * size);
  const std::uint64_t sign = 1ull << (width - 1), infinity = (sign - 1) & ~((1ull << mantissa) - 1);
  const std::uint64_t one = infinity >> 1 & ~((1ull << mantissa) - 1);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t bits = next();
    if (is_float(t)) {
      const std::uint64_t r = next();
      if (k == kind::any_bits) {
        if ((bits & infinity) == infinity) bits ^= 1ull << mantissa;
      } else if (k == kind::minus_zero) {
        bits = sign;
      } else {
        bits = (bits & (sign | ((1ull << mantissa) - 1))) | (one - ((r & 3) << mantissa));
        if (k == kind::special) {
          switch (r >> 4 & 255) {
            case 0: bits = infinity | (bits & sign); break;
            case 1: bits = infinity | 1 | (bits & sign); break;      // a signalling nan
            case 2: bits = (bits & sign); break;                     // a zero
            case 3: bits &= sign | ((1ull << mantissa) - 1); break;  // a subnormal
            case 4: bits = (infinity - 1) | (bits & sign); break;    // the largest
          }
          // Most special values alone, so that they don't all hide behind one nan.
          if ((r >> 4 & 255) < 2 && (r >> 12 & 15) != 0) bits = sign;
        }
      }
    }
    std::memcpy(out.data() + i * size, &bits, size);
  }
  return out;
}

/// Every operation on dtype t, by every method and accumulator, with the default output.
inline std::vector<reduction> reductions_of_all_ops(dtype t) {
  std::vector<reduction> out;
  for (const op_info& op : all_op_infos) {
    const bool adds = op.types == typing::additive || op.types == typing::real;
    for (const auto m : methods_of(op.id)) {
      out.push_back(make_reduction(op.id, m, t));
      if (adds && is_float(t) && t != dtype::f64 && m != method_id::exact)
        out.push_back(make_reduction(op.id, m, t, dtype::f64));
    }
  }
  return out;
}

/// The accumulators that sums of dtype t by that method can be asked for with.
inline std::vector<std::optional<dtype>> accumulators_of(dtype t, method_id m) {
  if (m == method_id::exact) return {std::nullopt};
  if (!is_float(t)) return {is_signed_int(t) ? dtype::i64 : dtype::u64};
  if (t == dtype::f64) return {dtype::f64};
  return {dtype::f32, dtype::f64};
}

/// Every reduction that dtype t takes: methods, accumulators, output types.
inline std::vector<reduction> all_reductions(dtype t) {
  std::vector<reduction> out;
  for (const auto& m : all_methods) {
    for (const auto acc : accumulators_of(t, m.id))
      for (dtype o : all_dtypes)
        if (is_float(o) || !is_float(t)) out.push_back(make_reduction(op_id::sum, m.id, t, acc, o));
  }
  return out;
}

inline std::string describe(const reduction& r, std::size_t n) {
  return std::string(name(r.op())) + " " + std::string(name(r.method())) +
         " in=" + std::string(name(r.in())) + " acc=" + std::string(name(r.acc())) +
         " out=" + std::string(name(r.out())) + " n=" + std::to_string(n);
}

/// Lengths around every boundary of the order.
inline std::vector<std::size_t> boundary_lengths() {
  constexpr std::size_t W = order::lanes, B = order::leaf;
  std::vector<std::size_t> out{0,           1,         2,          3,         5,         8,
                               W - 1,       W,         W + 1,      2 * W - 1, 2 * W + 5, B - W,
                               B - 1,       B,         B + 1,      B + W - 1, B + W,     2 * B - 1,
                               2 * B,       2 * B + 1, 3 * B + 7,  4 * B - 1, 4 * B,     4 * B + 1,
                               7 * B + 100, 8 * B - 3, 15 * B + 1, 16 * B,    31 * B + W};
  for (std::size_t p = 1 << 12; p <= 1 << 14; p *= 2)
    for (std::size_t n : {p - 1, p, p + 1}) out.push_back(n);
  return out;
}

}  // namespace bitfold::test
