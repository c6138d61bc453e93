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
          add_to(counts[static_cast<unsigned>(d) * digits + of_pass(key[u])][threadIdx.x % parts],
                 1);
        }
    }
  }
  if (of.bits == 0) return;  // nobody asks
  wait_for_the_block();

  for (int k = static_cast<int>(threadIdx.x); k < digits_of(of.bits) * digits;
       k += counting_threads) {
    std::uint64_t all = 0;
    for (int p = 0; p < parts; ++p) all += counts[k][p];
    if (all > 0) add_to(of.counts[k], all);
  }
  // The block that comes last sees what all have added.
  fence_of_all_blocks();
  wait_for_the_block();
  if (threadIdx.x == 0) is_last = add_to(*of.blocks_done, 1) == gridDim.x - 1;
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
  for (int b = 0; b < digit_bits; ++b) alike &= threads_with_same_bit(digit, 1u << b);
  return alike;
}

/// What each warp of a block has of each digit: first how many elements, then where in the block's
/// tile the next one goes.
template <int Warps>
class warp_counters {
  std::uint32_t *all_, *own_;
  int thread_ = static_cast<int>(threadIdx.x), lane_ = thread_ % warp;

 public:
  static constexpr std::size_t bytes = sizeof(std::uint32_t) * Warps * digits;
  static constexpr int warps_of_digits = digits / warp;

  __device__ explicit warp_counters(std::byte* room)
      : all_(reinterpret_cast<std::uint32_t*>(room)),
        own_(all_ + static_cast<int>(threadIdx.x) / warp * digits) {}
  // A barrier lies between one of these and the next.
  __device__ void clear() {
    for (int k = lane_; k < digits; k += warp) own_[k] = 0;
  }
  __device__ void count(unsigned digit) { add_to(own_[digit], 1); }
  /// All warps', of the digit with this thread's number, if it is one.
  __device__ std::uint32_t total() const {
    std::uint32_t count = 0;
    if (thread_ < digits)
      for (int w = 0; w < Warps; ++w) count += all_[w * digits + thread_];
    return count;
  }
  /// From that on they say where elements go. Gives how many have a digit below this thread's. All
  /// threads of the block wait.
  __device__ std::uint32_t place(std::uint32_t total, std::uint32_t (&sums)[warps_of_digits]) {
    std::uint32_t up_to_here = 0;
    if (thread_ < digits) {
      up_to_here = sum_up_to_here(total);
      if (lane_ == warp - 1) sums[thread_ / warp] = up_to_here;
    }
    wait_for_the_block();
    std::uint32_t below = up_to_here - total;
    if (thread_ < digits) {
      for (int w = 0; w < thread_ / warp; ++w) below += sums[w];
      std::uint32_t next = below;
      for (int w = 0; w < Warps; ++w) {
        std::uint32_t& of_warp = all_[w * digits + thread_];
        const std::uint32_t here = of_warp;
        of_warp = next;
        next += here;
      }
    }
    wait_for_the_block();
    return below;
  }
  /// The place in the tile of this thread's element, behind those of the same digit that its warp
  /// has placed before, and those of the threads to the left.
  __device__ std::uint32_t take(unsigned digit) {
    const unsigned alike = threads_alike(digit);
    const int last = last_bit(alike);
    const auto up_to_here =
        static_cast<std::uint32_t>(count_of_bits(alike & (all_threads >> (warp - 1 - lane_))));
    std::uint32_t before = 0;
    if (lane_ == last) before = add_to(own_[digit], up_to_here);
    return shuffle(before, last) + up_to_here - 1;
  }
};

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

constexpr std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }

/// A block sorts a tile: `items` elements each of so many threads, at least one for each digit. A
/// processor has registers for `least_blocks` of them.
template <int Threads, int Items, int LeastBlocks>
struct sort_shape {
  static constexpr int threads = Threads, items = Items, least_blocks = LeastBlocks;
};

