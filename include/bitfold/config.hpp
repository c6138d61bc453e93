// The few macros that let one source serve g++, clang++ and nvcc.
#pragma once

#ifdef __CUDACC__
#define BITFOLD_HD __host__ __device__
#else
#define BITFOLD_HD
#endif

// Before a loop that is to be unrolled whole.
#if defined(__CUDACC__) || defined(__clang__)
#define BITFOLD_UNROLL _Pragma("unroll")
#else
#define BITFOLD_UNROLL _Pragma("GCC unroll 64")
#endif
