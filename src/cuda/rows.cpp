// Row functions: checks, plans, and the kernels' launch.
#include <string>

#include "groups.hpp"
#include "rows.hpp"

namespace bitfold::cuda {
namespace {

// Calls f(std::type_identity<T>{}), which launches kernels for elements T.
template <class F>
void launch_for(dtype type, F f) {
  switch (type) {
#ifndef BITFOLD_SAMPLE_OF_KERNELS
    case dtype::f16: return check_launch(f(std::type_identity<float16>{}));
    case dtype::bf16: return check_launch(f(std::type_identity<bfloat16>{}));
    case dtype::f64: return check_launch(f(std::type_identity<double>{}));
#endif
    case dtype::f32: return check_launch(f(std::type_identity<float>{}));
    default:
      throw error(errc::usage, "type: this build has no kernels for rows of " +
                                   std::string(name(type)) +
                                   "; build it with BITFOLD_CUDA_KERNELS=all");
  }
}

// Parts of a power of two of leaves, as many as fill a GPU.
parameter_plan plan_parameters(row_function f, const rows& of) {
  constexpr std::size_t blocks_wanted = 2048, columns_of_block = 128;
  std::size_t part = order::leaf;
  while (part < of.count &&
         (of.count + 2 * part - 1) / (2 * part) * (of.n / columns_of_block + 1) >= blocks_wanted)
    part *= 2;
  const std::size_t parts = (of.count + part - 1) / part,
                    sums = f == row_function::layer_norm_backward ? 2 : 1;
  const std::size_t state = sums * (of.type == dtype::f64 ? sizeof(double) : sizeof(float));
  return {static_cast<int>(part), static_cast<int>(parts), parts > 1 ? parts * of.n * state : 0};
}

}  // namespace

void apply(row_function f, const rows& of, void* out, stream where) {
  row::check(f, of, out);
  check_engine({});
  if (of.count == 0 || of.n == 0) return;
  launch_for(of.type,
             [&]<class T>(std::type_identity<T>) { return launch_rows<T>(f, of, out, where); });
}

std::size_t parameter_gradients_workspace_bytes(row_function f, const rows& of) {
  return plan_parameters(f, of).workspace;
}

void parameter_gradients(row_function f, const rows& of, void* dw, void* db, void* workspace,
                         std::size_t workspace_size, stream where) {
  row::check_parameters(f, of, dw, db);
  check_engine({});
  const parameter_plan p = plan_parameters(f, of);
  check_workspace(workspace, workspace_size, p.workspace);
  if (of.n == 0) return;
  if (of.count == 0) {
    for (void* const to : {dw, db})
      if (to) check(cudaMemsetAsync(to, 0, of.n * size_of(of.type), where), "cudaMemsetAsync");
    return;
  }
  launch_for(of.type, [&]<class T>(std::type_identity<T>) {
    return launch_parameters<T>(f, of, p, dw, db, workspace, where);
  });
}

void sum_rows(const rows& of, const row_segments& by, const void* base, void* out, stream where) {
  row::check_segments(of, by, out);
  check_engine({});
  if (by.outputs == 0 || of.n == 0) return;
  launch_for(of.type, [&]<class T>(std::type_identity<T>) {
    return launch_sum_rows<T>(of, by, base, out, where);
  });
}

}  // namespace bitfold::cuda
