// What the calls of this engine share: which reductions a kernel does together, and checks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>

#include <bitfold/exact.hpp>

#include "kernels.hpp"

namespace bitfold::cuda {

/// What one kernel does of several reductions.
struct group {
  kernel_kind kind;
  std::vector<std::size_t> which;
  std::unique_ptr<member_results>
      members;  ///< of a kernel for any set, but for where the results go
};
/// In few passes, by the kernels that there are: the one that does the most first. Of several
/// outputs, for which no kernel does any set.
std::vector<group> groups_of_outputs(std::span<const reduction> all);
/// Likewise, of arrays of n elements.
std::vector<group> groups_of(std::span<const reduction> all, std::size_t n);

/// Errors: errc::cuda, naming the call.
void check(cudaError_t err, const char* call);
/// Errors: errc::cuda, with what a launch said, if that is not null.
void check_launch(const char* err);
/// What some exact ones of `all` sum, each term once.
std::vector<exact::term> terms_of(std::span<const reduction> all,
                                  std::span<const std::size_t> which);
/// Errors (errc::usage): a kernel of r that is not there (BITFOLD_CUDA_KERNELS=sample).
void check_compiled(const reduction& r, bool there);
/// Errors: errc::usage (the method sequential); errc::no_device.
void check_engine(std::span<const reduction> all);

}  // namespace bitfold::cuda
