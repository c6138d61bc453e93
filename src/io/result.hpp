// A reduction and its result as JSON has them, in golden files and in `bitfold reduce --json`.
#pragma once

#include <string>

#include <bitfold/reduction.hpp>

namespace bitfold::io {

/// Whether it adds up in an accumulator of a type.
inline bool accumulates(const reduction& r) { return bitfold::accumulates(r.op(), r.method()); }

/// In quotes; null where the operation has none.
std::string json_method(const reduction& r);
std::string json_acc(const reduction& r);

/// The shortest decimal, which a JSON library would print otherwise; what JSON has no number for
/// ("nan", "inf", "-inf") in quotes.
std::string json_value(scalar value);

}  // namespace bitfold::io
