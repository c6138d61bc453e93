// One run of a program of Google Benchmark; what --benchmark_out names becomes a file of results
// (bench/results/README.md).
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "result_lines.hpp"

namespace bitfold::bench {

/// What is kept of the repetitions of a case.
enum class kept { median, fastest };

class result_file : public benchmark::BenchmarkReporter {
 public:
  result_file(json& header, kept keep) : header_(header), keep_(keep) {}

  bool ReportContext(const Context& context) override {
    const benchmark::CPUInfo& cpu = context.cpu_info;
    header_["num_cpus"] = cpu.num_cpus;
    header_["mhz_per_cpu"] = std::lround(cpu.cycles_per_second * 1e-6);
    if (cpu.scaling != benchmark::CPUInfo::UNKNOWN)
      header_["cpu_scaling_enabled"] = cpu.scaling == benchmark::CPUInfo::ENABLED;
    for (const auto& cache : cpu.caches)
      header_["caches"].push_back({{"type", cache.type},
                                   {"level", cache.level},
                                   {"size", cache.size},
                                   {"num_sharing", cache.num_sharing}});
    header_["load_avg"] = cpu.load_avg;
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string& n = run.run_name.args;
      times& t = times_[{run.family_index, run.run_name.function_name}]
                       [n.empty() ? std::nullopt : std::optional(std::stoll(n))];
      const double us = 1e6 / benchmark::GetTimeUnitMultiplier(run.time_unit);
      t.real.push_back(run.GetAdjustedRealTime() * us);
      t.cpu.push_back(run.GetAdjustedCPUTime() * us);
      t.kilobytes = run.counters.at("bytes_per_second").value * 1e-9 * t.real.back();
    }
  }

  // The cases stand as they were registered, whatever the order of the runs.
  void Finalize() override {
    cases all;
    for (const auto& [index_and_name, by_n] : times_)
      for (const auto& [n, t] : by_n) all.add(index_and_name.second, n, fields(t));
    all.write(GetOutputStream(), header_);
    GetOutputStream().flush();
    is_written_ = GetOutputStream().good();
  }

  bool is_written() const { return is_written_; }

 private:
  struct times {
    std::vector<double> real, cpu;  // microseconds of each repetition
    double kilobytes;               // of one call
  };

  static double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return (x[(x.size() - 1) / 2] + x[x.size() / 2]) / 2;
  }

  json fields(const times& t) {
    const auto fastest = std::min_element(t.real.begin(), t.real.end());
    const double us = keep_ == kept::fastest ? *fastest : median(t.real);
    json out{{"us", us}, {"gbps", t.kilobytes / us}};
    out["cpu_us"] = keep_ == kept::fastest
                        ? t.cpu[static_cast<std::size_t>(fastest - t.real.begin())]
                        : median(t.cpu);
    const auto count = static_cast<double>(t.real.size());
    if (count == 1) return out;
    header_["repetitions"] = t.real.size();
    header_["of_repetitions"] = keep_ == kept::fastest ? "fastest" : "median";
    double sum = 0, squares = 0;
    for (const double x : t.real) sum += x;
    for (const double x : t.real) squares += (x - sum / count) * (x - sum / count);
    out["cv"] = std::sqrt(squares / (count - 1)) / (sum / count);
    return out;
  }

  json& header_;
  kept keep_;
  std::map<std::pair<std::int64_t, std::string>, std::map<std::optional<std::int64_t>, times>>
      times_;
  bool is_written_ = false;
};

class session {
 public:
  /// Reads the command line; exits with 2 where it is wrong.
  session(std::string_view bench, kept keep, int argc, char** argv)
      : header(bench::header(bench, argc, argv)), keep_(keep) {
    const auto refuse = [&](std::string_view argument, std::string_view option, const char* why) {
      if (!argument.starts_with(option)) return;
      std::fprintf(stderr, "%s: %s: %s\n", argv[0], std::string(option).c_str(), why);
      std::exit(2);
    };
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      writes_ = writes_ || argument.starts_with("--benchmark_out=");
      refuse(argument, "--benchmark_out_format", "there is one format, bench/results/README.md's");
      refuse(argument, "--benchmark_report_aggregates_only",
             "would keep the repetitions from the file; use --benchmark_display_aggregates_only");
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) std::exit(2);
  }

  json header;

  /// The exit status.
  int run() {
    if (!writes_) {
      benchmark::RunSpecifiedBenchmarks();
      return 0;
    }
    result_file file(header, keep_);
    benchmark::RunSpecifiedBenchmarks(nullptr, &file);
    if (file.is_written()) return 0;
    std::fprintf(stderr, "--benchmark_out: nothing was measured, or it cannot be written\n");
    return 1;
  }

 private:
  kept keep_;
  bool writes_ = std::getenv("BENCHMARK_OUT") != nullptr;
};

}  // namespace bitfold::bench
