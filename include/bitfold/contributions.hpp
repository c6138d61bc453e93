// Arrays of one shape that are combined element by element: contributions, which processes may hold
// some of each. Their order is a tree over contributions, adjacent pairs, so that the bits do not
// depend on who holds which (docs/distributed.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold {

/// What is known of neighbouring contributions, `first` to `first + count` - 1: the elements of
/// one, or the states of a node of the tree.
struct contribution_node {
  std::uint64_t first = 0, count = 1;
  const void* data = nullptr;  ///< n elements or states, at any alignment
  bool is_elements = true;     ///< where count is 1
};

/// Bytes of a state, of one element: what fold_contributions writes for each. Errors (errc::usage):
/// r takes two inputs, or it has no states (count_distinct, and method sequential).
std::size_t contribution_state_bytes(const reduction& r);

/// The nodes, without data, that cover contributions `first` to `last` - 1 of `all`, as large as
/// they can be: what a process that has these contributions folds and sends. At most two for each
/// binary digit of their number.
std::vector<contribution_node> covering(std::uint64_t first, std::uint64_t last, std::uint64_t all);

namespace cpu {

/// The states of the node that `nodes` make together.
/// nodes: they follow one another.
/// n: elements of a contribution, and states.
/// states: room for n times contribution_state_bytes(r) bytes.
/// Errors (errc::usage), besides those of contribution_state_bytes: nodes that have a gap, or are
/// not nodes of the tree that begins where the first one does; none at all; null data.
void fold_contributions(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                        void* states, const options& opts = {});

/// The results of all contributions. Of up to 32 of them the bits are those of a reduction of a
/// column.
/// nodes: they follow one another, and nodes[0].first is 0.
/// out: room for n elements of type r.out().
/// Errors: as fold_contributions.
void reduce_contributions(const reduction& r, std::span<const contribution_node> nodes,
                          std::size_t n, void* out, const options& opts = {});

}  // namespace cpu

namespace cuda {

/// The same in device memory, where elements and states lie at multiples of their alignment. Does
/// not allocate or synchronise.
/// nodes: the list itself is read on the host, at once.
/// workspace: of contributions_workspace_bytes(r, nodes, n) bytes, aligned to 16 bytes: none of up
/// to 96 nodes.
/// Errors, besides: errc::usage (not aligned; workspace too small); errc::no_device; errc::cuda.
std::size_t contributions_workspace_bytes(const reduction& r,
                                          std::span<const contribution_node> nodes, std::size_t n);
void fold_contributions(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                        void* states, void* workspace, std::size_t workspace_size,
                        stream s = nullptr);
void reduce_contributions(const reduction& r, std::span<const contribution_node> nodes,
                          std::size_t n, void* out, void* workspace, std::size_t workspace_size,
                          stream s = nullptr);

}  // namespace cuda
}  // namespace bitfold
