#include "cli/operations.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/error.hpp>

#include "cli/common.hpp"
#include "io/field.hpp"
#include "io/result.hpp"

namespace bitfold::cli {
namespace {

// An operation by a method, or in the one way that it has.
struct way {
  op_id op;
  std::optional<method_id> method;
};

bool takes_method(const way& w) { return w.method.has_value(); }
bool takes_acc(const way& w) { return takes_acc(w.op, w.method); }
bool takes_out(const way& w) { return takes_out(w.op); }
bool takes_ddof(const way& w) { return takes_ddof(w.op); }

// By each of the methods that it takes, and in a way of its own where it takes one of them not.
std::vector<way> ways(op_id op, const op_options& options) {
  const bool own = !info(op).takes_method;
  std::vector<way> all;
  bool in_own_way = options.methods.empty();
  for (const std::string& text : options.methods) {
    const method_id m = *parse_method(text);
    if (takes(op, m) || !(own || options.every_method))
      all.push_back({op, m});
    else
      in_own_way |= own;
  }
  if (in_own_way) all.insert(all.begin(), {op, {}});
  return all;
}

// --out-dtype is the type of the result alone: what it seems to promise, as NumPy's dtype does, is
// an accumulator of that type.
void check_promise(const reduction& r) {
  if (!io::accumulates(r) || !is_float(r.out())) return;
  const auto refuse = [&](std::string_view why) {
    throw error(errc::usage, fmt::format("--out-dtype {}: {}", name(r.out()), why));
  };
  if (!is_float(r.acc()))
    refuse(fmt::format(
        "{} of {} adds integers, modulo 2^64, and rounds afterwards; --method exact gives the "
        "true value, where there is one",
        name(r.op()), name(r.in())));
  if (size_of(r.out()) > size_of(r.acc()))
    refuse(fmt::format(
        "{} of {} adds in {}; --acc {} adds in {} (and --acc {} says that it is meant)",
        name(r.op()), name(r.in()), name(r.acc()), name(r.out()), name(r.out()), name(r.acc())));
}

}  // namespace

std::vector<op_id> parse_ops(const std::string& list) {
  std::vector<op_id> ops;
  for (const std::string& text : split(list)) {
    const auto op = parse_op(text);
    if (!op)
      refuse(fmt::format("OP: {} is not one of {}{}", io::in_quotes(text),
                         fmt::join(op_names, ", "), did_you_mean(text, op_names)));
    ops.push_back(*op);
  }
  return ops;
}

void add_op_options(CLI::App& command, op_options& options) {
  command
      .add_option("--acc", options.acc,
                  "The accumulator of floats, of the operations that have a choice (default: f64 "
                  "for f64, f32 for narrower ones)")
      ->check(CLI::IsMember({"f32", "f64"}));
  command
      .add_option("--ddof", options.ddof,
                  fmt::format("What {} subtract from the number of elements (default: 0)",
                              fmt::join(op_names_where(bitfold::takes_ddof), " and ")))
      ->check(whole_number(std::numeric_limits<int>::max()));
}

void check_options(const std::vector<op_id>& ops, const op_options& options) {
  std::vector<way> all;
  for (const op_id op : ops)
    for (const way& w : ways(op, options)) {
      if (w.method && !takes(op, *w.method))
        throw error(errc::usage,
                    fmt::format("--method {}: {} has no exact form", name(*w.method), name(op)));
      all.push_back(w);
    }
  const auto check = [&](std::string_view option, const std::string& given,
                         bool (*taken)(const way&), std::string_view but) {
    if (given.empty() || std::any_of(all.begin(), all.end(), taken)) return;
    throw error(errc::usage,
                fmt::format("{} {}: {} {} none{}", option, given, fmt::join(names_of(ops), ", "),
                            ops.size() == 1 ? "takes" : "take", but));
  };
  const bool may_be_exact =
      std::any_of(ops.begin(), ops.end(), [](op_id op) { return info(op).has_exact; });
  const bool by_exact = options.methods == std::vector{std::string(name(method_id::exact))};
  check("--method", fmt::format("{}", fmt::join(options.methods, ",")), takes_method,
        may_be_exact ? " but exact" : "");
  check("--acc", options.acc.value_or(""), takes_acc, by_exact ? " by method exact" : "");
  check("--out-dtype", options.out.value_or(""), takes_out, "");
  check("--ddof", options.ddof ? std::to_string(*options.ddof) : "", takes_ddof, "");
}

std::vector<reduction> reductions_of(op_id op, io::element_type in, const op_options& options) {
  std::vector<reduction> all;
  const auto own = is_bool(in) ? std::optional(default_out_of_bool(op)) : std::nullopt;
  for (const way& w : ways(op, options)) {
    const auto out = takes_out(w) ? parse_dtype_option(options.out) : std::nullopt;
    all.push_back(make_reduction(op, w.method, io::arithmetic(in),
                                 takes_acc(w) ? parse_dtype_option(options.acc) : std::nullopt,
                                 out ? out : own, takes_ddof(w) ? options.ddof.value_or(0) : 0));
    if (out && !options.acc) check_promise(all.back());
  }
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
