// Kernels for GPUs, which are compiled when they are first asked for: those that are kept in files.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include <bitfold/cuda.hpp>
#include <bitfold/view.hpp>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/operations.hpp"
#include "cli/progress.hpp"
#include "gpu/array_plan.hpp"
#include "gpu/kernel_files.hpp"
#include "io/field.hpp"

namespace bitfold::cli {
namespace {

struct kernels_arguments {
  std::string action, op_list, shape, gpu;
  std::optional<std::string> pack;
  std::vector<std::string> types{"f32"};
  std::vector<int> axes;
  std::optional<std::string> method;
  op_options options;
  bool quiet = false;
};

gpu::kernel_files files_of(const kernels_arguments& args) {
  return args.pack ? gpu::kernel_files::of_pack(*args.pack) : gpu::kernel_files::of_user();
}

// Those there are. Of the user's own there may be none yet.
gpu::kernel_files existing(const kernels_arguments& args) {
  auto files = files_of(args);
  std::error_code failed;
  const bool made = std::filesystem::exists(files.directory(), failed);
  if (const std::string reason = files.why_unread(); !reason.empty() && (args.pack || made))
    throw error(errc::usage, args.pack ? "--pack: " + reason : reason);
  return files;
}

// Of a key's lines the first says for which GPU and by what; the second is the kernel.
std::string line_of(const gpu::kernel_files::entry& e) {
  const std::string_view key = e.key;
  const std::size_t first = key.find('\n'), second = key.find('\n', first + 1);
  if (first == std::string_view::npos) return "";
  const std::string_view by = key.substr(0, key.find(", ")),
                         what = key.substr(first + 1, second - first - 1);
  std::string ops;
  constexpr std::string_view id = "op_id::";
  for (std::size_t at = 0; (at = key.find(id, at)) != std::string_view::npos;) {
    at += id.size();
    const std::string_view op = key.substr(at, key.find_first_of(",>", at) - at);
    ops.append(ops.empty() ? "  of " : ", ").append(op);
  }
  return fmt::format("{}  {}{}  {} bytes\n", io::printable(std::string(by)),
                     io::printable(std::string(what)), io::printable(ops), e.bytes);
}

int list(const kernels_arguments& args) {
  const auto files = existing(args);
  std::string text;
  for (const auto& e : files.list())
    if (!e.key.starts_with("compiler\n")) text += line_of(e);
  write_out(text);
  return 0;
}

int clear(const kernels_arguments& args) {
  const auto files = existing(args);
  const auto [count, reason] = files.clear();
  write_out(
      fmt::format("{} files removed from {}\n", count, io::printable(files.directory().string())));
  if (!reason.empty()) throw error(errc::usage, reason);
  return 0;
}

// "9.0".
std::pair<int, int> capability_of(const std::string& text) {
  int major = 0, minor = 0;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto first = std::from_chars(begin, end, major);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '.') {
    const auto second = std::from_chars(first.ptr + 1, end, minor);
    if (second.ec == std::errc() && second.ptr == end && minor >= 0 && minor < 10 && major > 0)
      return {major, minor};
  }
  throw error(errc::usage,
              fmt::format("--gpu: {} is no compute capability, such as 9.0", io::in_quotes(text)));
}

std::vector<std::int64_t> extents_of(const std::string& text) {
  std::vector<std::int64_t> extents;
  for (const std::string& part : split(text)) {
    std::int64_t n = 0;
    const auto got = std::from_chars(part.data(), part.data() + part.size(), n);
    if (got.ec != std::errc() || got.ptr != part.data() + part.size() || n < 1 ||
        n > std::int64_t{1} << 48)
      throw error(errc::usage,
                  fmt::format("--shape: {} is no number of elements", io::in_quotes(part)));
    extents.push_back(n);
  }
  if (extents.size() > max_axes) throw error(errc::usage, "--shape: more than 8 axes");
  return extents;
}

std::vector<cuda::request> requests_of(const std::vector<reduction>& all,
                                       const kernels_arguments& args) {
  std::vector<cuda::request> requests;
  const auto add_view = [&](const std::vector<std::int64_t>& extents, std::vector<int> axes) {
    alignas(16) static const std::byte anywhere[16]{};
    const view x = row_major(all[0].in(), anywhere, extents);
    if (axes.empty())
      for (int k = 0; k < x.rank; ++k) axes.push_back(k);
    requests.push_back(
        cuda::request::axes(all, x, info(all[0].op()).inputs == 2 ? &x : nullptr, axes));
  };
  if (!args.shape.empty()) {
    add_view(extents_of(args.shape), args.axes);
    return requests;
  }
  for (const std::size_t n : gpu::lengths_of_ways)
    for (const bool aligned : {true, false})
      requests.push_back(cuda::request::array(all, n, aligned));
  // `reduce` has views, which go by other kernels where there are fewer than two elements.
  add_view({1}, {});
  if (std::ranges::all_of(
          all, [](const reduction& r) { return info(r.op()).empty != if_empty::refused; }))
    add_view({0}, {});
  return requests;
}

int make(kernels_arguments& args) {
  const std::vector<op_id> ops = parse_ops(args.op_list);
  if (args.method) args.options.methods = {*args.method};
  check_options(ops, args.options);
  const auto [major, minor] = capability_of(args.gpu);
  std::vector<cuda::request> requests;
  for (const std::string& type : args.types) {
    std::vector<reduction> all;
    for (const op_id op : ops)
      all.push_back(reductions_of(op, *parse_dtype(type), args.options).at(0));
    for (cuda::request& r : requests_of(all, args)) requests.push_back(std::move(r));
  }
  std::size_t count = 0;
  progress bar(0, passing_unless(args.quiet));
  {
    const waiting clock(bar, "kernels");
    count = cuda::request::make_ahead(requests, major, minor, args.pack.value_or(""));
  }
  bar.leave();
  write_out(fmt::format("{} kernels for compute capability {} in {}\n", count, args.gpu,
                        io::printable(files_of(args).directory().string())));
  return 0;
}

int kernels(const CLI::App& command, kernels_arguments& args) {
  const auto refuse = [](const std::string& why) { throw error(errc::usage, why); };
  if (args.pack && args.pack->empty()) refuse("--pack: names no folder");
  if (args.action != "make") {
    for (const CLI::Option* option : command.get_options())
      if (const std::string name = option->get_name();
          option->count() > 0 && name != "ACTION" && name != "--pack" && name != "--quiet")
        refuse(fmt::format("{}: is for make", name));
    return args.action == "list" ? list(args) : clear(args);
  }
  if (args.op_list.empty()) refuse("OP: make wants operations");
  if (args.gpu.empty()) refuse("--gpu: make wants a compute capability, such as 9.0");
  if (!args.axes.empty() && args.shape.empty()) refuse("--axis: is for --shape");
  return make(args);
}

}  // namespace

