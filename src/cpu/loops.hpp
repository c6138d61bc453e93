// Loops over elements in rows, written once and compiled for each target: wider instructions, and
// an FMA that is no call.
#pragma once

#include <bitfold/cpu.hpp>

// Before a loop whose results may lie where it reads, each in the place of what it is made of.
#ifdef __clang__
#define BITFOLD_EACH_IN_PLACE _Pragma("clang loop vectorize(assume_safety)")
#else
#define BITFOLD_EACH_IN_PLACE _Pragma("GCC ivdep")
#endif

namespace bitfold::cpu {

template <class Loop, class Result, class... Arguments>
Result with_baseline(Arguments... arguments) {
  return Loop::run(arguments...);
}
#if defined(__x86_64__) || defined(_M_X64)
template <class Loop, class Result, class... Arguments>
[[gnu::target("avx2,fma")]] Result with_avx2(Arguments... arguments) {
  return Loop::run(arguments...);
}
template <class Loop, class Result, class... Arguments>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")]] Result
with_avx512(Arguments... arguments) {
  return Loop::run(arguments...);
}
#endif
template <class Loop, class Result, class... Arguments>
auto compiled_for([[maybe_unused]] target used, Result (*)(Arguments...))
    -> Result (*)(Arguments...) {
#if defined(__x86_64__) || defined(_M_X64)
  if (used == target::avx512) return with_avx512<Loop, Result, Arguments...>;
  if (used == target::avx2) return with_avx2<Loop, Result, Arguments...>;
#endif
  return with_baseline<Loop, Result, Arguments...>;
}
/// Loop::run, a function of values and pointers that is inlined wherever it is called.
template <class Loop>
auto loop_for(target used) {
  return compiled_for<Loop>(used, &Loop::run);
}

}  // namespace bitfold::cpu
