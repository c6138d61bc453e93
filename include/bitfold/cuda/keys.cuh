// What is moved or sorted before it is reduced, or counted once it is sorted: keys of reductions by
// key, keys of elements for count_distinct, results of windows.
#pragma once

#include <bitfold/cuda/places.cuh>
#include <bitfold/cuda/scatter.hpp>
#include <bitfold/cuda/sort.cuh>
#include <bitfold/formats.hpp>

namespace bitfold::cuda {

/// Calls f(i) for each i < n, by all threads of all blocks.
template <class Function>
__device__ void for_each_index(index n, Function f) {
  for (index i = index{blockIdx.x} * moving_threads + threadIdx.x; i < n;
       i += index{gridDim.x} * moving_threads)
    f(i);
}

// ---- By key -------------------------------------------------------------------------------------

/// The outputs that keys name.
template <class Key>
__global__ void __launch_bounds__(counting_threads)
    make_keys(const __grid_constant__ keys_on_axes of, Key* keys,
              const __grid_constant__ digit_counts counts) {
  make_and_count_keys<Key, 8>(keys, of.n, counts, [&](index i) {
    const offset at = offset_of(of.all, of.by, i);
    const auto key = static_cast<index>(of.keys[at.x]);
    if (key >= of.places && of.any_lost) set_bits_of(*of.any_lost, 1u);
    return static_cast<Key>(key < of.places ? static_cast<index>(at.y) + key * of.stride : of.lost);
  });
}

/// Where each key begins; what lies between two keys begins where the second does.
template <class Key>
__global__ void __launch_bounds__(moving_threads)
    find_begins(const Key* keys, index n, index outputs, std::int64_t* begins) {
  for_each_index(n + 1, [&](index i) {
    const index from = i == 0 ? 0 : index{keys[i - 1]} + 1, to = i == n ? outputs : index{keys[i]};
    for (index k = from; k <= to; ++k) begins[k] = static_cast<std::int64_t>(i);
  });
}

/// The same, by a search for each: of few elements among many outputs much would lie between two
/// keys.
template <class Key>
__global__ void __launch_bounds__(moving_threads)
    search_begins(const Key* keys, index n, index outputs, std::int64_t* begins) {
  for_each_index(outputs + 1, [&](index k) {
    index first = 0;
    for (index end = n; first < end;) {
      const index middle = first + (end - first) / 2;
      if (keys[middle] < k)
        first = middle + 1;
      else
        end = middle;
    }
    begins[k] = static_cast<std::int64_t>(first);
  });
}

// ---- Several arrays -----------------------------------------------------------------------------

__global__ void __launch_bounds__(moving_threads)
    put_words(const __grid_constant__ words_to_put from, std::uint64_t* to) {
  for (index i = threadIdx.x; i < from.count; i += moving_threads) to[i] = from.each[i];
}

// ---- Windows ------------------------------------------------------------------------------------

template <class Bits>
__global__ void __launch_bounds__(moving_threads)
    scatter(const Bits* from, index n, const __grid_constant__ detail::axes places,
            const __grid_constant__ divisors by, Bits* to) {
  for_each_index(n, [&](index i) { to[offset_of(places, by, i).x] = from[i]; });
}

// ---- count_distinct: the keys that are sorted ---------------------------------------------------

/// In one word. That of a single output may fill it.
template <class Key>
struct joined_keys : made_keys {
  using word = Key;
  __device__ bool has_numbers() const { return key_bits < static_cast<int>(8 * sizeof(Key)); }
  __device__ Key word_of(index, index output, std::uint64_t key) const {
    return static_cast<Key>(has_numbers() ? output << key_bits | key : key);
  }
  __device__ Key at(index i) const { return static_cast<const Key*>(keys)[i]; }
  __device__ index output(index i) const { return has_numbers() ? at(i) >> key_bits : 0; }
  __device__ bool repeats(index i) const { return at(i) == at(i - 1); }
};
/// Apart.
struct wide_keys : made_keys {
  using word = std::uint64_t;
  __device__ word word_of(index i, index output, std::uint64_t key) const {
    outputs[i] = static_cast<std::uint32_t>(output);
    return key;
  }
  __device__ word at(index i) const { return static_cast<const word*>(keys)[i]; }
  __device__ index output(index i) const { return outputs[i]; }
  __device__ bool repeats(index i) const {
    return at(i) == at(i - 1) && outputs[i] == outputs[i - 1];
  }
};

/// Makes keys of n elements, by element_of(i): of which output, and where.
struct element_of_output {
  index output;
  std::int64_t at;
};
template <class T, int Each, class Keys, class Function>
__device__ void make_keys_of_elements(const void* x, index n, const Keys& to,
                                      const digit_counts& counts, Function element_of) {
  using word = typename Keys::word;
  make_and_count_keys<word, Each>(static_cast<word*>(to.keys), n, counts, [&](index i) {
    const element_of_output e = element_of(i);
    return to.word_of(i, e.output, arith::key_of(static_cast<const T*>(x)[e.at]));
  });
}

/// Of n elements one behind the other.
template <class T, class Keys>
__global__ void __launch_bounds__(counting_threads)
    make_keys_of_array(const T* x, index n, const __grid_constant__ Keys to,
                       const __grid_constant__ digit_counts counts) {
  make_keys_of_elements<T, 8>(
      x, n, to, counts, [](index i) { return element_of_output{0, static_cast<std::int64_t>(i)}; });
}

/// Of `count` outputs on axes, from `first` on, which are numbered from 0. Elements of one output
/// are neighbours, or else those at one place of all outputs: whichever lie nearer to each other.
/// (The order that keys come in does not matter.)
template <class T, class Keys>
__global__ void __launch_bounds__(counting_threads)
    make_keys_of_outputs(const __grid_constant__ output_elements from, index first, index count,
                         bool of_one_output, const __grid_constant__ Keys to,
                         const __grid_constant__ digit_counts counts) {
  const index n = from.n * count, inner = of_one_output ? from.n : count;
  const bool narrow = n <= 0xffffffff;
  make_keys_of_elements<T, 4>(from.x, n, to, counts, [&](index i) {
    const index outside = narrow ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(inner)
                                 : i / inner,
                inside = i - outside * inner, output = of_one_output ? outside : inside;
    return element_of_output{output,
                             finder::of(from, first + output)(of_one_output ? inside : outside).x};
  });
}

/// Of segments; what lies in none of them goes to one after the last.
template <class T, class Keys>
__global__ void __launch_bounds__(counting_threads)
    make_keys_of_segments(const __grid_constant__ output_elements from,
                          const __grid_constant__ Keys to,
                          const __grid_constant__ digit_counts counts) {
  const std::int64_t begin = from.offsets[0], end = from.offsets[from.outputs];
  make_keys_of_elements<T, 1>(from.x, from.total, to, counts, [&](index i) {
    const auto at = static_cast<std::int64_t>(i);
    return element_of_output{
        at >= begin && at < end ? segment_of(from.offsets, from.outputs, at) : from.outputs, at};
  });
}

// ---- count_distinct: how many sorted keys differ from the one before ----------------------------

/// Adds the count of each output to counts[output]: integers, whose order shows nowhere. A warp
/// adds up what it finds while the output stays the same.
template <class Keys>
__global__ void __launch_bounds__(moving_threads)
    count_runs(const __grid_constant__ Keys keys, index n, index outputs, std::uint64_t* counts) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const index begin = index{blockIdx.x} * keys_of_block +
                      threadIdx.x / warp * static_cast<index>(warp * rows_of_runs);
  index of = outputs, found = 0;  // the output that the warp is at; none at first
  const auto add = [&](index output, index count) {
    if (output < outputs && count > 0) add_to(counts[output], count);
  };
  for (int row = 0; row < rows_of_runs; ++row) {
    const index first = begin + static_cast<index>(row) * warp, i = first + lane;
    if (first >= n) break;
    // Behind the last key there are some of no output.
    const index output = i < n ? keys.output(i) : outputs;
    const unsigned news = ballot(i < n && (i == 0 || !keys.repeats(i)));
    const index leftmost = shuffle(output, 0);
    if (all_of_the_warp(output == leftmost)) {
      if (of != leftmost) {
        if (lane == 0) add(of, found);
        of = leftmost;
        found = 0;
      }
      found += static_cast<index>(count_of_bits(news));
      continue;
    }
    if (lane == 0) add(of, found);
    of = outputs;
    found = 0;
    // The first thread of each output adds for all of it.
    const index left = shuffle_up(output, 1);
    const unsigned firsts = ballot(lane == 0 || left != output);
    if (firsts >> lane & 1) {
      const unsigned from_here = all_threads << lane, later = firsts & from_here & ~(1u << lane);
      const unsigned own = later ? from_here & ~(all_threads << first_bit(later)) : from_here;
      add(output, static_cast<index>(count_of_bits(news & own)));
    }
  }
  if (lane == 0) add(of, found);
}

}  // namespace bitfold::cuda
