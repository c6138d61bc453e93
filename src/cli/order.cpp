// bitfold order
#include <limits>
#include <memory>

#include <fmt/format.h>

#include <bitfold/error.hpp>
#include <bitfold/reference.hpp>

#include "cli/common.hpp"

namespace bitfold::cli {
namespace {

struct order_arguments {
  std::uint64_t count = 0;
  std::string method = std::string(all_methods[0].name), format = "text";
};

int print_order(const order_arguments& args) {
  const method_id method = *parse_method(args.method);
  const std::uint64_t most = max_printed(method);
  if (args.count > most && info(method).ordering != ordering::independent)
    throw error(
        errc::usage,
        fmt::format("N: {} elements are too many to print (at most {}{})", args.count, most,
                    info(method).ordering == ordering::sequential ? " when sequential" : ""));
  const order_format format = args.format == "text"         ? order_format::text
                              : args.format == "expression" ? order_format::expression
                                                            : order_format::dot;
  write_out(bitfold::print_order(args.count, method, format));
  return 0;
}

}  // namespace

subcommand add_order(CLI::App& app) {
  const auto args = std::make_shared<order_arguments>();
  CLI::App* command = app.add_subcommand("order", "Print the tree in which N elements are added");
  command
      ->add_option("N", args->count,
                   "The number of elements, at most 65536 (sequential: 4096; exact: any)")
      ->required()
      ->check(whole_number(std::numeric_limits<std::uint64_t>::max()));
  command->add_option("--method", args->method, method_help())
      ->check(CLI::IsMember(method_names))
      ->capture_default_str();
  command->add_option("--format", args->format, "The notation; dot is for Graphviz")
      ->check(CLI::IsMember({"text", "expression", "dot"}))
      ->capture_default_str();
  return {command, [args] { return print_order(*args); }};
}

}  // namespace bitfold::cli
