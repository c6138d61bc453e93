// Exact sums on a GPU, of one element type: kernels of whole arrays, and of several.
#pragma once

#include <bitfold/cuda/exact_levels.cuh>
#include <bitfold/cuda/exact_results.cuh>

namespace bitfold::cuda {

/// The adders of a thread, with their cells and columns one behind the other. This one has none.
template <class T, class...>
struct adder_list {
  static constexpr int count = 0, cells = 0, takes = 1 << 30;
  static constexpr std::size_t column_bytes = 0;
  __device__ adder_list(std::int64_t*, std::byte*) {}
  template <class F>
  __device__ void each(F&&) {}
};
template <class T, class First, class... Rest>
struct adder_list<T, First, Rest...> {
  using element = T;
  using rest_list = adder_list<T, Rest...>;
  using terms = exact_terms<T, First::what, Rest::what...>;
  static constexpr bool two = exact::inputs(First::what) == 2;
  static constexpr int count = 1 + sizeof...(Rest), cells = First::count + rest_list::cells,
                       threads = First::threads,
                       takes = First::takes < rest_list::takes ? First::takes : rest_list::takes;
  /// Bytes of shared memory: for each thread, and for the block.
  static constexpr std::size_t column_bytes = First::column_bytes + rest_list::column_bytes,
                               room = bytes_of_cells(cells) + threads * column_bytes;

  std::int64_t* const own_cells;
  First first;
  rest_list rest;

  __device__ adder_list(std::int64_t* at, std::byte* columns)
      : own_cells(at),
        first(columns),
        rest(at + First::count, columns + threads * First::column_bytes) {}
  /// Calls f(adder, cells) with each.
  template <class F>
  __device__ void each(F&& f) {
    f(first, own_cells);
    rest.each(f);
  }
};

// Pack j of n elements; where there are none, padding.
template <class T>
__device__ pack<T> load_or_pad(const T* p, index j, index n, bool aligned,
                               bits_of_type<T> padding) {
  constexpr int size = pack<T>::size;
  const index first = j * size;
  if (first + size <= n) return aligned ? load_pack<true>(p + first) : load_pack<false>(p + first);
  pack<T> v;
#pragma unroll
  for (int i = 0; i < size; ++i) v.set(i, first + i < n ? to_bits(p[first + i]) : padding);
  return v;
}

// Elements one behind the other.
template <class T>
struct elements_in_a_row {
  const T* p;
  bool aligned;
  __device__ bool in_packs() const { return aligned; }
  __device__ pack<T> whole(index j) const { return load_pack<true>(p + j * pack<T>::size); }
  __device__ pack<T> some(index j, index n, bits_of_type<T> padding) const {
    return load_or_pad(p, j, n, aligned, padding);
  }
};
// Elements that lie `step` apart. The threads of a warp read neighbours: which of its packs an
// element is in shows nowhere.
template <class T>
struct elements_in_steps {
  const T* p;
  std::int64_t step;
  __device__ bool in_packs() const { return true; }
  __device__ pack<T> whole(index j) const {
    const T* at = p + static_cast<std::int64_t>(first(j)) * step;
    pack<T> v;
#pragma unroll
    for (int i = 0; i < pack<T>::size; ++i, at += warp * step) v.set(i, to_bits(*at));
    return v;
  }
  __device__ pack<T> some(index j, index n, bits_of_type<T> padding) const {
    pack<T> v;
#pragma unroll
    for (int i = 0; i < pack<T>::size; ++i) {
      const index k = first(j) + static_cast<index>(i * warp);
      v.set(i, k < n ? to_bits(p[static_cast<std::int64_t>(k) * step]) : padding);
    }
    return v;
  }

 private:
  __device__ static index first(index j) { return j / warp * (warp * pack<T>::size) + j % warp; }
};

// What a block adds up: its cells and its threads' adders, in its shared memory.
template <class List>
struct adders_of_block {
  std::int64_t* const cells;
  List list;
  int until_spill = List::takes;

  __device__ adders_of_block()
      : cells(reinterpret_cast<std::int64_t*>(shared_bytes)),
        list(cells, reinterpret_cast<std::byte*>(shared_bytes) + bytes_of_cells(List::cells)) {
    list.each([](auto& adder, std::int64_t*) { adder.begin(); });
    for (int i = threadIdx.x; i < List::cells; i += blockDim.x) cells[i] = 0;
    wait_for_the_block();
  }
  __device__ void expect(index n) {
    list.each([=](auto& adder, std::int64_t*) { adder.expect(n); });
  }
  // Whether there is room for another take; if not, the block has to make_room().
  template <int U, bool Two, class T>
  __device__ bool take(const pack<T> (&x)[U], const pack<T> (&y)[Two ? U : 1], int here) {
    list.each([&](auto& adder, std::int64_t* to) { adder.template take<U, Two>(x, y, here, to); });
    return --until_spill > 0;
  }
  __device__ void make_room() {
    spill();
    until_spill = List::takes;
  }
  // All to the cells, of which each term's last has its flags.
  __device__ void end() {
    spill();
    list.each([](auto& adder, std::int64_t* to) { add_flags(to[adder.count - 1], adder.flags); });
    wait_for_the_block();
  }
  __device__ void write(const exact_cells<List::count>& to) {
    int k = 0;
    list.each([&](auto& adder, std::int64_t* from) {
      for (int i = threadIdx.x; i < adder.count; i += blockDim.x)
        to.at[k][index{blockIdx.x} * adder.count + i] = from[i];
      ++k;
    });
  }

