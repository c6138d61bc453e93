// Compiled in a way that changes bits on a GPU (see CMakeLists.txt), which the first pass has to
// refuse.
#include <bitfold/cuda/reduce.cuh>

#include <cstdio>
#include <cstring>

int main() {
  using namespace bitfold;
  if (cuda::devices().empty()) return 77;
  float* x = nullptr;
  if (cudaMalloc(&x, sizeof *x) != cudaSuccess || cudaMemset(x, 0, sizeof *x) != cudaSuccess)
    return 1;
  try {
    (void)cuda::reduce(std::span<const float>(x, 1), ops::sum);
    std::puts("not refused");
  } catch (const error& e) {
    std::puts(e.what());
    if (std::strstr(e.what(),
                    "this file is compiled for the GPU with -use_fast_math or a part of it"))
      return 0;
  }
  return 1;
}
