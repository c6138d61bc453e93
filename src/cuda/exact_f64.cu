#include "exact_outputs.cuh"

namespace bitfold::cuda {

using T = double;

template <>
exact_kernel exact_kernel_of<T>(term what, bool and_squares) {
  using enum exact::term;
  if (and_squares) return kernel_of<T, false, 8, in_levels<element, T, 96>, in_levels<square, T, 96>>();
  // 224 threads' columns of halves leave the first-level cache 60 KiB, where the loads on their way have their lines; 256 leave 28.
  switch (what) {
    case element: return kernel_of<T, false, 12, in_bins<element, T, 224>>();
    case number: return kernel_of<T, false, 12, in_bins<number, T, 224>>();
    case presence: return kernel_of<T, false, 4, counting_terms<T>, no_adder, true>();
    case magnitude: return kernel_of<T, false, 12, in_bins<magnitude, T, 224>>();
    case difference: return kernel_of<T, true, 4, in_levels<difference, T, 320>>();
    case square: return kernel_of<T, false, 8, in_levels<square, T, 160>>();
    case product: return kernel_of<T, true, 4, in_levels<product, T, 160>>();
    case squared_difference: return kernel_of<T, true, 2, in_levels<squared_difference, T, 160>>();
  }
  return {};
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<T>() {
  return kernels_of_outputs<T>();
}

}  // namespace bitfold::cuda
