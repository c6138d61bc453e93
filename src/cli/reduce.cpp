// bitfold reduce
#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <bitfold/reduction.hpp>

#include "cli/common.hpp"
#include "cli/operations.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/result.hpp"

namespace bitfold::cli {
namespace {

const std::vector<std::string> target_names =
    names_of(std::vector{cpu::target::scalar, cpu::target::avx2, cpu::target::avx512});

struct reduce_arguments {
  std::string op_list, device = "cpu";
  std::optional<std::string> method, raw, tensor, target;
  op_options options;
  std::optional<int> threads;
  bool bound = false, json = false;
  std::vector<std::string> files;

  std::vector<op_id> ops;  // those of op_list
  int inputs() const { return info(ops[0]).inputs; }
  bool exact() const { return method == name(method_id::exact); }
  // As far as a method was asked for that it takes.
  std::optional<method_id> method_of(op_id op) const {
    const auto asked = method ? parse_method(*method) : std::nullopt;
    return asked && takes(op, *asked) ? asked : std::nullopt;
  }
};

struct result {
  scalar value;
  std::optional<double> bound;  // where it was asked for
};

// What is reduced at once: an array, or two of one name, shape and type.
struct operands {
  const io::array* x;
  const io::array* y;  // null for operations of one input
};

// The one or two files that they are from.
using file_names = std::span<const std::string>;

std::vector<op_id> parse_ops(const std::string& list) {
  std::vector<op_id> ops;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string text = list.substr(begin, end - begin);
    const auto op = parse_op(text);
    if (!op)
      throw error(errc::usage, fmt::format("OP: {} is not one of {}", io::in_quotes(text),
                                           fmt::join(op_names, ", ")));
    ops.push_back(*op);
    begin = end + 1;
  }
  return ops;
}

std::string text_line(file_names files, const io::array& a, const std::string& op,
                      const result& got) {
  std::string line;
  for (const std::string& file : files)
    line += io::printable(a.name.empty() ? file : file + ":" + a.name) + "  ";
  return fmt::format("{}{}  {}  {}{}  {}{}\n", line, io::shape_text(a.shape), name(a.type), op,
                     to_string(got.value), to_hex(got.value),
                     got.bound ? "  +- " + to_string(load_scalar(dtype::f64, &*got.bound)) : "");
}

std::string json_line(file_names files, const io::array& a, const reduction& r,
                      const std::string& device, const result& got) {
  return fmt::format(
      R"({{"file":{},{}"tensor":{},"shape":{},"dtype":"{}","op":"{}","method":{},"acc":{},)"
      R"("out_dtype":"{}",{}"order_version":{},"device":"{}","value":{},"bits":"{}"{}}})"
      "\n",
      json_string(files[0]),
      files.size() == 2 ? fmt::format("\"file2\":{},", json_string(files[1])) : "",
      a.name.empty() ? "null" : json_string(a.name), io::shape_text(a.shape), name(a.type),
      name(r.op()), io::json_method(r), io::json_acc(r), name(r.out()),
      r.ddof() != 0 ? fmt::format("\"ddof\":{},", r.ddof()) : "", order::version, device,
      io::json_value(got.value), to_hex(got.value),
      got.bound ? ",\"bound\":" + io::json_value(load_scalar(dtype::f64, &*got.bound)) : "");
}

// The results of all, in their order. Nothing is reduced anywhere else.
std::vector<result> results(const reduce_arguments& args, const std::vector<reduction>& all,
                            const operands& from) {
  const void *x = from.x->data, *y = from.y ? from.y->data : nullptr;
  const std::size_t n = from.x->count;
  const bool on_gpu = args.device == "cuda";
  const cpu::options how{args.threads.value_or(0),
                         args.target ? cpu::parse_target(*args.target) : std::nullopt};
  std::vector<result> results;
  if (args.bound) {
    for (const bounded& b : on_gpu ? cuda::reduce_host_with_bounds(all, x, y, n)
                                   : cpu::reduce_with_bounds(all, x, y, n, how))
      results.push_back({b.value, b.bound});
    return results;
  }
  std::vector<scalar> values(all.size());
  if (on_gpu)
    values = cuda::reduce_host(all, x, y, n);
  else
    cpu::reduce(all, x, y, n, values, how);
  for (const scalar v : values) results.push_back({v, {}});
  return results;
}

// Each array of the first file, with that of the same name of the second if there is one.
std::vector<operands> match(file_names files, const std::vector<std::vector<io::array>>& arrays) {
  std::vector<operands> all;
  for (const io::array& x : arrays[0]) all.push_back({&x, nullptr});
  if (files.size() == 1) return all;

  const auto missing = [&](std::size_t in, const std::string& name) {
    const std::string what =
        name.empty() ? "array without a name" : "tensor " + io::in_quotes(name);
    throw error(errc::usage, fmt::format("{}: no {}, which {} has", io::printable(files[in]), what,
                                         io::printable(files[1 - in])));
  };
  std::map<std::string_view, const io::array*> by_name;
  for (const io::array& y : arrays[1]) by_name[y.name] = &y;
  for (operands& o : all) {
    const auto found = by_name.extract(o.x->name);
    if (found.empty()) missing(1, o.x->name);
    o.y = found.mapped();
    const auto same = [&](const char* field, std::string_view x, std::string_view y) {
      if (x != y)
        throw about(files[0] + " and " + files[1], o.x->name,
                    error(errc::usage, fmt::format("{}: {} and {}", field, x, y)));
    };
    same("dtype", name(o.x->type), name(o.y->type));
    same("shape", io::shape_text(o.x->shape), io::shape_text(o.y->shape));
  }
  if (!by_name.empty()) missing(0, std::string(by_name.begin()->first));
  return all;
}

// The whole output of one file, or of two, so that one which fails half-way prints nothing.
std::string reduce_files(const reduce_arguments& args, file_names files) {
  std::vector<std::vector<io::array>> arrays;
  for (const std::string& file : files)
    arrays.push_back(io::read_arrays(file, {parse_dtype_option(args.raw), args.tensor}));
  std::string lines;
  for (const operands& o : match(files, arrays)) {
    const io::array& a = *o.x;
    try {
      check_defined(args.ops, a);
      std::vector<reduction> all;
      for (const op_id op : args.ops) all.push_back(reductions_of(op, a.type, args.options).at(0));
      const auto got = results(args, all, o);
      for (std::size_t k = 0; k < all.size(); ++k)
        lines += args.json ? json_line(files, a, all[k], args.device, got[k])
                           : text_line(files, a,
                                       all.size() > 1 ? fmt::format("{}  ", name(all[k].op())) : "",
                                       got[k]);
    } catch (const error& e) {
      io::check_mapped_files();
      throw about(files.size() == 2 ? files[0] + " and " + files[1] : files[0], a.name, e);
    }
  }
  io::check_mapped_files();
  return lines;
}

// What can be told before any file is opened.
void check(const reduce_arguments& args) {
  const auto usage = [](const std::string& text) { throw error(errc::usage, text); };
  for (const op_id op : args.ops)
    if (info(op).inputs != args.inputs())
      usage(fmt::format("OP: {} takes {} input{}, but {} takes {}; they need two calls",
                        name(args.ops[0]), args.inputs(), args.inputs() == 1 ? "" : "s", name(op),
                        info(op).inputs));
  check_options(args.ops, args.options);
  for (const op_id op : args.ops)
    if (args.bound && !has_error_bound(op, args.method_of(op))) usage(fmt::format("--bound: {} has none", name(op)));
  if (args.inputs() == 2 && args.files.size() % 2 != 0)
    usage(
        fmt::format("FILE: {} takes files in pairs, not {}", name(args.ops[0]), args.files.size()));
  if (args.device == "cpu") {
    const auto available = names_of(cpu::available_targets());
    if (args.target &&
        std::find(available.begin(), available.end(), *args.target) == available.end())
      usage(fmt::format("--target {}: not in this build or not on this machine (available: {})",
                        *args.target, fmt::join(available, " ")));
    return;
  }
  if (args.target || args.threads) usage("--target and --threads are for --device cpu");
  if (args.method && !info(*parse_method(*args.method)).on_gpu())
    usage(fmt::format("--method {}: not available with --device cuda", *args.method));
  if (!cuda::built())
    throw error(errc::no_device,
                "--device cuda: this bitfold was built without CUDA; use --device cpu, or build it "
                "with CUDA");
  if (cuda::devices().empty())
    throw error(errc::no_device,
                "--device cuda: no usable GPU; check the driver and CUDA_VISIBLE_DEVICES, or use "
                "--device cpu");
}

int reduce(reduce_arguments& args) {
  args.ops = parse_ops(args.op_list);
  if (args.method) args.options.methods = {*args.method};
  check(args);
  int status = 0;
  const auto at_once = static_cast<std::size_t>(args.inputs());
  for (std::size_t i = 0; i < args.files.size(); i += at_once) {
    std::string lines;
    try {
      lines = reduce_files(args, file_names(args.files).subspan(i, at_once));
    } catch (const error& e) {
      // Without the device, the other files would fail in the same way.
      if (e.code() == errc::no_device || e.code() == errc::cuda) throw;
      complain(e.what());
      if (status == 0) status = static_cast<int>(e.code());
    }
    write_out(lines);
  }
  return status;
}

}  // namespace

