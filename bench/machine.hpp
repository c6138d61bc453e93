// A session of a bench of the CPU.
#pragma once

#include <fstream>
#include <string>

#include <bitfold/cpu.hpp>

#include "session.hpp"

inline bitfold::bench::session cpu_session(const char* bench, bitfold::bench::kept keep, int argc,
                                           char** argv) {
  bitfold::bench::session s(bench, keep, argc, argv);
  std::string line, model = "unknown";
  for (std::ifstream info("/proc/cpuinfo"); std::getline(info, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  s.header["cpu"] = model;
  s.header["target"] = bitfold::cpu::name(bitfold::cpu::available_targets().back());
  return s;
}
