// The command `bitfold`. Exit status: 0, or the errc of what went wrong (2 usage, 3 bad input, 4 no
// device, 5 CUDA), or 1 when the output cannot be written or memory runs out.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <bitfold/reduction.hpp>
#include <bitfold/reference.hpp>

#include "io/arrays.hpp"
#include "io/field.hpp"

namespace {

using namespace bitfold;

constexpr int failure = 1;

// ---- Names
// ---------------------------------------------------------------------------------------

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& item : list) {
    if constexpr (requires { item.name; })
      names.emplace_back(item.name);
    else
      names.emplace_back(name(item));
  }
  return names;
}
const std::vector<std::string> op_names = names_of(all_ops);
const std::vector<std::string> method_names = names_of(all_methods);
const std::vector<std::string> dtype_names = names_of(all_dtypes);
const std::vector<std::string> target_names =
    names_of(std::vector{cpu::target::scalar, cpu::target::avx2, cpu::target::avx512});

std::optional<dtype> parse_dtype_option(const std::optional<std::string>& text) {
  return text ? parse_dtype(*text) : std::nullopt;
}

// ---- Output
// --------------------------------------------------------------------------------------

// Not through fmt::print or std::cout: their ways of losing or throwing a write error differ.
void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
}

void complain(std::string_view text) {
  std::fputs(fmt::format("bitfold: {}\n", text).c_str(), stderr);
}

// As a JSON string; bytes that are not UTF-8 (a file's name may have some) become U+FFFD.
std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_strings(const std::vector<std::string>& list) {
  std::vector<std::string> quoted;
  for (const auto& text : list) quoted.push_back(json_string(text));
  return fmt::format("[{}]", fmt::join(quoted, ","));
}

// ---- bitfold reduce
// ------------------------------------------------------------------------------

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
      const std::string tensor = a.name.empty() ? "" : "tensor " + io::in_quotes(a.name) + ": ";
      throw error(e.code(), io::printable(file) + ": " + tensor + e.what());
    }
  }
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

// ---- bitfold order
// -------------------------------------------------------------------------------

struct order_arguments {
  std::uint64_t count = 0;
  std::string method = std::string(all_methods[0].name), format = "text";
};

int print_order(const order_arguments& args) {
  const method_id method = *parse_method(args.method);
  const std::uint64_t most = max_printed(method);
  if (args.count > most)
    throw error(errc::usage,
                fmt::format("N: {} elements are too many to print (at most {}{})", args.count, most,
                            method == method_id::sequential ? " when sequential" : ""));
  const order_format format = args.format == "text"         ? order_format::text
                              : args.format == "expression" ? order_format::expression
                                                            : order_format::dot;
  write_out(bitfold::print_order(args.count, method, format));
  return 0;
}

// ---- bitfold info
// --------------------------------------------------------------------------------

int info(bool json) {
  const auto targets = names_of(cpu::available_targets());
  const auto gpus = cuda::devices();
  if (json) {
    write_out(fmt::format(
        R"({{"version":{},"order_version":{},"cpu_target":{},"cpu_targets":{},"cuda_built":{},)"
        R"("gpus":{}}})"
        "\n",
        json_string(BITFOLD_VERSION), order::version, json_string(targets.back()),
        json_strings(targets), cuda::built(), json_strings(gpus)));
    return 0;
  }
  std::string text =
      fmt::format("bitfold {}\norder version {}\ncpu target {} (available: {})\ncuda {}\n",
                  BITFOLD_VERSION, order::version, targets.back(), fmt::join(targets, " "),
                  !cuda::built() ? "not built"
                  : gpus.empty() ? "built, no usable GPU"
                                 : "built");
  for (std::size_t i = 0; i < gpus.size(); ++i)
    text += fmt::format("gpu {} {}\n", i, io::printable(gpus[i]));
  write_out(text);
  return 0;
}

// ---- The command line
// ----------------------------------------------------------------------------

int run(int argc, char** argv) {
  CLI::App app{
      "Deterministic reductions: the same bits on every machine and for any number of "
      "threads"};
  app.name("bitfold");
  app.set_version_flag("--version", "bitfold " BITFOLD_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 fine, 2 usage, 3 bad input, 4 no such device, 5 CUDA error, 1 anything "
      "else (such as output that cannot be written).");

  std::string methods;
  for (const auto& m : all_methods)
    methods += fmt::format("\n{}: {}{}", m.name, m.summary, m.on_gpu ? "" : " (cpu only)");

  reduce_arguments r;
  auto* reduce_command = app.add_subcommand("reduce", "Reduce every array in the files");
  reduce_command->add_option("OP", r.op, "The operation")
      ->required()
      ->check(CLI::IsMember(op_names));
  reduce_command
      ->add_option("FILE", r.files, "A .npy file, a .safetensors file, or raw elements (--dtype)")
      ->required();
  reduce_command->add_option("--method", r.method, "How to accumulate:" + methods)
      ->check(CLI::IsMember(method_names))
      ->capture_default_str();
  reduce_command->add_option("--device", r.device, "Where to reduce; the bits are the same")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  reduce_command
      ->add_option("--acc", r.acc,
                   "The accumulator of floats (default: f64 for f64, f32 for narrower ones)")
      ->check(CLI::IsMember({"f32", "f64"}));
  reduce_command
      ->add_option("--out-dtype", r.out,
                   "The type of the result (default: the input's for floats, i64 or u64 for "
                   "integers)")
      ->check(CLI::IsMember(dtype_names));
  reduce_command->add_option("--threads", r.threads, "CPU threads (default, and 0: one per core)")
      ->check(CLI::NonNegativeNumber);
  reduce_command
      ->add_option("--target", r.target, "CPU instruction set (default: the best available)")
      ->check(CLI::IsMember(target_names));
  reduce_command
      ->add_option("--dtype", r.raw, "The element type of raw files (others carry their own)")
      ->check(CLI::IsMember(dtype_names));
  reduce_command->add_option("--tensor", r.tensor, "Reduce only this tensor of .safetensors files");
  reduce_command->add_flag("--json", r.json, "One JSON object per line");
  reduce_command->footer(
      "Prints one line per array: FILE or FILE:TENSOR, shape, element type, value, bits in hex.\n"
      "A file that fails prints one line on stderr and nothing on stdout; the others are still\n"
      "reduced, and the exit status is that of the first failure.");

  order_arguments o;
  auto* order_command = app.add_subcommand("order", "Print the tree in which N elements are added");
  order_command
      ->add_option("N", o.count, "The number of elements, at most 65536 (sequential: 4096)")
      ->required();
  order_command->add_option("--method", o.method, "How to accumulate:" + methods)
      ->check(CLI::IsMember(method_names))
      ->capture_default_str();
  order_command->add_option("--format", o.format, "The notation; dot is for Graphviz")
      ->check(CLI::IsMember({"text", "expression", "dot"}))
      ->capture_default_str();

  bool info_json = false;
  auto* info_command = app.add_subcommand("info", "Print the version and the devices");
  info_command->add_flag("--json", info_json, "As one JSON object");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    if (app.exit(e, out, err) == 0) {  // --help and --version
      write_out(out.str());
      return 0;
    }
    throw error(errc::usage, io::printable(e.what()) + " (bitfold --help tells more)");
  }
  if (reduce_command->parsed()) return reduce(r);
  if (order_command->parsed()) return print_order(o);
  return info(info_json);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error like any other
  try {
    return run(argc, argv);
  } catch (const error& e) {
    complain(e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    complain("out of memory");
  } catch (const std::exception& e) {
    complain(e.what());
  }
  return failure;
}
