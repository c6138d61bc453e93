// The SIMD kernels: this file is compiled once per Highway target, by including itself.
#include <cstring>

#include "../dispatch.hpp"
#include "backend.hpp"

// One level each for 256 and 512 bits; the others would only make the library larger.
#define HWY_COMPILE_ALL_ATTAINABLE
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels_simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA
#define BITFOLD_INLINE HWY_INLINE
#define BITFOLD_LAMBDA HWY_ATTR
#undef BITFOLD_LEAF
#undef BITFOLD_UNROLL_VECTORS
#define BITFOLD_LEAF BITFOLD_INLINE
#define BITFOLD_UNROLL_VECTORS BITFOLD_UNROLL

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace bitfold::cpu {
namespace HWY_NAMESPACE {

constexpr target this_target = HWY_TARGET == HWY_AVX2 ? target::avx2 : target::avx512;

#include "simd.inl"
#include "engine.inl"

}  // namespace HWY_NAMESPACE
}  // namespace bitfold::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace bitfold::cpu {

kernels find_simd_kernels([[maybe_unused]] target t, [[maybe_unused]] const reduction& r) {
#if HWY_TARGETS & HWY_AVX2
  if (t == target::avx2) return N_AVX2::find(r);
#endif
#if HWY_TARGETS & HWY_AVX3
  if (t == target::avx512) return N_AVX3::find(r);
#endif
  return {};
}

std::vector<target> simd_targets() {
  std::vector<target> out;
  [[maybe_unused]] const auto here = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX2
  if (here & HWY_AVX2) out.push_back(target::avx2);
#endif
#if HWY_TARGETS & HWY_AVX3
  if (here & HWY_AVX3) out.push_back(target::avx512);
#endif
  return out;
}

}  // namespace bitfold::cpu
#endif