subcommand add_reduce(CLI::App& app) {
  const auto args = std::make_shared<reduce_arguments>();
  CLI::App* command = app.add_subcommand("reduce", "Reduce every array in the files");
  command
      ->add_option("OP", args->op_list,
                   "The operations, separated by commas, of one input or of two; each file is "
                   "read once for all of them. `bitfold ops` lists them")
      ->required();
  command
      ->add_option("FILE", args->files,
                   "A .npy file, a .safetensors file, or raw elements (--dtype). Operations of two "
                   "inputs take files in pairs: of each pair, the arrays of one name, shape and "
                   "type")
      ->required();
  command->add_option("--method", args->method, method_help())
      ->check(CLI::IsMember(method_names))
      ->default_str(method_names[0]);
  command->add_option("--device", args->device, "Where to reduce; the bits are the same")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  add_op_options(*command, args->options);
  command
      ->add_option("--out-dtype", args->options.out,
                   "The type of the result, of the operations that have a choice (default: the "
                   "input's for floats; for integers i64 or u64 of those that add as integers, "
                   "else f64)")
      ->check(CLI::IsMember(dtype_names));
  command->add_option("--threads", args->threads, "CPU threads (default, and 0: one per core)")
      ->transform(thread_count());
  command->add_option("--target", args->target, "CPU instruction set (default: the best available)")
      ->check(CLI::IsMember(target_names));
  command
      ->add_option("--dtype", args->raw, "The element type of raw files (others carry their own)")
      ->check(CLI::IsMember(dtype_names));
  command->add_option("--tensor", args->tensor, "Reduce only this tensor of .safetensors files");
  command->add_flag("--bound", args->bound,
                    "Beside each value a rigorous bound of its error, from the same pass");
  command->add_flag("--json", args->json, "One JSON object per line");
  command->footer(
      "Prints one line per array and operation, in the order given: FILE or FILE:TENSOR (of two\n"
      "inputs both), shape, element type, the operation where there are several, value, bits in\n"
      "hex. --method, --acc, --out-dtype and --ddof are for those of the operations that take "
      "them;\n"
      "it is an error where none does. The minimum of no elements, or its index, is one too.\n"
      "With --bound, \"+- BOUND\" follows: the value is no farther from the exact one, 0 where it is\n"
      "exact; inf where it is not finite, or an overflow on the way cannot be excluded. prod, var,\n"
      "std, skewness, kurtosis and logsumexp have no bound, and are an error then.\n"
      "A JSON object has file, file2 (the second of two), tensor, shape, dtype, op, method, acc,\n"
      "out_dtype, ddof (where it is not 0), order_version, device, value, bits and, with --bound,\n"
      "bound; tensor, method and acc are null where there is none.\n"
      "A file that fails prints one line on stderr and nothing on stdout; the others are still\n"
      "reduced, and the exit status is that of the first failure.");
  return {command, [args] { return reduce(*args); }};
}

}  // namespace bitfold::cli
