// In the place of bitfold/cuda/device.cuh where a test compiles kernels for an emulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <sched.h>
#include <time.h>

#include "machine.hpp"

#define __global__
#define __device__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define threadIdx (the_machine->thread)
#define blockIdx (the_machine->block)
#define blockDim (the_machine->threads)
#define gridDim (the_machine->blocks)
#define shared_bytes (the_machine->shared)

extern "C" {
inline emulated::machine* the_machine;  // set by the driver that loads this
}

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }

namespace bitfold::cuda {

constexpr int warp = 32;
constexpr unsigned all_threads = 0xffffffffu;

/// Of that lane of the warp, its v; all lanes of `mask` ask.
template <class V>
V exchange(unsigned mask, V v, int lane) {
  unsigned long bits = 0;
  static_assert(sizeof v <= sizeof bits);
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = the_machine->exchange(bits, mask, lane);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
inline int own_lane() { return static_cast<int>(threadIdx.x) % warp; }

template <class V>
V shuffle(V v, int thread) {
  return exchange(all_threads, v, static_cast<int>(static_cast<unsigned>(thread) % warp));
}
template <class V>
V shuffle_down(V v, int distance) {
  const int from = own_lane() + distance;
  return shuffle(v, from < warp ? from : own_lane());
}
template <class V>
V shuffle_up(V v, int distance) {
  const int from = own_lane() - distance;
  return shuffle(v, from >= 0 ? from : own_lane());
}
template <class V>
V shuffle_among(unsigned mask, V v, int k, int width) {
  return exchange(mask, v, own_lane() / width * width + k % width);
}
template <class V>
V shuffle_across(V v, int bit) {
  return shuffle(v, own_lane() ^ bit);
}
inline unsigned ballot(bool condition) { return the_machine->ballot(condition); }
inline unsigned threads_with_same_bit(unsigned x, unsigned bit) {
  const unsigned ones = ballot((x & bit) != 0);
  return x & bit ? ones : ~ones;
}
inline bool all_of_the_warp(bool condition) { return ballot(condition) == all_threads; }
inline int count_of_bits(unsigned x) { return __builtin_popcount(x); }
inline bool any_of_the_warp(bool condition) { return ballot(condition) != 0; }
template <class V, class Join>
V of_the_warp(V v, Join join) {
  for (int bit = warp / 2; bit > 0; bit /= 2) v = join(v, shuffle_across(v, bit));
  return v;
}
inline int sum_of_the_warp(int v) {
  return of_the_warp(v, [](int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  });
}
inline unsigned sum_of_the_warp(unsigned v) {
  return of_the_warp(v, [](unsigned a, unsigned b) { return a + b; });
}
inline int largest_of_the_warp(int v) {
  return of_the_warp(v, [](int a, int b) { return max(a, b); });
}
inline unsigned largest_of_the_warp(unsigned v) {
  return of_the_warp(v, [](unsigned a, unsigned b) { return max(a, b); });
}
inline unsigned bits_of_the_warp(unsigned v) {
  return of_the_warp(v, [](unsigned a, unsigned b) { return a | b; });
}
inline int first_bit(unsigned x) { return x ? __builtin_ctz(x) : -1; }
inline int last_bit(unsigned x) { return x ? 31 - __builtin_clz(x) : -1; }

inline void wait_for_the_block() { the_machine->wait_for_the_block(); }
inline void wait_for_the_warp() { (void)ballot(true); }
inline bool any_of_the_block(bool condition) {
  static bool any;
  wait_for_the_block();
  any = false;
  wait_for_the_block();
  if (condition) any = true;
  wait_for_the_block();
  return any;
}

template <class Word>
void load_shared_word(const Word* p, Word& word) {
  word = *p;
}
template <class Word>
void store_shared_word(Word* p, Word word) {
  *p = word;
}
inline void fence_of_all_blocks() {}

// Of other processes, whose emulated GPUs want processors as well.
inline void store_flag(std::uint32_t* p, std::uint32_t word) {
  __atomic_store_n(p, word, __ATOMIC_RELEASE);
}
inline std::uint32_t load_flag(const std::uint32_t* p) {
  sched_yield();
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
inline std::uint64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}
inline void give_up() { __builtin_trap(); }

template <class V>
V add_to(V& v, std::type_identity_t<V> n) {
  const V before = v;
  v += n;
  return before;
}
inline std::uint64_t exchange_with(std::uint64_t& v, std::uint64_t n) {
  const std::uint64_t before = v;
  v = n;
  return before;
}
inline void raise_to(std::uint64_t& v, std::uint64_t n) { v = v < n ? n : v; }
template <class V>
V replace_if(V& v, V expected, V by) {
  const V before = v;
  if (before == expected) v = by;
  return before;
}
template <class V>
void set_bits_of(V& v, V bits) {
  v |= bits;
}
inline std::uint32_t high_product(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}
inline std::uint32_t shift_right_across(std::uint32_t low, std::uint32_t high, int by) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> by);
}
inline std::uint32_t shift_left_across(std::uint32_t low, std::uint32_t high, int by) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << by >> 32);
}
inline std::uint32_t bytes_of(std::uint32_t low, std::uint32_t high, unsigned which) {
  const std::uint64_t all = std::uint64_t{high} << 32 | low;
  std::uint32_t to = 0;
  for (int k = 0; k < 4; ++k)
    to |= static_cast<std::uint32_t>(all >> (which >> 4 * k & 7) * 8 & 0xff) << 8 * k;
  return to;
}
inline std::int32_t nearest_integer_of(float x) {
  return x > -0x1p31f && x < 0x1p31f ? static_cast<std::int32_t>(__builtin_rintf(x)) : 0;
}
inline std::int64_t add_product(std::int32_t a, std::int32_t b, std::int64_t sum) {
  return sum + std::int64_t{a} * b;
}
template <class T>
const T* element_at(const T* p, std::int32_t i) {
  return p + i;
}
// Lane 4 g + q has, of rows g and g + 8 of a, and of column g of b, elements 4 q to 4 q + 3 and as
// many behind 16; and of the sums columns 2 q and 2 q + 1 of those rows.
inline void multiply_digits(std::int32_t (&sums)[4], const std::uint32_t (&a)[4],
                            const std::uint32_t (&b)[2]) {
  struct lane {
    std::uint32_t a[4], b[2];
  };
  static lane all[1024];
  const int first = static_cast<int>(threadIdx.x) / warp * warp, own = own_lane();
  __builtin_memcpy(all[first + own].a, a, sizeof a);
  __builtin_memcpy(all[first + own].b, b, sizeof b);
  wait_for_the_warp();
  const auto product = [](std::uint32_t x, std::uint32_t y) {
    std::int32_t sum = 0;
    for (int k = 0; k < 32; k += 8)
      sum += static_cast<std::int8_t>(x >> k) * static_cast<std::int8_t>(y >> k);
    return sum;
  };
  for (int q = 0; q < 4; ++q)
    for (int k = 0; k < 4; ++k) {
      const lane &row = all[first + own / 4 * 4 + q],
                 &column = all[first + (own % 4 * 2 + k % 2) * 4 + q];
      for (int half = 0; half < 2; ++half)
        sums[k] += product(row.a[k / 2 + 2 * half], column.b[half]);
    }
  wait_for_the_warp();
}
inline void load_fragments(const void* row, std::uint32_t (&of)[4]) {
  static const std::byte* all[1024];
  if (reinterpret_cast<std::uintptr_t>(row) % 16) __builtin_trap();
  const int first = static_cast<int>(threadIdx.x) / warp * warp, own = own_lane();
  all[first + own] = static_cast<const std::byte*>(row);
  wait_for_the_warp();
  for (int m = 0; m < 4; ++m)
    __builtin_memcpy(&of[m], all[first + 8 * m + own / 4] + own % 4 * 4, sizeof of[m]);
  wait_for_the_warp();
}
inline std::int32_t upper_half(double x) {
  return static_cast<std::int32_t>(__builtin_bit_cast(std::uint64_t, x) >> 32);
}
inline std::int32_t lower_half(double x) {
  return static_cast<std::int32_t>(__builtin_bit_cast(std::uint64_t, x));
}
inline double double_of(std::int32_t upper, std::int32_t lower) {
  return __builtin_bit_cast(double, std::uint64_t{static_cast<std::uint32_t>(upper)} << 32 |
                                        static_cast<std::uint32_t>(lower));
}
inline double magnitude_of(double x) { return __builtin_fabs(x); }

