// Which canonical order? The same candidates as cpu.cpp on a GPU: flat arrays, rows and columns,
// beside a load-only kernel. A study, not the engine: it stands here so that the choice in
// docs/order.md can be measured again.
//   nvcc -std=c++20 -O3 -fmad=false -arch=native bench/order_study/gpu.cu -o gpu_study
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <vector>

template <class T>
using acc_t = std::conditional_t<sizeof(T) == 8, double, float>;
template <class T>
constexpr int E = 16 / sizeof(T);  // lanes a thread owns per 16-byte load
enum pairing { adjacent, halving };

template <class T>
struct alignas(16) pack {
  T x[E<T>];
};
template <class T>
__device__ pack<T> load(const T* p) {
  const int4 v = __ldcs(reinterpret_cast<const int4*>(p));
  return *reinterpret_cast<const pack<T>*>(&v);
}
template <class A>
__device__ A other(A v, int d) {
  return __shfl_xor_sync(~0u, v, d);
}

// One warp, whole leaves only: 32 threads x K vectors x R rows. Result in every thread.
template <class T, int W, int R, pairing P>
__device__ acc_t<T> tile(const T* p, int t) {
  using A = acc_t<T>;
  constexpr int e = E<T>, G = W / e < 32 ? W / e : 32, K = W / e / G;
  const T* base = p + (t / G) * (W * R) + (t % G) * e;
  pack<T> raw[K][R];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int k = 0; k < K; ++k) raw[k][r] = load(base + r * W + k * 32 * e);
  A v[K][e];
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int i = 0; i < e; ++i) {
      v[k][i] = static_cast<A>(raw[k][0].x[i]);
#pragma unroll
      for (int r = 1; r < R; ++r) v[k][i] += static_cast<A>(raw[k][r].x[i]);
    }
  if constexpr (P == adjacent) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int d = 1; d < e; d *= 2)
#pragma unroll
        for (int i = 0; i < e; i += 2 * d) v[k][i] += v[k][i + d];
#pragma unroll
      for (int d = 1; d < 32; d *= 2) v[k][0] += other(v[k][0], d);
    }
#pragma unroll
    for (int d = 1; d < K; d *= 2)
#pragma unroll
      for (int k = 0; k < K; k += 2 * d) v[k][0] += v[k + d][0];
  } else {
#pragma unroll
    for (int d = K / 2; d >= 1; d /= 2)
#pragma unroll
      for (int k = 0; k < d; ++k)
#pragma unroll
        for (int i = 0; i < e; ++i) v[k][i] += v[k + d][i];
#pragma unroll
    for (int d = G / 2; d >= 1; d /= 2)
#pragma unroll
      for (int i = 0; i < e; ++i) v[0][i] += other(v[0][i], d);
#pragma unroll
    for (int d = e / 2; d >= 1; d /= 2)
#pragma unroll
      for (int i = 0; i < d; ++i) v[0][i] += v[0][i + d];
#pragma unroll
    for (int d = G; d < 32; d *= 2) v[0][0] += other(v[0][0], d);
  }
  return v[0][0];
}
template <class T, int W, int R>
constexpr long tile_size = std::max(1, W / E<T> / 32) * 32l * E<T> * R;

template <class T, int W, int R, pairing P>
__global__ void flat(const T* p, long tiles, acc_t<T>* out) {
  const long warp = (blockIdx.x * long(blockDim.x) + threadIdx.x) / 32;
  constexpr int U = 4;
  acc_t<T> s[U];
#pragma unroll 1
  for (int u = 0; u < U; ++u) s[u] = 0;
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (warp * U + u < tiles)
      s[u] = tile<T, W, R, P>(p + (warp * U + u) * tile_size<T, W, R>, threadIdx.x % 32);
  if (threadIdx.x % 32 == 0 && warp * U < tiles) out[warp] = (s[0] + s[1]) + (s[2] + s[3]);
}

