// A stable radix sort, from the least significant digit on, after "onesweep" (Adinets and Merrill,
// Onesweep: A faster least significant digit radix sort for GPUs, 2022): the digits of all passes
// are counted in one read of the keys, and then each pass reads and writes all once. A block sorts
// a tile in shared memory, so that neighbours are written together, and learns from the tiles ahead
// of its own how many elements of each digit they have (decoupled look-back, Merrill and Garland,
// 2016). What is exchanged are counts, so nothing depends on who comes first.
#pragma once

#include <bitfold/cuda/device.cuh>
#include <bitfold/cuda/sort.hpp>
#include <type_traits>

namespace bitfold::cuda {

/// As the values of a sort of keys alone.
struct no_value {};

/// A digit of keys.
struct digit_at {
  int first_bit;
  unsigned mask;
  __device__ digit_at(int first, int bits)
      : first_bit(first), mask((1u << (bits < digit_bits ? bits : digit_bits)) - 1) {}
  template <class Key>
  __device__ unsigned operator()(Key k) const {
    return static_cast<unsigned>(k >> first_bit) & mask;
  }
};

/// Of the threads of the warp, up to this one, the v together.
template <class V>
__device__ V sum_up_to_here(V v) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
#pragma unroll
  for (int d = 1; d < warp; d *= 2) {
    const V before = shuffle_up(v, d);
    if (lane >= d) v += before;
  }
  return v;
}

// ---- Counts of digits ---------------------------------------------------------------------------

/// Turns counts of digits into how many there are below each; a warp for each pass.
__device__ inline void make_begins(const digit_counts& of) {
  constexpr int each = digits / warp;
  const int pass = static_cast<int>(threadIdx.x) / warp,
            lane = static_cast<int>(threadIdx.x) % warp;
  if (pass >= digits_of(of.bits)) return;
  std::uint64_t* const own = of.counts + pass * digits + lane * each;
  std::uint64_t count[each], all = 0;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    load_shared_word(own + k, count[k]);
    all += count[k];
  }
  std::uint64_t below = sum_up_to_here(all) - all;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    own[k] = below;
    below += count[k];
  }
}

/// Keys of n elements, key_of(i) each, go to `keys` where that is not null, and their digits are
/// counted. By all threads of blocks of counting_threads; a thread asks for `Each` keys at once.
template <class Key, int Each, class Function>
__device__ void make_and_count_keys(Key* keys, index n, const digit_counts& of, Function key_of) {
  // Neighbours count for themselves, as they may have the same digit.
  constexpr int places = sizeof(Key), parts = 4;
  __shared__ std::uint32_t counts[places * digits][parts];
  __shared__ bool is_last;
  for (int k = static_cast<int>(threadIdx.x); k < places * digits * parts; k += counting_threads)
    counts[k / parts][k % parts] = 0;
  wait_for_the_block();

  const index stride = index{gridDim.x} * counting_threads * Each;
  for (index first = index{blockIdx.x} * counting_threads * Each + threadIdx.x; first < n;
       first += stride) {
    Key key[Each];
#pragma unroll
    for (int u = 0; u < Each; ++u)
      if (const index i = first + static_cast<index>(u) * counting_threads; i < n)
        key[u] = key_of(i);
#pragma unroll
    for (int u = 0; u < Each; ++u) {
      const index i = first + static_cast<index>(u) * counting_threads;
      if (i >= n) continue;
      if (keys) keys[i] = key[u];
#pragma unroll
      for (int d = 0; d < places; ++d)
        if (const int bits = of.bits - d * digit_bits; bits > 0) {
          const digit_at of_pass(of.first_bit + d * digit_bits, bits);
          add_to_counter(
              counts[static_cast<unsigned>(d) * digits + of_pass(key[u])][threadIdx.x % parts], 1);
        }
    }
  }
  wait_for_the_block();

  for (int k = static_cast<int>(threadIdx.x); k < digits_of(of.bits) * digits;
       k += counting_threads) {
    std::uint64_t all = 0;
    for (int p = 0; p < parts; ++p) all += counts[k][p];
    if (all > 0) add_to_counter(of.counts[k], all);
  }
  // The block that comes last sees what all have added.
  fence_of_all_blocks();
  wait_for_the_block();
  if (threadIdx.x == 0) is_last = add_to_counter(*of.blocks_done, 1) == gridDim.x - 1;
  wait_for_the_block();
  if (!is_last) return;
  fence_of_all_blocks();
  make_begins(of);
}

template <class Key>
__global__ void __launch_bounds__(counting_threads)
    count_digits(const Key* keys, index n, const __grid_constant__ digit_counts of) {
  make_and_count_keys<Key, 8>(static_cast<Key*>(nullptr), n, of, [&](index i) { return keys[i]; });
}

