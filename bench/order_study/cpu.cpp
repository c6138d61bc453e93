// Which canonical order? One thread, tree method: time of candidate orders (lanes W, rows R = B /
// W, pairing of lanes) on flat arrays and on short rows, beside a load-only loop. A study, not the
// engine: it stands here so that the choice in docs/order.md can be measured again.
//   g++ -std=c++20 -O3 -march=native -ffp-contract=off bench/order_study/cpu.cpp -o cpu_study
#include <immintrin.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#ifdef __AVX512F__
constexpr int vector_bytes = 64;
#else
constexpr int vector_bytes = 32;
#endif

struct half {
  std::uint16_t bits;
};
template <class T>
using acc_t = std::conditional_t<sizeof(T) == 8, double, float>;
template <class A>
using vec [[gnu::vector_size(vector_bytes)]] = A;
template <class A>
constexpr int width = vector_bytes / sizeof(A);

template <class T>
inline vec<acc_t<T>> load(const T* p) {
  if constexpr (sizeof(T) == 2) {
#ifdef __AVX512F__
    return (vec<float>)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#else
    return (vec<float>)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#endif
  } else {
    vec<acc_t<T>> v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
}
template <class T>
inline acc_t<T> load1(const T* p) {
  if constexpr (sizeof(T) == 2)
    return _cvtsh_ss(p->bits);
  else
    return *p;
}

// [a0+a1, a2+a3, ..., b0+b1, ...]
template <class A>
inline vec<A> add_pairs(vec<A> a, vec<A> b) {
  using I [[gnu::vector_size(vector_bytes)]] = std::conditional_t<sizeof(A) == 8, long, int>;
  I even, odd;
  for (int i = 0; i < width<A>; ++i) even[i] = 2 * i, odd[i] = 2 * i + 1;
  return __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, odd);
}
template <class A>
inline vec<A> add_halves(vec<A> a, int half) {
  using I [[gnu::vector_size(vector_bytes)]] = std::conditional_t<sizeof(A) == 8, long, int>;
  I up;
  for (int i = 0; i < width<A>; ++i) up[i] = (i + half) % width<A>;
  return a + __builtin_shuffle(a, up);
}

enum pairing { adjacent, halving };
// How full_leaf walks: down the columns of vectors, or along the rows (in memory order).
#ifndef WALK
#define WALK 1
#endif

template <pairing P, class A>
A fold_scalar(A* v, int n, int W) {
  if (P == adjacent)
    for (int d = 1; d < n; d *= 2)
      for (int i = 0; i + d < n; i += 2 * d) v[i] += v[i + d];
  else
    for (int d = W / 2; d >= 1; d /= 2)
      for (int i = 0; i < d && i + d < n; ++i) v[i] += v[i + d];
  return v[0];
}
template <pairing P, int K, class A>
inline A fold_vectors(vec<A> (&v)[K]) {
  if constexpr (P == adjacent) {
#pragma GCC unroll 64
    for (int k = K; k > 1; k /= 2)
#pragma GCC unroll 64
      for (int i = 0; i < k / 2; ++i) v[i] = add_pairs<A>(v[2 * i], v[2 * i + 1]);
#pragma GCC unroll 8
    for (int d = width<A>; d > 1; d /= 2) v[0] = add_pairs<A>(v[0], v[0]);
  } else {
#pragma GCC unroll 64
    for (int k = K / 2; k >= 1; k /= 2)
#pragma GCC unroll 64
      for (int i = 0; i < k; ++i) v[i] += v[i + k];
#pragma GCC unroll 8
    for (int d = width<A> / 2; d >= 1; d /= 2) v[0] = add_halves<A>(v[0], d);
  }
  return v[0][0];
}

