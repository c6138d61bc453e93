// Row functions by their names; and what their arguments have to be.
#pragma once

#include <bitfold/row_functions.hpp>
#include <bitfold/rows.hpp>
#include <string_view>

namespace bitfold::row {

// A row_function and its algebra are of one name. All but exp, which is of each element alone:
#define BITFOLD_ROW_FUNCTIONS(FUNCTION) \
  FUNCTION(softmax)                     \
  FUNCTION(log_softmax)                 \
  FUNCTION(layer_norm)                  \
  FUNCTION(rms_norm)                    \
  FUNCTION(softmax_backward)            \
  FUNCTION(log_softmax_backward)        \
  FUNCTION(layer_norm_backward)         \
  FUNCTION(rms_norm_backward)           \
  FUNCTION(group_norm)

/// Calls f(std::type_identity<function>{}).
template <class F>
decltype(auto) visit(row_function which, F f) {
  switch (which) {
#define BITFOLD_ROW_FUNCTION(name) \
  case row_function::name: return f(std::type_identity<name>{});
    BITFOLD_ROW_FUNCTIONS(BITFOLD_ROW_FUNCTION)
#undef BITFOLD_ROW_FUNCTION
    case row_function::exp: break;
  }
  return f(std::type_identity<exp>{});
}
constexpr std::string_view name(row_function which) {
  switch (which) {
#define BITFOLD_ROW_FUNCTION(name) \
  case row_function::name: return #name;
    BITFOLD_ROW_FUNCTIONS(BITFOLD_ROW_FUNCTION)
#undef BITFOLD_ROW_FUNCTION
    case row_function::exp: break;
  }
  return "exp";
}

/// Errors (errc::usage, naming the argument): see rows.hpp.
void check(row_function f, const rows& input, const void* out);
void check(row_function f, const rows_across& input, const void* out);
void check_parameters(row_function f, const rows& input, const void* dw, const void* db);

}  // namespace bitfold::row
