// Kernels that load every 16 bytes of an array and nothing else: for nvcc (load_only.cuh), and for
// NVRTC (accuracy/contestants/device.cpp).

// Each block so many neighbouring packs at once.
template <int Loads>
static __global__ void load_only_blocks(const int4* p, std::size_t n, int* out) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x * Loads + threadIdx.x;
  int4 v[Loads] = {};
#pragma unroll
  for (int k = 0; k < Loads; ++k)
    if (first + k * blockDim.x < n) v[k] = __ldcs(p + first + k * blockDim.x);
  int x = 0;
#pragma unroll
  for (int k = 0; k < Loads; ++k) x |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  if (x == 0x12345678) *out = x;  // keeps the loads
}

// A grid that fills the GPU once and goes on from there.
template <class = void>
static __global__ void load_only_grid(const int4* p, std::size_t n, int* out) {
  int x = 0;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  for (; i + 7 * stride < n; i += 8 * stride) {
    int4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(p + i + k * stride);
#pragma unroll
    for (int k = 0; k < 8; ++k) x |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  for (; i < n; i += stride) x |= p[i].x ^ p[i].y ^ p[i].z ^ p[i].w;
  if (x == 0x12345678) *out = x;
}
