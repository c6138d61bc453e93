// Neighbouring elements that a thread reads, and writes, together.
#pragma once

#include <bitfold/cuda/device.cuh>
#include <bitfold/formats.hpp>

namespace bitfold::cuda {

// N neighbouring elements, read and written together, kept as the words they come in.
template <class T, int N>
struct packet {
  static constexpr int bytes = N * sizeof(T);
  using word = std::conditional_t<bytes >= 4, std::uint32_t, std::uint16_t>;
  using bits = std::conditional_t<
      sizeof(T) == 8, std::uint64_t,
      std::conditional_t<sizeof(T) == 4, std::uint32_t,
                         std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  word words[bytes / sizeof(word)];

  __device__ static packet load(const T* p) {
    packet v;
    if constexpr (bytes == 16)
      load_16_bytes(p, v.words);
    else if constexpr (bytes == 8)
      load_8_bytes(p, v.words);
    else
      load_bytes(p, v.words[0]);
    return v;
  }
  __device__ void store(T* p) const {
    if constexpr (bytes >= 8)
      store_bytes(p, words);
    else
      *reinterpret_cast<word*>(p) = words[0];
  }
  __device__ T operator[](int i) const {
    bits b;
    if constexpr (sizeof(T) == 8)
      b = bits{words[2 * i + 1]} << 32 | words[2 * i];
    else
      b = static_cast<bits>(words[i * sizeof(T) / sizeof(word)] >>
                            i * sizeof(T) % sizeof(word) * 8);
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(b);
    else
      return arith::bit_cast<T>(b);
  }
  /// In the order of i: what comes behind in the same word is lost.
  __device__ void set(int i, T x) {
    const auto b = arith::bit_cast<bits>(x);
    if constexpr (sizeof(T) == 8) {
      words[2 * i] = static_cast<word>(b);
      words[2 * i + 1] = static_cast<word>(b >> 32);
    } else {
      const int at = i * sizeof(T) % sizeof(word) * 8;
      word& to = words[i * sizeof(T) / sizeof(word)];
      to = static_cast<word>((at ? to : 0) | static_cast<word>(b) << at);
    }
  }
  __device__ static packet of(T x) {
    packet v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.set(i, x);
    return v;
  }
  /// Of half types in pairs, if there is no NaN, and registers are to spare.
  template <bool InPairs, class A>
  __device__ static packet narrowed(const A (&x)[N]) {
    packet v;
#if __CUDA_ARCH__ >= 800
    if constexpr (InPairs && sizeof(T) == 2 && N % 2 == 0) {
      bool numbers = true;
#pragma unroll
      for (int i = 0; i < N; ++i) numbers &= x[i] == x[i];
      if (numbers) {
#pragma unroll
        for (int i = 0; i < N; i += 2)
          v.words[i / 2] = arith::detail::narrow_both<T>(x[i], x[i + 1]);
        return v;
      }
    }
#endif
#pragma unroll
    for (int i = 0; i < N; ++i) v.set(i, arith::round_to<T>(x[i]));
    return v;
  }
};

}  // namespace bitfold::cuda
