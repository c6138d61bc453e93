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

/// The compiler, as far as machine code depends on it: its version and the size of its library.
/// Without opening it, where the user's files say what was found the last time, and that is still
/// there. Errors: as compile().
const std::string& compiler_name();
/// Whatever else the machine code depends on, besides the source and the architecture: how the
/// compiler is called, and the headers.
std::string compiler_inputs();
/// A library of NVRTC to try first, such as that of a Python package; before the first kernel.
void look_for_compiler_at(const std::string& path);

}  // namespace bitfold::gpu
