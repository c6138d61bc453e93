// What a kernel asks of a GPU besides arithmetic: loads, exchanges among threads, barriers. Tests
// put a GPU of their own in its place.
#pragma once

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

#include <cstddef>
#include <cstdint>

namespace bitfold::cuda {

constexpr int warp = 32;
constexpr unsigned all_threads = 0xffffffffu;

/// The block's memory, as much as its launch asks for; from where a row of banks begins.
extern __shared__ __align__(128) std::byte shared_bytes[];

/// Of the thread `distance` to the right in the warp, its v.
template <class V>
__device__ V shuffle_down(V v, int distance) {
  return __shfl_down_sync(all_threads, v, distance);
}
/// Of that thread of the warp, its v.
template <class V>
__device__ V shuffle(V v, int thread) {
  return __shfl_sync(all_threads, v, thread);
}

/// Of the thread `distance` to the left in the warp, its v; where there is none, one's own.
template <class V>
__device__ V shuffle_up(V v, int distance) {
  return __shfl_up_sync(all_threads, v, distance);
}
/// Of number k of the `width` threads among which this one is, its v; all of `mask` ask.
template <class V>
__device__ V shuffle_among(unsigned mask, V v, int k, int width) {
  return __shfl_sync(mask, v, k, width);
}
/// Of the thread whose number in the warp differs in that bit, its v.
template <class V>
__device__ V shuffle_across(V v, int bit) {
  return __shfl_xor_sync(all_threads, v, bit);
}
/// A bit for each thread of the warp.
__device__ inline unsigned ballot(bool condition) { return __ballot_sync(all_threads, condition); }
/// A bit for each thread of the warp whose x has that bit as this one's has it. (By a predicate,
/// where the compiler would shift the bit down, and compare and select by it.)
__device__ inline unsigned threads_with_same_bit(unsigned x, unsigned bit) {
  unsigned same;
  asm volatile(
      "{\n"
      "  .reg .pred p;\n"
      "  and.b32 %0, %1, %2;\n"
      "  setp.ne.u32 p, %0, 0;\n"
      "  vote.sync.ballot.b32 %0, p, 0xffffffff;\n"
      "  @!p not.b32 %0, %0;\n"
      "}"
      : "=&r"(same)
      : "r"(x), "r"(bit));
  return same;
}
__device__ inline bool all_of_the_warp(bool condition) {
  return __all_sync(all_threads, condition);
}
__device__ inline int count_of_bits(unsigned x) { return __popc(x); }
__device__ inline bool any_of_the_warp(bool condition) {
  return __any_sync(all_threads, condition);
}
/// Of all threads of the warp.
__device__ inline int sum_of_the_warp(int v) { return __reduce_add_sync(all_threads, v); }
__device__ inline unsigned sum_of_the_warp(unsigned v) { return __reduce_add_sync(all_threads, v); }
__device__ inline int largest_of_the_warp(int v) { return __reduce_max_sync(all_threads, v); }
__device__ inline unsigned largest_of_the_warp(unsigned v) {
  return __reduce_max_sync(all_threads, v);
}
__device__ inline unsigned bits_of_the_warp(unsigned v) { return __reduce_or_sync(all_threads, v); }
/// The number of the lowest bit of x, or of the highest: -1 where there is none.
__device__ inline int first_bit(unsigned x) { return __ffs(static_cast<int>(x)) - 1; }
__device__ inline int last_bit(unsigned x) { return warp - 1 - __clz(static_cast<int>(x)); }

__device__ inline void wait_for_the_block() { __syncthreads(); }
__device__ inline void wait_for_the_warp() { __syncwarp(); }
/// Waits for the block, too.
__device__ inline bool any_of_the_block(bool condition) { return __syncthreads_or(condition); }

/// A word that other blocks write, or read, meanwhile. It says nothing of other words.
__device__ inline void load_shared_word(const std::uint32_t* p, std::uint32_t& word) {
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(p) : "memory");
}
__device__ inline void load_shared_word(const std::uint64_t* p, std::uint64_t& word) {
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(p) : "memory");
}
__device__ inline void store_shared_word(std::uint32_t* p, std::uint32_t word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(word) : "memory");
}
__device__ inline void store_shared_word(std::uint64_t* p, std::uint64_t word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(word) : "memory");
}
/// What this thread wrote, or has seen, comes before whatever it writes or reads from now on, for
/// the threads of all blocks.
__device__ inline void fence_of_all_blocks() { __threadfence(); }

