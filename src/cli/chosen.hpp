// The arrays that --tensor names.
#pragma once

#include <string>
#include <vector>

#include "io/arrays.hpp"

namespace bitfold::cli {

/// Those given, as patterns of fnmatch: what is the name of an array means this one alone. Throws
/// (errc::usage) where one matches none of `names`, which are of `files`.
std::vector<std::string> patterns_of(const std::vector<std::string>& given,
                                     const std::vector<std::string>& names,
                                     const std::string& files);

/// Leaves those that are chosen (io::is_chosen).
void choose(const std::vector<std::string>& patterns, std::vector<io::array>& arrays);

}  // namespace bitfold::cli