/// Counts of less than 2^30 elements are 32-bit, those of more 64-bit.
template <class Key, class Value, class Count, class Shape>
class tile_sort {
  static constexpr bool has_values = !std::is_same_v<Value, no_value>;
  static constexpr std::size_t widest = larger(sizeof(Key), sizeof(Value));
  static constexpr int threads = Shape::threads, items = Shape::items, tile = threads * items;
  static_assert(tile <= 1 << 16 && threads >= digits);
  using warp_counters = cuda::warp_counters<threads / warp>;
  using status = tile_status<Count>;

 public:
  struct shared {
    // Counters, then keys, then values.
    __align__(16) std::byte room[larger(widest * tile, warp_counters::bytes)];
    Count begins[digits];  // where the elements of the digit go, less their place in the tile
    std::uint32_t sums[warp_counters::warps_of_digits], number;
  };

  __device__ static void run(const sort_step& p, shared& s) {
    const int thread = static_cast<int>(threadIdx.x);
    warp_counters counters(s.room);
    counters.clear();
    if (thread == 0) s.number = add_to(*p.tiles_begun, 1);
    wait_for_the_block();
    const index number = s.number, first = number * tile;
    const int here = p.n - first < tile ? static_cast<int>(p.n - first) : tile;
    // Of this thread's elements, which lie `warp` apart.
    const int begin = thread / warp * warp * items + thread % warp;
    const digit_at digit_of(p.first_bit, p.bits);

    // Behind the last element come some with the highest digit, which nobody writes.
    Key key[items];
    const auto* const keys = static_cast<const Key*>(p.keys) + first;
#pragma unroll
    for (int u = 0; u < items; ++u)
      key[u] = begin + u * warp < here ? keys[begin + u * warp] : static_cast<Key>(~Key{});
#pragma unroll
    for (int u = 0; u < items; ++u) counters.count(digit_of(key[u]));
    wait_for_the_block();

    // Other tiles wait for the counts: they come first.
    const std::uint32_t count = counters.total();
    if (thread < digits) {
      say(p.status, number, thread, (number == 0 ? status::of_all : status::of_tile) | count);
      if (p.next_status) say(p.next_status, number, thread, 0);
    }
    const std::uint32_t below = counters.place(count, s.sums);
    packed<items, std::uint16_t> rank;
#pragma unroll
    for (int u = 0; u < items; ++u) rank.set(u, counters.take(digit_of(key[u])));
    wait_for_the_block();  // the counters are done with

    auto* const sorted_keys = reinterpret_cast<Key*>(s.room);
#pragma unroll
    for (int u = 0; u < items; ++u) sorted_keys[rank[u]] = key[u];
    std::conditional_t<has_values, Value, char> value[items];
    if constexpr (has_values) load_values(p, first, begin, here, value);
    if (thread < digits) {
      const Count ahead = status::ahead_of(static_cast<const Count*>(p.status), number,
                                           static_cast<unsigned>(thread));
      if (number > 0) say(p.status, number, thread, status::of_all | (ahead + count));
      s.begins[thread] = static_cast<Count>(p.begins[thread]) + ahead - below;
    }
    wait_for_the_block();

    packed<items, std::uint8_t> digit;
#pragma unroll
    for (int u = 0; u < items; ++u) {
      const int i = thread + u * threads;
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
        if (const int i = thread + u * threads; i < here)
          static_cast<Value*>(p.sorted_values)[s.begins[digit[u]] + static_cast<Count>(i)] =
              sorted_values[i];
    }
  }

