// NVIDIA's run-time compiler (NVRTC), opened when it is first needed.
#pragma once

#include <string>
#include <string_view>

namespace bitfold::gpu {

/// A kernel for the compiler: a text, and the expression that names the kernel in it.
struct kernel_source {
  std::string text, expression;
};
/// A kernel of one architecture: the name by which its module has it, and the machine code.
struct machine_code {
  std::string name, image;
};

/// The version of the compiler, "13.0". Errors: as compile().
std::string compiler_version();

/// For compute capability major.minor, without contraction of floating-point expressions. May be
/// called by several threads. Errors: errc::no_device, saying what to install (no compiler, or one
/// that does not know this GPU); errc::cuda, with the compiler's first error, which is bitfold's.
machine_code compile(const kernel_source& source, int major, int minor);

/// All that the machine code depends on besides the source and the architecture: the compiler, how
/// it is called, and the headers.
const std::string& compiler_identity();

}  // namespace bitfold::gpu
