// Colours, for people: on a terminal alone.
#pragma once

#include <string>
#include <string_view>

#include "cli/verdict.hpp"

namespace bitfold::cli {

/// Whether this stream (1 or 2) is a terminal that shows colours, and NO_COLOR
/// (https://no-color.org) does not forbid them.
bool shows_colours(int stream);

/// The verdict's name, up to `width` letters wide, in its colour where stdout shows colours.
std::string word_of(verdict v, std::size_t width);

/// In the colour of what is wrong, where stderr shows colours.
std::string alarming(std::string_view text);

}  // namespace bitfold::cli
