// The registry of operations: one line for each. What an operation computes is its fold, that of
// the struct NAME_op in bitfold/ops/; everything else (types, what is compiled, the command line,
// tests, benches, the report, `bitfold ops`) is derived from these lines.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace bitfold {

/// How an operation's accumulator and output types follow from its input's; see make_reduction.
enum class typing : std::uint8_t {
  additive,  ///< floats in f32 or f64, integers modulo 2^64
  real,      ///< floats in f32 or f64, integers in f64; the output is a float
  wide,      ///< in f64 whatever the input; the output is a float
  same,      ///< an element of the input
  place,     ///< the index of an element, i64
  count,     ///< a number of elements, i64
  truth,     ///< 0 or 1, u8
};

/// What an operation gives for no elements.
enum class if_empty : std::uint8_t { zero, one, nan, minus_infinity, refused };

// name, inputs, takes a method, has an exact form, types, for no elements, version of its
// definition, what it is
#define BITFOLD_OPS(OP)                                                                          \
  OP(sum, 1, true, true, additive, zero, 1, "the sum")                                           \
  OP(nansum, 1, true, true, additive, zero, 1, "the sum, NaN counting as 0")                     \
  OP(prod, 1, false, false, additive, one, 1, "the product")                                     \
  OP(mean, 1, true, true, real, nan, 1, "the arithmetic mean")                                   \
  OP(nanmean, 1, true, true, real, nan, 1, "the mean of the elements that are not NaN")          \
  OP(min, 1, false, false, same, refused, 1, "the smallest; NaN if there is one")                \
  OP(max, 1, false, false, same, refused, 1, "the largest; NaN if there is one")                 \
  OP(nanmin, 1, false, false, same, refused, 1, "the smallest that is not NaN; NaN if all are")  \
  OP(nanmax, 1, false, false, same, refused, 1, "the largest that is not NaN; NaN if all are")   \
  OP(argmin, 1, false, false, place, refused, 1, "the first index of the smallest, or of a NaN") \
  OP(argmax, 1, false, false, place, refused, 1, "the first index of the largest, or of a NaN")  \
  OP(any, 1, false, false, truth, zero, 1, "whether any element is not 0; NaN is not")           \
  OP(all, 1, false, false, truth, one, 1, "whether no element is 0")                             \
  OP(count_nonzero, 1, false, false, count, zero, 1, "how many elements are not 0")              \
  OP(count_distinct, 1, false, false, count, zero, 1, "how many different elements there are")   \
  OP(sum_squares, 1, true, true, additive, zero, 1, "the sum of the squares")                    \
  OP(norm_l1, 1, true, true, real, zero, 1, "the sum of the magnitudes")                         \
  OP(norm_l2, 1, true, true, wide, zero, 1, "the square root of the sum of the squares")         \
  OP(norm_inf, 1, false, false, real, zero, 1, "the largest magnitude; NaN if there is one")     \
  OP(var, 1, false, true, real, nan, 2, "the variance, divided by n - ddof")                     \
  OP(std, 1, false, true, real, nan, 2, "the standard deviation: the square root of var")        \
  OP(skewness, 1, false, false, wide, nan, 2, "the third standardised moment, m3 / m2^1.5")      \
  OP(kurtosis, 1, false, false, wide, nan, 2, "the excess kurtosis, m4 / m2^2 - 3")              \
  OP(logsumexp, 1, false, false, real, minus_infinity, 1,                                        \
     "the logarithm of the sum of the exponentials")                                             \
  OP(softmax_denominator, 1, false, false, real, zero, 1, "the sum of exp(x - max)")             \
  OP(dot, 2, true, true, additive, zero, 1, "the sum of the products")                           \
  OP(squared_distance, 2, true, true, additive, zero, 1, "the sum of the squared differences")   \
  OP(mse, 2, true, true, real, nan, 1, "the mean of the squared differences")                    \
  OP(mae, 2, true, true, real, nan, 1, "the mean of the magnitudes of the differences")          \
  OP(cosine, 2, true, false, real, nan, 2, "dot(x, y) / (norm_l2(x) norm_l2(y))")

enum class op_id : std::uint8_t {
#define BITFOLD_OP(name, ...) name,
  BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
};

struct op_info {
  op_id id;
  std::string_view name;
  int inputs;         ///< arrays of one type and length
  bool takes_method;  ///< additive: in which order it adds can be chosen
  bool has_exact;     ///< method exact: the infinitely precise value, rounded once
  typing types;
  if_empty empty;
  int definition;  ///< its version: another one may have other bits
  std::string_view summary;
};

// clang-format off
inline constexpr std::array all_op_infos{
#define BITFOLD_OP(name, inputs, method, exact, types, empty, definition, summary) \
  op_info{op_id::name, #name, inputs, method, exact, typing::types, if_empty::empty, definition, \
          summary},
    BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
};
// clang-format on

inline constexpr auto all_ops = [] {
  std::array<op_id, all_op_infos.size()> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = all_op_infos[i].id;
  return ids;
}();

constexpr const op_info& info(op_id op) { return all_op_infos[static_cast<std::size_t>(op)]; }
constexpr std::string_view name(op_id op) { return info(op).name; }
constexpr std::optional<op_id> parse_op(std::string_view text) {
  for (const op_info& op : all_op_infos)
    if (op.name == text) return op.id;
  return std::nullopt;
}

}  // namespace bitfold
