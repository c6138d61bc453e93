// Plans of row functions (bitfold/rows.hpp). Their arrays go into them by their addresses, on which
// they depend; the arguments have been checked (row_functions.hpp).
#pragma once

#include <bitfold/rows.hpp>

#include "plan.hpp"

namespace bitfold::gpu {

plan plan_rows(row_function f, const rows& of, void* out, const tuning& by);

plan plan_rows(row_function f, const rows_across& of, void* out, const device_facts& on);

/// Results 0 and 1 are dw and db, where each is wanted; the others are null.
plan plan_parameter_gradients(row_function f, const rows& of, bool dw, bool db, const tuning& by);

}  // namespace bitfold::gpu
