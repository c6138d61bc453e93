#include "conversions.hpp"

#include <algorithm>
#include <cstring>

#include <bitfold/arith.hpp>
#include <bitfold/exact.hpp>
#include <bitfold/product_sum.hpp>

#include "float_loops.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace bitfold::cpu {
namespace {

// Memory is asked for the line of narrow elements `ahead` bytes further on.
template <class From, class To>
[[gnu::always_inline]] inline void ask_ahead(const From* from, To* to, std::size_t ahead) {
  if constexpr (sizeof(To) < sizeof(From))
    __builtin_prefetch(reinterpret_cast<const char*>(to) + ahead, 1);
  else
    __builtin_prefetch(reinterpret_cast<const char*>(from) + ahead);
}
constexpr std::size_t in_a_line = 32;

template <class From, class To, class Convert>
[[gnu::always_inline]] inline void convert_each(const From* from, std::size_t n, To* to,
                                                std::size_t ahead, Convert convert) {
  std::size_t i = 0;
  for (; i + in_a_line <= n; i += in_a_line) {
    ask_ahead(from + i, to + i, ahead);
    for (std::size_t k = 0; k < in_a_line; ++k) to[i + k] = convert(from[i + k]);
  }
  if (i < n) ask_ahead(from + i, to + i, ahead);
  for (; i < n; ++i) to[i] = convert(from[i]);
}
template <class T, class A>
struct widen_elements {
  [[gnu::always_inline]] static void run(const T* from, std::size_t n, A* to, std::size_t ahead) {
    convert_each(from, n, to, ahead, [](T x) { return arith::widen<A>(x); });
  }
};
template <class T, class A>
struct round_elements {
  [[gnu::always_inline]] static void run(const A* from, std::size_t n, T* to, std::size_t ahead) {
    convert_each(from, n, to, ahead, [](A x) { return arith::round_to<T>(x); });
  }
};

template <class T>
struct read_elements {
  [[gnu::always_inline]] static bool run(const std::byte* from, std::int64_t apart, std::size_t n,
                                         double* to) {
    const auto at = [&](std::int64_t bytes) {
      T x;
      std::memcpy(&x, from + bytes, sizeof x);
      return arith::widen<double>(x);
    };
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    const auto count = static_cast<std::int64_t>(n);
    constexpr std::uint64_t infinity = arith::bit_cast<std::uint64_t>(exact::infinity);
    if (apart == 0 && n > 0) {  // one number for all of them
      const double x = at(0);
      std::fill_n(to, n, x);
      return (arith::bit_cast<std::uint64_t>(x) & infinity) != infinity;
    }
    if (apart == size)
      for (std::int64_t i = 0; i < count; ++i) to[i] = at(i * size);
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = at(i * apart);
    std::uint64_t others = 0;  // (Integers, as a sum of floats would be added up one by one.)
    for (std::int64_t i = 0; i < count; ++i)
      others |= (arith::bit_cast<std::uint64_t>(to[i]) & infinity) == infinity ? 1 : 0;
    return others == 0;
  }
};

template <class T>
struct round_doubles {
  [[gnu::always_inline]] static void run(const double* high, const double* low, std::size_t n,
                                         void* to) {
    const auto put = [&](auto rounded) {
      for (std::size_t i = 0; i < n; ++i) {
        const T x = rounded(i);
        std::memcpy(static_cast<T*>(to) + i, &x, sizeof x);
      }
    };
    if (low)
      put([&](std::size_t i) { return arith::round_sum_to<T>(high[i], low[i]); });
    else if constexpr (sizeof(T) == 2)  // by way of a float, of which compilers make vectors
      put([&](std::size_t i) {
        const double x = high[i];
        const float odd = product::odd_float(x);
        return arith::round_to<T>(x - x == 0 ? odd : static_cast<float>(x));
      });
    else
      put([&](std::size_t i) { return arith::round_to<T>(high[i]); });
  }
};

#if defined(__x86_64__) || defined(_M_X64)
// By F16C, which each processor with AVX2 has: of floats that are no NaNs it rounds to nearest
// even, whatever the processor's mode. It takes a fifth of the time of what compilers make of
// arith's own.
struct widen_eight {
  [[gnu::always_inline, gnu::target("avx2,f16c")]] static void run(const float16* from, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static constexpr auto rest = widen_elements<float16, float>::run;
};
// (Without AVX2, compilers may make eight branches of a choice.)
struct round_eight {
  [[gnu::always_inline, gnu::target("avx2,f16c")]] static void run(const float* from, float16* to) {
    const __m256 x = _mm256_loadu_ps(from), nan = _mm256_set1_ps(arith::canonical_nan<float>),
                 one_nan = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(one_nan, _MM_FROUND_TO_NEAREST_INT));
  }
  static constexpr auto rest = round_elements<float16, float>::run;
};
template <class Eight, class From, class To>
[[gnu::target("avx2,f16c,prfchw")]] void convert_halves(const From* from, std::size_t n, To* to,
                                                        std::size_t ahead) {
  std::size_t i = 0;
  for (; i + in_a_line <= n; i += in_a_line) {
    ask_ahead(from + i, to + i, ahead);
    for (std::size_t k = i; k < i + in_a_line; k += 8) Eight::run(from + k, to + k);
  }
  if (i < n) ask_ahead(from + i, to + i, ahead);
  for (; i + 8 <= n; i += 8) Eight::run(from + i, to + i);
  Eight::rest(from + i, n - i, to + i, ahead);
}
#endif

}  // namespace

template <class T>
conversions<T> conversions_for(target used) {
  using A = row::accumulator<T>;
#if defined(__x86_64__) || defined(_M_X64)
  if constexpr (std::is_same_v<T, float16>)
    if (used == target::avx2 || used == target::avx512)
      return {convert_halves<widen_eight, float16, float>,
              convert_halves<round_eight, float, float16>};
#endif
  return {loop_for<widen_elements<T, A>>(used), loop_for<round_elements<T, A>>(used)};
}
element_reader reader_of(dtype type, target used) {
  return with_float(type, [=]<class T>(std::type_identity<T>) -> element_reader {
    return loop_for<read_elements<T>>(used);
  });
}
double_rounding rounding_of_doubles(dtype to, target used) {
  return with_float(to, [=]<class T>(std::type_identity<T>) -> double_rounding {
    return loop_for<round_doubles<T>>(used);
  });
}
template conversions<float16> conversions_for(target);
template conversions<bfloat16> conversions_for(target);
template conversions<float> conversions_for(target);
template conversions<double> conversions_for(target);

}  // namespace bitfold::cpu
