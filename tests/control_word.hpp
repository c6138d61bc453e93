// The registers that say how floating point is computed, and what it has raised.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bitfold::test {

#if defined(__x86_64__)
inline constexpr std::uint64_t default_control = 0x1f80, flushing = 0x8040;  // FTZ and DAZ
inline std::uint64_t control_word() { return _mm_getcsr(); }
inline void set_control_word(std::uint64_t word) { _mm_setcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
// FPCR, and FPSR above it. FZ, and AHP, by which f16 has no infinities and no NaNs.
inline constexpr std::uint64_t default_control = 0, flushing = 1u << 24 | 1u << 26;
inline std::uint64_t control_word() {
  std::uint64_t control, flags;
  asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(flags)::"memory");
  return flags << 32 | control;
}
inline void set_control_word(std::uint64_t word) {
  asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(word & 0xffffffffu), "r"(word >> 32)
               : "memory");
}
#else
inline constexpr std::uint64_t default_control = 0, flushing = 0;
inline std::uint64_t control_word() { return 0; }
inline void set_control_word(std::uint64_t) {}
#endif

/// Subnormals are flushed from here on.
inline void flush() { set_control_word(control_word() | flushing); }
inline void keep() { set_control_word(control_word() & ~flushing); }

}  // namespace bitfold::test
