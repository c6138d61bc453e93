// Refuses compilers that may reassociate, assume away NaN or -0, or evaluate in another precision:
// the bits would not be bitfold's. Where the compiler tells, it is an error here (g++ tells all;
// clang++ tells -ffast-math and -ffinite-math-only); where it does not, the program stops when it
// starts, if what the compiler makes of the probe below shows it.
#pragma once

#ifndef __CUDACC_RTC__  // the library says itself how kernels are compiled at run time

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error \
    "bitfold: this file is compiled with -ffast-math, -Ofast or a part of them, which changes the bits; compile it without"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error \
    "bitfold: this target evaluates float in a wider type (x87); compile with -msse2 -mfpmath=sse"
#endif
static_assert(0.1 != 0.1f,
              "bitfold: this file is compiled with -fsingle-precision-constant, which changes the "
              "bits; compile it without");

namespace bitfold::detail {
namespace {

// One for each file, since each may be compiled in its own way; right in any rounding mode.
struct strict_math_probe {
  strict_math_probe() noexcept {
    const volatile float big = 1e8f, one = 1, three = 3, five = 5, minus_zero = -0.0f, zero = 0;
    const float a = big, b = one;
    const bool reassociates = (a + b) - a == 1;  // strictly 0, or 8 where rounding goes up
    const bool by_reciprocal = five / 3.0f != five / three;
    const bool drops_zero = !std::signbit(minus_zero + zero) && std::signbit(minus_zero + 0.0f);
    const volatile float not_a_number = std::numeric_limits<float>::quiet_NaN();
    const volatile float infinite = std::numeric_limits<float>::infinity();
    const float x = not_a_number, y = infinite;
    const bool assumes_finite = !(x != x) || !std::isinf(y);
    if (!reassociates && !by_reciprocal && !drops_zero && !assumes_finite) return;
    std::fputs(
        "bitfold: a file of this program that includes bitfold is compiled with -ffast-math or a "
        "part "
        "of it, which changes the bits; compile it without\n",
        stderr);
    std::abort();
  }
};
const strict_math_probe strict_math_checked;

}  // namespace
}  // namespace bitfold::detail

#endif