  /// All passes, of no more elements than a tile has. Values stay where they are until the end;
  /// what goes with keys are their places.
  __device__ static void run_alone(const sort_step& p, shared& s) {
    const int thread = static_cast<int>(threadIdx.x), n = static_cast<int>(p.n),
              used = (n + threads - 1) / threads;  // of each thread's items
    const int begin = thread / warp * warp * used + thread % warp;
    Key key[items];
    packed<items, std::uint16_t> from;
#pragma unroll
    for (int u = 0; u < items; ++u) {
      const int i = begin + u * warp;
      key[u] = u < used && i < n ? static_cast<const Key*>(p.keys)[i] : static_cast<Key>(~Key{});
      from.set(u, static_cast<std::uint32_t>(i));
    }
    for (int done = 0; done < p.bits; done += digit_bits) {
      const digit_at digit_of(p.first_bit + done, p.bits - done);
      warp_counters counters(s.room);
      counters.clear();
      wait_for_the_block();
#pragma unroll
      for (int u = 0; u < items; ++u)
        if (u < used) counters.count(digit_of(key[u]));
      wait_for_the_block();
      counters.place(counters.total(), s.sums);
      packed<items, std::uint16_t> rank;
#pragma unroll
      for (int u = 0; u < items; ++u)
        if (u < used) rank.set(u, counters.take(digit_of(key[u])));
      wait_for_the_block();
      // To their places, and from there to the threads that take them in the next pass.
      auto* const keys = reinterpret_cast<Key*>(s.room);
      exchange(
          used, begin, rank, keys, [&](int u) { return key[u]; },
          [&](int u, Key k) { key[u] = k; });
      if constexpr (has_values) {
        packed<items, std::uint16_t> moved;
        auto* const places = reinterpret_cast<std::uint16_t*>(s.room);
        exchange(
            used, begin, rank, places, [&](int u) { return static_cast<std::uint16_t>(from[u]); },
            [&](int u, std::uint16_t place) { moved.set(u, place); });
        from = moved;
      }
    }
#pragma unroll
    for (int u = 0; u < items; ++u) {
      const int i = begin + u * warp;
      if (u >= used || i >= n) continue;
      static_cast<Key*>(p.sorted_keys)[i] = key[u];
      if constexpr (has_values)
        static_cast<Value*>(p.sorted_values)[i] = value_at<Value>(p, from[u]);
    }
  }

 private:
  __device__ static void say(void* status, index tile_number, int digit, Count word) {
    store_shared_word(
        static_cast<Count*>(status) + (tile_number * digits + static_cast<index>(digit)), word);
  }

  template <class V>
  __device__ static V value_at(const sort_step& p, index i) {
    if constexpr (sizeof(V) == sizeof(std::uint32_t))
      if (!p.values) return static_cast<V>(i);
    return static_cast<const V*>(p.values)[i];
  }
  template <class V>
  __device__ static void load_values(const sort_step& p, index first, int begin, int here,
                                     V (&value)[items]) {
#pragma unroll
    for (int u = 0; u < items; ++u) {
      const int i = begin + u * warp;
      value[u] = i < here ? value_at<V>(p, first + static_cast<index>(i)) : V{};
    }
  }

  template <class V, class Ranks, class Get, class Set>
  __device__ static void exchange(int used, int begin, const Ranks& rank, V* room, Get get,
                                  Set set) {
#pragma unroll
    for (int u = 0; u < items; ++u)
      if (u < used) room[rank[u]] = get(u);
    wait_for_the_block();
#pragma unroll
    for (int u = 0; u < items; ++u)
      if (u < used) set(u, room[begin + u * warp]);
    wait_for_the_block();
  }
};

/// A block for each tile.
template <class Key, class Value, class Count, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::least_blocks)
    sort_pass(const __grid_constant__ sort_step p) {
  using sort = tile_sort<Key, Value, Count, Shape>;
  __shared__ typename sort::shared s;
  sort::run(p, s);
}

/// One block, for no more elements than a tile has, by all bits.
template <class Key, class Value, class Shape>
__global__ void __launch_bounds__(Shape::threads) sort_few(const __grid_constant__ sort_step p) {
  using sort = tile_sort<Key, Value, std::uint32_t, Shape>;
  __shared__ typename sort::shared s;
  sort::run_alone(p, s);
}

}  // namespace bitfold::cuda
