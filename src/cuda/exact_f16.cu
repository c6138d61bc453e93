#include "exact.cuh"

namespace bitfold::cuda {

using T = float16;

template <>
exact_kernel exact_kernel_of<T>(term what) {
  using enum exact::term;
  switch (what) {
    case element: return kernel_of<T, false, 4, in_registers<element>>();
    case number: return kernel_of<T, false, 4, in_registers<number>>();
    case presence: return kernel_of<T, false, 4, counting_terms<T>, no_adder, true>();
    case magnitude: return kernel_of<T, false, 4, in_registers<magnitude>>();
    case difference: return kernel_of<T, true, 2, in_registers<difference>>();
    case square: return kernel_of<T, false, 2, in_levels<square, T, 256>>();
    case product: return kernel_of<T, true, 2, in_levels<product, T, 256>>();
    case squared_difference: return kernel_of<T, true, 1, in_levels<squared_difference, T, 256>>();
  }
  return {};
}
template <>
exact_kernel exact_kernel_of_both<T>() {
  return kernel_of<T, false, 2, in_registers<term::element, 256>, in_levels<term::square, T, 256>>();
}
template <>
const void* exact_finish_of<T>() {
  return reinterpret_cast<const void*>(exact_finish<T>);
}

}  // namespace bitfold::cuda
