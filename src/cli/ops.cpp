// bitfold ops
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/bound.hpp>
#include <bitfold/reduction.hpp>

#include "cli/common.hpp"

namespace bitfold::cli {
namespace {

struct typing_text {
  std::string_view name, summary;
};

constexpr typing typings[] = {typing::additive, typing::real,  typing::wide, typing::same,
                              typing::place,    typing::count, typing::truth};

typing_text describe(typing t) {
  switch (t) {
    case typing::additive:
      return {"additive",
              "floats accumulate in f32 or f64, and give floats; integers add modulo 2^64"};
    case typing::real:
      return {"real", "floats accumulate in f32 or f64, integers in f64; the result is a float"};
    case typing::wide: return {"wide", "accumulates in f64; the result is a float"};
    case typing::same: return {"same", "the result is an element, of the input's type"};
    case typing::place: return {"place", "the result is an index, i64"};
    case typing::count: return {"count", "the result is a number of elements, i64"};
    case typing::truth: break;
  }
  return {"truth", "the result is 0 or 1, u8"};
}

// Nothing where it is an error.
std::string_view value_of(if_empty e) {
  switch (e) {
    case if_empty::zero: return "0";
    case if_empty::one: return "1";
    case if_empty::nan: return "nan";
    case if_empty::minus_infinity: return "-inf";
    case if_empty::refused: break;
  }
  return "";
}

std::vector<std::string> method_names_of(op_id op) {
  std::vector<std::string> names;
  for (const auto m : methods_of(op))
    if (m) names.emplace_back(name(*m));
  return names;
}

std::string json_line(const op_info& op) {
  const std::string_view empty = value_of(op.empty);
  return fmt::format(
      R"({{"op":"{}","inputs":{},"methods":{},"acc":{},"out_dtype":{},"ddof":{},"bound":{},"types":"{}","empty":{},"definition":{},"summary":{}}})"
      "\n",
      op.name, op.inputs, json_strings(method_names_of(op.id)), takes_acc(op.id), takes_out(op.id),
      takes_ddof(op.id), has_error_bound(op.id), describe(op.types).name,
      empty.empty()                             ? "null"
      : empty.find_first_of("an") == empty.npos ? std::string(empty)
                                                : json_string(empty),
      op.definition, json_string(op.summary));
}

int ops(bool json) {
  std::string text;
  if (json) {
    for (const op_info& op : all_op_infos) text += json_line(op);
    write_out(text);
    return 0;
  }
  const auto line = [&](auto... columns) {
    text +=
        fmt::format("{:<16}  {:<6}  {:<6}  {:<5}  {:<5}  {:<8}  {:<5}  {:<10}  {}\n", columns...);
  };
  line("operation", "inputs", "method", "exact", "bound", "types", "empty", "definition", "result");
  for (const op_info& op : all_op_infos) {
    const std::string_view empty = value_of(op.empty);
    const auto yes = [](bool has) { return has ? "yes" : "none"; };
    line(op.name, op.inputs, yes(op.takes_method), yes(op.has_exact), yes(has_error_bound(op.id)),
         describe(op.types).name, empty.empty() ? "error" : empty, op.definition, op.summary);
  }
  text += fmt::format("\nmethods: {}\n", fmt::join(method_names, " "));
  const auto acc = op_names_where([](op_id op) { return takes_acc(op); });
  text += fmt::format("--acc: {}\n--ddof: {}\n", fmt::join(acc, " "),
                      fmt::join(op_names_where(bitfold::takes_ddof), " "));
  for (const typing t : typings)
    text += fmt::format("{:<8}  {}\n", describe(t).name, describe(t).summary);
  write_out(text);
  return 0;
}

}  // namespace

subcommand add_ops(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ops", "List the operations");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object per line");
  command->footer(
      "For each: how many inputs it takes, whether --method applies, whether --method exact does,\n"
      "whether --bound does without that (with it, always), its types, what it gives for no\n"
      "elements, the version of its definition, and what it is; then which take --acc and --ddof.\n"
      "A JSON object has the methods as a list, and whether --acc, --out-dtype and --ddof apply.");
  return {command, [json] { return ops(*json); }};
}

}  // namespace bitfold::cli
