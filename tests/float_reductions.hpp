// What the tests of accuracy share: the reductions of floats there are, and how to name one.
#pragma once

#include <array>
#include <string>

#include <bitfold/reduction.hpp>

#include "data.hpp"

namespace bitfold::test {

inline constexpr std::array float_types{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

template <class T>
scalar scalar_of(T v) {
  return load_scalar(dtype_of<T>, &v);
}

// Every combination of method, accumulator and output type for input type `in`.
template <class F>
void for_each_reduction(dtype in, F f) {
  for (const auto& m : all_methods)
    for (const auto acc : accumulators_of(in, m.id))
      for (dtype out : float_types) f(make_reduction(op_id::sum, m.id, in, acc, out));
}

inline std::string describe(const reduction& r) {
  return std::string(name(r.method())) + " " + std::string(name(r.in())) + " " +
         std::string(name(r.acc())) + " " + std::string(name(r.out()));
}

}  // namespace bitfold::test