// Threads for a row of N elements: enough for one leaf, and up to a warp for several.
template <class T, int W, int R, int N>
__host__ __device__ constexpr int row_threads() {
  constexpr int e = E<T>, lanes = N < W ? N : W, leaves = (N + W * R - 1) / (W * R);
  int threads = 1;
  while (threads < 32 && threads < (lanes + e - 1) / e * leaves) threads *= 2;
  return threads;
}
// Rows of N elements, N <= 1024.
template <class T, int W, int R, pairing P, int N>
__global__ void rows(const T* p, long count, acc_t<T>* out) {
  using A = acc_t<T>;
  constexpr int e = E<T>, B = W * R, leaves = (N + B - 1) / B;
  constexpr int lanes = N < W ? N : W;                            // lanes in use
  constexpr int G0 = (lanes + e - 1) / e, G = G0 < 32 ? G0 : 32;  // threads for a leaf
  constexpr int K = (lanes / e + G - 1) / G;
  constexpr int S = G * leaves <= 32 ? leaves : 32 / G;  // leaves at once
  constexpr int TR = row_threads<T, W, R, N>();
  const long id = blockIdx.x * long(blockDim.x) + threadIdx.x;
  const long row = id / TR;
  const int t = id % TR, q = t % G;
  if (row >= count) return;
  A total = 0;
  for (int l = t / G; l < leaves; l += S) {
    pack<T> raw[K][R];
    const int first = l * B + q * e;
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (first + r * W + k * G * e < N)
          raw[k][r] = load(p + row * N + first + r * W + k * G * e);
    A v[K][e];
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int i = 0; i < e; ++i) {
        v[k][i] = first + k * G * e < N ? static_cast<A>(raw[k][0].x[i]) : A(-0.0);
#pragma unroll
        for (int r = 1; r < R; ++r)
          if (first + r * W + k * G * e < N) v[k][i] += static_cast<A>(raw[k][r].x[i]);
      }
    A s;
    if constexpr (P == adjacent) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int d = 1; d < e; d *= 2)
#pragma unroll
          for (int i = 0; i < e; i += 2 * d) v[k][i] += v[k][i + d];
#pragma unroll
        for (int d = 1; d < TR; d *= 2) v[k][0] += other(v[k][0], d);
      }
      s = v[0][0];
#pragma unroll
      for (int k = 1; k < K; ++k) s += v[k][0];
    } else {
#pragma unroll
      for (int d = K / 2; d >= 1; d /= 2)
#pragma unroll
        for (int k = 0; k < d; ++k)
#pragma unroll
          for (int i = 0; i < e; ++i) v[k][i] += v[k + d][i];
#pragma unroll
      for (int d = G / 2; d >= 1; d /= 2)
#pragma unroll
        for (int i = 0; i < e; ++i) v[0][i] += other(v[0][i], d);
#pragma unroll
      for (int d = e / 2; d >= 1; d /= 2)
#pragma unroll
        for (int i = 0; i < d; ++i) v[0][i] += v[0][i + d];
#pragma unroll
      for (int d = G; d < TR; d *= 2) v[0][0] += other(v[0][0], d);
      s = v[0][0];
    }
    total += s;
  }
  if (t == 0) out[row] = total;
}