template <class T, int W, int R, pairing P>
inline acc_t<T> full_leaf(const T* p) {
  using A = acc_t<T>;
  constexpr int L = width<A>, K = W / L;
  vec<A> v[K];
#if WALK == 2
  for (int i = 0; i < W * R * (int)sizeof(T); i += 64)
    _mm_prefetch((const char*)p + W * R * sizeof(T) * 1 + i, _MM_HINT_T0);
#endif
#if WALK == 0 || WALK == 2
#pragma GCC unroll 64
  for (int k = 0; k < K; ++k) {
    v[k] = load(p + k * L);
#pragma GCC unroll 32
    for (int r = 1; r < R; ++r) v[k] += load(p + r * W + k * L);
  }
#else
  constexpr int G = K < 16 ? K : 16;
#pragma GCC unroll 64
  for (int g = 0; g < K; g += G) {
#pragma GCC unroll 64
    for (int k = g; k < g + G; ++k) v[k] = load(p + k * L);
#pragma GCC unroll 1
    for (int r = 1; r < R; ++r) {
#pragma GCC unroll 64
      for (int k = g; k < g + G; ++k) v[k] += load(p + r * W + k * L);
    }
  }
#endif
  return fold_vectors<P, K, A>(v);
}
template <class T, int W, int R, pairing P>
acc_t<T> short_leaf(const T* p, int n) {
  using A = acc_t<T>;
  constexpr int L = width<A>, K = W / L;
  alignas(64) A lane[W];
  const int rows = n / W, left = n % W;
  if (rows == 0) {
    for (int i = 0; i < n; ++i) lane[i] = load1(p + i);
    return fold_scalar<P>(lane, n, W);
  }
  vec<A> v[K];
  for (int k = 0; k < K; ++k) {
    v[k] = load(p + k * L);
    for (int r = 1; r < rows; ++r) v[k] += load(p + r * W + k * L);
  }
  std::memcpy(lane, v, sizeof lane);
  for (int i = 0; i < left; ++i) lane[i] += load1(p + rows * W + i);
  std::memcpy(v, lane, sizeof lane);
  return fold_vectors<P, K, A>(v);
}
template <class T, int W, int R, pairing P>
[[gnu::noinline]] acc_t<T> sum(const T* p, std::size_t n) {
  constexpr std::size_t B = W * R;
  acc_t<T> stack[64];
  int depth = 0;
  std::size_t leaf = 0;
  for (; (leaf + 1) * B <= n; ++leaf) {
    acc_t<T> s = full_leaf<T, W, R, P>(p + leaf * B);
    for (std::size_t c = leaf; c & 1; c >>= 1) s = stack[--depth] + s;
    stack[depth++] = s;
  }
  if (leaf * B < n) {
    acc_t<T> s = short_leaf<T, W, R, P>(p + leaf * B, n - leaf * B);
    for (std::size_t c = leaf; c & 1; c >>= 1) s = stack[--depth] + s;
    stack[depth++] = s;
  }
  acc_t<T> s = stack[--depth];
  while (depth) s = stack[--depth] + s;
  return s;
}
template <class T>
[[gnu::noinline]] acc_t<T> load_only(const T* p, std::size_t n) {
  const char* q = (const char*)p;
  const std::size_t bytes = n * sizeof(T);
  for (std::size_t i = 0; i + 8 * vector_bytes <= bytes; i += 8 * vector_bytes)
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
#ifdef __AVX512F__
      __m512i x = _mm512_loadu_si512(q + i + k * 64);
#else
      __m256i x = _mm256_loadu_si256((const __m256i*)(q + i + k * 32));
#endif
      asm volatile("" ::"x"(x));
    }
  return 0;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
template <class T>
double best(acc_t<T> (*f)(const T*, std::size_t), const T* p, std::size_t n, std::size_t total) {
  double b = 1e9;
  const std::size_t rows = total / n;
  const int repeat = (int)(1 + 4e6 / total);
  for (int round = 0; round < 15; ++round) {
    const double t = seconds();
    acc_t<T> s = 0;
    for (int k = 0; k < repeat; ++k)
      for (std::size_t r = 0; r < rows; ++r) s += f(p + r * n, n);
    asm volatile("" ::"x"(s));
    const double e = (seconds() - t) / repeat;
    if (e < b) b = e;
  }
  return rows * n * sizeof(T) / b * 1e-9;
}

template <class T, int W, int R, pairing P>
void line(const char* type, const T* p) {
  std::printf("%-4s %4d %5d %-8s", type, W, W * R, P == adjacent ? "adjacent" : "halving");
  for (std::size_t n : {16, 64, 256, 1000})
    std::printf(" %7.1f", best<T>(sum<T, W, R, P>, p, n, 100000));
  for (std::size_t n : {10000, 100000, 1000000, 20000000})
    std::printf(" %7.1f", best<T>(sum<T, W, R, P>, p, n, n));
  std::printf("\n");
  std::fflush(stdout);
}
template <class T>
void table(const char* type) {
  std::vector<T> data(20000000);
  std::uint64_t s = 1;
  for (auto& x : data) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    if constexpr (sizeof(T) == 2)
      x = half{(std::uint16_t)(0x3000 + (s >> 54))};
    else
      x = (T)(s >> 40);
  }
  const T* p = data.data();
  std::printf("%-4s %-19s", type, "load only");
  for (std::size_t n : {16, 64, 256, 1000})
    std::printf(" %7.1f", best<T>(load_only<T>, p, n, 100000));
  for (std::size_t n : {10000, 100000, 1000000, 20000000})
    std::printf(" %7.1f", best<T>(load_only<T>, p, n, n));
  std::printf("\n");
  line<T, 32, 8, adjacent>(type, p);
  line<T, 32, 16, adjacent>(type, p);
  line<T, 64, 8, adjacent>(type, p);
  line<T, 64, 8, halving>(type, p);
  line<T, 64, 16, adjacent>(type, p);
  line<T, 64, 32, adjacent>(type, p);
  line<T, 128, 8, adjacent>(type, p);
  line<T, 128, 8, halving>(type, p);
  line<T, 256, 8, adjacent>(type, p);
  line<T, 256, 8, halving>(type, p);
}
int main() {
  std::printf("GB/s, best of 15; vectors of %d bytes; rows of n elements, then flat arrays\n",
              vector_bytes);
  std::printf("%-4s %4s %5s %-8s", "type", "W", "B", "pairing");
  for (const char* n : {"r16", "r64", "r256", "r1000", "1e4", "1e5", "1e6", "2e7"})
    std::printf(" %7s", n);
  std::printf("\n");
  table<half>("f16");
  table<float>("f32");
  table<double>("f64");
}
