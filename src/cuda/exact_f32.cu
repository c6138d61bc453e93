#include "exact_outputs.cuh"

namespace bitfold::cuda {

using T = float;

template <>
exact_kernel exact_kernel_of<T>(term what, bool and_squares) {
  using enum exact::term;
  if (and_squares) return kernel_of<T, false, 4, in_bins<element, T, 128>, in_levels<square, T, 128>>();
  switch (what) {
    case element: return kernel_of<T, false, 4, in_bins<element, T, 256>>();
    case number: return kernel_of<T, false, 4, in_bins<number, T, 256>>();
    case presence: return kernel_of<T, false, 4, counting_terms<T>, no_adder, true>();
    case magnitude: return kernel_of<T, false, 4, in_bins<magnitude, T, 256>>();
    case difference: return kernel_of<T, true, 2, in_levels<difference, T, 256>>();
    case square: return kernel_of<T, false, 4, in_levels<square, T, 256>>();
    case product: return kernel_of<T, true, 4, in_bins<product, T, 256>>();
    case squared_difference: return kernel_of<T, true, 2, in_levels<squared_difference, T, 256>>();
  }
  return {};
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<T>() {
  return kernels_of_outputs<T>();
}

}  // namespace bitfold::cuda
