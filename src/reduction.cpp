#include <bitfold/reduction.hpp>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "fp_environment.hpp"

namespace bitfold {
namespace {

std::string text(std::string_view s) { return std::string(s); }

template <class T>
T bits_as(std::uint64_t bits) {
  T v;
  std::memcpy(&v, &bits, sizeof v);  // little endian, checked below
  return v;
}
static_assert(std::endian::native == std::endian::little, "bitfold: big-endian hosts are not supported");

template <class T>
std::string shortest(T v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}

// 16-bit floats have no to_chars: the decimal of fewest digits that reads back as the same bits. It is
// the one nearest to v or, where v is a power of two and more values above it than below round to it,
// the one nearest to the middle of those values.
template <class T>
std::string shortest_16(T v) {
  const double d = arith::widen<double>(v);
  if (d == 0) return shortest(d);
  const auto neighbour = [&](int step) {
    return arith::widen<double>(T{static_cast<std::uint16_t>(v.bits + step)});
  };
  const double middle = (neighbour(-1) + 2 * d + neighbour(+1)) / 4;
  for (int digits = 1;; ++digits)
    for (double x : {d, middle}) {
      char buffer[64];
      const auto end =
          std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::general, digits).ptr;
      double back = 0;
      std::from_chars(buffer, end, back);
      if (arith::round_to<T>(back).bits == v.bits) return shortest(back);
    }
}

}  // namespace

reduction make_reduction(op_id op, method_id method, dtype in, std::optional<dtype> acc,
                         std::optional<dtype> out) {
  reduction r{op, method, in, in, in};
  if (is_float(in)) {
    r.acc = in == dtype::f64 ? dtype::f64 : dtype::f32;
    if (acc) {
      if (*acc != dtype::f32 && *acc != dtype::f64)
        throw error(errc::usage, "acc: accumulators are f32 or f64, not " + text(name(*acc)));
      if (*acc < in)
        throw error(errc::usage, "acc: " + text(name(*acc)) + " is narrower than the input type " +
                                     text(name(in)));
      r.acc = *acc;
    }
    if (out) r.out = *out;
    if (!is_float(r.out))
      throw error(errc::usage, "out dtype: " + text(name(r.out)) +
                                   " is an integer type, but the input type " + text(name(in)) +
                                   " is not");
  } else {
    r.acc = is_signed_int(in) ? dtype::i64 : dtype::u64;
    if (acc && *acc != r.acc)
      throw error(errc::usage, "acc: integers accumulate in " + text(name(r.acc)) +
                                   " (modulo 2^64), not " + text(name(*acc)));
    r.out = out.value_or(r.acc);
  }
  return r;
}

scalar load_scalar(dtype type, const void* p) {
  scalar v{type, 0};
  std::memcpy(&v.bits, p, size_of(type));
  return v;
}

void store_scalar(scalar value, void* p) { std::memcpy(p, &value.bits, size_of(value.type)); }

std::string to_hex(scalar value) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%0*llx", static_cast<int>(2 * size_of(value.type)),
                static_cast<unsigned long long>(value.bits));
  return buffer;
}

namespace {
BITFOLD_OPAQUE std::string text_of(scalar value) {
  return visit(value.type, [&]<class T>(std::type_identity<T>) {
    const T v = bits_as<T>(value.bits);
    if constexpr (std::is_integral_v<T>) {
      return std::to_string(v);
    } else {
      const double d = arith::widen<double>(v);
      if (std::isnan(d)) return text("nan");
      if (std::isinf(d)) return text(d > 0 ? "inf" : "-inf");
      if constexpr (sizeof(T) == 2)
        return shortest_16(v);
      else
        return shortest(v);
    }
  });
}
}  // namespace

std::string to_string(scalar value) {
  const detail::fp_environment guard;
  return text_of(value);
}

}  // namespace bitfold
