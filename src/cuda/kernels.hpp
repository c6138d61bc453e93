// The seam between host code and the kernels, which are compiled one file per method.
#pragma once

#include "plan.hpp"

namespace bitfold::cuda {

struct arguments {
  const void* data;
  std::size_t n;
  void* out;
  dtype out_type;
  void* workspace;
  stream where;
  bool overlap;
};

/// Enqueues the plan; returns the name of the CUDA error, or null.
template <class M, class T, class A>
const char* launch_plan(const plan& p, const arguments& a);

}  // namespace bitfold::cuda
