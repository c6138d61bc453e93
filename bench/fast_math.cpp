// Compiled with -ffast-math, so no header of bitfold may be included here.
#include "fast_math.hpp"

namespace fast_math {

#if defined(__x86_64__)
#define CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define CLONES
#endif

CLONES float sum(const float* p, std::size_t n) {
  float s = 0;
  for (std::size_t i = 0; i < n; ++i) s += p[i];
  return s;
}
CLONES double sum(const double* p, std::size_t n) {
  double s = 0;
  for (std::size_t i = 0; i < n; ++i) s += p[i];
  return s;
}

}  // namespace fast_math
