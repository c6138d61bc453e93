// The kernels that are loaded: compiled when they are first asked for, kept in memory and in files.
#pragma once

#include <span>

#include "driver.hpp"
#include "kernel.hpp"

namespace bitfold::gpu {

/// The kernel, on that device: from memory, else from its file, else compiled. Errors: those of
/// compile(); errc::usage where `on` is capturing a graph, in which nothing can be loaded: prepare
/// the kernel before.
function load(const kernel& k, const current& where, stream on);

/// Compiles and loads those that are not there yet, several at a time. Errors: those of load().
void prepare(std::span<const kernel> all, const current& where);

/// How often a kernel was found in memory, read from a file and compiled, by this process.
struct load_counts {
  std::uint64_t found, read, compiled;
};
load_counts counts_of_loads();

}  // namespace bitfold::gpu
