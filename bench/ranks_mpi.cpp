// An all-reduce of f32 over ranks of MPI's, by MPI_Allreduce and by bitfold over mpi.hpp: one
// contribution a rank, in place, one thread a rank. They take turns. A time is the slowest rank's,
// and the fastest repetition is kept.
//
//   mpirun -n 2 bitfold_bench_ranks_mpi result.jsonl
#include <bitfold/mpi.hpp>
#include <bitfold/ranks.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cpu_name.hpp"
#include "result_lines.hpp"

namespace {

using namespace bitfold;

constexpr std::size_t sizes[] = {std::size_t{1} << 16, std::size_t{1} << 20, std::size_t{1} << 24,
                                 std::size_t{1} << 26};  // bytes
// Of a size; more of what is short.
constexpr int repetitions = 20;
int repetitions_of(std::size_t bytes) { return bytes > (1 << 20) ? repetitions : 10 * repetitions; }

double seconds_of(const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  call();
  double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 2) {
    std::fputs("usage: mpirun -n RANKS bitfold_bench_ranks_mpi RESULT.jsonl\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  {
    mpi_communicator world(MPI_COMM_WORLD);
    bench::cases cases;
    for (const std::size_t bytes : sizes) {
      const std::size_t n = bytes / sizeof(float);
      std::vector<float> x(n);
      const auto by = [&](method_id method) {
        return [&, r = make_reduction(op_id::sum, method, dtype::f32)] {
          cpu::all_reduce(world, r, x.data(), n, x.data(), {.threads = 1});
        };
      };
      const std::vector<std::pair<std::string, std::function<void()>>> calls{
          {"mpi",
           [&] {
             MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(n), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
           }},
          {"bitfold_tree", by(method_id::tree)},
          {"bitfold_kahan", by(method_id::kahan)},
          {"bitfold_exact", by(method_id::exact)}};
      std::map<std::string, double> fastest;
      for (int repetition = 0; repetition < repetitions_of(bytes); ++repetition)
        for (const auto& [name, call] : calls) {
          std::fill(x.begin(), x.end(), static_cast<float>(world.rank()) + 0.5f);
          const double taken = seconds_of(call);
          const auto known = fastest.try_emplace(name, taken).first;
          known->second = std::min(known->second, taken);
        }
      for (const auto& [name, call] : calls)
        cases.add(name + "/f32/" + std::to_string(world.size()) + "_ranks",
                  static_cast<std::int64_t>(n),
                  {{"us", fastest[name] * 1e6},
                   {"gbps", static_cast<double>(bytes) / fastest[name] * 1e-9}});
    }
    if (world.rank() == 0) {
      char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
      int length = 0;
      MPI_Get_library_version(version, &length);
      auto header = bench::header("ranks_mpi", argc, argv);
      header["cpu"] = bench::cpu_name();
      header["threads"] = 1;
      header["mpi"] = std::string(version, std::find(version, version + length, ','));
      header["repetitions"] = repetitions;
      header["repetitions_of_short"] = repetitions_of(0);
      header["of_repetitions"] = "fastest";
      std::ofstream out(argv[1]);
      cases.write(out, header);
      if (!out.flush()) {
        std::fprintf(stderr, "bitfold_bench_ranks_mpi: %s: not written\n", argv[1]);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
  }
  MPI_Finalize();
}
