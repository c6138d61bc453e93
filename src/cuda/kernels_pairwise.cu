#include "kernels.cuh"

namespace bitfold::cuda {
BITFOLD_FLOAT_KERNELS(method::pairwise)
}  // namespace bitfold::cuda
