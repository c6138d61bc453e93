#pragma once

#include <bitfold/cpu.hpp>

namespace bitfold::test {
/// The CPU target that --target names, or the best one here.
extern cpu::target forced_target;
}  // namespace bitfold::test
