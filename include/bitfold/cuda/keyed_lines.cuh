// Short lines of elements with a key each: a warp brings some lines' elements into the order of
// their places in shared memory, where a thread folds those of a place.
#pragma once

#include <bitfold/cuda/scattered.cuh>
#include <bitfold/cuda/sort.cuh>

namespace bitfold::cuda {

template <class What>
class lines_folder {
  using T = typename What::element;
  using A = typename What::number;
  const keyed_lines& of_;
  const int lane_ = static_cast<int>(threadIdx.x) % warp;
  // Of an element its slot, a place of one of the lines, above how many of that come before it.
  T* const sorted_;
  std::uint32_t* const begins_;  // of slots; before that, how many elements each has
  std::uint32_t* const placed_;

 public:
  __device__ lines_folder(const keyed_lines& of, std::byte* room)
      : of_(of),
        sorted_(reinterpret_cast<T*>(room)),
        begins_(reinterpret_cast<std::uint32_t*>(sorted_ + (of.together * of.n + 3) / 4 * 4)),
        placed_(begins_ + of.together * of.places + 1) {}

  __device__ void run(index first_line) {
    const index left = of_.lines - first_line;
    const int lines =
                  left < static_cast<index>(of_.together) ? static_cast<int>(left) : of_.together,
              elements = lines * of_.n, slots = lines * of_.places;
    for (int k = lane_; k <= slots; k += warp) begins_[k] = 0;
    wait_for_the_warp();
    count(first_line * static_cast<index>(of_.n), elements, slots);
    make_begins(slots);
    bring(first_line * static_cast<index>(of_.n), elements, slots);
    fold(first_line * static_cast<index>(of_.places), slots);
    wait_for_the_warp();
  }

 private:
  __device__ void count(index first, int elements, int slots) {
    // Neighbouring threads have elements of one line, if its rows of threads are whole.
    const bool of_several = of_.n % warp != 0 && slots > of_.places;
    const int bits = last_bit(static_cast<unsigned>(of_several ? slots : of_.places)) + 1;
    constexpr int beside = 4;
#pragma unroll 1
    for (int begin = 0; begin < elements; begin += beside * warp) {
      std::int64_t key[beside];
#pragma unroll
      for (int u = 0; u < beside; ++u) {
        const int i = begin + u * warp + lane_;
        key[u] = i < elements ? of_.keys[first + static_cast<index>(i)] : 0;
      }
#pragma unroll
      for (int u = 0; u < beside; ++u) {
        const int i = begin + u * warp + lane_;
        if (begin + u * warp >= elements) break;
        // What goes nowhere has a slot, too.
        unsigned slot = static_cast<unsigned>(slots), place = static_cast<unsigned>(of_.places);
        if (static_cast<index>(key[u]) < static_cast<index>(of_.places) && i < elements) {
          place = static_cast<unsigned>(key[u]);
          slot = line_of(i) * static_cast<unsigned>(of_.places) + place;
        } else if (of_.any_lost && i < elements) {
          set_bits_of(*of_.any_lost, 1u);
        }
        const unsigned own = of_several ? slot : place;
        unsigned alike = all_threads;
#pragma unroll 4
        for (int b = 0; b < bits; ++b) alike &= threads_with_same_bit(own, 1u << b);
        const std::uint32_t before = begins_[slot];
        wait_for_the_warp();
        if (lane_ == last_bit(alike))
          begins_[slot] = before + static_cast<std::uint32_t>(count_of_bits(alike));
        wait_for_the_warp();
        if (i >= elements) continue;
        placed_[i] =
            slot << 16 |
            (before + static_cast<std::uint32_t>(count_of_bits(alike & ((1u << lane_) - 1))));
      }
    }
  }
  __device__ unsigned line_of(int i) const {
    return of_.n == 1 ? static_cast<unsigned>(i)
                      : high_product(static_cast<std::uint32_t>(i), of_.per_element);
  }
  __device__ void make_begins(int slots) {
    std::uint32_t before = 0;
    for (int k = lane_; k - lane_ < slots; k += warp) {
      const std::uint32_t own = k < slots ? begins_[k] : 0, up_to_here = sum_up_to_here(own);
      if (k < slots) begins_[k] = before + up_to_here - own;
      before += shuffle(up_to_here, warp - 1);
    }
    if (lane_ == 0) begins_[slots] = before;
    wait_for_the_warp();
  }
  __device__ void bring(index first, int elements, int slots) {
    const T* const x = static_cast<const T*>(of_.x) + first;
    constexpr int beside = 4;
#pragma unroll 1
    for (int begin = lane_; begin < elements; begin += beside * warp) {
      T value[beside];
#pragma unroll
      for (int u = 0; u < beside; ++u) value[u] = x[min(begin + u * warp, elements - 1)];
#pragma unroll
      for (int u = 0; u < beside; ++u) {
        const int i = begin + u * warp;
        const std::uint32_t placed = i < elements ? placed_[i] : ~std::uint32_t{0};
        if (placed >> 16 < static_cast<unsigned>(slots))
          sorted_[begins_[placed >> 16] + (placed & 0xffff)] = value[u];
      }
    }
    wait_for_the_warp();
  }
  __device__ void fold(index first, int slots) {
    const T* const base = static_cast<const T*>(of_.met.base);
    for (int k = lane_; k < slots; k += warp) {
      const index at = first + static_cast<index>(k);
      const std::uint32_t begin = begins_[k];
      const int n = static_cast<int>(begins_[k + 1] - begin);
      const T before = base ? base[at] : T{};
      static_cast<T*>(of_.out)[at] =
          n > 0
              ? met<What>(of_.met, What::result(folded(sorted_ + begin, n), static_cast<index>(n)),
                          static_cast<index>(n), before)
              : before;
    }
  }
  __device__ static typename What::state folded(const T* x, int n) {
    const auto taken = [](const T& v, int, int) { return What::taken(arith::widen<A>(v), 0); };
    const auto leaf = [&](int begin) {
      const auto load = [&](T(&v)[order::rows], int first, int step, int count) {
#pragma unroll
        for (int r = 0; r < order::rows; ++r) v[r] = x[begin + first + min(r, count - 1) * step];
      };
      return fold_leaf_by_thread<What, 1, T>(min(order::leaf, n - begin), load, taken);
    };
    if (n <= order::leaf) return leaf(0).each[0];
    thread_counter<typename What::fold, typename What::state, 4> leaves;
#pragma unroll 1
    for (int begin = 0; begin < n; begin += order::leaf)
      leaves.push(leaf(begin).each[0], static_cast<index>(min(order::leaf, n - begin)));
    return leaves.total();
  }
};

template <class What>
__global__ void __launch_bounds__(warps_on_lines* warp, 6)
    fold_keyed_lines(const __grid_constant__ keyed_lines of, int bytes) {
  const index w = index{blockIdx.x} * warps_on_lines + threadIdx.x / warp,
              step = static_cast<index>(of.together);
  lines_folder<What> folder(of, reinterpret_cast<std::byte*>(shared_bytes) +
                                    threadIdx.x / warp * static_cast<unsigned>(bytes));
  for (index first = w * step; first < of.lines; first += index{gridDim.x} * warps_on_lines * step)
    folder.run(first);
}

}  // namespace bitfold::cuda
