// A session of a bench of the CPU.
#pragma once

#include <bitfold/cpu.hpp>

#include "cpu_name.hpp"
#include "session.hpp"

inline bitfold::bench::session cpu_session(const char* bench, bitfold::bench::kept keep, int argc,
                                           char** argv) {
  bitfold::bench::session s(bench, keep, argc, argv);
  s.header["cpu"] = bitfold::bench::cpu_name();
  s.header["target"] = bitfold::cpu::name(bitfold::cpu::available_targets().back());
  return s;
}
