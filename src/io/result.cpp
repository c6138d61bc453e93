#include "io/result.hpp"

#include <fmt/format.h>

namespace bitfold::io {

std::string json_method(const reduction& r) {
  return r.method() ? fmt::format("\"{}\"", name(*r.method())) : "null";
}

std::string json_acc(const reduction& r) {
  return accumulates(r) ? fmt::format("\"{}\"", name(r.acc())) : "null";
}

std::string json_value(scalar value) {
  const std::string text = to_string(value);
  return text == "nan" || text == "inf" || text == "-inf" ? '"' + text + '"' : text;
}

}  // namespace bitfold::io
