// The peer that everybody writes: a plain loop under -O3 -ffast-math, cloned for each instruction
// set.
#pragma once

#include <cstddef>

namespace fast_math {
float sum(const float* p, std::size_t n);
double sum(const double* p, std::size_t n);
}  // namespace fast_math
