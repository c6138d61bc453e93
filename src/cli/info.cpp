// bitfold info
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/order.hpp>

#include "cli/common.hpp"
#include "gpu/kernel_files.hpp"
#include "io/field.hpp"

namespace bitfold::cli {
namespace {

int info(bool json) {
  const auto targets = names_of(cpu::available_targets());
  const auto gpus = cuda::devices();
  const std::string compiler = cuda::compiler();
  const auto kernels = gpu::kernel_files::of_user();
  const std::string why_unkept = kernels.why_unkept();
  if (json) {
    write_out(fmt::format(
        R"({{"version":{},"order_version":{},"cpu_target":{},"cpu_targets":{},"gpu_compiler":{},)"
        R"("gpu_kernels":{},"gpus":{}}})"
        "\n",
        json_string(BITFOLD_VERSION), order::version, json_string(targets.back()),
        json_strings(targets), compiler.empty() ? "null" : json_string(compiler),
        why_unkept.empty() ? json_string(kernels.directory().string()) : "null",
        json_strings(gpus)));
    return 0;
  }
  std::string text =
      fmt::format("bitfold {}\norder version {}\ncpu target {} (available: {})\ngpu compiler {}\n",
                  BITFOLD_VERSION, order::version, targets.back(), fmt::join(targets, " "),
                  compiler.empty() ? "none (NVRTC is not installed)" : compiler);
  text +=
      why_unkept.empty()
          ? fmt::format("gpu kernels are kept in {}\n", io::printable(kernels.directory().string()))
          : fmt::format("gpu kernels are not kept ({})\n", io::printable(why_unkept));
  if (gpus.empty()) text += "gpu none usable\n";
  for (std::size_t i = 0; i < gpus.size(); ++i)
    text += fmt::format("gpu {} {}\n", i, io::printable(gpus[i]));
  write_out(text);
  return 0;
}

}  // namespace

subcommand add_info(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("info", "Print the version, CPU targets, GPUs and their compiler");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As one JSON object");
  return {command, [json] { return info(*json); }};
}

}  // namespace bitfold::cli