 private:
  __device__ void spill() {
    list.each([](auto& adder, std::int64_t* to) { adder.spill(to); });
  }
  __device__ static void add_flags(std::int64_t& cell, unsigned flags) {
    flags = bits_of_the_warp(flags);
    if (threadIdx.x % warp == 0) set_bits_of(flags_in(cell), flags);
  }
};

// Adds n elements, U packs of each input at a time, by `blocks` blocks, of which this is number
// `block`.
template <class T, bool Two, int U, class Adders, class Elements>
__device__ void add_elements(Adders& to, const Elements& from_x, const Elements& from_y, index n,
                             index block, index blocks) {
  using bits = bits_of_type<T>;
  constexpr auto minus_zero = static_cast<bits>(bits{1} << (exact::range<T>::width - 1));
  const index packs = (n + pack<T>::size - 1) / pack<T>::size;
  const index stride = blocks * blockDim.x, block_first = block * blockDim.x,
              mine = block_first + threadIdx.x;
  const auto load = [&](index base, pack<T>(&x)[U], pack<T>(&y)[Two ? U : 1]) {
    if (from_x.in_packs() &&
        (base + (U - 1) * stride + block_first + blockDim.x) * pack<T>::size <= n) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        x[u] = from_x.whole(base + mine + u * stride);
        if constexpr (Two) y[u] = from_y.whole(base + mine + u * stride);
      }
    } else {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        x[u] = from_x.some(base + mine + u * stride, n, minus_zero);
        if constexpr (Two) y[u] = from_y.some(base + mine + u * stride, n, bits{0});
      }
    }
  };
  if (mine == 0) to.expect(n);
  pack<T> next_x[U], next_y[Two ? U : 1];
  if (block_first < packs) load(0, next_x, next_y);
  for (index base = 0; base + block_first < packs;) {
    bool room = true;
    while (room && base + block_first < packs) {
      pack<T> x[U], y[Two ? U : 1];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        x[u] = next_x[u];
        if constexpr (Two) y[u] = next_y[u];
      }
      int here = U;  // packs that the block's first thread has
      while (base + (here - 1) * stride + block_first >= packs) --here;
      base += U * stride;
      if (base + block_first < packs) load(base, next_x, next_y);
      room = to.template take<U, Two>(x, y, here);
    }
    if (!room) to.make_room();
  }
}

// Adds the terms of all elements. A processor has registers for that many blocks.
template <int U, int Blocks, class List>
__global__ void __launch_bounds__(List::threads, Blocks)
    exact_pass(elements data, index n, const __grid_constant__ exact_cells<List::count> to) {
  let_the_next_kernel_start();
  using T = typename List::element;
  adders_of_block<List> adders;
  using row = elements_in_a_row<T>;
  add_elements<T, List::two, U>(adders, row{static_cast<const T*>(data.x), data.aligned},
                                row{static_cast<const T*>(data.y), data.aligned}, n, blockIdx.x,
                                gridDim.x);
  adders.end();
  adders.write(to);
}
// The same of elements at equal distances.
template <int U, int Blocks, class List>
__global__ void __launch_bounds__(List::threads, Blocks)
    exact_pass_in_steps(elements data, index n, std::int64_t step_x, std::int64_t step_y,
                        const __grid_constant__ exact_cells<List::count> to) {
  let_the_next_kernel_start();
  using T = typename List::element;
  using steps = elements_in_steps<T>;
  adders_of_block<List> adders;
  add_elements<T, List::two, U>(adders, steps{static_cast<const T*>(data.x), step_x},
                                steps{static_cast<const T*>(data.y), step_y}, n, blockIdx.x,
                                gridDim.x);
  adders.end();
  adders.write(to);
}
// The same in one block, which makes the results as well.
template <int U, class List, class Results>
__global__ void __launch_bounds__(List::threads)
    exact_pass_alone(elements data, index n, const __grid_constant__ Results how) {
  using T = typename List::element;
  adders_of_block<List> adders;
  using row = elements_in_a_row<T>;
  add_elements<T, List::two, U>(adders, row{static_cast<const T*>(data.x), data.aligned},
                                row{static_cast<const T*>(data.y), data.aligned}, n, 0, 1);
  adders.end();
  const std::int64_t* of[List::count];
  int k = 0;
  adders.list.each([&](auto&, std::int64_t* cells) { of[k++] = cells; });
  __shared__ summed<T> sums[List::count];
  write_results<typename List::terms>(of, n, how, sums);
}

// The same of several arrays, of which a block takes stripes.
template <int U, int Blocks, class List>
__global__ void __launch_bounds__(List::threads, Blocks)
    exact_pass_of_pieces(const __grid_constant__ exact_pieces of,
                         const __grid_constant__ exact_cells<List::count> to) {
  using T = typename List::element;
  adders_of_block<List> adders;
  for (unsigned item = blockIdx.x; item < of.first[of.count]; item += gridDim.x) {
    int k = 0, end = of.count;  // the last piece that begins there or before
    while (end - k > 1) (of.first[(k + end) / 2] <= item ? k : end) = (k + end) / 2;
    const index begin = index{item - of.first[k]} * of.stripe, left = of.each[k].n - begin;
    const T* const p = static_cast<const T*>(of.each[k].data) + begin;
    using row = elements_in_a_row<T>;
    add_elements<T, false, U>(adders, row{p, reinterpret_cast<std::uintptr_t>(p) % 16 == 0},
                              row{nullptr, false}, left < of.stripe ? left : of.stripe, 0, 1);
  }
  adders.end();
  adders.write(to);
}

}  // namespace bitfold::cuda