// Reduce the first axis of N x C: a block takes one leaf of rows and 32 (or C / e) threads of
// columns; its 8 warps share the lanes, then fold through shared memory.
template <class T, int W, int R, pairing P, int X>
__global__ void columns(const T* p, long C, acc_t<T>* out) {
  using A = acc_t<T>;
  constexpr int e = E<T>, Y = 256 / X, M = W / Y;  // lanes per thread
  const int x = threadIdx.x % X, y = threadIdx.x / X;
  const T* base = p + long(blockIdx.y) * (W * R) * C + (blockIdx.x * long(X) + x) * e;
  A v[M][e];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    const int lane = P == adjacent ? y * M + m : y + m * Y;
    pack<T> raw[R];
#pragma unroll
    for (int r = 0; r < R; ++r) raw[r] = load(base + (r * W + lane) * C);
#pragma unroll
    for (int i = 0; i < e; ++i) {
      v[m][i] = static_cast<A>(raw[0].x[i]);
#pragma unroll
      for (int r = 1; r < R; ++r) v[m][i] += static_cast<A>(raw[r].x[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < e; ++i)
    if constexpr (P == adjacent) {
#pragma unroll
      for (int d = 1; d < M; d *= 2)
#pragma unroll
        for (int m = 0; m < M; m += 2 * d) v[m][i] += v[m + d][i];
    } else {
#pragma unroll
      for (int d = M / 2; d >= 1; d /= 2)
#pragma unroll
        for (int m = 0; m < d; ++m) v[m][i] += v[m + d][i];
    }
  __shared__ A part[256][e];
#pragma unroll
  for (int i = 0; i < e; ++i) part[threadIdx.x][i] = v[0][i];
  for (int d = 1; d < Y; d *= 2) {
    __syncthreads();
    const int a = P == adjacent ? 2 * d * y : y, b = P == adjacent ? a + d : y + Y / 2 / d;
    if (P == adjacent ? a < Y : y < Y / 2 / d)
#pragma unroll
      for (int i = 0; i < e; ++i) part[a * X + x][i] += part[b * X + x][i];
  }
  __syncthreads();
  if (y == 0)
#pragma unroll
    for (int i = 0; i < e; ++i) out[blockIdx.y * C + (blockIdx.x * X + x) * e + i] = part[x][i];
}

__global__ void load_only(const int4* p, long n, int* out) {
  int x = 0;
  const long stride = long(gridDim.x) * blockDim.x;
  long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  for (; i + 7 * stride < n; i += 8 * stride) {
    int4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(p + i + k * stride);
#pragma unroll
    for (int k = 0; k < 8; ++k) x |= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  if (x == 12345) *out = x;
}

template <class F>
double tbps(double bytes, F launch) {
  cudaEvent_t a, b;
  cudaEventCreate(&a), cudaEventCreate(&b);
  std::vector<float> ms;
  for (int i = 0; i < 13; ++i) {
    cudaEventRecord(a);
    launch();
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    float t;
    cudaEventElapsedTime(&t, a, b);
    if (i >= 3) ms.push_back(t);
  }
  if (cudaError_t err = cudaGetLastError())
    std::printf(" %s", cudaGetErrorString(err)), std::exit(1);
  std::sort(ms.begin(), ms.end());
  return bytes / (ms[ms.size() / 2] * 1e-3) * 1e-12;
}

void* data;
double* out;
constexpr long bytes = 1l << 30;

template <class T, int W, int R, pairing P>
void line(const char* type) {
  const T* p = static_cast<const T*>(data);
  auto* o = reinterpret_cast<acc_t<T>*>(out);
  std::printf("%-4s %4d %5d %-8s", type, W, W * R, P == adjacent ? "adjacent" : "halving");
  for (long n : {bytes, bytes * 4}) {
    const long tiles = n / sizeof(T) / tile_size<T, W, R>;
    std::printf(" %6.3f",
                tbps(n, [&] { flat<T, W, R, P><<<(tiles / 4 + 7) / 8, 256>>>(p, tiles, o); }));
  }
  auto row = [&]<int N>(std::integral_constant<int, N>) {
    const long count = bytes / sizeof(T) / N;
    std::printf(" %6.3f", tbps(count * N * sizeof(T), [&] {
                  rows<T, W, R, P, N>
                      <<<(count * row_threads<T, W, R, N>() + 255) / 256, 256>>>(p, count, o);
                }));
  };
  row(std::integral_constant<int, 16>{});
  row(std::integral_constant<int, 64>{});
  row(std::integral_constant<int, 256>{});
  row(std::integral_constant<int, 1000>{});
  const long N = 65536, C = bytes / sizeof(T) / N, N2 = bytes / sizeof(T) / 64;
  std::printf(" %6.3f", tbps(bytes, [&] {
                columns<T, W, R, P, 32><<<dim3(C / 32 / E<T>, N / W / R), 256>>>(p, C, o);
              }));
  constexpr int X = 64 / E<T>;
  if constexpr (W * X >= 256)
    std::printf(" %6.3f", tbps(bytes, [&] {
                  columns<T, W, R, P, X>
                      <<<dim3(1, N2 / W / R <= 65535 ? N2 / W / R : 65535), 256>>>(p, 64, o);
                }));
  std::printf("\n");
}
template <class T>
void table(const char* type) {
  line<T, 32, 8, adjacent>(type);
  line<T, 32, 16, adjacent>(type);
  line<T, 64, 8, adjacent>(type);
  line<T, 64, 8, halving>(type);
  line<T, 64, 16, adjacent>(type);
  line<T, 128, 8, adjacent>(type);
  line<T, 128, 8, halving>(type);
  line<T, 256, 8, adjacent>(type);
  line<T, 256, 8, halving>(type);
}
int main() {
  cudaMalloc(&data, bytes * 4), cudaMalloc(&out, bytes);
  cudaMemset(data, 0x11, bytes * 4);
  std::printf(
      "TB/s, median of 10; flat arrays of 1 and 4 GiB; rows of n elements, 1 GiB in all; columns "
      "of\n"
      "1 GiB: 65536 rows, and 64 columns\nload only");
  for (long n : {bytes, bytes * 4})
    std::printf(" %6.3f", tbps(n, [&] {
                  load_only<<<132 * 8, 256>>>(static_cast<int4*>(data), n / 16,
                                              reinterpret_cast<int*>(out));
                }));
  std::printf("\n%-4s %4s %5s %-8s", "type", "W", "B", "pairing");
  for (const char* n : {"1GiB", "4GiB", "r16", "r64", "r256", "r1000", "c64Ki", "c64"})
    std::printf(" %6s", n);
  std::printf("\n");
  table<__half>("f16");
  table<float>("f32");
  table<double>("f64");
}
