// The read ceiling of a CPU: the widest loads there are, and nothing else.
#pragma once

#include "cpu/task.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace load_only {

#ifdef __x86_64__
#define LOAD_LOOP(vector, load)                                                           \
  constexpr std::size_t step = 8 * sizeof(vector);                                        \
  std::size_t i = 0;                                                                      \
  for (; i + step <= bytes; i += step) {                                                  \
    _Pragma("GCC unroll 8") for (std::size_t k = 0; k < 8; ++k) {                         \
      const vector x = load(reinterpret_cast<const vector*>(p + i + k * sizeof(vector))); \
      asm volatile("" ::"x"(x));                                                          \
    }                                                                                     \
  }                                                                                       \
  for (; i + sizeof(vector) <= bytes; i += sizeof(vector)) {                              \
    const vector x = load(reinterpret_cast<const vector*>(p + i));                        \
    asm volatile("" ::"x"(x));                                                            \
  }                                                                                       \
  for (; i < bytes; ++i) asm volatile("" ::"r"(p[i]));
__attribute__((target("avx2"))) inline void load_256(const char* p, std::size_t bytes) {
  LOAD_LOOP(__m256i, _mm256_loadu_si256)
}
__attribute__((target("avx512f"))) inline void load_512(const char* p, std::size_t bytes) {
  LOAD_LOOP(__m512i, _mm512_loadu_si512)
}
inline void load_128(const char* p, std::size_t bytes) { LOAD_LOOP(__m128i, _mm_loadu_si128) }
inline void run(const void* p, std::size_t bytes) {
  static const auto widest = __builtin_cpu_supports("avx512f") ? load_512
                             : __builtin_cpu_supports("avx2")  ? load_256
                                                               : load_128;
  widest(static_cast<const char*>(p), bytes);
}
#undef LOAD_LOOP
#else
inline void run(const void* p, std::size_t bytes) {
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t x;
    std::memcpy(&x, static_cast<const char*>(p) + i, sizeof x);
    asm volatile("" ::"r"(x));
  }
}
#endif

/// The same in equal shares on each of `threads` threads.
inline void run(const void* p, std::size_t bytes, int threads) {
  if (threads == 1) return run(p, bytes);
  const std::size_t part = (bytes / 512 / static_cast<std::size_t>(threads) + 1) * 512;
  bitfold::cpu::parallel_for(static_cast<std::size_t>(threads), threads, [&](std::size_t t) {
    const std::size_t first = std::min(bytes, t * part);
    run(static_cast<const char*>(p) + first, std::min(part, bytes - first));
  });
}

}  // namespace load_only
