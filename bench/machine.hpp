// What a result of a CPU's bench says of the machine and the build.
#pragma once

#include <benchmark/benchmark.h>

#include <fstream>
#include <string>

#include <bitfold/cpu.hpp>

inline void add_machine() {
  std::string line, model = "unknown";
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  benchmark::AddCustomContext("cpu", model);
  benchmark::AddCustomContext(
      "target", std::string(bitfold::cpu::name(bitfold::cpu::available_targets().back())));
#ifdef BITFOLD_COMMIT
  benchmark::AddCustomContext("commit", BITFOLD_COMMIT);
#endif
}
