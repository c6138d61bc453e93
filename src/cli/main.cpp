// The command `bitfold`. Exit status: 0, or the errc of what went wrong (2 usage, 3 bad input, 4 no
// device, 5 CUDA), or 1 when `check` or `diff` finds a difference, `report` a broken promise,
// output cannot be written or memory runs out (but 3 in `check`: it could not look); 130 when
// `report` was interrupted.
#include <csignal>
#include <exception>
#include <new>
#include <sstream>
#include <string_view>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/libraries.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"

namespace bitfold::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Deterministic reductions: the same bits on x86-64 CPUs and NVIDIA GPUs, for any number of "
      "threads"};
  app.name("bitfold");
  app.set_version_flag("--version", "bitfold " BITFOLD_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 fine, 2 usage, 3 bad input, 4 no such device, 5 CUDA error, 1 anything "
      "else (a difference that `check` or `diff` found, a promise that `report` found broken, "
      "output that "
      "cannot be written, no memory), 130 `report` interrupted. Several failures: the first one's; "
      "but a "
      "`check` that could not look at everything exits with 3.");

  std::vector<subcommand> subcommands;  // in the order of the help
  for (const auto add : {add_reduce, add_matmul, add_ops, add_record, add_check, add_diff,
                         add_order, add_report, add_kernels, add_info, add_completion, add_man})
    subcommands.push_back(add(app));
  for (const subcommand& s : subcommands) take_marks(*s.app);

  try {
    app.parse(marked(argc, argv));
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    if (app.exit(e, out, err) == 0) {  // --help and --version
      write_out(out.str());
      return 0;
    }
    const bool unknown = app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
    const CLI::App* given = app.get_subcommands().empty() ? &app : app.get_subcommands()[0];
    std::vector<std::string> names;
    for (const subcommand& s : subcommands) names.push_back(s.app->get_name());
    throw error(errc::usage, (unknown ? io::printable(argv[1]) + ": there is no such command" +
                                            did_you_mean(argv[1], names)
                                      : io::printable(without_marks(e.what())) + meant(*given, e)) +
                                 " (bitfold --help tells more)");
  }
  for (const subcommand& s : subcommands)
    if (s.app->parsed()) return s.run();
  return failure;  // not reached: one is required
}

}  // namespace
}  // namespace bitfold::cli

int main(int argc, char** argv) {
  using namespace bitfold;
  using namespace bitfold::cli;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error like any other, as is
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may grow no further
  io::clean_up_on_signals();
  io::survive_shorter_files();
  constexpr const char* for_others = "--compile-for-others";
  try {
    if (argc == 3 && std::string_view(argv[1]) == for_others)
      return cuda::compile_for_others(argv[2]);
    look_for_gpu_libraries();
    cuda::compile_by({"/proc/self/exe", for_others});
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
