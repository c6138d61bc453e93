// What loops over elements of float types share: their blocks, room, threads and types.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>

#include "conversions.hpp"
#include "loops.hpp"
#include "task.hpp"

namespace bitfold::cpu {

/// Elements that are computed with at a time, so that they stay in the first cache.
inline constexpr std::size_t map_block = 1024;

/// The same elements as they are computed with: where they lie, or written to `to`.
template <class T, class A = typename conversions<T>::A>
const A* widened(const conversions<T>& by, const T* from, std::size_t n, A* to,
                 std::size_t ahead = far_ahead) {
  if constexpr (std::is_same_v<T, A>)
    return from;
  else
    return by.widen(from, n, to, ahead), to;
}

/// Of each element, widened, and its place: value(x, y, i), y being 0 where there is none.
template <bool TakesY, class T, class Value>
[[gnu::always_inline]] inline void map_widened(const conversions<T>& by, const T* x, const T* y,
                                               std::size_t n, T* out, Value value) {
  using A = typename conversions<T>::A;
  if constexpr (std::is_same_v<T, A>) {
    BITFOLD_EACH_IN_PLACE
    for (std::size_t i = 0; i < n; ++i)
      out[i] = arith::round_to<T>(value(x[i], TakesY ? y[i] : A(0), i));
  } else {
    alignas(64) A wide_x[map_block], wide_y[TakesY ? map_block : 1], result[map_block];
    for (std::size_t first = 0; first < n; first += map_block) {
      const std::size_t here = std::min(map_block, n - first);
      by.widen(x + first, here, wide_x, far_ahead);
      if (TakesY) by.widen(y + first, here, wide_y, far_ahead);
      for (std::size_t i = 0; i < here; ++i)
        result[i] = value(wide_x[i], TakesY ? wide_y[i] : A(0), first + i);
      by.round(result, here, out + first, far_ahead);
    }
  }
}

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
auto with_float(dtype type, F f) {
  switch (type) {
    case dtype::f16: return f(std::type_identity<float16>{});
    case dtype::bf16: return f(std::type_identity<bfloat16>{});
    case dtype::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<float>{});
  }
}

}  // namespace bitfold::cpu
