// In the place of bitfold/cuda/device.cuh where a test compiles kernels for an emulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "machine.hpp"

#define __global__
#define __device__
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

namespace bitfold::cuda {

constexpr int warp = 32;
constexpr unsigned all_threads = 0xffffffffu;

template <class V>
V shuffle(V v, int thread) {
  unsigned long bits = 0;
  static_assert(sizeof v <= sizeof bits);
  __builtin_memcpy(&bits, &v, sizeof v);
  bits = the_machine->exchange(bits, all_threads, thread);
  __builtin_memcpy(&v, &bits, sizeof v);
  return v;
}
template <class V>
V shuffle_down(V v, int distance) {
  const int own = static_cast<int>(threadIdx.x) % warp;
  return shuffle(v, own + distance < warp ? own + distance : own);
}

inline void wait_for_the_block() { the_machine->wait_for_the_block(); }

inline void load_16_bytes(const void* p, std::uint32_t (&word)[4]) {
  if (reinterpret_cast<std::uintptr_t>(p) % 16) __builtin_trap();  // as a GPU does
  __builtin_memcpy(word, p, 16);
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
