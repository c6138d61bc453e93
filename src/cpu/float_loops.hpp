// What loops over elements of float types share: their widening, room, threads and types.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>

#include "loops.hpp"
#include "task.hpp"

namespace bitfold::cpu {

template <class T, class A>
struct widen_elements {
  [[gnu::always_inline]] static void run(const T* from, std::size_t n, A* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = arith::widen<A>(from[i]);
  }
};
// Numbers that begin with a line of the cache.
struct aligned_delete {
  void operator()(void* p) const { ::operator delete(p, std::align_val_t{64}); }
};
template <class A>
std::unique_ptr<A[], aligned_delete> uninitialized(std::size_t n) {
  return std::unique_ptr<A[], aligned_delete>(
      static_cast<A*>(::operator new(n * sizeof(A), std::align_val_t{64})));
}

// Calls f(begin, end) for runs of `count` rows or outputs, some for each thread that so many bytes
// are worth.
template <class F>
void for_each_range(std::size_t count, std::size_t bytes, int per_thread, const options& opts,
                    F f) {
  const int threads = threads_for(opts, bytes);
  const std::size_t runs = std::min<std::size_t>(count, chunk_count(threads, per_thread));
  parallel_for(runs, threads, [&](std::size_t k) { f(count * k / runs, count * (k + 1) / runs); });
}

// Calls f(std::type_identity<T>{}) of a float type.
template <class F>
void with_float(dtype type, F f) {
  switch (type) {
    case dtype::f16: return f(std::type_identity<float16>{});
    case dtype::bf16: return f(std::type_identity<bfloat16>{});
    case dtype::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<float>{});
  }
}

}  // namespace bitfold::cpu
