// The default floating-point environment for as long as the guard lives: round to nearest even, no
// flush to zero, no denormals-are-zero, no traps. The caller's, flags included, comes back after.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

// For functions that compute inside a guard: a compiler may otherwise move plain arithmetic across
// the writes of the control register, on which it sees no dependence.
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define BITFOLD_OPAQUE __attribute__((noipa))
#endif
#endif
#ifndef BITFOLD_OPAQUE
#define BITFOLD_OPAQUE __attribute__((noinline))
#endif

namespace bitfold::detail {

class fp_environment {
 public:
#if defined(__x86_64__) || defined(_M_X64)
  // Writing the register takes longer than a short array, and is seldom needed: what controls the
  // arithmetic is nearly always the default, and the flags that it raises are nearly always up
  // already.
  fp_environment() : saved_(_mm_getcsr()) {
    if ((saved_ & ~0x3fu) != 0x1f80) _mm_setcsr(0x1f80);
  }
  ~fp_environment() {
    if (_mm_getcsr() != saved_) _mm_setcsr(saved_);
  }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  // As above: FPCR has what controls the arithmetic, and is 0 by default; FPSR has the flags.
  fp_environment() {
    asm volatile("mrs %0, fpcr" : "=r"(control_)::"memory");
    asm volatile("mrs %0, fpsr" : "=r"(flags_)::"memory");
    if (control_ != 0) asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}) : "memory");
  }
  ~fp_environment() {
    if (control_ != 0) asm volatile("msr fpcr, %0" ::"r"(control_) : "memory");
    std::uint64_t flags;
    asm volatile("mrs %0, fpsr" : "=r"(flags)::"memory");
    if (flags != flags_) asm volatile("msr fpsr, %0" ::"r"(flags_) : "memory");
  }

 private:
  std::uint64_t control_, flags_;
#else
  fp_environment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~fp_environment() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif
 public:
  fp_environment(const fp_environment&) = delete;
  fp_environment& operator=(const fp_environment&) = delete;
};

/// The processor's flag that something was rounded (IEEE 754's inexact), which stays up until it is
/// lowered. What it tells of has to be computed by functions that are called by their address, or
/// opaque, between the two. Inside a guard.
struct inexact_flag {
#if defined(__x86_64__) || defined(_M_X64)
  static bool is_up() { return (_mm_getcsr() & 0x20u) != 0; }
  static void lower() {
    if (is_up()) _mm_setcsr(_mm_getcsr() & ~0x20u);
  }
#elif defined(__aarch64__)
  static bool is_up() { return (flags() & 0x10u) != 0; }
  static void lower() {
    if (is_up()) asm volatile("msr fpsr, %0" ::"r"(flags() & ~std::uint64_t{0x10}) : "memory");
  }
#else
  static bool is_up() { return std::fetestexcept(FE_INEXACT) != 0; }
  static void lower() { std::feclearexcept(FE_INEXACT); }
#endif
  /// Whether there is one: some that imitate a processor, as valgrind does, leave it down.
  static bool works() {
    static const bool rises = [] {
      const volatile double one = 1, little = 0x1p-60;
      lower();
      const volatile double sum = one + little;
      return is_up() && sum == one;
    }();
    return rises;
  }

 private:
#if defined(__aarch64__)
  static std::uint64_t flags() {
    std::uint64_t of_now;
    asm volatile("mrs %0, fpsr" : "=r"(of_now)::"memory");
    return of_now;
  }
#endif
};

}  // namespace bitfold::detail
