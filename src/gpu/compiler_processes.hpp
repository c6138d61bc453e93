// Processes that compile for this one. NVRTC lets one thread of a process at a time through much of
// its work: of 16 threads some 2.5 are busy.
#pragma once

#include <optional>
#include <string>

#include "compiler.hpp"

namespace bitfold::gpu {

/// What compile() gives, made by a process of the command that cuda::compile_by named, of which
/// each serves one thread at a time. `library`: where NVRTC is. None where no command was named, or
/// where no process answers: it can be compiled here. Errors: those of compile(), as it had them.
std::optional<machine_code> compile_elsewhere(const kernel_source& source, int major, int minor,
                                              const std::string& library);

}  // namespace bitfold::gpu
