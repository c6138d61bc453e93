#include "kernels.cuh"

namespace bitfold::cuda {
BITFOLD_FLOAT_KERNELS(method::tree)
}  // namespace bitfold::cuda
