// A reduction and its result as JSON has them, in golden files and in `bitfold reduce --json`.
#pragma once

#include <string>

#include <bitfold/reduction.hpp>

namespace bitfold::io {

/// Whether an operation adds up in an accumulator of a type: others select, compare or count, and
/// method exact has none.
constexpr bool accumulates(op_id op, std::optional<method_id> method) {
  const typing types = info(op).types;
  return method != method_id::exact &&
         (types == typing::additive || types == typing::real || types == typing::wide);
}
inline bool accumulates(const reduction& r) { return accumulates(r.op(), r.method()); }

/// In quotes; null where the operation has none.
std::string json_method(const reduction& r);
std::string json_acc(const reduction& r);

/// The shortest decimal, which a JSON library would print otherwise; what JSON has no number for
/// ("nan", "inf", "-inf") in quotes.
std::string json_value(scalar value);

}  // namespace bitfold::io
