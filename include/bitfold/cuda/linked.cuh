// Contributions of linked ranks, one each: their GPUs write to one another's memory, and read what
// came to their own. (To read the others' takes requests, which go the way of other ranks'
// answers.) Block b of every GPU meets block b of the others, and no others; all have the same
// grid. What a block reads was written by the others' blocks of its number, in this step.
#pragma once

#include <bitfold/cuda/contributions.cuh>
#include <bitfold/cuda/linked.hpp>

namespace bitfold::cuda {

// The block of this number on all GPUs.
template <int Ranks>
class meeting {
 public:
  __device__ explicit meeting(const linked_call& of) : of_(of), met_(*epoch()) {}
  // All that blocks wrote before is there for all of them then.
  __device__ void meet() {
    ++met_;
    wait_for_the_block();
    if (threadIdx.x < Ranks) {
      const int other = static_cast<int>(threadIdx.x);
      store_flag(flag(other, of_.rank), met_);
      const std::uint32_t* const theirs = flag(of_.rank, other);
      const std::uint64_t begin = nanoseconds();
      while (static_cast<std::int32_t>(load_flag(theirs) - met_) < 0)
        if (nanoseconds() - begin > of_.limit) give_up();
    }
    wait_for_the_block();
  }
  // The next kernel goes on from here.
  __device__ void leave() {
    if (threadIdx.x == 0) *epoch() = met_;
  }

 private:
  __device__ std::uint32_t* flag(int of_rank, int by) const {
    return reinterpret_cast<std::uint32_t*>(of_.memory[of_rank]) + blockIdx.x * most_linked + by;
  }
  __device__ std::uint32_t* epoch() const {
    return reinterpret_cast<std::uint32_t*>(of_.memory[of_.rank]) +
           most_blocks_on_links * most_linked + blockIdx.x;
  }
  const linked_call& of_;
  std::uint32_t met_;
};

// Elements i to i + N - 1, as far as they come before `end`: these lie at multiples of 16 bytes.
template <int N, class T>
__device__ packet<T, N> load_before(const T* x, index i, index end) {
  packet<T, N> v;
  if (i + N <= end) {
    load_16_bytes_now(x + i, v.words);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) v.set(k, i + k < end ? x[i + k] : T{});
  }
  return v;
}
template <class T, int N>
__device__ void store_before(T* x, index i, index end, const packet<T, N>& v) {
  if (i + N <= end) {
    v.store(x + i);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (i + k < end) x[i + k] = v[k];
  }
}

// Calls f with the constants 0 to N - 1. (By a variable, even of a loop that is unrolled, packets
// would be found in memory.)
template <int N, int From = 0, class F>
__device__ void for_each_constant(F f) {
  if constexpr (From < N) {
    f(std::integral_constant<int, From>{});
    for_each_constant<N, From + 1>(f);
  }
}

// What a block does in a step. A thread loads several packets before it stores the first of them.
template <class By, int Ranks, int N>
struct linked {
  using T = typename By::element;
  using Out = typename By::result;
  using results = packets_of_results<Out, N>;
  static constexpr int packet_bytes = 16, at_once = Ranks > 4 ? 1 : Ranks > 2 ? 2 : 4;
  static_assert(N * sizeof(T) == packet_bytes && results::each * sizeof(Out) == packet_bytes);

  const linked_call& of;
  std::byte* at;  // this block's bytes in the slot of this step, in this rank's memory
  index first;    // of each share, the packet that is this block's first in this step

  __device__ linked(const linked_call& call, index step, int result_packets)
      : of(call),
        at(call.memory[call.rank] + bytes_ahead_of_slots +
           ((call.slot + step) & 1) * call.slot_bytes +
           blockIdx.x * bytes_of_linked_block(call.packets, Ranks, result_packets)),
        first((step * gridDim.x + blockIdx.x) * call.packets) {}

  // Where a rank has what another gives it: packet p of elements, or of results.
  __device__ T* elements_of(int rank, int by, index p) const {
    return place<T>(rank, static_cast<index>(by) * of.packets + p);
  }
  __device__ Out* results_of(int rank, int by, index p) const {
    return place<Out>(rank, static_cast<index>(Ranks + by * results::count) * of.packets + p);
  }
  template <class P>
  __device__ P* place(int rank, index packet) const {
    const auto before = at - of.memory[of.rank];
    return reinterpret_cast<P*>(of.memory[rank] + before + packet * packet_bytes);
  }
  __device__ index begin_of(int share) const { return static_cast<index>(share) * of.share; }
  __device__ index end_of(int share) const {
    const index end = begin_of(share) + of.share;
    return end < of.n ? end : of.n;
  }
  __device__ int other(int k) const { return (of.rank + k) % Ranks; }

