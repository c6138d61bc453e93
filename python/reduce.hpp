// Reductions of what is read, for calls that read their arrays in ways of their own.
#pragma once

#include "family.hpp"
#include "requests.hpp"

#include <span>

namespace bitfold::python {

/// Of x, or of x and y of one type on one device (null where there is one), along these axes;
/// results beside an array of the family's. Of one request its result, of a list a tuple.
nb::object reduce_read(const asked& what, const described& x, const described* y,
                       const model& beside, std::span<const int> axes, bool keepdims,
                       const family& of);

}  // namespace bitfold::python
