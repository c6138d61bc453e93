// The few macros that let one source serve g++, clang++, nvcc and NVRTC.
#pragma once

#if !defined(__cpp_concepts) || __cplusplus < 202002L
// An #error would go on to hundreds of others; this ends here.
#include "bitfold wants C++20: compile with -std=c++20 or newer"
#endif

#ifdef __CUDACC__
#define BITFOLD_HD __host__ __device__
#else
#define BITFOLD_HD
#endif

// Before a loop that is to be unrolled whole. A build that is to be small defines it as nothing.
#ifdef BITFOLD_UNROLL
#elif defined(__CUDACC__) || defined(__clang__)
#define BITFOLD_UNROLL _Pragma("unroll")
#else
#define BITFOLD_UNROLL _Pragma("GCC unroll 64")
#endif

// Around templates for host and device, which the CPU's engine may give functions of the host
// alone: nvcc warns of that whether or not the device ever calls them.
#ifdef __CUDACC__
#define BITFOLD_HD_BEGIN \
  _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 20011,20013,20014,20015")
#define BITFOLD_HD_END _Pragma("nv_diagnostic pop")
#else
#define BITFOLD_HD_BEGIN
#define BITFOLD_HD_END
#endif
