// The SIMD kernels of one Highway target, for a file of their own (they take long to compile). That
// file defines BITFOLD_ONLY, the target's HWY_ name; BITFOLD_NAME, ours; and HWY_TARGET_INCLUDE,
// itself, for Highway to include again with the target's compiler options. It may name other
// kernels than the folds': BITFOLD_ENGINE, the file whose find() has them, and BITFOLD_WANTED, what
// that is asked for.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "../dispatch.hpp"
#include "backend.hpp"

#ifndef BITFOLD_ENGINE
#define BITFOLD_ENGINE "folds.inl"
#define BITFOLD_WANTED reduction
#endif

#if defined(__aarch64__)
// NEON, which every such processor has: nothing is chosen at run time, for which Highway would give
// its functions options that those which the compiler makes by itself have not.
#define HWY_COMPILE_ONLY_STATIC
#ifndef TOOLCHAIN_MISS_SYS_AUXV_H
#define TOOLCHAIN_MISS_SYS_AUXV_H
#endif
#else
// One level each for 256 and 512 bits; the others would only make the library larger.
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
#ifndef HWY_DISABLED_TARGETS
#if defined(__aarch64__)  // vectors of SVE have no size, which ours need
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#elif defined(BITFOLD_NO_AVX512)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif
#endif
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA
#define BITFOLD_INLINE HWY_INLINE
#define BITFOLD_LAMBDA HWY_ATTR
#undef BITFOLD_LEAF
#undef BITFOLD_ANOTHER_NAMESPACE
#define BITFOLD_ANOTHER_NAMESPACE
#undef BITFOLD_UNROLL_VECTORS
#define BITFOLD_LEAF BITFOLD_INLINE
#define BITFOLD_UNROLL_VECTORS BITFOLD_UNROLL

#if HWY_TARGET == BITFOLD_ONLY
HWY_BEFORE_NAMESPACE();
namespace bitfold::cpu {
namespace HWY_NAMESPACE {

constexpr target this_target = target::BITFOLD_NAME;

#include "simd.inl"
#include BITFOLD_ENGINE

}  // namespace HWY_NAMESPACE
}  // namespace bitfold::cpu
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace bitfold::cpu {
template <>
decltype(find_kernels_of<target::scalar>(std::declval<const BITFOLD_WANTED&>()))
find_kernels_of<target::BITFOLD_NAME>([[maybe_unused]] const BITFOLD_WANTED& what) {
#if BITFOLD_ONLY == HWY_STATIC_TARGET  // the whole program asks for it
  return BITFOLD_NAMESPACE::find(what);
#elif HWY_TARGETS & BITFOLD_ONLY
  static const bool here = hwy::SupportedTargets() & BITFOLD_ONLY;  // asking takes microseconds
  if (here) return BITFOLD_NAMESPACE::find(what);
#endif
  return {};
}
}  // namespace bitfold::cpu
#endif
