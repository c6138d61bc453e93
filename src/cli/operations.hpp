// From the command line to reductions: the operations asked for, and what each of them takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <bitfold/reduction.hpp>

#include "io/arrays.hpp"

namespace bitfold::cli {

/// The operations of a list with commas. Errors: errc::usage, "OP: ...".
std::vector<op_id> parse_ops(const std::string& list);

/// Each of these is for the operations that take it.
struct op_options {
  std::vector<std::string> methods;  ///< none: the default one
  bool every_method = false;  ///< all are listed, and each operation goes by those that it takes
  std::optional<std::string> acc, out;
  std::optional<int> ddof;
};

/// Adds --acc and --ddof.
void add_op_options(CLI::App& command, op_options& options);

/// Throws (errc::usage) where one is given that none of the operations takes, or a method by which
/// one that takes methods cannot be done.
void check_options(const std::vector<op_id>& ops, const op_options& options);

/// The reductions of elements of a type that has arithmetic: one for each method that the operation
/// takes, and one in its own way where it takes one of them, or all, not. Errors (errc::usage): a
/// result of a type that promises more than what is added in.
std::vector<reduction> reductions_of(op_id op, io::element_type in, const op_options& options);

/// Whether the operation has a result for this array: some have none for no elements.
bool is_defined(op_id op, const io::array& a);
/// Throws (errc::usage) where one of them has none.
void check_defined(const std::vector<op_id>& ops, const io::array& a);

}  // namespace bitfold::cli
