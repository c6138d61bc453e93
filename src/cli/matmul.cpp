// bitfold matmul
#include <limits>
#include <memory>

#include <fmt/format.h>

#include <bitfold/error.hpp>
#include <bitfold/matmul.hpp>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/operands.hpp"
#include "cli/progress.hpp"
#include "io/arrays.hpp"
#include "io/digest.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"

namespace bitfold::cli {
namespace {

struct matmul_arguments {
  std::vector<std::string> files;
  std::string out, method = std::string(fixed_method);
  std::optional<std::string> tensor, out_type, target;
  std::optional<int> bits, threads;
  bool quiet = false;
  raw_options raw;
};

// The one array of a file.
io::array array_of(const matmul_arguments& args, const std::string& file) {
  io::read_options options = args.raw.reading();
  options.tensor = args.tensor;
  const std::vector<io::array> all = io::read_arrays(file, options);
  if (all.size() != 1)
    refuse(fmt::format("{}: {} arrays, where matmul takes one; see --tensor", io::printable(file),
                       all.size()));
  return all[0];
}

view view_of(const io::array& x, const io::numbers& numbers) {
  const std::vector<std::int64_t> extents(x.shape.begin(), x.shape.end());
  return row_major(numbers.type, numbers.data, extents);
}

int multiply(const matmul_arguments& args) {
  if (args.files.size() != 2)
    refuse(fmt::format("FILE: {} of them, where matmul takes two", args.files.size()));
  if (io::format_of_name(args.out) != io::file_format::npy)
    refuse(fmt::format("--out {}: the result is a .npy file", io::printable(args.out)));
  refuse_overwriting("--out", args.out, args.files);
  const cpu::options options{args.threads.value_or(0),
                             args.target ? cpu::parse_target(*args.target) : std::nullopt};
  const io::array x = array_of(args, args.files[0]), y = array_of(args, args.files[1]);
  const matrix_product p = within(args.files, x.name, [&] {
    return make_matrix_product(io::arithmetic(x.type), parse_method(args.method),
                               parse_dtype_option(args.out_type), args.bits);
  });
  if (p.out() == dtype::bf16)
    refuse("--out: the result is bf16, which .npy files have not; see --out-dtype");
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> result;
  within(args.files, x.name, [&] {
    const io::numbers of_x = io::numbers_of(x), of_y = io::numbers_of(y);
    const view a = view_of(x, of_x), b = view_of(y, of_y);
    const std::vector<std::int64_t> extents = matmul_extents(a, b);
    shape.assign(extents.begin(), extents.end());
    const auto n = io::element_count(shape, sizeof(std::uint64_t));
    if (!n) refuse(fmt::format("shape: {} results are too many", io::shape_text(shape)));
    result.resize(*n * size_of(p.out()));
    progress bar(0, passing_unless(args.quiet));
    const waiting clock(bar, args.files[0]);
    cpu::matmul(p, a, b, result.data(), options);
  });
  io::check_mapped_files();
  write_file(args.out, io::npy_text(p.out(), shape, result));
  io::digest digest;
  digest.add(result.data(), result.size());
  write_out(fmt::format("{}  {}\n", io::shape_text(shape), digest.hex()));
  return 0;
}

}  // namespace

subcommand add_matmul(CLI::App& app) {
  const auto args = std::make_shared<matmul_arguments>();
  CLI::App* command = app.add_subcommand(
      "matmul",
      "Multiply two arrays as matrices; the bits of an element are those of its row and column");
  add_files(*command, "FILE", args->files, std::string(files_help) + ": two, of one array each")
      ->required();
  command->add_option("--out", args->out, "The .npy file for the result")->required();
  std::vector<std::string> methods = method_names;
  methods.insert(methods.begin(), std::string(fixed_method));
  command
      ->add_option("--method", args->method,
                   "fixed: exact in integers, rounded once; or, of each element, one of dot's")
      ->check(CLI::IsMember(methods))
      ->capture_default_str();
  command
      ->add_option(
          "--bits", args->bits,
          fmt::format("Of the integers of method fixed, {} to {} (default: {} of bf16, {} "
                      "of f16, {} of f32, {} of f64)",
                      min_product_bits, max_product_bits, product_bits(dtype::bf16),
                      product_bits(dtype::f16), product_bits(dtype::f32), product_bits(dtype::f64)))
      ->check(whole_number(std::numeric_limits<int>::max()));
  command
      ->add_option("--out-dtype", args->out_type, "The type of the result (default: the input's)")
      ->check(CLI::IsMember(dtype_names));
  command->add_option("--tensor", args->tensor, "Of files of named arrays, the one to take");
  add_raw_options(*command, args->raw);
  add_threads(*command, args->threads);
  add_quiet(*command, args->quiet);
  command->add_option("--target", args->target, "CPU instruction set (default: the best available)")
      ->check(CLI::IsMember(
          names_of(std::vector(std::begin(cpu::all_targets), std::end(cpu::all_targets)))));
  return {command, [args] { return multiply(*args); }};
}

}  // namespace bitfold::cli
