// The registry of operations: one line for each, and what follows from it: what an operation takes
// and gives. What it computes is its fold, that of the struct NAME_op in bitfold/ops/; everything
// else (what is compiled, the command line, Python's functions, tests, benches, the report,
// `bitfold ops`) is derived from these lines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <bitfold/dtype.hpp>
#include <bitfold/method.hpp>

namespace bitfold {

/// How an operation's accumulator and output types follow from its input's: see default_acc,
/// default_out, takes_acc and takes_out.
enum class typing : std::uint8_t {
  additive,  ///< floats in f32 or f64, integers modulo 2^64
  real,      ///< floats in f32 or f64, integers in f64; the output is a float
  wide,      ///< in f64 whatever the input; the output is a float
  same,      ///< an element of the input
  place,     ///< the index of an element, i64
  count,     ///< a number of elements, i64
  truth,     ///< 0 or 1, u8
};

/// What an operation takes besides arrays, a method and types.
enum class op_parameter : std::uint8_t {
  none,
  ddof,  ///< what is subtracted from the number of elements: 0 or more
};

/// What an operation gives for no elements.
enum class if_empty : std::uint8_t { zero, one, nan, minus_infinity, refused };

// name, inputs, takes a method, has an exact form, types, what else it takes, for no elements,
// version of its definition, what it is
#define BITFOLD_OPS(OP)                                                                            \
  OP(sum, 1, true, true, additive, none, zero, 1, "the sum")                                       \
  OP(nansum, 1, true, true, additive, none, zero, 1, "the sum, NaN counting as 0")                 \
  OP(prod, 1, false, false, additive, none, one, 1, "the product")                                 \
  OP(mean, 1, true, true, real, none, nan, 1, "the arithmetic mean")                               \
  OP(nanmean, 1, true, true, real, none, nan, 1, "the mean of the elements that are not NaN")      \
  OP(min, 1, false, false, same, none, refused, 1, "the smallest; NaN if there is one")            \
  OP(max, 1, false, false, same, none, refused, 1, "the largest; NaN if there is one")             \
  OP(nanmin, 1, false, false, same, none, refused, 1,                                              \
     "the smallest that is not NaN; NaN if all are")                                               \
  OP(nanmax, 1, false, false, same, none, refused, 1,                                              \
     "the largest that is not NaN; NaN if all are")                                                \
  OP(argmin, 1, false, false, place, none, refused, 1,                                             \
     "the first index of the smallest, or of a NaN")                                               \
  OP(argmax, 1, false, false, place, none, refused, 1,                                             \
     "the first index of the largest, or of a NaN")                                                \
  OP(any, 1, false, false, truth, none, zero, 1, "whether any element is not 0; NaN is not")       \
  OP(all, 1, false, false, truth, none, one, 1, "whether no element is 0")                         \
  OP(count_nonzero, 1, false, false, count, none, zero, 1, "how many elements are not 0")          \
  OP(count_distinct, 1, false, false, count, none, zero, 1,                                        \
     "how many different elements there are")                                                      \
  OP(sum_squares, 1, true, true, additive, none, zero, 1, "the sum of the squares")                \
  OP(norm_l1, 1, true, true, real, none, zero, 1, "the sum of the magnitudes")                     \
  OP(norm_l2, 1, true, true, wide, none, zero, 1, "the square root of the sum of the squares")     \
  OP(norm_inf, 1, false, false, real, none, zero, 1, "the largest magnitude; NaN if there is one") \
  OP(var, 1, false, true, real, ddof, nan, 2, "the variance, divided by n - ddof")                 \
  OP(std, 1, false, true, real, ddof, nan, 2, "the standard deviation: the square root of var")    \
  OP(skewness, 1, false, false, wide, none, nan, 2, "the third standardised moment, m3 / m2^1.5")  \
  OP(kurtosis, 1, false, false, wide, none, nan, 2, "the excess kurtosis, m4 / m2^2 - 3")          \
  OP(logsumexp, 1, false, false, real, none, minus_infinity, 1,                                    \
     "the logarithm of the sum of the exponentials")                                               \
  OP(softmax_denominator, 1, false, false, real, none, zero, 1, "the sum of exp(x - max)")         \
  OP(dot, 2, true, true, additive, none, zero, 1, "the sum of the products")                       \
  OP(squared_distance, 2, true, true, additive, none, zero, 1,                                     \
     "the sum of the squared differences")                                                         \
  OP(mse, 2, true, true, real, none, nan, 1, "the mean of the squared differences")                \
  OP(mae, 2, true, true, real, none, nan, 1, "the mean of the magnitudes of the differences")      \
  OP(cosine, 2, true, false, real, none, nan, 2, "dot(x, y) / (norm_l2(x) norm_l2(y))")

/// Every operation. docs/operations.md has what each computes, its types and its bound.
enum class op_id : std::uint8_t {
#define BITFOLD_OP(name, ...) name,
  BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
};

/// What the registry says of an operation.
struct op_info {
  op_id id;
  std::string_view name;
  int inputs;         ///< arrays of one type and length
  bool takes_method;  ///< additive: in which order it adds can be chosen
  bool has_exact;     ///< method exact: the infinitely precise value, rounded once
  typing types;
  op_parameter parameter;
  if_empty empty;
  int definition;  ///< its version: another one may have other bits
  std::string_view summary;
};

// clang-format off
/// The registry, in the order of op_id.
inline constexpr std::array all_op_infos{
#define BITFOLD_OP(name, inputs, method, exact, types, taken, empty, definition, summary) \
  op_info{op_id::name, #name, inputs, method, exact, typing::types, op_parameter::taken, \
          if_empty::empty, definition, summary},
    BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
};
// clang-format on

/// Every operation, in the registry's order.
inline constexpr auto all_ops = [] {
  std::array<op_id, all_op_infos.size()> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = all_op_infos[i].id;
  return ids;
}();

/// The line of an operation.
constexpr const op_info& info(op_id op) { return all_op_infos[static_cast<std::size_t>(op)]; }
/// "sum", "mean", ... as C++, Python and the command line have it.
constexpr std::string_view name(op_id op) { return info(op).name; }
/// The operation of that name; nothing where there is none.
constexpr std::optional<op_id> parse_op(std::string_view text) {
  for (const op_info& op : all_op_infos)
    if (op.name == text) return op.id;
  return std::nullopt;
}

// ---- What an operation takes --------------------------------------------------------------------
// make_reduction makes what these offer and refuses the rest; lists, help and signatures ask them
// too. Every operation takes elements of every type, whole, along axes, in windows, by segment and
// by key.

/// Whether it can be done by the method.
constexpr bool takes(op_id op, method_id method) {
  return info(method).ordering == ordering::independent ? info(op).has_exact
                                                        : info(op).takes_method;
}

/// Whether something can be subtracted from the number of elements: of var and std.
constexpr bool takes_ddof(op_id op) { return info(op).parameter == op_parameter::ddof; }

/// Whether it adds up or multiplies, in an accumulator of a type: others select, compare or count,
/// and method exact has none.
constexpr bool accumulates(op_id op, std::optional<method_id> method = {}) {
  const typing types = info(op).types;
  return method != method_id::exact &&
         (types == typing::additive || types == typing::real || types == typing::wide);
}

/// The type that elements `in` are computed with, where no accumulator is asked for.
constexpr dtype default_acc(op_id op, dtype in) {
  const typing types = info(op).types;
  if (types == typing::wide || (types == typing::real && !is_float(in))) return dtype::f64;
  if (is_float(in)) return in == dtype::f64 ? dtype::f64 : dtype::f32;
  return is_signed_int(in) ? dtype::i64 : dtype::u64;
}

/// Whether elements `in` can be accumulated in `acc`: in the default, or in f64 where that is f32.
constexpr bool takes_acc(op_id op, std::optional<method_id> method, dtype in, dtype acc) {
  const dtype by_default = default_acc(op, in);
  return accumulates(op, method) &&
         (acc == by_default || (acc == dtype::f64 && by_default == dtype::f32));
}
/// Whether there is a choice: f32 or f64, of floats of fewer than 64 bits.
constexpr bool takes_acc(op_id op, std::optional<method_id> method = {}) {
  return takes_acc(op, method, dtype::f32, dtype::f32);
}

/// The type of the result of elements `in`, where none is asked for.
constexpr dtype default_out(op_id op, dtype in) {
  switch (info(op).types) {
    case typing::additive: return is_float(in) ? in : default_acc(op, in);
    case typing::real:
    case typing::wide: return is_float(in) ? in : dtype::f64;
    case typing::same: return in;
    case typing::place:
    case typing::count: return dtype::i64;
    case typing::truth: break;
  }
  return dtype::u8;
}

/// The same of bools, which the command line and Python have: they are u8 of 0 and 1, whose sums
/// and products are of either sign, as in NumPy.
constexpr dtype default_out_of_bool(op_id op) {
  return info(op).types == typing::additive ? dtype::i64 : default_out(op, dtype::u8);
}

/// Whether the result of elements `in` can be asked for as `out`: of what accumulates, as any
/// float, and as any integer where integers add as such; of the rest, as the default alone.
constexpr bool takes_out(op_id op, dtype in, dtype out) {
  if (!accumulates(op)) return out == default_out(op, in);
  return is_float(out) || !is_float(default_acc(op, in));
}
/// Whether there is a choice of floats.
constexpr bool takes_out(op_id op) { return takes_out(op, dtype::f32, dtype::f64); }

/// Whether there is such a reduction: see make_reduction.
constexpr bool offers(op_id op, std::optional<method_id> method, dtype in,
                      std::optional<dtype> acc = {}, std::optional<dtype> out = {}, int ddof = 0) {
  return (!method || takes(op, *method)) && (!acc || takes_acc(op, method, in, *acc)) &&
         (!out || takes_out(op, in, *out)) && (takes_ddof(op) ? ddof >= 0 : ddof == 0);
}

}  // namespace bitfold