/// A GPU refuses an address that is no multiple of what it loads.
template <class Words>
void load(const void* p, Words& words) {
  if (reinterpret_cast<std::uintptr_t>(p) % sizeof words) __builtin_trap();
  __builtin_memcpy(&words, p, sizeof words);
}
inline void load_16_bytes(const void* p, std::uint32_t (&word)[4]) { load(p, word); }
inline void load_16_bytes_now(const void* p, std::uint32_t (&word)[4]) { load(p, word); }
inline void load_8_bytes(const void* p, std::uint32_t (&word)[2]) { load(p, word); }
template <class Word>
void load_bytes(const void* p, Word& word) {
  load(p, word);
}
template <int N>
void load_columns(const void* p, std::uint32_t (&word)[N]) {
  load(p, word);
}

template <int N>
void store_bytes(void* p, const std::uint32_t (&word)[N]) {
  if (reinterpret_cast<std::uintptr_t>(p) % sizeof word) __builtin_trap();
  __builtin_memcpy(p, &word, sizeof word);
}

inline void let_the_next_kernel_start() {}
inline void wait_for_the_kernel_before() {}

}  // namespace bitfold::cuda

// A kernel, called with the addresses of its arguments.
namespace emulated {
template <class... P>
void call(void (*kernel)(P...), void** arguments) {
  int k = 0;
  // A braced list is evaluated from left to right.
  struct in_turn {
    in_turn(void (*f)(P...), P... values) { f(values...); }
  };
  in_turn{kernel, *static_cast<std::remove_cv_t<P>*>(arguments[k++])...};
}
}  // namespace emulated
