#include "kernels.cuh"

namespace bitfold::cuda {
BITFOLD_FLOAT_KERNELS(method::kahan)
}  // namespace bitfold::cuda