// ---- A pass -------------------------------------------------------------------------------------

/// N small numbers, several in a register; where they are asked for is known when it is compiled.
template <int N, class Small>
class packed {
  static constexpr int each = sizeof(std::uint32_t) / sizeof(Small), bits = 8 * sizeof(Small);
  std::uint32_t words_[(N + each - 1) / each] = {};

 public:
  __device__ void set(int k, std::uint32_t small) { words_[k / each] |= small << k % each * bits; }
  __device__ std::uint32_t operator[](int k) const {
    return static_cast<Small>(words_[k / each] >> k % each * bits);
  }
};

/// The threads of the warp that have the same digit.
__device__ inline unsigned threads_alike(unsigned digit) {
  unsigned alike = all_threads;
#pragma unroll
  for (int b = 0; b < digit_bits; ++b) {
    const bool one = digit >> b & 1;
    const unsigned ones = ballot(one);
    alike &= one ? ones : ~ones;
  }
  return alike;
}

/// What a tile says of a digit: nothing yet, how many elements of it the tile has, or how many all
/// tiles up to it have. One word, which is written at once, and speaks of itself alone.
template <class Count>
struct tile_status {
  static constexpr Count of_tile = Count{1} << (8 * sizeof(Count) - 2), of_all = 2 * of_tile,
                         count = of_tile - 1;

  /// How many elements of that digit the tiles ahead of `tile` have. The blocks that sort those
  /// have begun, as tiles are numbered in the order of begin; each has said, or will say, what its
  /// tile has without waiting for anyone, so that this comes to an end.
  __device__ static Count ahead_of(const Count* status, index tile, unsigned digit) {
    Count ahead = 0;
    for (index t = tile; t-- > 0;) {
      Count word = 0;
      do load_shared_word(status + t * digits + digit, word);
      while (word < of_tile);
      ahead += word & count;
      if (word & of_all) break;
    }
    return ahead;
  }
};

/// Counts of less than 2^30 elements are 32-bit, those of more 64-bit.
template <class Key, class Value, class Count>
class tile_sort {
  static constexpr bool has_values = !std::is_same_v<Value, no_value>;
  static constexpr std::size_t widest = sizeof(Key) > sizeof(Value) ? sizeof(Key) : sizeof(Value);
  static constexpr int items = sort_items(widest), tile = sort_threads * items,
                       warps = sort_threads / warp, warps_of_digits = digits / warp;
  static constexpr std::size_t counter_bytes = sizeof(std::uint32_t) * warps * digits,
                               room_bytes =
                                   widest * tile > counter_bytes ? widest *tile : counter_bytes;
  using status = tile_status<Count>;

 public:
  struct shared {
    __align__(16) std::byte room[room_bytes];  // counters of each warp, then keys, then values
    Count begins[digits];  // where the elements of the digit go, less their place in the tile
    std::uint32_t sums[warps_of_digits], number;
  };

  __device__ static void run(const sort_step& p, shared& s) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % warp;
    auto* const counters = reinterpret_cast<std::uint32_t*>(s.room);
    std::uint32_t* const own = counters + thread / warp * digits;
    for (int k = lane; k < digits; k += warp) own[k] = 0;
    if (thread == 0) s.number = add_to_counter(*p.tiles_begun, 1);
    wait_for_the_block();
    const index number = s.number, first = number * tile;
    const int here = p.n - first < tile ? static_cast<int>(p.n - first) : tile;
    const int begin = thread / warp * warp * items + lane;  // of this thread's, `warp` apart
    const digit_at digit_of(p.first_bit, p.bits);

    // Behind the last element come some with the highest digit, which nobody writes.
    Key key[items];
    const auto* const keys = static_cast<const Key*>(p.keys) + first;
#pragma unroll
    for (int u = 0; u < items; ++u)
      key[u] = begin + u * warp < here ? keys[begin + u * warp] : static_cast<Key>(~Key{});
#pragma unroll
    for (int u = 0; u < items; ++u) add_to_counter(own[digit_of(key[u])], 1);
    wait_for_the_block();

    const auto [count, place] = place_digits(p, s, counters, number);
    packed<items, std::uint16_t> rank;
    static_assert(tile <= 1 << 16);
#pragma unroll
    for (int u = 0; u < items; ++u) rank.set(u, rank_of(own, digit_of(key[u]), lane));
    wait_for_the_block();  // the counters are done with

