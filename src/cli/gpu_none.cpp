#include <bitfold/error.hpp>

#include "cli/gpu.hpp"

namespace bitfold::cli {

std::unique_ptr<device> first_gpu(std::optional<std::size_t>) {
  throw error(errc::no_device, "--device cuda: this bitfold was built without CUDA");
}

}  // namespace bitfold::cli
