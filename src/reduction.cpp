#include <bitfold/reduction.hpp>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "dispatch.hpp"
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
static_assert(std::endian::native == std::endian::little,
              "bitfold: big-endian hosts are not supported");

template <class T>
std::string shortest(T v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}

// 16-bit floats have no to_chars: the decimal of fewest digits that reads back as the same bits. It
// is the one nearest to v or, where v is a power of two and more values above it than below round
// to it, the one nearest to the middle of those values.
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

namespace {

// Why make_reduction refuses what op.hpp says that an operation does not take.

std::string why_no_method(op_id op, method_id method) {
  const std::string subject = "method: " + text(name(op));
  if (method == method_id::exact) return subject + " has no exact form";
  return subject + " takes none" + (info(op).has_exact ? " but exact" : "");
}

std::string why_no_acc(op_id op, std::optional<method_id> method, dtype in, dtype acc) {
  if (method == method_id::exact) return "acc: method exact has no accumulator to choose";
  if (!accumulates(op)) return "acc: " + text(name(op)) + " has no accumulator to choose";
  std::string taken;
  for (const dtype t : all_dtypes)
    if (takes_acc(op, method, in, t)) taken += (taken.empty() ? "" : " or ") + text(name(t));
  const bool wraps = !is_float(default_acc(op, in));
  return "acc: " + text(name(op)) + " of " + text(name(in)) + " accumulates in " + taken +
         (wraps ? " (modulo 2^64)" : "") + ", not " + text(name(acc));
}

std::string why_no_out(op_id op, dtype in, dtype out) {
  if (accumulates(op))
    return "out dtype: " + text(name(out)) + " is an integer type, but " + text(name(op)) + " of " +
           text(name(in)) + " is not";
  return "out dtype: " + text(name(op)) + " of " + text(name(in)) + " gives " +
         text(name(default_out(op, in))) + ", not " + text(name(out));
}

}  // namespace

reduction make_reduction(op_id op, std::optional<method_id> method, dtype in,
                         std::optional<dtype> acc, std::optional<dtype> out, int ddof) {
  const auto refuse = [](const std::string& why) { throw error(errc::usage, why); };
  // An enumeration may hold any number, as of a cast.
  const auto check_known = [&](const char* argument, auto id, const auto& all) {
    const auto number = static_cast<std::size_t>(id);
    if (number >= all.size())
      refuse(argument + (": " + std::to_string(number)) + " is none of bitfold's");
  };
  check_known("op", op, all_ops);
  if (method) check_known("method", *method, all_methods);
  check_known("in", in, all_dtypes);
  check_known("acc", acc.value_or(in), all_dtypes);
  check_known("out dtype", out.value_or(in), all_dtypes);
  if (method && !takes(op, *method)) refuse(why_no_method(op, *method));
  if (ddof != 0 && !takes_ddof(op)) refuse("ddof: " + text(name(op)) + " takes none");
  if (ddof < 0) refuse("ddof: " + std::to_string(ddof) + " is negative");
  if (acc && !takes_acc(op, method, in, *acc)) refuse(why_no_acc(op, method, in, *acc));
  if (out && !takes_out(op, in, *out)) refuse(why_no_out(op, in, *out));

  reduction r(op, method.value_or(method_id::tree), in, ddof);
  r.acc_ = acc.value_or(default_acc(op, in));
  r.out_ = out.value_or(default_out(op, in));
  return r;
}

namespace detail {

void refuse_inputs(const reduction& r, const void* x) {
  if (x == nullptr) throw error(errc::usage, "data: null pointer with n > 0");
  throw error(errc::usage, "y: " + text(name(r.op())) + " takes " +
                               (info(r.op()).inputs == 2 ? "two inputs" : "one input"));
}

void check_together(const reduction& a, const reduction& b) {
  const auto differ = [](const std::string& x, const std::string& y) {
    if (x != y) throw error(errc::usage, "reductions: of " + x + " and of " + y + " in one pass");
  };
  differ(text(name(a.in())), text(name(b.in())));
  const auto inputs = [](const reduction& r) {
    return info(r.op()).inputs == 2 ? text("two inputs") : text("one input");
  };
  differ(inputs(a), inputs(b));
}

scalar empty_result(const reduction& r) {
  const auto as_float = [&](double value) {
    return visit(r.out(), [&]<class T>(std::type_identity<T>) -> scalar {
      T v{};
      if constexpr (std::is_integral_v<T>)
        v = static_cast<T>(value);
      else
        v = arith::round_to<T>(value);
      return load_scalar(r.out(), &v);
    });
  };
  switch (info(r.op()).empty) {
    case if_empty::zero: return as_float(0);
    case if_empty::one: return as_float(1);
    case if_empty::nan: return as_float(std::numeric_limits<double>::quiet_NaN());
    case if_empty::minus_infinity: return as_float(-std::numeric_limits<double>::infinity());
    case if_empty::refused: break;
  }
  throw error(errc::usage, "n: " + text(name(r.op())) + " of no elements is not defined");
}

}  // namespace detail

scalar load_scalar(dtype type, const void* p) {
  // Each size by itself: reading eight bytes of which some were just written waits for these.
  const auto load = [&](auto bits) {
    std::memcpy(&bits, p, sizeof bits);
    return scalar{type, bits};
  };
  switch (size_of(type)) {
    case 1: return load(std::uint8_t{});
    case 2: return load(std::uint16_t{});
    case 4: return load(std::uint32_t{});
    default: return load(std::uint64_t{});
  }
}

void store_scalar(scalar value, void* p) { std::memcpy(p, &value.bits, size_of(value.type)); }

std::string to_hex(scalar value) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%0*llx", static_cast<int>(2 * size_of(value.type)),
                static_cast<unsigned long long>(value.bits));
  return buffer;
}

namespace {
BITFOLD_OPAQUE std::string shortest_text(scalar value) {
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
  return shortest_text(value);
}

}  // namespace bitfold
