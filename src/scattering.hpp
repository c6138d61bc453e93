// What scatters take (bitfold/scatter.hpp), for every engine.
#pragma once

#include <bitfold/scatter.hpp>

namespace bitfold::detail {

/// Errors (errc::usage, naming the argument): those of the arrays' types, axes and extents.
void check_scatter(const view& x, const view& keys, int axis, const view& base);
std::uint64_t elements_of(const view& v);

}  // namespace bitfold::detail
