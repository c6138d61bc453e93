// Plans of functions of channels (bitfold/channels.hpp). Their arrays go into them by their
// addresses; the arguments have been checked (channel_functions.hpp).
#pragma once

#include <bitfold/channels.hpp>

#include "plan.hpp"

namespace bitfold::gpu {

plan plan_channels(channel_function f, const channels& of, void* out, const device_facts& on);
plan plan_gradient_sums(const channels& of, const channel_sums& to, const tuning& by);

}  // namespace bitfold::gpu