/// Adds to an integer that other threads add to meanwhile, or exchanges it, or sets bits of it;
/// each gives what it was.
__device__ inline std::uint32_t add_to(std::uint32_t& v, std::uint32_t n) {
  return atomicAdd(&v, n);
}
__device__ inline std::uint64_t add_to(std::uint64_t& v, std::uint64_t n) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(&v), n);
}
__device__ inline std::uint64_t exchange_with(std::uint64_t& v, std::uint64_t n) {
  return atomicExch(reinterpret_cast<unsigned long long*>(&v), n);
}
/// The larger of it and n goes there.
__device__ inline void raise_to(std::uint64_t& v, std::uint64_t n) {
  atomicMax(reinterpret_cast<unsigned long long*>(&v), n);
}
/// Puts `by` where `expected` is, and gives what was there.
__device__ inline std::uint32_t replace_if(std::uint32_t& v, std::uint32_t expected,
                                           std::uint32_t by) {
  return atomicCAS(&v, expected, by);
}
__device__ inline std::uint64_t replace_if(std::uint64_t& v, std::uint64_t expected,
                                           std::uint64_t by) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(&v), expected, by);
}
__device__ inline void set_bits_of(std::uint32_t& v, std::uint32_t bits) { atomicOr(&v, bits); }
__device__ inline void set_bits_of(std::uint64_t& v, std::uint64_t bits) {
  atomicOr(reinterpret_cast<unsigned long long*>(&v), bits);
}

/// A word by which the GPUs of a host tell one another how far they are: what a thread's block
/// wrote ahead of the store is there for the block of the thread that loads it, behind their
/// barriers.
__device__ inline void store_flag(std::uint32_t* p, std::uint32_t word) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(word) : "memory");
}
__device__ inline std::uint32_t load_flag(const std::uint32_t* p) {
  std::uint32_t word;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(p) : "memory");
  return word;
}
/// Of a clock that all threads see.
__device__ inline std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
/// Ends the kernel, and every later call in its context, with an error.
__device__ inline void give_up() { __trap(); }

