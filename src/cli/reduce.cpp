// bitfold reduce
#include <algorithm>
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

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/explained.hpp"
#include "cli/gpu.hpp"
#include "cli/lines.hpp"
#include "cli/operands.hpp"
#include "cli/operations.hpp"
#include "cli/pieces.hpp"
#include "cli/progress.hpp"
#include "cli/shapes.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/stream.hpp"

namespace bitfold::cli {
namespace {

const std::vector<std::string> target_names =
    names_of(std::vector(std::begin(cpu::all_targets), std::end(cpu::all_targets)));

struct reduce_arguments {
  std::string op_list, device = "cpu";
  std::optional<std::string> method, tensor, target;
  raw_options raw;
  op_options options;
  std::optional<int> threads;
  std::optional<std::string> overflow;
  bool bound = false, json = false, stream = false, total = false, explain = false, quiet = false;
  shape_options shapes;
  std::vector<std::string> files;

  std::vector<op_id> ops;          // those of op_list
  std::vector<file_names> groups;  // the files, or pairs of them, that are reduced together
  bool exact() const { return method == name(method_id::exact); }
  bool refuses_overflow() const { return overflow == "error"; }
  bool on_gpu() const { return device == "cuda"; }
  cpu::options cpu_options() const {
    return {threads.value_or(0), target ? cpu::parse_target(*target) : std::nullopt};
  }
  io::read_options reading() const {
    io::read_options options = raw.reading();
    options.tensor = tensor;
    return options;
  }
  std::optional<method_id> method_of(op_id op) const {
    const auto asked = method ? parse_method(*method) : std::nullopt;
    return asked && takes(op, *asked) ? asked : std::nullopt;
  }
};

template <class Result>
std::string lines_of(const reduce_arguments& args, const subject& s,
                     const std::vector<reduction>& all, const std::vector<Result>& got,
                     const executor& exec = {}) {
  std::string lines;
  if (args.explain)
    return text_line(s, "", {static_cast<explained_device*>(exec.device)->take(), ""});
  for (std::size_t k = 0; k < all.size(); ++k)
    lines += args.json ? json_line(s, all[k], args.device, show(got[k]))
                       : text_line(s, all.size() > 1 ? fmt::format("{}  ", name(all[k].op())) : "",
                                   show(got[k]));
  return lines;
}

std::vector<reduction> all_reductions(const reduce_arguments& args, io::element_type type) {
  std::vector<reduction> all;
  for (const op_id op : args.ops) all.push_back(reductions_of(op, type, args.options).at(0));
  return all;
}

void check_overflow(const reduce_arguments& args, const totals& sums) {
  for (std::size_t k = 0; k < sums.reductions().size(); ++k)
    if (const reduction& r = sums.reductions()[k]; args.refuses_overflow() && !sums.fits(k))
      throw error(errc::bad_input,
                  fmt::format("--overflow error: {} does not fit {}", name(r.op()), name(r.out())));
}

std::vector<result> results(const reduce_arguments& args, const totals& sums) {
  check_overflow(args, sums);
  std::vector<result> all;
  for (std::size_t k = 0; k < sums.reductions().size(); ++k) {
    const bounded b = result_with_bound(sums, k);
    all.push_back({b.value, args.bound ? std::optional(b.bound) : std::nullopt});
  }
  return all;
}

// Takes out the arrays of types without arithmetic, beside which there are others, and adds a line
// about them to `left_out`.
template <class Array>
void leave_out(std::vector<operands<Array>>& all, file_names files,
               std::vector<std::string>& left_out) {
  const auto rest = std::stable_partition(all.begin(), all.end(), [](const operands<Array>& o) {
    return arithmetic_of(o.x->type).has_value();
  });
  if (rest == all.begin() || rest == all.end()) return;
  left_out.push_back(fmt::format(
      "{}: {} of {} arrays have no result, for want of arithmetic: {} is {}{}",
      io::printable(text_of(files)), all.end() - rest, all.size(), io::in_quotes(rest->x->name),
      name(rest->x->type), all.end() - rest > 1 ? ", ..." : ""));
  all.erase(rest, all.end());
}

// ---- Files that are mapped

using mapped = operands<io::array>;

// The results of all, in their order.
std::vector<result> results(const reduce_arguments& args, const std::vector<reduction>& all,
                            const mapped& operands, const executor& exec) {
  const numbers_of_operands numbers(*operands.x, operands.y);
  const void *const x = numbers.x(), *const y = numbers.y();
  const std::size_t n = operands.x->count;
  if (args.refuses_overflow()) {
    std::vector<reduction> integers;
    for (const reduction& r : all)
      if (r.method() == method_id::exact && !is_float(r.out())) integers.push_back(r);
    totals exact(integers);
    exact.add(x, y, n, args.cpu_options());
    check_overflow(args, exact);
  }
  std::vector<result> results;
  if (args.bound) {
    for (const bounded& b : args.on_gpu()
                                ? cuda::reduce_host_with_bounds(all, x, y, n)
                                : cpu::reduce_with_bounds(all, x, y, n, args.cpu_options()))
      results.push_back({b.value, b.bound});
    return results;
  }
  std::vector<scalar> values(all.size());
  if (exec.device) {
    const auto flat = [&](const void* data) {
      return row_major(numbers.type(), data, {static_cast<std::int64_t>(n)});
    };
    const view first = flat(x), second = flat(y);
    std::vector<std::uint64_t> bytes(all.size());
    std::vector<void*> out;
    for (auto& b : bytes) out.push_back(&b);
    reduce_in_parts(*exec.device, all, first, y ? &second : nullptr, std::array{0}, out, exec.done);
    for (std::size_t k = 0; k < all.size(); ++k) values[k] = load_scalar(all[k].out(), &bytes[k]);
  } else {
    cpu::reduce(all, x, y, n, values, exec.cpu);
  }
  for (const scalar v : values) results.push_back({v, {}});
  return results;
}

// Calls f with what these files hold, less what is left out; its errors are about that.
template <class F>
void for_each_mapped(const reduce_arguments& args, file_names files,
                     std::vector<std::string>* left_out, F f) {
  std::vector<std::vector<io::array>> arrays;
  for (const std::string& file : files) arrays.push_back(io::read_arrays(file, args.reading()));
  auto all = operands_of(files, arrays[0], arrays.size() == 2 ? &arrays[1] : nullptr);
  if (left_out) leave_out(all, files, *left_out);
  for (const mapped& o : all)
    if (o.y && !args.shapes.axis) check_same_shape(files, o);
  for (const mapped& o : all) {
    try {
      within(files, o.x->name, [&] { f(o); });
    } catch (const error&) {
      io::check_mapped_files();
      throw;
    }
  }
  io::check_mapped_files();
}

// A device tells of its parts itself.
void tell_of_mapped(const mapped& o, const executor& exec) {
  if (!exec.device) exec.done(o.x->bytes() + (o.y ? o.y->bytes() : 0));
}

// The whole output of one file, or of two, so that one which fails half-way prints nothing.
std::string reduce_mapped(const reduce_arguments& args, file_names files, const executor& exec,
                          std::vector<std::string>& left_out) {
  std::string lines;
  for_each_mapped(args, files, &left_out, [&](const mapped& o) {
    const io::array& a = *o.x;
    check_defined(args.ops, a);
    const auto all = all_reductions(args, a.type);
    const auto got = results(args, all, o, exec);
    tell_of_mapped(o, exec);
    lines += lines_of(args, {files, a.name, a.type, a.shape}, all, got, exec);
  });
  return lines;
}

// The same with an array of results for each array and operation, which are printed or written.
std::string reduce_shaped(const reduce_arguments& args, const grouping& group,
                          result_files& outputs, file_names files, const executor& exec,
                          std::vector<std::string>& left_out) {
  std::string lines;
  result_files::contents contents;
  for_each_mapped(args, files, &left_out, [&](const mapped& o) {
    const io::array& a = *o.x;
    const auto all = all_reductions(args, a.type);
    outputs.check(all);
    auto got = group.reduce(all, a, o.y, exec);
    tell_of_mapped(o, exec);
    if (outputs.wanted())
      outputs.add(contents, files, a.name, std::move(got));
    else
      lines += lines_of(args, {files, a.name, a.type, group.common_shape(a, o.y)}, all, got, exec);
  });
  outputs.write(contents);
  return lines;
}

// ---- Files that are read in pieces

bool in_pieces(const reduce_arguments& args, file_names files) {
  return args.stream || std::find(files.begin(), files.end(), io::standard_input) != files.end();
}

// Calls f(x, add) for what these files hold: add(totals) adds its elements, after which its shape
// is known.
template <class F>
void for_each_in_pieces(const reduce_arguments& args, file_names files, progress& bar,
                        std::vector<std::string>* left_out, F f) {
  std::vector<std::unique_ptr<io::stream>> streams;
  for (const std::string& file : files)
    streams.push_back(std::make_unique<io::stream>(file, args.reading()));
  const bool two = streams.size() == 2;
  const bool lengths_known =
      std::all_of(streams.begin(), streams.end(), [](const auto& s) { return s->bytes(); });
  const auto& xs = streams[0]->arrays();
  auto all = operands_of(files, xs, two ? &streams[1]->arrays() : nullptr);
  if (left_out) leave_out(all, files, *left_out);
  for (const auto& o : all) {
    const auto refuse = [&](const char* why) { throw error(errc::usage, why); };
    if (two && lengths_known) check_same_shape(files, o);
    if (two && o.x->column_major != o.y->column_major)
      within(files, o.x->name, [&] {
        refuse("order: Fortran's and C's, which cannot be read in pieces side by side");
      });
    std::vector<streamed_array> operands{
        {streams[0].get(), static_cast<std::size_t>(o.x - xs.data())}};
    if (two)
      operands.push_back(
          {streams[1].get(), static_cast<std::size_t>(o.y - streams[1]->arrays().data())});
    f(*o.x, [&](totals& sums) {
      const bool same_length =
          add_in_pieces(sums, operands, args.cpu_options(), [&](std::size_t bytes) {
            bar.finish(static_cast<double>(bytes));
            bar.start(files[0]);
          });
      if (!same_length)
        within(files, o.x->name, [&] { refuse("shape: one ends before the other"); });
      if (two) check_same_shape(files, o);
    });
  }
  for (const auto& s : streams) s->check_end();
}

std::string reduce_in_pieces(const reduce_arguments& args, file_names files, progress& bar,
                             std::vector<std::string>& left_out) {
  std::string lines;
  for_each_in_pieces(args, files, bar, &left_out, [&](const io::array_place& a, auto add) {
    totals sums(within(files, a.name, [&] { return all_reductions(args, a.type); }));
    add(sums);
    lines += within(files, a.name, [&] {
      return lines_of(args, {files, a.name, a.type, a.shape}, sums.reductions(),
                      results(args, sums));
    });
  });
  return lines;
}

// Whatever the files hold, as one array.
std::string reduce_total(const reduce_arguments& args, progress& bar) {
  std::optional<totals> sums;
  std::uint64_t arrays = 0;
  const auto begin = [&](const auto& a) {
    if (!sums) sums.emplace(all_reductions(args, a.type));
    if (const dtype first = sums->reductions()[0].in(); io::arithmetic(a.type) != first)
      throw error(errc::usage,
                  fmt::format("dtype: {}, but what came before is {}; --total takes one",
                              name(a.type), name(first)));
    ++arrays;
  };
  for (const file_names files : args.groups) {
    const waiting clock(bar, files[0]);
    if (in_pieces(args, files))
      for_each_in_pieces(args, files, bar, nullptr, [&](const io::array_place& a, auto add) {
        within(files, a.name, [&] { begin(a); });
        add(*sums);
      });
    else
      for_each_mapped(args, files, nullptr, [&](const mapped& o) {
        begin(*o.x);
        const numbers_of_operands numbers(*o.x, o.y);
        sums->add(numbers.x(), numbers.y(), o.x->count, args.cpu_options());
      });
  }
  if (!sums) throw error(errc::usage, "--total: the files hold no array, and so no type");
  const subject all{args.files, "", sums->reductions()[0].in(), {sums->count()}, arrays};
  return lines_of(args, all, sums->reductions(), results(args, *sums));
}

// ---- The command

// Options of what only method exact can do, on the CPU.
void check_exact_options(const reduce_arguments& args) {
  const auto stdins = std::count(args.files.begin(), args.files.end(), io::standard_input);
  if (stdins > 1) throw error(errc::usage, "FILE: standard input (-) is given twice");
  for (const auto& [given, option] : {std::pair{args.stream, "--stream"},
                                      {stdins > 0, "FILE -, standard input"},
                                      {args.total, "--total"},
                                      {args.overflow.has_value(), "--overflow"}}) {
    const auto refuse = [&, option = option](const std::string& why) {
      throw error(errc::usage, fmt::format("{}: {}", option, why));
    };
    if (!given) continue;
    if (!args.exact()) refuse("is for --method exact");
    for (const op_id op : args.ops)
      if (!info(op).has_exact && !args.overflow)
        refuse(fmt::format("{} has no exact form", name(op)));
    if (args.device == "cuda" && (args.refuses_overflow() || !args.overflow))
      refuse("is for --device cpu");
  }
}

// Options that make one number of an array, and those that make an array.
void check_shapes(const reduce_arguments& args) {
  const shape_options& s = args.shapes;
  check_shape_options(s);
  if (s.gpu_memory && (!args.on_gpu() || args.bound))
    throw error(errc::usage, "--gpu-memory: is for --device cuda without --bound");
  if (!s.given()) return;
  const char* const option = s.axis ? "--axis" : s.offsets ? "--offsets" : "--keys";
  const bool reads_stdin =
      std::find(args.files.begin(), args.files.end(), io::standard_input) != args.files.end();
  for (const auto& [given, other] : {std::pair{args.stream, "--stream"},
                                     {reads_stdin, "FILE -, standard input"},
                                     {args.total, "--total"},
                                     {args.bound, "--bound"},
                                     {args.overflow.has_value(), "--overflow"}})
    if (given) throw error(errc::usage, fmt::format("{}: not with {}", other, option));
  if (args.json && s.out) throw error(errc::usage, "--json: not with --out, which prints nothing");
}

// What can be told before any file is opened.
void check(const reduce_arguments& args) {
  const auto usage = [](const std::string& text) { throw error(errc::usage, text); };
  check_options(args.ops, args.options);
  for (const op_id op : args.ops)
    if (args.bound && !has_error_bound(op, args.method_of(op)))
      usage(fmt::format("--bound: {} has none", name(op)));
  check_shapes(args);
  check_exact_options(args);
  if (args.device == "cpu") {
    if (args.explain) usage("--explain: is for --device cuda");
    const auto available = names_of(cpu::available_targets());
    if (args.target &&
        std::find(available.begin(), available.end(), *args.target) == available.end())
      usage(fmt::format("--target {}: not in this build or not on this machine (available: {})",
                        *args.target, fmt::join(available, " ")));
    return;
  }
  if (args.explain && (args.bound || args.json || args.shapes.out))
    usage("--explain: not with --bound, --json or --out");
  if (args.target || args.threads) usage("--target and --threads are for --device cpu");
  if (args.method && !info(*parse_method(*args.method)).on_gpu())
    usage(fmt::format("--method {}: not available with --device cuda", *args.method));
  if (!args.explain && cuda::devices().empty())
    throw error(errc::no_device,
                "--device cuda: no usable GPU; check the driver and CUDA_VISIBLE_DEVICES, or use "
                "--device cpu");
}

int reduce(reduce_arguments& args) {
  args.ops = parse_ops(args.op_list);
  args.groups = groups_of(args.files, inputs_of(args.ops, "OP", args.files.size()));
  if (args.method) args.options.methods = {*args.method};
  check(args);
  bytes_read bar(args.files, args.quiet);
  if (args.total) {
    const std::string lines = reduce_total(args, bar);
    bar.leave();
    write_out(lines);
    return 0;
  }
  const grouping group(args.shapes);
  result_files outputs(args.shapes, args.ops.size(), args.groups.size(), args.files);
  const auto gpu = args.explain    ? std::make_unique<explained_device>()
                   : args.on_gpu() ? first_gpu(args.shapes.gpu_memory)
                                   : std::unique_ptr<device>();
  int status = 0;  // that of the first that fails
  const auto failed = [&](const std::string& why, int code) {
    bar.leave();
    complain(why);
    if (status == 0) status = code;
  };
  for (const file_names files : args.groups) {
    std::string lines;
    std::vector<std::string> left_out;
    const executor exec{args.cpu_options(), gpu.get(), [&](std::size_t bytes) {
                          bar.finish(static_cast<double>(bytes));
                          bar.start(files[0]);
                        }};
    try {
      const waiting clock(bar, files[0]);
      lines = args.shapes.given()      ? reduce_shaped(args, group, outputs, files, exec, left_out)
              : in_pieces(args, files) ? reduce_in_pieces(args, files, bar, left_out)
                                       : reduce_mapped(args, files, exec, left_out);
    } catch (const error& e) {
      // Without the device, the other files would fail in the same way.
      if (e.code() == errc::no_device || e.code() == errc::cuda) throw;
      failed(e.what(), static_cast<int>(e.code()));
    } catch (const std::bad_alloc&) {
      failed(io::printable(files[0]) + ": out of memory", failure);
    } catch (const std::runtime_error& e) {  // --out, which cannot be written
      failed(e.what(), failure);
    }
    bar.end_of(files);
    bar.leave();
    write_out(lines);
    if (!lines.empty() || args.shapes.out)
      for (const std::string& line : left_out) failed(line, static_cast<int>(errc::bad_input));
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
  add_files(*command, "FILE", args->files,
            std::string(files_help) +
                "; - is standard input, for --method exact. Operations of two "
                "inputs take files in pairs: of each pair, the arrays of one "
                "name, shape and type")
      ->required();
  command->add_option("--method", args->method, method_help())
      ->check(CLI::IsMember(method_names))
      ->default_str(method_names[0]);
  command->add_option("--device", args->device, "Where to reduce; the bits are the same")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  add_op_options(*command, args->options);
  command
      ->add_option(
          "--out-dtype", args->options.out,
          "The type of the result, of the operations that have a choice (default: the "
          "input's for floats; for integers i64 or u64 of those that add as integers, "
          "else f64). What is added in is chosen by --acc, without which a result of a wider "
          "float is an error")
      ->check(CLI::IsMember(dtype_names));
  add_threads(*command, args->threads);
  command->add_option("--target", args->target, "CPU instruction set (default: the best available)")
      ->check(CLI::IsMember(target_names));
  add_raw_options(*command, args->raw);
  command->add_option("--tensor", args->tensor,
                      "Reduce only this tensor of files that have named ones");
  add_shape_options(*command, args->shapes);
  command->add_flag("--bound", args->bound,
                    "Beside each value a rigorous bound of its error, on a CPU from the same pass");
  command->add_flag(
      "--stream", args->stream,
      "Read the files in pieces, at a constant memory, whatever their size; pipes too. "
      "For --method exact");
  command->add_flag("--total", args->total,
                    "All arrays of all files as one: one line. For --method exact");
  command
      ->add_option("--overflow", args->overflow,
                   "For --method exact: an integer result that its type does not hold is taken "
                   "modulo 2^bits (wrap, the default), or is an error")
      ->check(CLI::IsMember({"wrap", "error"}));
  command->add_flag("--json", args->json, "One JSON object per line");
  add_quiet(*command, args->quiet);
  command->add_flag("--explain", args->explain,
                    "With --device cuda: what would be launched (kernels, grids, what they read, "
                    "workspace) instead of results; needs no GPU");
  command->footer(
      "Prints one line per array and operation, in the order given: FILE or FILE:TENSOR (of two\n"
      "inputs both), shape, element type, the operation where there are several, value, bits in\n"
      "hex. --method, --acc, --out-dtype and --ddof are for those of the operations that take\n"
      "them; it is an error where none does. The minimum of no elements, or its index, is one\n"
      "too.\n"
      "With --bound, \"+- BOUND\" follows: the value is no farther from the exact one. 0 for\n"
      "what is never rounded; inf where it is not finite, or an overflow on the way cannot be\n"
      "excluded. prod, var, std, skewness, kurtosis, logsumexp and softmax_denominator have no\n"
      "bound, and are an error then; but whatever is done by --method exact has one.\n"
      "With --total the one line begins with \"total\", and its shape is the number of elements;\n"
      "the arrays have one type. Where a file fails, there is none.\n"
      "A JSON object has file, file2 (the second of two), tensor, shape, dtype, op, method, acc,\n"
      "out_dtype, ddof (where it is not 0), order_version, device, value, bits and, with\n"
      "--bound, bound; tensor, method and acc are null where there is none. With --total it has\n"
      "files (a list) and arrays (how many, of each input) in place of file, file2 and tensor.\n"
      "With --axis, --offsets or --keys a line has the result's shape and a digest of its bits\n"
      "(XXH3-128 of the elements as --out writes them: row-major, little-endian) in place of\n"
      "value and bits, and a JSON object out_shape, digest and first, the first 8 values. With\n"
      "--axis two inputs need not have one shape: they broadcast as in NumPy, and shape is then\n"
      "that of both. With --out nothing is printed. Each file is written whole or not at all,\n"
      "and of a FILE that fails none. See docs/shapes.md.\n"
      "With --device cuda an array larger than the GPU's free memory goes through in parts, but\n"
      "not with --bound or count_distinct.\n"
      "Arrays of a type without arithmetic, such as f8_e4m3, are left out where there are\n"
      "others; one line on stderr says so, and the exit status is 3.\n"
      "A file that fails prints one line on stderr and nothing on stdout; the others are still\n"
      "reduced, and the exit status is that of the first failure.");
  return {command, [args] { return reduce(*args); }};
}

}  // namespace bitfold::cli
