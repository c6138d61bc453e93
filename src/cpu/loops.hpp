// Loops over elements in rows, written once and compiled for each target: wider instructions, and an
// FMA that is no call.
#pragma once

#include <bitfold/cpu.hpp>

namespace bitfold::cpu {

template <class Loop, class... Arguments>
void with_baseline(Arguments... arguments) {
  Loop::run(arguments...);
}
#if defined(__x86_64__) || defined(_M_X64)
template <class Loop, class... Arguments>
[[gnu::target("avx2,fma")]] void with_avx2(Arguments... arguments) {
  Loop::run(arguments...);
}
template <class Loop, class... Arguments>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")]] void with_avx512(
    Arguments... arguments) {
  Loop::run(arguments...);
}
#endif
template <class Loop, class... Arguments>
auto compiled_for(target used, void (*)(Arguments...)) -> void (*)(Arguments...) {
#if defined(__x86_64__) || defined(_M_X64)
  if (used == target::avx512) return with_avx512<Loop, Arguments...>;
  if (used == target::avx2) return with_avx2<Loop, Arguments...>;
#endif
  return with_baseline<Loop, Arguments...>;
}
/// Loop::run, a function of values and pointers that is inlined wherever it is called.
template <class Loop>
auto loop_for(target used) {
  return compiled_for<Loop>(used, &Loop::run);
}

}  // namespace bitfold::cpu