    auto* const sorted_keys = reinterpret_cast<Key*>(s.room);
#pragma unroll
    for (int u = 0; u < items; ++u) sorted_keys[rank[u]] = key[u];
    std::conditional_t<has_values, Value, char> value[items];
    if constexpr (has_values) load_values(p, first, begin, here, value);
    if (thread < digits) {
      auto* const all = static_cast<Count*>(p.status);
      const auto d = static_cast<unsigned>(thread);
      const Count ahead = status::ahead_of(all, number, d);
      if (number > 0)
        store_shared_word(all + number * digits + d,
                          static_cast<Count>(status::of_all | (ahead + count)));
      s.begins[d] = static_cast<Count>(p.begins[d]) + ahead - place;
    }
    wait_for_the_block();

    packed<items, std::uint8_t> digit;
#pragma unroll
    for (int u = 0; u < items; ++u) {
      const int i = thread + u * sort_threads;
      if (i >= here) continue;
      const Key k = sorted_keys[i];
      const unsigned d = digit_of(k);
      digit.set(u, d);
      static_cast<Key*>(p.sorted_keys)[s.begins[d] + static_cast<Count>(i)] = k;
    }
    if constexpr (has_values) {
      wait_for_the_block();
      auto* const sorted_values = reinterpret_cast<Value*>(s.room);
#pragma unroll
      for (int u = 0; u < items; ++u) sorted_values[rank[u]] = value[u];
      wait_for_the_block();
#pragma unroll
      for (int u = 0; u < items; ++u)
        if (const int i = thread + u * sort_threads; i < here)
          static_cast<Value*>(p.sorted_values)[s.begins[digit[u]] + static_cast<Count>(i)] =
              sorted_values[i];
    }
  }

 private:
  struct placed {
    Count count;          // elements of the tile with that digit,
    std::uint32_t place;  // and with a lower one
  };
  // Of the digit with this thread's number. Says the count to other tiles as soon as it can. Each
  // warp's counters become where in the tile its elements go.
  __device__ static placed place_digits(const sort_step& p, shared& s, std::uint32_t* counters,
                                        index number) {
    const int thread = static_cast<int>(threadIdx.x);
    std::uint32_t count = 0, up_to_here = 0;
    if (thread < digits) {
      for (int w = 0; w < warps; ++w) count += counters[w * digits + thread];
      const index at = number * digits + static_cast<index>(thread);
      store_shared_word(
          static_cast<Count*>(p.status) + at,
          static_cast<Count>((number == 0 ? status::of_all : status::of_tile) | count));
      if (p.next_status) static_cast<Count*>(p.next_status)[at] = 0;
      up_to_here = sum_up_to_here(count);
      if (thread % warp == warp - 1) s.sums[thread / warp] = up_to_here;
    }
    wait_for_the_block();
    std::uint32_t place = up_to_here - count;
    if (thread < digits) {
      for (int w = 0; w < thread / warp; ++w) place += s.sums[w];
      std::uint32_t next = place;
      for (int w = 0; w < warps; ++w) {
        std::uint32_t& of_warp = counters[w * digits + thread];
        const std::uint32_t here = of_warp;
        of_warp = next;
        next += here;
      }
    }
    wait_for_the_block();
    return {count, place};
  }

  // The place in the tile of this thread's element, behind those of the same digit that its warp
  // has placed before, and those of the threads to the left.
  __device__ static std::uint32_t rank_of(std::uint32_t* own, unsigned digit, int lane) {
    const unsigned alike = threads_alike(digit);
    const int last = last_bit(alike);
    const auto up_to_here =
        static_cast<std::uint32_t>(count_of_bits(alike & (all_threads >> (warp - 1 - lane))));
    std::uint32_t before = 0;
    if (lane == last) before = add_to_counter(own[digit], up_to_here);
    return shuffle(before, last) + up_to_here - 1;
  }

  template <class V>
  __device__ static void load_values(const sort_step& p, index first, int begin, int here,
                                     V (&value)[items]) {
    const auto* const values = static_cast<const V*>(p.values);
#pragma unroll
    for (int u = 0; u < items; ++u) {
      const int i = begin + u * warp;
      if constexpr (sizeof(V) == sizeof(std::uint32_t)) {
        if (!values) {
          value[u] = static_cast<V>(first + static_cast<index>(i));
          continue;
        }
      }
      value[u] = i < here ? values[first + static_cast<index>(i)] : V{};
    }
  }
};

/// A block for each tile; two fit on a processor.
template <class Key, class Value, class Count>
__global__ void __launch_bounds__(sort_threads, 2) sort_pass(const __grid_constant__ sort_step p) {
  using sort = tile_sort<Key, Value, Count>;
  __shared__ typename sort::shared s;
  sort::run(p, s);
}

}  // namespace bitfold::cuda
