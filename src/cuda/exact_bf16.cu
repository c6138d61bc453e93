#include "exact_outputs.cuh"

namespace bitfold::cuda {

using T = bfloat16;

template <>
exact_kernel exact_kernel_of<T>(term what, bool and_squares) {
  using enum exact::term;
  if (and_squares) return kernel_of<T, false, 4, in_floats<element, 256>, in_bins<square, T, 256>>();
  switch (what) {
    case element: return kernel_of<T, false, 4, in_floats<element, 512>>();
    case number: return kernel_of<T, false, 4, in_floats<number, 256>>();
    case presence: return kernel_of<T, false, 4, counting_terms<T>, no_adder, true>();
    case magnitude: return kernel_of<T, false, 4, in_floats<magnitude, 256>>();
    case difference: return kernel_of<T, true, 1, in_levels<difference, T, 256>>();
    case square: return kernel_of<T, false, 4, in_bins<square, T, 256>>();
    case product: return kernel_of<T, true, 2, in_bins<product, T, 256>>();
    case squared_difference: return kernel_of<T, true, 1, in_levels<squared_difference, T, 256>>();
  }
  return {};
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<T>() {
  return kernels_of_outputs<T>();
}

}  // namespace bitfold::cuda