/// The high 32 bits of a b.
__device__ inline std::uint32_t high_product(std::uint32_t a, std::uint32_t b) {
  return __umulhi(a, b);
}
/// The 32 bits from bit `by` < 32 on of low and, behind it, high.
__device__ inline std::uint32_t shift_right_across(std::uint32_t low, std::uint32_t high, int by) {
  return __funnelshift_r(low, high, by);
}
/// The upper 32 bits of those, moved to the left by `by` < 32.
__device__ inline std::uint32_t shift_left_across(std::uint32_t low, std::uint32_t high, int by) {
  return __funnelshift_l(low, high, by);
}
/// Four of the eight bytes of low and, behind it, high: the lowest half byte of `which` says which
/// is the first.
__device__ inline std::uint32_t bytes_of(std::uint32_t low, std::uint32_t high, unsigned which) {
  return __byte_perm(low, high, which);
}
/// The nearest integer, the even one of two; any where that has more than 32 bits.
__device__ inline std::int32_t nearest_integer_of(float x) { return __float2int_rn(x); }
/// sum + a b, in one instruction.
__device__ inline std::int64_t add_product(std::int32_t a, std::int32_t b, std::int64_t sum) {
  asm("mad.wide.s32 %0, %1, %2, %0;" : "+l"(sum) : "r"(a), "r"(b));
  return sum;
}
/// p + i, in global memory. (From p + i compilers make p's own sum in 64 bits anew for each i.)
template <class T>
__device__ inline const T* element_at(const T* p, std::int32_t i) {
  const T* at;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(at) : "r"(i), "n"(sizeof(T)), "l"(p));
  __builtin_assume(__isGlobal(at));
  return at;
}
/// sums += a b, of 16 x 32 and 32 x 8 integers of 8 bits, as the threads of a warp hold them (PTX
/// ISA, fragments of mma.m16n8k32).
__device__ inline void multiply_digits(std::int32_t (&sums)[4], const std::uint32_t (&a)[4],
                                       const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// Four times 8 rows of 16 bytes, of shared memory: lane 8 m + r says where row r of number m
/// begins, and lane 4 r + q gets of each bytes 4 q to 4 q + 3 of row r (PTX ISA, ldmatrix).
__device__ inline void load_fragments(const void* row, std::uint32_t (&of)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(of[0]), "=r"(of[1]), "=r"(of[2]), "=r"(of[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row))));
}
/// The halves of a double's bits.
__device__ inline std::int32_t upper_half(double x) { return __double2hiint(x); }
__device__ inline std::int32_t lower_half(double x) { return __double2loint(x); }
__device__ inline double double_of(std::int32_t upper, std::int32_t lower) {
  return __hiloint2double(upper, lower);
}
__device__ inline double magnitude_of(double x) { return fabs(x); }

/// Past the coherence of the first-level cache: nobody writes them meanwhile. Volatile, so that the
/// loads of a tile stay together, ahead of the fold of the tile before.
__device__ inline void load_16_bytes(const void* p, std::uint32_t (&word)[4]) {
  asm volatile("ld.global.nc.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(p));
}
__device__ inline void load_8_bytes(const void* p, std::uint32_t (&word)[2]) {
  asm volatile("ld.global.nc.L2::128B.v2.u32 {%0,%1}, [%2];"
               : "=r"(word[0]), "=r"(word[1])
               : "l"(p));
}
__device__ inline void load_bytes(const void* p, std::uint16_t& word) {
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(word) : "l"(p));
}
__device__ inline void load_bytes(const void* p, std::uint32_t& word) {
  asm volatile("ld.global.nc.L2::128B.u32 %0, [%1];" : "=r"(word) : "l"(p));
}
__device__ inline void load_bytes(const void* p, std::uint64_t& word) {
  asm volatile("ld.global.nc.L2::128B.u64 %0, [%1];" : "=l"(word) : "l"(p));
}
/// As they are now: of memory that is written meanwhile, by this kernel, or by another GPU ahead of
/// a flag.
__device__ inline void load_16_bytes_now(const void* p, std::uint32_t (&word)[4]) {
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(p)
               : "memory");
}
/// The same without the lines behind it, which are of other columns' rows.
__device__ inline void load_columns(const void* p, std::uint32_t (&word)[4]) {
  asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(p));
}
__device__ inline void load_columns(const void* p, std::uint32_t (&word)[2]) {
  asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "l"(p));
}
__device__ inline void load_columns(const void* p, std::uint32_t (&word)[1]) {
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(word[0]) : "l"(p));
}

/// As one store.
__device__ inline void store_bytes(void* p, const std::uint32_t (&word)[4]) {
  *static_cast<uint4*>(p) = {word[0], word[1], word[2], word[3]};
}
__device__ inline void store_bytes(void* p, const std::uint32_t (&word)[2]) {
  // (As a pair of words it would become two stores where another branch stores them apart.)
  *static_cast<std::uint64_t*>(p) = std::uint64_t{word[1]} << 32 | word[0];
}

// Programmatic dependent launch: the kernel after this one may be set up while this one runs; that
// one waits for the end of this before it reads what it wrote.
__device__ inline void let_the_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ inline void wait_for_the_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace bitfold::cuda
