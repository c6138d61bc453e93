// How integers become digits of 8 bits, and how sums of products of digits become integers again:
// residues and the Chinese remainder theorem, or digits to the base 256 (docs/products.md).
#pragma once

#include <bitfold/cuda/device.cuh>
#include <bitfold/cuda/products.hpp>
#include <type_traits>

namespace bitfold::cuda {

/// a modulo P, from 0 to P - 1.
template <int P>
__device__ inline std::uint32_t modulo(std::int32_t a) {
  constexpr std::uint32_t up = ((1u << 31) / P + 1) * P;
  return (static_cast<std::uint32_t>(a) + up) % P;
}
template <int P>
__device__ inline std::uint32_t modulo(std::int64_t a) {
  constexpr std::uint32_t base = (1u << 29) % P;
  const std::uint32_t upper = modulo<P>(static_cast<std::int32_t>(a >> 29)),
                      lower = static_cast<std::uint32_t>(a) & ((1u << 29) - 1);
  return (upper * base + lower % P) % P;
}

/// What is known of the first N moduli: P is their product.
template <int N>
struct moduli_of {
  static constexpr int max_words = 6;
  struct number {
    std::uint32_t w[max_words];
    constexpr void multiply(std::uint32_t by) {
      std::uint64_t carry = 0;
      for (int i = 0; i < max_words; ++i) {
        carry += std::uint64_t{w[i]} * by;
        w[i] = static_cast<std::uint32_t>(carry);
        carry >>= 32;
      }
    }
    constexpr std::uint32_t modulo(std::uint32_t p) const {
      std::uint64_t rest = 0;
      for (int i = max_words - 1; i >= 0; --i) rest = ((rest << 32) | w[i]) % p;
      return static_cast<std::uint32_t>(rest);
    }
  };
  // The product of all but one of them; of all.
  static constexpr number product_without(int k) {
    number all{{1}};
    for (int i = 0; i < N; ++i)
      if (i != k) all.multiply(static_cast<std::uint32_t>(moduli[i]));
    return all;
  }
  static constexpr number product = product_without(-1);
  static constexpr int words_of(const number& p) {
    int n = max_words;
    while (p.w[n - 1] == 0) --n;
    return n;
  }
  /// A sum below P / 2 in magnitude has so many words of 32 bits.
  static constexpr int words = words_of(product);
  static constexpr int bits_of(const number& p) {
    int n = 32 * words;
    while (p.w[(n - 1) / 32] >> (n - 1) % 32 == 0) --n;
    return n;
  }
  static constexpr int bits = bits_of(product);

  // The number whose product with P / p is 1 modulo p.
  static constexpr std::uint32_t inverse(int k) {
    const auto p = static_cast<std::uint32_t>(moduli[k]);
    const std::uint32_t a = product_without(k).modulo(p);
    std::uint32_t x = 1;
    while (a * x % p != 1) ++x;
    return x;
  }
};

/// Integers modulo the first N moduli, and the Chinese remainder theorem.
template <int N, bool Wide>
struct residues {
  using integer = std::conditional_t<Wide, std::int64_t, std::int32_t>;
  static constexpr int digits = N, sums = N, words = moduli_of<N>::words, bits = moduli_of<N>::bits;
  static constexpr bool squared = false;

  template <int K>
  __device__ static std::int32_t digit(integer a) {
    const auto u = static_cast<std::int32_t>(modulo<moduli[K]>(a));
    return u >= 128 ? u - moduli[K] : u;
  }
  /// The integer whose residues those of c are, in two's complement: the sum of the residues times
  /// what is 1 modulo one of the moduli and 0 modulo the others, less a multiple of P.
  __device__ static void join(const std::int32_t (&c)[N], std::uint32_t (&to)[words]) {
    std::uint32_t turns = 1u << 19;  // the sum over P, in 2^-20, and 1/2
#pragma unroll
    for (int i = 0; i < words; ++i) to[i] = 0;
    add_all<0>(c, to, turns);
    add<false, -1>(to, turns >> 20);
  }

 private:
  template <int K>
  __device__ static void add_all(const std::int32_t (&c)[N], std::uint32_t (&to)[words],
                                 std::uint32_t& turns) {
    if constexpr (K < N) {
      constexpr std::uint32_t p = moduli[K], inverse = moduli_of<N>::inverse(K),
                              part = ((1u << 21) / p + 1) / 2;
      const std::uint32_t w = modulo<moduli[K]>(c[K]) * inverse % p;
      turns += w * part;
      add<true, K>(to, w);
      add_all<K + 1>(c, to, turns);
    }
  }
  // Adds, or takes away, w times the product of all moduli but number K.
  template <bool Adds, int K>
  __device__ static void add(std::uint32_t (&to)[words], std::uint32_t w) {
    constexpr auto by = moduli_of<N>::product_without(K);
    std::uint64_t carry = 0;
    std::uint32_t borrow = 0;
#pragma unroll
    for (int i = 0; i < words; ++i) {
      carry += std::uint64_t{w} * by.w[i];
      const auto term = static_cast<std::uint32_t>(carry);
      carry >>= 32;
      if constexpr (Adds) {
        to[i] += term;
        carry += to[i] < term;
      } else {
        const std::uint32_t before = to[i], less = before - term;
        to[i] = less - borrow;
        borrow = (before < term) | (less < borrow);
      }
    }
  }
};

/// N digits to the base 256, from -128 to 127, of integers of 8 N bits: the lowest first. Sums are
/// of all pairs, those of a row's first digit first.
template <int N>
struct bytes {
  using integer = std::int32_t;
  static constexpr int digits = N, sums = N * N, words = 2, bits = 64;
  static constexpr bool squared = true;
  template <int K>
  __device__ static std::int32_t digit(integer a) {
#pragma unroll
    for (int below = 0; below < K; ++below) a = (a + 128) >> 8;
    return K + 1 < N ? static_cast<std::int8_t>(a) : a;
  }
  __device__ static void join(const std::int32_t (&c)[sums], std::uint32_t (&to)[words]) {
    static_assert(N <= 2, "tiles join sums of more");
    std::int64_t all = c[0];
    if constexpr (N == 2) all += (std::int64_t{c[1]} + c[2]) * 256 + std::int64_t{c[3]} * 65536;
    to[0] = static_cast<std::uint32_t>(all);
    to[1] = static_cast<std::uint32_t>(all >> 32);
  }
};

}  // namespace bitfold::cuda
