#include <bitfold/cuda.hpp>
#include <cuda_runtime_api.h>

#include <iostream>

int main() {
  const std::size_t n = 1'000'000;
  void* memory;
  if (cudaMalloc(&memory, (n + 1) * sizeof(float)) != cudaSuccess) return 77;  // no GPU
  float *x = static_cast<float*>(memory), sum;  // n elements, and room for the sum behind them
  cudaMemset(x, 0x3f, n * sizeof(float));
  const auto r = make_reduction(bitfold::op_id::sum, bitfold::method_id::tree, bitfold::dtype::f32);
  bitfold::cuda::reduce(r, x, n, x + n);  // on the default stream; memory from the stream's pool
  cudaMemcpy(&sum, x + n, sizeof sum, cudaMemcpyDeviceToHost);
  std::cout << to_string(bitfold::load_scalar(r.out(), &sum)) << "\n";
}
