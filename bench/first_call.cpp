// What a call costs the host whose kernels are compiled, read from files, or in memory; each in a
// process of its own, as only the first one compiles. Needs no nvcc.
//
//   bitfold_bench_first_call result.jsonl
#include <sys/wait.h>

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gpu/devices.hpp"
#include "result_lines.hpp"

namespace {

using namespace bitfold;
using clock = std::chrono::steady_clock;

double microseconds_since(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

struct request_of {
  const char* name;
  std::vector<reduction> all;
};
std::vector<request_of> requests() {
  const auto of = [](op_id op, dtype t) {
    return make_reduction(op, info(op).takes_method ? std::optional(method_id::tree) : std::nullopt,
                          t);
  };
  using enum op_id;
  std::vector<request_of> some{{"sum/f32", {of(sum, dtype::f32)}},
                              {"logsumexp/f16", {of(logsumexp, dtype::f16)}},
                              {"sum_exact/f32", {make_reduction(sum, method_id::exact, dtype::f32)}},
                              {"sum+min+max+mean+std/f16", {}}};
  for (const op_id op : {sum, min, max, mean, op_id::std})
    some[3].all.push_back(of(op, dtype::f16));
  return some;
}

constexpr std::size_t n = 1 << 20;

// Prints the microseconds of the first call, and of each of many that follow.
int measure(const request_of& r) {
  (void)gpu::current_device();
  const gpu::device_memory x(n * 4), out(64), workspace(cuda::workspace_bytes(r.all, n) + 16);
  std::vector<void*> to;
  for (std::size_t k = 0; k < r.all.size(); ++k) to.push_back(out.begin() + 8 * k);
  const std::size_t work = cuda::workspace_bytes(r.all, n);
  const auto call = [&] {
    cuda::reduce(r.all, x.begin(), nullptr, n, to, workspace.begin(), work);
  };
  const auto begin = clock::now();
  call();
  const double first = microseconds_since(begin);
  cuda::synchronize(nullptr);
  constexpr int calls = 200;
  double fastest = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto again = clock::now();
    for (int k = 0; k < calls; ++k) call();
    fastest = std::min(fastest, microseconds_since(again) / calls);
    cuda::synchronize(nullptr);
  }
  std::printf("%.3f %.3f\n", first, fastest);
  return 0;
}

// The same in a process of its own.
std::pair<double, double> measured_apart(const std::string& program, std::size_t k) {
  std::FILE* const out = popen((program + " --measure " + std::to_string(k)).c_str(), "r");
  double first = 0, next = 0;
  const bool read = out && std::fscanf(out, "%lf %lf", &first, &next) == 2;
  if (!out || pclose(out) != 0 || !read) throw error(errc::cuda, "a measurement failed");
  return {first, next};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 3 && std::string_view(argv[1]) == "--measure")
    return measure(requests().at(std::stoul(argv[2])));
  if (argc != 2) throw error(errc::usage, "usage: bitfold_bench_first_call RESULT.jsonl");
  if (cuda::devices().empty()) throw error(errc::no_device, "no usable GPU");
  std::string cache = (std::filesystem::temp_directory_path() / "bitfold_first.XXXXXX").string();
  if (!mkdtemp(cache.data())) throw error(errc::usage, "no temporary folder");
  setenv("BITFOLD_CACHE", cache.c_str(), 1);
  bench::json header = bench::header("first_call", argc, argv);
  header["gpu"] = cuda::devices()[0];
  header["gpu_compiler"] = cuda::compiler();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  bench::cases all;
  const auto requested = requests();
  for (std::size_t k = 0; k < requested.size(); ++k) {
    std::filesystem::remove_all(cache);
    const auto [compiled, again] = measured_apart(program, k);
    const auto [from_files, in_memory] = measured_apart(program, k);
    const std::string name = requested[k].name;
    all.add(name + "/compiled", std::nullopt, {{"host_us", compiled}});
    all.add(name + "/from_files", std::nullopt, {{"host_us", from_files}});
    all.add(name + "/in_memory", std::nullopt, {{"host_us", std::min(again, in_memory)}});
    std::printf("%-28s compiled %8.0f us, from files %6.0f us, in memory %6.2f us\n", name.c_str(),
                compiled, from_files, in_memory);
  }
  std::filesystem::remove_all(cache);
  std::ofstream file(argv[1]);
  all.write(file, header);
  return file.flush() ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
