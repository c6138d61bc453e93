// bitfold reduce
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <bitfold/reduction.hpp>

#include "cli/common.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"

namespace bitfold::cli {
namespace {

const std::vector<std::string> target_names =
    names_of(std::vector{cpu::target::scalar, cpu::target::avx2, cpu::target::avx512});

struct reduce_arguments {
  std::string op, method = std::string(all_methods[0].name), device = "cpu";
  std::optional<std::string> acc, out, raw, tensor, target;
  std::optional<int> threads;
  bool json = false;
  std::vector<std::string> files;
};

std::string text_line(const std::string& file, const io::array& a, scalar value) {
  const std::string tensor = a.name.empty() ? "" : ":" + a.name;
  return fmt::format("{}  {}  {}  {}  {}\n", io::printable(file + tensor), io::shape_text(a.shape),
                     name(a.type), to_string(value), to_hex(value));
}

std::string json_line(const std::string& file, const io::array& a, const reduction& r,
                      const std::string& device, scalar value) {
  // The shortest decimal of to_string is a JSON number, which a JSON library would print otherwise.
  std::string number = to_string(value);
  if (number == "nan" || number == "inf" || number == "-inf") number = json_string(number);
  return fmt::format(
      R"({{"file":{},"tensor":{},"shape":{},"dtype":"{}","op":"{}","method":"{}","acc":"{}",)"
      R"("out_dtype":"{}","order_version":{},"device":"{}","value":{},"bits":"{}"}})"
      "\n",
      json_string(file), a.name.empty() ? "null" : json_string(a.name), io::shape_text(a.shape),
      name(a.type), name(r.op), name(r.method), name(r.acc), name(r.out), order::version, device,
      number, to_hex(value));
}

// The whole output of one file, so that a file which fails half-way prints nothing.
std::string reduce_file(const reduce_arguments& args, const std::string& file) {
  const auto arrays = io::read_arrays(file, {parse_dtype_option(args.raw), args.tensor});
  const cpu::options how{args.threads.value_or(0),
                         args.target ? cpu::parse_target(*args.target) : std::nullopt};
  std::string lines;
  for (const io::array& a : arrays) {
    try {
      const reduction r =
          make_reduction(*parse_op(args.op), *parse_method(args.method), a.type,
                         parse_dtype_option(args.acc), parse_dtype_option(args.out));
      const scalar value = args.device == "cuda" ? cuda::reduce_host(r, a.data, a.count)
                                                 : cpu::reduce(r, a.data, a.count, how);
      lines += args.json ? json_line(file, a, r, args.device, value) : text_line(file, a, value);
    } catch (const error& e) {
      io::check_mapped_files();
      throw about(file, a.name, e);
    }
  }
  io::check_mapped_files();
  return lines;
}

// What can be told before any file is opened.
void check(const reduce_arguments& args) {
  const auto usage = [](const std::string& text) { throw error(errc::usage, text); };
  if (args.device == "cpu") {
    const auto available = names_of(cpu::available_targets());
    if (args.target &&
        std::find(available.begin(), available.end(), *args.target) == available.end())
      usage(fmt::format("--target {}: not in this build or not on this machine (available: {})",
                        *args.target, fmt::join(available, " ")));
    return;
  }
  if (args.target || args.threads) usage("--target and --threads are for --device cpu");
  if (!all_methods[static_cast<std::size_t>(*parse_method(args.method))].on_gpu)
    usage(fmt::format("--method {}: not available with --device cuda", args.method));
  if (!cuda::built())
    throw error(errc::no_device,
                "--device cuda: this bitfold was built without CUDA; use --device cpu, or build it "
                "with CUDA");
  if (cuda::devices().empty())
    throw error(errc::no_device,
                "--device cuda: no usable GPU; check the driver and CUDA_VISIBLE_DEVICES, or use "
                "--device cpu");
}

int reduce(const reduce_arguments& args) {
  check(args);
  int status = 0;
  for (const std::string& file : args.files) {
    std::string lines;
    try {
      lines = reduce_file(args, file);
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
  command->add_option("OP", args->op, "The operation")->required()->check(CLI::IsMember(op_names));
  command
      ->add_option("FILE", args->files,
                   "A .npy file, a .safetensors file, or raw elements (--dtype)")
      ->required();
  command->add_option("--method", args->method, method_help())
      ->check(CLI::IsMember(method_names))
      ->capture_default_str();
  command->add_option("--device", args->device, "Where to reduce; the bits are the same")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--acc", args->acc,
                   "The accumulator of floats (default: f64 for f64, f32 for narrower ones)")
      ->check(CLI::IsMember({"f32", "f64"}));
  command
      ->add_option("--out-dtype", args->out,
                   "The type of the result (default: the input's for floats, i64 or u64 for "
                   "integers)")
      ->check(CLI::IsMember(dtype_names));
  command->add_option("--threads", args->threads, "CPU threads (default, and 0: one per core)")
      ->transform(thread_count());
  command->add_option("--target", args->target, "CPU instruction set (default: the best available)")
      ->check(CLI::IsMember(target_names));
  command
      ->add_option("--dtype", args->raw, "The element type of raw files (others carry their own)")
      ->check(CLI::IsMember(dtype_names));
  command->add_option("--tensor", args->tensor, "Reduce only this tensor of .safetensors files");
  command->add_flag("--json", args->json, "One JSON object per line");
  command->footer(
      "Prints one line per array: FILE or FILE:TENSOR, shape, element type, value, bits in hex.\n"
      "A file that fails prints one line on stderr and nothing on stdout; the others are still\n"
      "reduced, and the exit status is that of the first failure.");
  return {command, [args] { return reduce(*args); }};
}

}  // namespace bitfold::cli
