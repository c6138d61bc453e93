// Plans of folds over contributions (bitfold/contributions.hpp). Their arrays go into them by their
// addresses.
#pragma once

#include <bitfold/contributions.hpp>

#include "plan.hpp"

namespace bitfold::gpu {

/// What kernels take for `by`: what is done with the states of contributions. Errors (errc::usage):
/// those of contribution_state_bytes.
std::string definition_of_contributions(const reduction& r);

/// Whether few contributions, as elements, have a kernel of their own that makes results; by method
/// exact sums and means of floats of up to 32 bits have.
bool has_results_of_few(const reduction& r);

/// To results, or else to the states of the node that they make together. Errors (errc::usage):
/// those of cpu::fold_contributions; what is not aligned.
plan plan_contributions(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                        void* out, bool finish, const device_facts& on);

}  // namespace bitfold::gpu