  // load(u, p), and then store(u, p), of this thread's packets among `count`.
  template <class Load, class Store>
  __device__ static void each_packet(index count, Load load, Store store) {
#pragma unroll 1
    for (index p = threadIdx.x; p < count; p += at_once * threads_on_links) {
      for_each_constant<at_once>([&](auto u) {
        if (p + u * threads_on_links < count) load(u, p + u * threads_on_links);
      });
      for_each_constant<at_once>([&](auto u) {
        if (p + u * threads_on_links < count) store(u, p + u * threads_on_links);
      });
    }
  }
  // To all others all elements, or to each those of its share.
  __device__ void give_all(const T* x) const {
    packet<T, N> v[at_once];
    each_packet(
        of.packets,
        [&](auto u, index p) {
          if ((first + p) * N < of.n) v[u] = load_before<N>(x, (first + p) * N, of.n);
        },
        [&](auto u, index p) {
          if ((first + p) * N >= of.n) return;
          for_each_constant<Ranks - 1>(
              [&](auto k) { v[u].store(elements_of(other(k + 1), of.rank, p)); });
        });
  }
  __device__ void give_shares(const T* x) const {
    packet<T, N> v[at_once][Ranks - 1];
    const auto each = [&](index p, auto f) {
      for_each_constant<Ranks - 1>([&](auto k) {
        const index i = begin_of(other(k + 1)) + (first + p) * N;
        if (i < end_of(other(k + 1))) f(k, i);
      });
    };
    each_packet(
        of.packets,
        [&](auto u, index p) {
          each(p, [&](auto k, index i) { v[u][k] = load_before<N>(x, i, end_of(other(k + 1))); });
        },
        [&](auto u, index p) {
          each(p, [&](auto k, index) { v[u][k].store(elements_of(other(k + 1), of.rank, p)); });
        });
  }
  // Of a share all ranks' elements, folded; put(p, i, results of elements i to i + N - 1).
  template <class Put>
  __device__ void fold(const T* x, int share, Put put) const {
    packet<T, N> v[at_once][Ranks];
    const index begin = begin_of(share) + first * N, end = end_of(share);
    each_packet(
        of.packets,
        [&](auto u, index p) {
          if (begin + p * N >= end) return;
          for_each_constant<Ranks>([&](auto k) {
            if (k == of.rank)
              v[u][k] = load_before<N>(x, begin + p * N, end);
            else
              load_16_bytes_now(elements_of(of.rank, k, p), v[u][k].words);
          });
        },
        [&](auto u, index p) {
          if (begin + p * N < end) put(p, begin + p * N, results_of_packets<By>(v[u], 0, of.ddof));
        });
  }
  // The results that the others gave.
  __device__ void take_results(Out* out) const {
    constexpr int each = results::each;
    packet<Out, each> v[at_once][Ranks - 1];
    const auto each_other = [&](index p, auto f) {
      for_each_constant<Ranks - 1>([&](auto k) {
        const index i = begin_of(other(k + 1)) + first * N + p * each;
        if (i < end_of(other(k + 1))) f(k, i);
      });
    };
    each_packet(
        of.packets * results::count,
        [&](auto u, index p) {
          each_other(p, [&](auto k, index) {
            load_16_bytes_now(results_of(of.rank, other(k + 1), p), v[u][k].words);
          });
        },
        [&](auto u, index p) {
          each_other(p,
                     [&](auto k, index i) { store_before(out, i, end_of(other(k + 1)), v[u][k]); });
        });
  }
};

// Every rank folds all elements, which are one share.
template <class By, int Ranks, int N>
__global__ void __launch_bounds__(threads_on_links, blocks_together)
    reduce_linked_at_once(const __grid_constant__ linked_call of, const typename By::element* x,
                          typename By::result* out) {
  meeting<Ranks> others(of);
#pragma unroll 1
  for (index step = 0; step < of.steps; ++step) {
    const linked<By, Ranks, N> here(of, step, 0);
    here.give_all(x);
    others.meet();
    here.fold(x, 0, [&](index, index i, const auto& results) {
#pragma unroll
      for (int k = 0; k < results.count; ++k)
        store_before(out, i + k * results.each, of.n, results.of[k]);
    });
  }
  others.leave();
}

// Every rank folds its share of the elements. Gather: and all get the results of all, else each has
// those of its own share.
template <class By, int Ranks, int N, bool Gather>
__global__ void __launch_bounds__(threads_on_links, blocks_together)
    reduce_linked_shares(const __grid_constant__ linked_call of, const typename By::element* x,
                         typename By::result* out) {
  using own = linked<By, Ranks, N>;
  constexpr int given = Gather ? own::results::count : 0;  // packets of results
  meeting<Ranks> others(of);
  own(of, 0, given).give_shares(x);
  others.meet();
#pragma unroll 1
  for (index step = 0; step < of.steps; ++step) {
    const own here(of, step, given);
    const index begin = Gather ? 0 : here.begin_of(of.rank), end = here.end_of(of.rank);
    here.fold(x, of.rank, [&](index p, index i, const auto& results) {
#pragma unroll
      for (int k = 0; k < results.count; ++k) {
        store_before(out, i - begin + k * results.each, end - begin, results.of[k]);
        if constexpr (Gather)
          for_each_constant<Ranks - 1>([&](auto j) {
            results.of[k].store(here.results_of(here.other(j + 1), of.rank, p * results.count + k));
          });
      }
    });
    // What is given for the next step and the results of this one wait for the same meeting. (Who
    // comes to it has read what lay there two steps ago.)
    const bool is_last = step + 1 == of.steps;
    if (!is_last) own(of, step + 1, given).give_shares(x);
    if (Gather || !is_last) others.meet();
    if (Gather) here.take_results(out);
  }
  others.leave();
}

}  // namespace bitfold::cuda
