// bitfold record
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/error.hpp>

#include "cli/arguments.hpp"
#include "cli/chosen.hpp"
#include "cli/common.hpp"
#include "cli/fingerprint.hpp"
#include "cli/operands.hpp"
#include "cli/operations.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/golden.hpp"
#include "io/mapping.hpp"

namespace bitfold::cli {
namespace {

struct record_arguments {
  // As they were given, each a list with commas.
  std::vector<std::string> op_lists{std::string(name(all_ops[0]))}, method_lists;
  std::vector<std::string> ops;
  raw_options raw;
  op_options options;
  int threads = 0;
  bool quiet = false;
  std::string out;
  std::vector<std::string> tensors;  // names and patterns
  std::vector<std::string> files;
};

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// The parts of the lists, each of which is one of `names` or "all".
std::vector<std::string> parts_of(const std::vector<std::string>& lists, const char* option,
                                  const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& list : lists)
    for (const std::string& part : split(list)) {
      if (part != "all" && !has(names, part))
        refuse(fmt::format("{}: {} is not one of {}, all{}", option, io::in_quotes(part),
                           fmt::join(names, ", "), did_you_mean(part, names)));
      all.push_back(part);
    }
  return all;
}

// Those of `names` that the list has; all of them for "all".
std::vector<std::string> chosen(const std::vector<std::string>& list,
                                const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& n : names)
    if (has(list, "all") || has(list, n)) out.push_back(n);
  return out;
}

// Alone it is every operation of one input; beside others, the operation of that name.
bool every_op(const record_arguments& args) { return args.ops == std::vector<std::string>{"all"}; }

std::vector<op_id> chosen_ops(const record_arguments& args) {
  std::vector<op_id> ops;
  for (const op_id op : all_ops)
    if (every_op(args) ? info(op).inputs == 1 : has(args.ops, std::string(name(op))))
      ops.push_back(op);
  return ops;
}

io::golden_file record_files(const record_arguments& args, const std::vector<op_id>& ops,
                             file_names files, const std::vector<std::string>& tensors,
                             progress& bar) {
  io::golden_file g;
  std::vector<std::vector<io::array>> arrays;
  for (const std::string& file : files) {
    auto read = io::read_file(file, args.raw.reading());
    g.sources.push_back({file, read.format});
    arrays.push_back(std::move(read.arrays));
    choose(tensors, arrays.back());
  }
  std::vector<fingerprint_job> jobs;
  for (const auto& inputs :
       operands_of(files, arrays[0], files.size() == 2 ? &arrays[1] : nullptr)) {
    if (inputs.y) check_same_shape(files, inputs);
    const io::array& a = *inputs.x;
    jobs.push_back({inputs, {}});
    auto& reductions = jobs.back().reductions;
    if (!arithmetic_of(a.type)) continue;  // a digest
    within(files, a.name, [&] {
      if (!every_op(args)) check_defined(ops, a);
      for (const op_id op : ops)
        if (is_defined(op, a))
          for (const reduction& r : reductions_of(op, a.type, args.options))
            reductions.push_back(r);
    });
  }
  const waiting clock(bar, files[0]);
  const auto measured = fingerprints(jobs, true, args.threads, bar);
  io::check_mapped_files();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const io::array& a = *jobs[i].inputs.x;
    g.arrays.push_back({a.name, a.type, a.shape, measured[i].digests, {}});
    for (std::size_t k = 0; k < jobs[i].reductions.size(); ++k)
      g.arrays.back().results.push_back({jobs[i].reductions[k], measured[i].results[k]});
  }
  return g;
}

// Those of --tensor, as patterns.
std::vector<std::string> chosen_tensors(const record_arguments& args) {
  if (args.tensors.empty()) return {};
  std::vector<std::string> names;
  for (const std::string& file : args.files)
    for (const io::array& a : io::read_arrays(file, args.raw.reading())) names.push_back(a.name);
  return patterns_of(args.tensors, names,
                     args.files.size() == 1 ? io::printable(args.files[0])
                                            : fmt::format("the {} files", args.files.size()));
}

int record(record_arguments& args) {
  args.ops = parts_of(args.op_lists, "--ops", op_names);
  for (auto op = args.ops.begin(); op != args.ops.end(); ++op)
    if (std::find(args.ops.begin(), op, *op) != op)
      throw error(errc::usage, fmt::format("--ops: {} is given twice", *op));
  const auto methods = parts_of(args.method_lists, "--method", method_names);
  // Of all operations each goes by those of the methods that it takes, and one that takes none of
  // them is left out.
  args.options.every_method = has(methods, "all") || every_op(args);
  args.options.methods = chosen(methods, method_names);
  const std::vector<op_id> ops = chosen_ops(args);
  const std::size_t inputs = inputs_of(ops, "--ops", args.files.size());
  check_options(ops, args.options);
  const auto groups = groups_of(args.files, inputs);
  refuse_twice(groups);
  refuse_overwriting("--out", args.out, args.files);
  for (const std::string& file : args.files)
    if (!io::is_utf8(file))
      throw error(
          errc::usage,
          io::printable(file) + ": a golden file cannot hold this file's name, which is not UTF-8");
  io::golden g{BITFOLD_VERSION, {}, chosen_tensors(args)};
  bytes_read bar(args.files, args.quiet);
  for (const file_names files : groups) {
    g.files.push_back(record_files(args, ops, files, g.tensors, bar));
    bar.end_of(files);
  }
  bar.leave();
  std::string text;
  try {
    text = io::golden_text(g);
  } catch (const error& e) {
    throw error(e.code(), fmt::format("--out {}: `bitfold check` could not read it: {}",
                                      io::printable(args.out), e.what()));
  }
  write_file(args.out, text);
  return 0;
}

}  // namespace

subcommand add_record(CLI::App& app) {
  const auto args = std::make_shared<record_arguments>();
  CLI::App* command =
      app.add_subcommand("record", "Store what the files hold and reduce to, for `bitfold check`");
  const auto list = [&](const char* option, std::vector<std::string>& values,
                        const std::string& help, const std::string& first) {
    command->add_option(option, values, help)->allow_extra_args(false)->default_str(first);
  };
  list("--ops", args->op_lists,
       "The operations, separated by commas, of one input or of two, which take files in pairs. "
       "`all`, unless it is one of several, is every one of one input, less those that an array "
       "without elements has no result of, and each by those of the methods that it takes. "
       "`bitfold ops` lists them",
       op_names[0]);
  list("--method", args->method_lists,
       "The methods, separated by commas, or `all` that each operation takes. " + method_help(),
       method_names[0]);
  command
      ->add_option("--tensor", args->tensors,
                   "Of files of named arrays record these alone: a name, or a pattern such as "
                   "'layers.0.*'. It may be given several times; `check` then looks at no others")
      ->allow_extra_args(false);
  add_op_options(*command, args->options);
  add_threads(*command, args->threads);
  add_raw_options(*command, args->raw);
  add_quiet(*command, args->quiet);
  command->add_option("--out", args->out, "The golden file to write")->required();
  add_files(*command, "FILE", args->files,
            std::string(files_help) +
                ". Operations of two inputs take files in pairs: of each pair, the "
                "arrays of one name, shape and type")
      ->required();
  command->footer(
      "--method, --acc and --ddof are for those of the operations that take them.\n"
      "The golden file is JSON, one array per line. It is written whole or, where anything fails,\n"
      "not at all. See docs/regression.md.");
  return {command, [args] { return record(*args); }};
}

}  // namespace bitfold::cli
