#include "exact_outputs.cuh"

namespace bitfold::cuda {

using T = double;

template <>
exact_kernel exact_kernel_of<T>(unsigned terms) {
  using enum exact::term;
  // 224 threads' columns of halves leave the first-level cache 60 KiB, where the loads on their way
  // have their lines; 256 leave 28.
  switch (terms) {
    case only(element): return kernel_of<T, false, 12, in_bins<element, T, 224>>();
    case only(number): return kernel_of<T, false, 12, in_bins<number, T, 224>>();
    case only(presence): return kernel_of<T, false, 4, counting_terms<T>>();
    case only(magnitude): return kernel_of<T, false, 12, in_bins<magnitude, T, 224>>();
    case only(difference): return kernel_of<T, true, 4, in_levels<difference, T, 320>>();
    case only(square): return kernel_of<T, false, 8, in_levels<square, T, 160>>();
    case only(product): return kernel_of<T, true, 4, in_levels<product, T, 160>>();
    case only(squared_difference):
      return kernel_of<T, true, 2, in_levels<squared_difference, T, 160>>();
    case only(element) | only(square):
      return kernel_of<T, false, 8, in_levels<element, T, 96>, in_levels<square, T, 96>>();
  }
  return {};
}

template <>
exact_kernel exact_kernel_of_any<T>(unsigned terms) {
  using enum exact::term;
  if (terms & of_two_inputs)
    return kernel_of_some<T, true, 2, in_levels<difference, T, 32>, in_levels<product, T, 32>,
                          in_levels<squared_difference, T, 32>>(terms);
  return kernel_of_some<T, false, 8, in_bins<element, T, 32>, in_bins<number, T, 32>,
                        counting_terms<T, 32>, in_bins<magnitude, T, 32>, in_levels<square, T, 32>>(
      terms);
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<T>() {
  return kernels_of_outputs<T>();
}

}  // namespace bitfold::cuda