subcommand add_kernels(CLI::App& app) {
  const auto args = std::make_shared<kernels_arguments>();
  CLI::App* command = app.add_subcommand(
      "kernels",
      "List the kernels for GPUs that are kept in files, make some ahead, or remove them");
  command
      ->add_option("ACTION", args->action,
                   "list: those there are, the one used last first; clear: remove them; make: "
                   "compile, without a GPU, what operations want together, of whole arrays or of "
                   "--shape")
      ->required()
      ->check(CLI::IsMember({"list", "clear", "make"}));
  command->add_option("OP", args->op_list, "To make: the operations, separated by commas");
  command->add_option("--pack", args->pack,
                      "A folder of kernels for machines without NVRTC, to which BITFOLD_KERNELS is "
                      "set there (default: the user's own files)");
  command->add_option("--gpu", args->gpu, "To make: for which compute capability, such as 9.0");
  command->add_option("--dtype", args->types, "To make: element types")
      ->delimiter(',')
      ->check(CLI::IsMember(dtype_names))
      ->capture_default_str();
  command->add_option("--method", args->method, "As with reduce")
      ->check(CLI::IsMember(method_names));
  add_op_options(*command, args->options);
  command->add_option("--shape", args->shape,
                      "To make: extents of a row-major array, such as 64,1000");
  command->add_option("--axis", args->axes, "Its axes that are reduced (default: all)")
      ->delimiter(',');
  add_quiet(*command, args->quiet);
  command->footer(
      "A kernel is compiled when it is first asked for, by NVRTC, and kept in BITFOLD_CACHE, or\n"
      "else XDG_CACHE_HOME/bitfold, or ~/.cache/bitfold: at most 1 GiB, those used last. What is\n"
      "made ahead is found there by the first call, and in a pack also without NVRTC. See\n"
      "docs/kernels.md.");
  return {command, [command, args] { return kernels(*command, *args); }};
}

}  // namespace bitfold::cli
