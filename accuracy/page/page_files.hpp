// The files of this folder and the plot library, as embed.cmake puts them into the binary.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace bitfold::accuracy::page {
/// By file name: "page.html", "frontier.json", "vega.js" (empty where it could not be had), ...
extern const std::map<std::string, std::string_view> files;
}  // namespace bitfold::accuracy::page
