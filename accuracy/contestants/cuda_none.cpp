// The GPU's peers in a build without nvcc: they say why they are missing.
#include "device.hpp"

namespace bitfold::accuracy {

void add_cuda_peers(contestants& out) {
  for (const char* name : {"CUB", "cuBLAS", "the ladder's kernels"})
    out.missing.push_back({name, "built without nvcc; build where it is on the PATH"});
}

}  // namespace bitfold::accuracy
