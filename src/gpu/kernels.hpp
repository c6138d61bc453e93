// The kernels that are loaded: compiled when they are first asked for, kept in memory and in files.
#pragma once

#include <span>
#include <string>

#include "driver.hpp"
#include "facts.hpp"
#include "kernel.hpp"
#include "kernel_files.hpp"

namespace bitfold::gpu {

/// The kernel, in the current context, which `where` is: from memory, else from the pack that
/// BITFOLD_KERNELS names, else from its file, else compiled. Errors: those of compile();
/// errc::usage where a graph is being captured and the driver loads nothing meanwhile: prepare the
/// kernel before.
function load(const kernel& k, const current& where);

/// The same from memory alone: null where it is not there.
function find(const kernel& k, const current& where);

/// Compiles and loads those that are not there yet, several at a time. Errors: those of load().
void prepare(std::span<const kernel> all, const current& where);

/// Compiles those that are in no file, several at a time, for GPUs of that capability: needs no
/// GPU. To the user's files; or to a pack, which BITFOLD_KERNELS names where there may be no NVRTC,
/// or another. How many different ones there are. Errors: those of compile(); errc::usage, where
/// one cannot be kept.
std::size_t make_ahead(std::span<const kernel> all, capability of, const kernel_files* pack);

/// How often a kernel was found in memory, read from a file and compiled, by this process.
struct load_counts {
  std::uint64_t found, read, compiled;
};
load_counts counts_of_loads();

}  // namespace bitfold::gpu
