// The seam between row functions' host code and their kernels.
#pragma once

#include "../row_functions.hpp"

namespace bitfold::cuda {

/// How the gradients of parameters are cut: parts of `part` rows each, but the last.
struct parameter_plan {
  int part, parts;
  std::size_t workspace;
};

/// Of elements T. What a launch said, if it failed.
template <class T>
const char* launch_rows(row_function f, const rows& of, void* out, stream where);
template <class T>
const char* launch_parameters(row_function f, const rows& of, const parameter_plan& p, void* dw,
                              void* db, void* workspace, stream where);
template <class T>
const char* launch_sum_rows(const rows& of, const row_segments& by, const void* base, void* out,
                            stream where);

#define BITFOLD_ROWS_OF(T)                                                                         \
  template <>                                                                                      \
  const char* launch_rows<T>(row_function, const rows&, void*, stream);                            \
  template <>                                                                                      \
  const char* launch_parameters<T>(row_function, const rows&, const parameter_plan&, void*, void*, \
                                   void*, stream);                                                 \
  template <>                                                                                      \
  const char* launch_sum_rows<T>(const rows&, const row_segments&, const void*, void*, stream);
BITFOLD_ROWS_OF(float16)
BITFOLD_ROWS_OF(bfloat16)
BITFOLD_ROWS_OF(float)
BITFOLD_ROWS_OF(double)
#undef BITFOLD_ROWS_OF

}  // namespace bitfold::cuda
