#include "exact.hpp"

#include <bitfold/accumulator.hpp>

#include "../fp_environment.hpp"

namespace bitfold::cpu {

exact_kernels find_exact_kernels(target t, const exact_terms& terms) {
  return find_kernels_for(t, terms);
}

}  // namespace bitfold::cpu

namespace bitfold::exact {

void deposit(term what, dtype type, const void* x, const void* y, std::size_t n, void* state) {
  if (n == 0) return;
  static const cpu::target best = cpu::available_targets().back();
  const bitfold::detail::fp_environment guard;
  cpu::find_depositor(best, {what, type})({x, y}, n, state);
}

}  // namespace bitfold::exact
