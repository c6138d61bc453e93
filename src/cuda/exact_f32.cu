#include "exact_outputs.cuh"

namespace bitfold::cuda {

using T = float;

template <>
exact_kernel exact_kernel_of<T>(unsigned terms) {
  using enum exact::term;
  switch (terms) {
    case only(element): return kernel_of<T, false, 4, in_bins<element, T, 256>>();
    case only(number): return kernel_of<T, false, 4, in_bins<number, T, 256>>();
    case only(presence): return kernel_of<T, false, 4, counting_terms<T>>();
    case only(magnitude): return kernel_of<T, false, 4, in_bins<magnitude, T, 256>>();
    case only(difference): return kernel_of<T, true, 2, in_levels<difference, T, 256>>();
    case only(square): return kernel_of<T, false, 4, in_levels<square, T, 256>>();
    case only(product): return kernel_of<T, true, 4, in_bins<product, T, 256>>();
    case only(squared_difference):
      return kernel_of<T, true, 2, in_levels<squared_difference, T, 256>>();
    case only(element) | only(square):
      return kernel_of<T, false, 4, in_bins<element, T, 128>, in_levels<square, T, 128>>();
  }
  return {};
}

template <>
exact_kernel exact_kernel_of_any<T>(unsigned terms) {
  using enum exact::term;
  if (terms & of_two_inputs)
    return kernel_of_some<T, true, 1, in_levels<difference, T, 128>, in_bins<product, T, 128>,
                          in_levels<squared_difference, T, 128>>(terms);
  return kernel_of_some<T, false, 4, in_bins<element, T, 128>, in_bins<number, T, 128>,
                        counting_terms<T, 128>, in_bins<magnitude, T, 128>,
                        in_levels<square, T, 128>>(terms);
}

template <>
exact_outputs_kernels exact_outputs_kernels_of<T>() {
  return kernels_of_outputs<T>();
}

}  // namespace bitfold::cuda
