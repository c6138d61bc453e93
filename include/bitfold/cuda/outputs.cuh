// Kernels of many outputs, each the canonical order over elements of its own. Where the elements of
// an output are neighbours: by blocks, whose warps take tiles, by a warp each, or by teams of
// threads. Where outputs are neighbours, or are short: by threads, each of which takes an output,
// some, or parts of them. Where the elements of an output are neighbours, but not in its order: by
// blocks, which bring patches to shared memory, or by warps, leaf by leaf. What takes what shows in
// no bit.
#pragma once

#include <bitfold/cuda/across.cuh>
#include <bitfold/cuda/columns.cuh>
#include <bitfold/cuda/patches.cuh>
#include <bitfold/cuda/segments.cuh>
#include <bitfold/cuda/states.cuh>
#include <bitfold/cuda/teams.cuh>
#include <bitfold/cuda/threads.cuh>
#include <bitfold/cuda/warps.cuh>
