// The contestants on the GPU in a build without CUDA: they say why they are missing.
#include "device.hpp"

namespace bitfold::accuracy {
namespace {
constexpr const char* why = "built without CUDA; build where nvcc is on the PATH";
[[noreturn]] void refuse() { throw error(errc::no_device, std::string("cuda: ") + why); }
}  // namespace

array_view on_device(const array_view&) { refuse(); }
void* scratch(std::size_t) { refuse(); }
scalar fetch(dtype, const void*) { refuse(); }
std::vector<double> time_on_device(const std::function<void(CUstream_st*)>&, int) { refuse(); }
double read_ceiling_cuda(const array_view&, int) { refuse(); }
std::optional<std::uint64_t> gpu_cache() { return {}; }

void add_cuda_peers(contestants& out) {
  for (const char* name : {"CUB", "cuBLAS", "the ladder's kernels"})
    out.missing.push_back({name, why});
}

}  // namespace bitfold::accuracy
