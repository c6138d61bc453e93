// Row functions: checks, and the kernels' launch.
#include "../row_functions.hpp"
#include "groups.hpp"

namespace bitfold::cuda {

const char* launch_rows(row_function f, const rows& of, void* out, stream where);

void apply(row_function f, const rows& of, void* out, stream where) {
  row::check(f, of, out);
  if (devices().empty()) throw error(errc::no_device, "cuda: no usable GPU on this machine");
  if (of.count > 0 && of.n > 0) check_launch(launch_rows(f, of, out, where));
}

}  // namespace bitfold::cuda
