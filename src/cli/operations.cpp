#include "cli/operations.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/error.hpp>

#include "cli/common.hpp"
#include "io/field.hpp"

namespace bitfold::cli {
namespace {

bool can_be_made(op_id op, std::optional<dtype> acc, std::optional<dtype> out, int ddof = 0) {
  try {
    make_reduction(op, {}, dtype::f32, acc, out, ddof);
    return true;
  } catch (const error&) {
    return false;
  }
}

// Where there is a choice; an operation may have one type alone.
bool takes_method(op_id op) { return info(op).takes_method; }
bool takes_acc(op_id op) {
  return can_be_made(op, dtype::f32, {}) && can_be_made(op, dtype::f64, {});
}
bool takes_out(op_id op) {
  return can_be_made(op, {}, dtype::f32) && can_be_made(op, {}, dtype::f64);
}
bool takes_ddof(op_id op) { return can_be_made(op, {}, {}, 1); }

}  // namespace

void add_op_options(CLI::App& command, op_options& options) {
  command
      .add_option("--acc", options.acc,
                  "The accumulator of floats, of the operations that have a choice (default: f64 "
                  "for f64, f32 for narrower ones)")
      ->check(CLI::IsMember({"f32", "f64"}));
  command
      .add_option("--ddof", options.ddof,
                  "What var and std subtract from the number of elements (default: 0)")
      ->check(whole_number(std::numeric_limits<int>::max()));
}

void check_options(const std::vector<op_id>& ops, const op_options& options) {
  const auto check = [&](std::string_view option, const std::string& given, bool (*takes)(op_id)) {
    if (given.empty() || std::any_of(ops.begin(), ops.end(), takes)) return;
    throw error(errc::usage,
                fmt::format("{} {}: {} {} none", option, given, fmt::join(names_of(ops), ", "),
                            ops.size() == 1 ? "takes" : "take"));
  };
  check("--method", fmt::format("{}", fmt::join(options.methods, ",")), takes_method);
  check("--acc", options.acc.value_or(""), takes_acc);
  check("--out-dtype", options.out.value_or(""), takes_out);
  check("--ddof", options.ddof ? std::to_string(*options.ddof) : "", takes_ddof);
}

std::vector<reduction> reductions_of(op_id op, dtype in, const op_options& options) {
  std::vector<std::optional<method_id>> methods;
  if (takes_method(op))
    for (const std::string& m : options.methods) methods.push_back(parse_method(m));
  if (methods.empty()) methods.emplace_back();
  std::vector<reduction> all;
  for (const auto m : methods)
    all.push_back(make_reduction(op, m, in,
                                 takes_acc(op) ? parse_dtype_option(options.acc) : std::nullopt,
                                 takes_out(op) ? parse_dtype_option(options.out) : std::nullopt,
                                 takes_ddof(op) ? options.ddof.value_or(0) : 0));
  return all;
}

bool is_defined(op_id op, const io::array& a) {
  return a.count > 0 || info(op).empty != if_empty::refused;
}

void check_defined(const std::vector<op_id>& ops, const io::array& a) {
  for (const op_id op : ops)
    if (!is_defined(op, a))
      throw error(errc::usage,
                  fmt::format("shape: {} has no elements, and {} of none is not defined",
                              io::shape_text(a.shape), name(op)));
}

}  // namespace bitfold::cli
