#include "kernels.cuh"

namespace bitfold::cuda {
BITFOLD_INTEGER_KERNELS(method::tree)
}  // namespace bitfold::cuda
